"""Files of a workspace where the system opens none relative to a folder (Windows): paths are looked at step by step.

What is looked at is not held, so this is for a workspace in which nothing runs any more.
"""

from __future__ import annotations

import builtins
import os
import shutil
import stat
import uuid
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path

from pytest_imaging101.faults import SandboxFault
from pytest_imaging101.sandboxes.base import Entry, NotDelivered

# Separators and device names of Windows, and what ends a string.
_FORBIDDEN = frozenset("\\:\0")


class PortableWorkspace:
    """A folder whose files are written, read and listed; no link in it is followed."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def restore(self) -> None:
        """Make the folder usable again, whatever a command did to it. Raises SandboxFault."""
        try:
            if _is_link(self.root):
                self.root.unlink()
            self.root.mkdir(exist_ok=True)
        except OSError as error:
            raise SandboxFault(f"the sandbox has no workspace: {error}") from error

    def put(self, files: Mapping[str, bytes | Path]) -> None:
        """Write files; each takes its place at once, and replaces a link instead of following it.

        Raises ValueError for a path that leaves the workspace or that what lies there forbids, SandboxFault else.
        """
        self.restore()
        for path, content in files.items():
            target = self._place(path)
            if target.is_dir() and not _is_link(target):
                raise ValueError(f"{path} cannot be written: a folder of that name is there")
            try:
                target.parent.mkdir(parents=True, exist_ok=True)
                temporary = target.parent / f".{uuid.uuid4().hex}"
                temporary.write_bytes(content.read_bytes() if isinstance(content, Path) else content)
                os.replace(temporary, target)
            except (FileExistsError, NotADirectoryError) as error:
                raise ValueError(
                    f"{path} cannot be written: a file stands where a folder is needed"
                ) from error
            except OSError as error:
                raise SandboxFault(f"{path} cannot be written to the sandbox: {error}") from error

    def get(self, path: str, max_bytes: int) -> bytes:
        """Contents of a regular file. Raises NotDelivered with what is there instead."""
        self.restore()
        try:
            place = self._place(path)
            status = place.lstat()
            if not stat.S_ISREG(status.st_mode) or _is_link(place):
                raise NotDelivered(f"{path} is not a regular file")
            if status.st_size > max_bytes:
                raise NotDelivered(
                    f"{path} has {status.st_size:,} bytes, more than the {max_bytes:,} allowed"
                )
            with place.open("rb") as file:
                content = file.read(max_bytes + 1)
        except ValueError as error:
            raise NotDelivered(str(error)) from error
        except FileNotFoundError as error:
            raise NotDelivered(f"{path} is not there") from error
        except OSError as error:
            raise NotDelivered(f"{path} cannot be read: {error.strerror}") from error
        if len(content) > max_bytes:
            raise NotDelivered(f"{path} grew beyond the {max_bytes:,} bytes allowed while it was read")
        return content

    def list(self, folder: str = "") -> builtins.list[Entry]:
        """Every regular file below a folder, sorted by path. Raises ValueError for a path that leaves the workspace."""
        self.restore()
        top = self._place(folder) if folder not in ("", ".") else self.root
        return [] if _is_link(top) else sorted(self._files(top), key=lambda entry: entry.path)

    def _place(self, path: str) -> Path:
        parts = [part for part in path.split("/") if part not in ("", ".")]
        if path.startswith("/") or not parts or any(part == ".." or _FORBIDDEN & set(part) for part in parts):
            raise ValueError(
                f"{path!r} is not a path inside the workspace; give one relative to it, without '..'"
            )
        place = self.root
        for part in parts[:-1]:
            place /= part
            if _is_link(place):
                raise ValueError(f"{path} cannot be reached: a link is in the way")
        return place / parts[-1]

    def _files(self, top: Path) -> Iterator[Entry]:
        waiting = [top]
        while waiting:
            # Not a folder, not readable, or gone meanwhile: nothing is below it.
            with suppress(OSError):
                for place in waiting.pop().iterdir():
                    status = place.lstat()
                    if _is_link(place):
                        continue
                    if stat.S_ISDIR(status.st_mode):
                        waiting.append(place)
                    elif stat.S_ISREG(status.st_mode):
                        yield Entry(place.relative_to(self.root).as_posix(), status.st_size)


def remove_folder(root: Path) -> None:
    """Delete a folder with all that is in it, read-only files included. Raises OSError."""

    def insist(function: object, path: str, error: object) -> None:
        # Never the folder that the root itself stands in, which is the host's.
        for place in (path,) if Path(path) == root else (os.path.dirname(path), path):
            os.chmod(place, stat.S_IRWXU)
        if os.path.isdir(path):
            remove_folder(Path(path))
        else:
            os.unlink(path)

    with suppress(FileNotFoundError):
        shutil.rmtree(root, onerror=insist)


def _is_link(path: Path) -> bool:
    """Whether it is a link, or a junction, which is Windows' other kind."""
    try:
        status = path.lstat()
    except OSError:
        return False
    junction = getattr(status, "st_file_attributes", 0) & stat.FILE_ATTRIBUTE_REPARSE_POINT
    return stat.S_ISLNK(status.st_mode) or bool(junction)
