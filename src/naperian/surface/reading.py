"""A file's text, or why there is none."""

from __future__ import annotations

from pathlib import Path

from naperian.source import Diagnostic, Source
from naperian.surface import errors

LARGEST = 2_000_000  # bytes of a source text


def read_source(path: str | Path) -> tuple[Source | None, Diagnostic | None]:
    """The text of a file, or why there is none."""
    name = str(path)
    try:
        with open(path, "rb") as file:
            data = file.read(LARGEST + 1)
            if len(data) > LARGEST:
                size = max(Path(path).stat().st_size, len(data))
                return None, errors.too_large(name, size, LARGEST)
        return Source(name, data.decode("utf-8")), None
    except UnicodeDecodeError as e:
        line = data.count(b"\n", 0, e.start) + 1
        return None, errors.not_utf8(name, e.start, line, data[e.start])
    except IsADirectoryError:
        return None, errors.unreadable(name, "it is a directory")
    except FileNotFoundError:
        return None, errors.unreadable(name, "there is no such file")
    except PermissionError:
        return None, errors.unreadable(name, "permission is denied")
    except (OSError, ValueError) as e:  # ValueError: a NUL in the path
        why = e.strerror if isinstance(e, OSError) and e.strerror else str(e)
        return None, errors.unreadable(name, why.lower())
