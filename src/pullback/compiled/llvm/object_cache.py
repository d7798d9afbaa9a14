"""Machine code on disk: object files of compiled modules, found again by later processes.

A file has a header of fixed size (a mark, the hash of its key, the hash and the length of its
content) and the object file behind it. Loading one runs its code, so that everything about it is
checked first: the directory belongs to this user and only this user can enter it (mode 0700), the
file is a regular file of this user that no other can write to, and all hashes fit. Anything else
is ignored, and compiled again; no error of the file system reaches the caller.

Files are written under a temporary name in the same directory and renamed, so that a process that
is killed leaves no part of one under its name. The size of the directory is bounded: the files that
were not used for longest are removed.

The module has no knowledge of LLVM: ``ObjectCache`` maps a text to bytes. ``compiler.py`` uses it.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import secrets
import stat
import struct
import sys
import time
from collections.abc import Iterator
from contextvars import ContextVar
from pathlib import Path
from typing import NamedTuple

__all__ = ["ObjectCache", "cache_directory", "current_cache", "is_cache_used", "use_cache"]

_HEADER = struct.Struct("<16s32s32sQ")  # mark, hash of the key, hash and length of the content
_MARK = b"pullback object\x01"
_SUFFIX = ".o"
_NAME = re.compile(r"[0-9a-f]{64}\.o")  # of files that may be removed
_TEMPORARY = ".new-"
_STALE_SECONDS = 3600.0  # after which a temporary file belongs to a process that has ended
_MOST_BYTES = 256 * 2**20
_MOST_BYTES_OF_ONE = 64 * 2**20
_others = stat.S_IRWXG | stat.S_IRWXO

_uses_cache: ContextVar[bool] = ContextVar("pullback_object_cache", default=True)


class _Entry(NamedTuple):
    """One file of the directory."""

    used: float
    size: int
    name: str


def cache_directory() -> Path | None:
    """``PULLBACK_CACHE_DIR``, or the user's directory for caches; None if there is none.

    An empty ``PULLBACK_CACHE_DIR`` switches the cache off.
    """
    chosen = os.environ.get("PULLBACK_CACHE_DIR")
    try:
        if chosen is not None:
            return Path(chosen).expanduser().absolute() if chosen else None
        home = Path.home()
    except (RuntimeError, OSError):  # there is no home, no such user, or no working directory
        return None
    if sys.platform == "darwin":
        return home / "Library" / "Caches" / "pullback"
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or home / "AppData/Local") / "pullback/Cache"
    base = Path(os.environ.get("XDG_CACHE_HOME", ""))
    return (base if base.is_absolute() else home / ".cache") / "pullback"


class ObjectCache:
    """Object files by the text of their key.

    Args:
        directory: where the files are; it is made with mode 0700 if it does not exist.
        most_bytes: the bound for the size of all files.

    Attributes:
        reason: why the cache is not used; empty if it is.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     cache = ObjectCache(Path(folder) / "objects")
    ...     cache.put("key", b"object")
    ...     cache.get("key"), cache.get("another key")
    (b'object', None)
    """

    def __init__(self, directory: Path, most_bytes: int = _MOST_BYTES):
        self.directory = directory
        self.most_bytes = most_bytes
        self.reason = ""

    def get(self, key: str) -> bytes | None:
        """The object of a key; None if there is none, or if its file is damaged or foreign."""
        digest = hashlib.sha256(key.encode()).digest()
        try:
            with self._opened() as folder:
                return _read(folder, digest)
        except OSError as error:
            self.reason = self.reason or str(error)
            return None

    def put(self, key: str, content: bytes) -> None:
        """Keeps the object of a key, and removes old ones beyond the bound."""
        if len(content) > min(self.most_bytes, _MOST_BYTES_OF_ONE):
            return
        digest = hashlib.sha256(key.encode()).digest()
        try:
            with self._opened() as folder:
                _write(folder, digest, content)
                self._evict(folder)
        except OSError as error:
            self.reason = self.reason or str(error)

    @contextlib.contextmanager
    def _opened(self) -> Iterator[int]:
        """A descriptor of the directory, after its owner and mode were checked.

        All files are opened relative to it, so that nothing can be put in its place meanwhile.
        """
        if not hasattr(os, "geteuid"):
            raise OSError("owners of files cannot be checked on this platform")
        self.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        folder = os.open(self.directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            found = os.fstat(folder)
            if found.st_uid != os.geteuid():
                raise OSError(f"{self.directory} belongs to another user")
            if found.st_mode & _others:
                raise OSError(f"{self.directory} has to have mode 0700, so that it is private")
            yield folder
        finally:
            os.close(folder)

    def _evict(self, folder: int) -> None:
        entries = []
        for name in os.listdir(folder):
            with contextlib.suppress(OSError):  # another process has removed it
                found = os.stat(name, dir_fd=folder, follow_symlinks=False)
                if name.startswith(_TEMPORARY):
                    if time.time() - found.st_mtime > _STALE_SECONDS:
                        os.unlink(name, dir_fd=folder)
                elif _NAME.fullmatch(name) and stat.S_ISREG(found.st_mode):
                    entries.append(_Entry(found.st_mtime, found.st_size, name))
        total = sum(entry.size for entry in entries)
        for entry in sorted(entries):
            if total <= self.most_bytes:
                return
            with contextlib.suppress(OSError):
                os.unlink(entry.name, dir_fd=folder)
            total -= entry.size


def _read(folder: int, digest: bytes) -> bytes | None:
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
    try:
        file = os.open(digest.hex() + _SUFFIX, flags, dir_fd=folder)
    except OSError:  # there is none, or it is a link
        return None
    with os.fdopen(file, "rb") as stream:
        found = os.fstat(file)
        is_private = not found.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
        is_own = stat.S_ISREG(found.st_mode) and found.st_uid == os.geteuid() and is_private
        if not is_own or not _HEADER.size < found.st_size <= _HEADER.size + _MOST_BYTES_OF_ONE:
            return None
        whole = stream.read(found.st_size)
        if len(whole) < _HEADER.size:
            return None
        mark, key, checksum, length = _HEADER.unpack_from(whole)
        content = whole[_HEADER.size :]
        if (mark, key, length) != (_MARK, digest, len(content)):
            return None
        if hashlib.sha256(content).digest() != checksum:
            return None
        with contextlib.suppress(OSError):  # the time of its last use
            os.utime(file)
        return content


def _write(folder: int, digest: bytes, content: bytes) -> None:
    header = _HEADER.pack(_MARK, digest, hashlib.sha256(content).digest(), len(content))
    temporary = f"{_TEMPORARY}{os.getpid()}-{secrets.token_hex(8)}"
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    file = os.open(temporary, flags, 0o600, dir_fd=folder)
    try:
        with os.fdopen(file, "wb") as stream:
            stream.write(header + content)
        os.rename(temporary, digest.hex() + _SUFFIX, src_dir_fd=folder, dst_dir_fd=folder)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary, dir_fd=folder)
        raise


@contextlib.contextmanager
def use_cache(enabled: bool) -> Iterator[None]:
    """A block that compiles with or without the cache."""
    token = _uses_cache.set(enabled)
    try:
        yield
    finally:
        _uses_cache.reset(token)


def is_cache_used() -> bool:
    """Whether this block compiles with the cache."""
    return _uses_cache.get()


def current_cache() -> ObjectCache | None:
    """The cache of this process's user; None where it is switched off."""
    directory = cache_directory() if _uses_cache.get() else None
    return None if directory is None else ObjectCache(directory)
