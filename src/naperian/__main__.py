"""`python -m naperian` and the command `nap`."""

from __future__ import annotations

import sys

from naperian.cli import main

if __name__ == "__main__":
    sys.exit(main())
