"""Files of a workspace that an agent may have filled with anything: no link is followed, no device opened."""

from __future__ import annotations

import builtins
import errno
import io
import os
import shutil
import stat
import sys
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO, Protocol

from pytest_imaging101.faults import SandboxFault
from pytest_imaging101.sandboxes.base import Entry, NotDelivered

# What an entry counts beside its blocks, so that a limit in bytes bounds the number of files too.
_ENTRY_BYTES = 8192

if sys.platform == "win32":  # which has none of these flags, and no workspace of this kind
    _FOLDER = os.O_RDONLY
else:
    _FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC

# What an agent can bring about in its own workspace: its own error then, and no fault of the sandbox's.
_IN_THE_WAY = {
    errno.ELOOP: "a link is in the way",
    errno.ENOTDIR: "a file or a link stands where a folder is needed",
    errno.EISDIR: "a folder of that name is there",
    errno.ENOTEMPTY: "a folder of that name is there",
    errno.EACCES: "the folder's permissions forbid it",
    errno.EPERM: "the folder's permissions forbid it",
    errno.ENAMETOOLONG: "the name is too long",
}

_KINDS = {
    stat.S_IFDIR: "a folder",
    stat.S_IFLNK: "a link",
    stat.S_IFIFO: "a named pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFBLK: "a device",
    stat.S_IFCHR: "a device",
}


class Place(Protocol):
    """Where a workspace lies, and the user that what is put there must belong to (None: whoever puts it)."""

    @property
    def workspace(self) -> Path: ...

    @property
    def owner(self) -> int | None: ...

    def restore(self) -> None:
        """Make the folder usable again, whatever a command did to it. Raises SandboxFault."""


class Workspace:
    """A folder, reached step by step from its root so that no link on the way is followed."""

    def __init__(self, place: Place) -> None:
        self._place = place

    def put(self, files: Mapping[str, bytes | Path]) -> None:
        """Write files; each takes its place at once or not at all, and replaces a link instead of following it.

        Raises ValueError for a path that leaves the workspace or that what lies there forbids, SandboxFault else.
        """
        self._place.restore()
        for path, content in files.items():
            *folders, name = _parts(path)
            try:
                with read_source(content) as source, self._folder(folders, create=True) as folder:
                    _write(folder, name, source, self._place.owner)
            except OSError as error:
                if reason := _IN_THE_WAY.get(error.errno or 0):
                    raise ValueError(f"{path} cannot be written: {reason}") from error
                raise SandboxFault(f"{path} cannot be written to the sandbox: {error}") from error

    def get(self, path: str, max_bytes: int) -> bytes:
        """Contents of a regular file. Raises NotDelivered with what is there instead."""
        self._place.restore()
        try:
            *folders, name = _parts(path)
            with self._folder(folders) as folder:
                return _read(folder, name, path, max_bytes)
        except ValueError as error:
            raise NotDelivered(str(error)) from error
        except FileNotFoundError as error:
            raise NotDelivered(f"{path} is not there") from error
        except OSError as error:
            reason = _IN_THE_WAY.get(error.errno or 0, error.strerror)
            raise NotDelivered(f"{path} cannot be read: {reason}") from error

    def list(self, folder: str = "") -> builtins.list[Entry]:
        """Regular files below a folder, sorted by path. Raises ValueError for a path that leaves the workspace."""
        self._place.restore()
        parts = _parts(folder) if folder not in ("", ".") else []
        try:
            with self._folder(parts) as root:
                found = [
                    Entry(_clean("/".join([*parts, *way, name])), status.st_size)
                    for way, name, status in _walk(root)
                    if stat.S_ISREG(status.st_mode)
                ]
        except OSError:  # not a folder, or not reachable without following a link: nothing is below it
            return []
        return sorted(found, key=lambda entry: entry.path)

    @contextmanager
    def _folder(self, parts: builtins.list[str], *, create: bool = False) -> Iterator[int]:
        """A descriptor of a folder below the root, opened without following a link."""
        current = os.open(self._place.workspace, _FOLDER)
        try:
            for part in parts:
                made = create and _make_folder(part, current)
                deeper = os.open(part, _FOLDER, dir_fd=current)
                if made and self._place.owner is not None:
                    os.chown(deeper, self._place.owner, self._place.owner)
                os.close(current)
                current = deeper
            yield current
        finally:
            os.close(current)


def used_bytes(root: Path) -> int:
    """Bytes on disk below a folder: the blocks of each entry (a sparse file's holes are none), its inode charged."""
    try:
        top = os.open(root, _FOLDER)
    except OSError:  # the command has taken the folder away: nothing is in it
        return 0
    try:
        return sum(status.st_blocks * 512 + _ENTRY_BYTES for _, _, status in _walk(top))
    finally:
        os.close(top)


def _parts(path: str) -> builtins.list[str]:
    """The path's parts. Raises ValueError if it is none below the workspace."""
    parts = [part for part in path.split("/") if part not in ("", ".")]
    if path.startswith("/") or ".." in parts or "\0" in path or not parts:
        raise ValueError(
            f"{path!r} is not a path inside the workspace; give one relative to it, without '..'"
        )
    return parts


def _clean(path: str) -> str:
    """The path without bytes that are no UTF-8: it goes into records that cannot hold them."""
    return path.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def read_source(content: bytes | Path) -> BinaryIO:
    if not isinstance(content, Path):
        return io.BytesIO(content)
    try:
        return content.open("rb")
    except OSError as error:
        raise SandboxFault(f"{content} cannot be copied into the sandbox: {error.strerror}") from error


def _make_folder(name: str, parent: int) -> bool:
    """Make a folder; whether it was not there yet."""
    try:
        os.mkdir(name, dir_fd=parent)
    except FileExistsError:
        return False
    return True


def _write(folder: int, name: str, source: BinaryIO, owner: int | None) -> None:
    temporary = f".{uuid.uuid4().hex}"
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        with open(os.open(temporary, flags, 0o644, dir_fd=folder), "wb") as target:
            shutil.copyfileobj(source, target)
            if owner is not None:
                os.chown(target.fileno(), owner, owner)
        os.rename(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)
    except OSError:
        with suppress(FileNotFoundError):
            os.unlink(temporary, dir_fd=folder)
        raise


def _read(folder: int, name: str, path: str, max_bytes: int) -> bytes:
    # Looked at before it is opened: opening alone can have effects, or never return.
    _require_file(os.stat(name, dir_fd=folder, follow_symlinks=False), path, max_bytes)
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    with open(os.open(name, flags, dir_fd=folder), "rb") as source:
        _require_file(os.fstat(source.fileno()), path, max_bytes)
        content = source.read(max_bytes + 1)
    if len(content) > max_bytes:
        raise NotDelivered(f"{path} grew beyond the {max_bytes:,} bytes allowed while it was read")
    return content


def _require_file(status: os.stat_result, path: str, max_bytes: int) -> None:
    if not stat.S_ISREG(status.st_mode):
        kind = _KINDS.get(stat.S_IFMT(status.st_mode), "something else")
        raise NotDelivered(f"{path} is {kind}, not a regular file")
    if status.st_size > max_bytes:
        raise NotDelivered(f"{path} has {status.st_size:,} bytes, more than the {max_bytes:,} allowed")


def _walk(top: int) -> Iterator[tuple[builtins.list[str], str, os.stat_result]]:
    """Everything below a folder: the folders on the way (valid until the next step), the name, the status.

    One descriptor goes down and up again, so no depth is too deep. What vanishes or cannot be read is left out.
    """
    current = os.open(".", _FOLDER, dir_fd=top)
    way: builtins.list[str] = []
    try:
        waiting = [os.listdir(current)]
        while waiting:
            if not waiting[-1]:
                waiting.pop()
                if way:
                    way.pop()
                    current = _move(current, "..")
                continue
            name = waiting[-1].pop()
            with suppress(OSError):
                status = os.stat(name, dir_fd=current, follow_symlinks=False)
                yield way, name, status
                if stat.S_ISDIR(status.st_mode):
                    current = _move(current, name)
                    way.append(name)
                    waiting.append([])
                    waiting[-1] = os.listdir(current)
    except OSError:  # the folder was taken away below us, so there is no way back up
        return
    finally:
        os.close(current)


def _move(current: int, name: str) -> int:
    """Exchange a folder's descriptor for that of its child or parent."""
    moved = os.open(name, _FOLDER, dir_fd=current)
    os.close(current)
    return moved
