"""Files that are there whole or not at all, and what to say when the disk refuses."""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
from pathlib import Path

from pytest_imaging101.faults import StorageFault

_WAYS_OUT = {
    errno.ENOSPC: "the disk is full; free some space",
    errno.EDQUOT: "the disk quota is used up; free some space",
    errno.EACCES: "permission is denied; give write access to the folder",
    errno.EPERM: "permission is denied; give write access to the folder",
    errno.EROFS: "the file system is read-only; use a folder on another one",
}


def storage_fault(path: Path, error: OSError) -> StorageFault:
    """The fault for a file that could not be written: which, why, and the way out."""
    why = _WAYS_OUT.get(error.errno or 0, f"{error.strerror or error}; use another folder")
    return StorageFault(
        f"{path} cannot be written: {why}, then go on with --resume",
        evidence=f"{type(error).__name__}: {error}",
    )


def write_atomic(path: Path, data: bytes) -> None:
    """Write a file under another name, flush it to the disk and move it into place.

    Raises StorageFault; what stood there before then still stands.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = path.parent / f".{path.name}.{secrets.token_hex(8)}.tmp"
        try:
            with temporary.open("xb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            os.replace(temporary, path)
        except BaseException:
            with contextlib.suppress(OSError):
                temporary.unlink()
            raise
        sync_folder(path.parent)
    except OSError as error:
        raise storage_fault(path, error) from error


def sync_folder(folder: Path) -> None:
    """Make new names in a folder survive a power cut, where the system can."""
    if os.name != "posix":
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
