"""Files that are written whole or not at all: parameters, checkpoints, tables, pictures.

The contents go to a temporary file beside the destination, are flushed to the disk, and take the destination's place by
a rename. Whatever happens before that (an exception, a full disk, a kill) leaves the destination as it was. An
exception also removes the temporary file. A killed process cannot, so the next save into the same folder does it:
whoever writes a temporary file holds a lock on it, which ends with the process, and a file whose lock is free is
nobody's. Where the system or the file system has no such locks, temporary files of other processes are left alone.
"""

from __future__ import annotations

import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

PREFIX, SUFFIX = ".evref-", ".tmp"


@contextmanager
def replacing(path: Any) -> Iterator[BinaryIO]:
    """A binary file to write to; at the end of the with-statement it becomes `path`.

    An existing file keeps its permissions, a new one gets those of the umask. A symbolic link is followed. What is no
    regular file (a pipe, /dev/stdout) is written to directly.

    Raises
    ------
    OSError
        The folder does not exist, `path` is a folder, the disk is full, ...; an existing file is then as it was. The
        error's `filename` is `path`: the caller knows nothing of the temporary file.
    """
    try:
        with _replacing(path) as handle:
            yield handle
    except OSError as error:
        if error.errno is None:
            raise
        raise OSError(error.errno, error.strerror, os.fspath(path)) from error


@contextmanager
def _replacing(path: Any) -> Iterator[BinaryIO]:
    mode = _mode(path)
    if mode is not None and not stat.S_ISREG(mode):
        with open(path, "wb") as device:  # a folder: IsADirectoryError
            yield device
        return
    destination = Path(os.path.realpath(path))  # through a symbolic link, not over it
    remove_stale(destination.parent)
    handle = _temporary(destination.parent)
    try:
        with handle:
            yield handle
            handle.flush()
            if mode is not None:
                os.chmod(handle.name, stat.S_IMODE(mode))
            os.fsync(handle.fileno())
            if fcntl is not None:  # renamed while the lock is held: no other process takes it for stale meanwhile
                os.replace(handle.name, destination)
        if fcntl is None:  # Windows renames closed files only, and refuses to remove open ones
            os.replace(handle.name, destination)
    except BaseException:  # Ctrl-C as well
        with suppress(OSError):  # gone already, if the rename was the last thing that worked
            os.unlink(handle.name)
        raise
    _sync_folder(destination.parent)


def write_text(path: Any, text: str) -> None:
    """`path` with `text` in UTF-8, whole or not at all."""
    with replacing(path) as handle:
        handle.write(text.encode())


def remove_stale(folder: Path) -> None:
    """Remove the temporary files in `folder` whose writer is dead."""
    try:
        names = [name for name in os.listdir(folder) if name.startswith(PREFIX) and name.endswith(SUFFIX)]
    except OSError:  # no such folder, or not ours to list: opening the file will say so
        return
    for name in names:
        path = os.path.join(folder, name)
        with suppress(OSError):  # another process was quicker, or holds the lock
            if fcntl is None:
                os.unlink(path)  # refused while it is open
                continue
            with open(path, "rb") as handle:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                os.unlink(path)


def _temporary(folder: Path) -> BinaryIO:
    """A new file in `folder`, locked."""
    while True:
        handle = open(folder / f"{PREFIX}{secrets.token_hex(8)}{SUFFIX}", "xb")  # noqa: SIM115, closed by the caller
        if fcntl is None:
            return handle
        try:
            fcntl.flock(handle, fcntl.LOCK_EX)
        except OSError:  # a file system without locks: nobody else can lock it either, so nobody removes it
            return handle
        if os.fstat(handle.fileno()).st_nlink:
            return handle
        handle.close()  # taken for stale between its creation and its lock


def _mode(path: Any) -> int | None:
    try:
        return os.stat(path).st_mode
    except FileNotFoundError:
        return None


def _sync_folder(folder: Path) -> None:
    """The rename itself on disk, where the system can do that."""
    with suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
