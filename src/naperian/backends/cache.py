"""Compiled things on disk.

An entry is a file: a checksum and the bytes. Its name is a hash of all that decides its contents,
so an entry is never wrong, only absent: one that is damaged is removed and made again, and where
nothing can be written everything works, slower. Writers rename a complete file into place, so
processes and threads may share a directory without locks. When the directory grows beyond its
bound the entries used least recently go.

    <directory>/v1/<first two digits>/<hash>.<kind>      kind: `o` object code, `f` a function

The directory is `NAPERIAN_CACHE`, or `naperian` in the XDG cache directory; `NAPERIAN_CACHE=off`
turns the cache off.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import tempfile
import threading
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

LIMIT = 256 * 1024 * 1024  # bytes
_MAGIC = b"nap1"
_SUM = 16  # bytes of checksum


def key(*parts: str | bytes) -> str:
    """The hash of these, told apart: ("ab", "c") and ("a", "bc") differ."""
    digest = hashlib.sha256()
    for part in parts:
        data = part.encode("utf-8", "surrogatepass") if isinstance(part, str) else part
        digest.update(len(data).to_bytes(8, "little"))
        digest.update(data)
    return digest.hexdigest()[:40]


@dataclass
class Cache:
    """A directory of entries; `directory` None keeps nothing. `trouble` says why it does not
    work, if it does not."""

    directory: Path | None
    limit: int = LIMIT
    trouble: str | None = None
    _written: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False)

    def get(self, name: str, kind: str) -> bytes | None:
        """The bytes of an entry, or None if it is not there or not whole."""
        if self.directory is None:
            return None
        path = self._path(name, kind)
        try:
            data = path.read_bytes()
        except OSError:
            return None
        head = len(_MAGIC) + _SUM
        body = data[head:]
        if data[:head] != _MAGIC + _checksum(body):
            with contextlib.suppress(OSError):
                path.unlink()
            return None
        self._touch(path)
        return body

    def put(self, name: str, kind: str, body: bytes) -> None:
        """Keep an entry, if that is possible."""
        if self.directory is None or self.trouble is not None:
            return
        path = self._path(name, kind)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=".new-")
            try:
                with os.fdopen(handle, "wb") as file:
                    file.write(_MAGIC + _checksum(body) + body)
                os.replace(temporary, path)
            except BaseException:
                with contextlib.suppress(OSError):
                    os.unlink(temporary)
                raise
        except OSError as error:
            self._give_up(error)
            return
        with self._lock:
            first = self._written == 0
            self._written += len(body)
            due = (first and self._long_ago()) or self._written > self.limit // 16
            if due:
                self._written = 1
        if due:
            self.trim()

    def fetch(self, name: str, kind: str, make: Callable[[], bytes]) -> bytes:
        """The entry, made now if it is not there."""
        body = self.get(name, kind)
        if body is None:
            body = make()
            self.put(name, kind, body)
        return body

    def drop(self, name: str, kind: str) -> None:
        """Forget an entry whose contents its reader cannot use."""
        if self.directory is not None:
            with contextlib.suppress(OSError):
                self._path(name, kind).unlink()

    def _long_ago(self) -> bool:
        """Whether nobody has trimmed the directory for an hour. Looking through it takes a third of
        a second where there are many entries: not every process should wait for that."""
        assert self.directory is not None
        with contextlib.suppress(OSError):
            return time.time() - (self.directory / "trimmed").stat().st_mtime > 3600
        return True

    def trim(self) -> None:
        """Remove the entries used least recently until three quarters of the bound are left."""
        if self.directory is not None:
            with contextlib.suppress(OSError):
                (self.directory / "trimmed").touch()
        found = self.entries()
        total = sum(size for _, size, _ in found)
        if total <= self.limit:
            return
        for _, size, path in sorted(found):
            if total <= self.limit * 3 // 4:
                break
            with contextlib.suppress(OSError):
                os.unlink(path)
                total -= size

    def entries(self) -> list[tuple[float, int, str]]:
        """(when last used, bytes, path) of every file."""
        found: list[tuple[float, int, str]] = []
        if self.directory is None:
            return found
        for folder, _, names in os.walk(self.directory / "v1"):
            for name in names:
                path = os.path.join(folder, name)
                with contextlib.suppress(OSError):
                    status = os.stat(path)
                    found.append((status.st_mtime, status.st_size, path))
        return found

    def _path(self, name: str, kind: str) -> Path:
        assert self.directory is not None
        return self.directory / "v1" / name[:2] / f"{name[2:]}.{kind}"

    def _touch(self, path: Path) -> None:
        """The time of last use is the file's own; a day's precision is enough for eviction."""
        with contextlib.suppress(OSError):
            status = path.stat()
            now = time.time()
            if now - status.st_mtime > 86_400:
                os.utime(path, (now, now))

    def _give_up(self, error: OSError) -> None:
        """Warn once, then do without."""
        with self._lock:
            if self.trouble is not None:
                return
            self.trouble = f"{error.strerror or error}: {self.directory}"
        warnings.warn(
            f"naperian keeps no compiled code ({self.trouble}); "
            "set NAPERIAN_CACHE to a directory that can be written",
            RuntimeWarning,
            stacklevel=2,
        )


def _checksum(body: bytes) -> bytes:
    return hashlib.blake2b(body, digest_size=_SUM).digest()


def default_directory() -> Path | None:
    """Where compiled code is kept: None if the user turned the cache off or has no home."""
    chosen = os.environ.get("NAPERIAN_CACHE")
    if chosen:
        return None if chosen == "off" else Path(chosen)
    try:
        base = Path(os.environ.get("XDG_CACHE_HOME", ""))
        if not base.is_absolute():  # which the specification of these directories ignores
            base = Path.home() / ".cache"
    except RuntimeError:
        return None
    return base / "naperian"


_opened: dict[Path | None, Cache] = {}


def shared() -> Cache:
    """The cache of this process, in the directory that the environment names now."""
    return _opened.setdefault(directory := default_directory(), Cache(directory))
