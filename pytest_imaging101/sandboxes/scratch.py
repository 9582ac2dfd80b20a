"""The host folder of one sandbox: its owner holds a lock on it, so what a dead run left is told from live ones."""

from __future__ import annotations

import itertools
import os
import shutil
import stat
import tempfile
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from pytest_imaging101.faults import SandboxFault

PREFIX = "imaging101-sandbox-"
_OWNER = "owner"
_LEAST_FREE_BYTES = 256 * 2**20


class Scratch:
    """A new folder of mode 0700 with ``workspace/``, ``tmp/`` and ``own/``, which no command can write to.

    It lies in the host's folder for temporary files and never in pytest's, which keeps old runs. The lock on its
    file ``owner`` ends with the process that holds it, however that ends. ``owner`` is the user (and group) that
    commands run as, if that is not this process's own. Raises SandboxFault.
    """

    def __init__(self, owner: int | None = None) -> None:
        self.owner = owner
        parent = tempfile.gettempdir()
        try:
            free = shutil.disk_usage(parent).free
            if free < _LEAST_FREE_BYTES:
                raise SandboxFault(
                    f"{parent} has only {free >> 20} MiB left, too little for a sandbox's workspace; free some "
                    "space there, or set TMPDIR to a folder on another disk"
                )
            self.root, self._lock = _owned_folder(parent)
            self.own = self.root / "own"
            self.own.mkdir()
        except OSError as error:
            raise SandboxFault(f"no sandbox folder can be made in {parent}: {error}") from error
        self.workspace = self.root / "workspace"
        self.temporary = self.root / "tmp"
        self._commands = itertools.count(1)
        self.restore()

    def new_tag(self) -> str:
        """A tag for the processes of one command; it starts with the folder's name, which is all a cleaner knows."""
        return f"{self.root.name}.{uuid.uuid4().hex}"

    def restore(self) -> None:
        """Make both folders usable again, whatever a command did to them (``chmod 0 .``). Raises SandboxFault."""
        try:
            for folder, mode in ((self.workspace, 0o700), (self.temporary, 0o1777)):
                if folder.is_symlink():
                    folder.unlink()
                folder.mkdir(exist_ok=True)
                folder.chmod(mode)
                if self.owner is not None:
                    os.chown(folder, self.owner, self.owner)
        except OSError as error:
            reason = "it is closed" if self._lock < 0 else str(error)
            raise SandboxFault(f"the sandbox has no workspace: {reason}") from error

    @contextmanager
    def script(self, text: str) -> Iterator[Path]:
        """A file that holds a command's text for as long as the command runs: argv has room for 128 KiB only."""
        file = self.own / f"command-{next(self._commands)}"
        try:
            file.write_bytes(text.encode("utf-8", "replace") + b"\n")
        except OSError as error:
            raise SandboxFault(f"the command's text cannot be written to {self.own}: {error}") from error
        try:
            yield file
        finally:
            file.unlink(missing_ok=True)

    def remove(self) -> None:
        """Delete the folder and end the ownership; may be called twice. Raises SandboxFault."""
        if self._lock < 0:
            return
        try:
            remove_tree(self.root)
        except OSError as error:
            raise SandboxFault(f"the sandbox's folder {self.root} cannot be deleted: {error}") from error
        finally:
            os.close(self._lock)
            self._lock = -1


def _owned_folder(parent: str) -> tuple[Path, int]:
    import fcntl

    while True:
        root = Path(tempfile.mkdtemp(prefix=PREFIX, dir=parent))
        lock = os.open(root / _OWNER, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        fcntl.flock(lock, fcntl.LOCK_EX)
        # Another run that was looking for leftovers may have had the lock first, and then the folder is gone.
        if os.fstat(lock).st_nlink:
            return root, lock
        os.close(lock)


@contextmanager
def abandoned_folders() -> Iterator[list[Path]]:
    """Sandbox folders of this user whose owner is dead, locked against other cleaners until the block ends."""
    import fcntl

    folders: list[Path] = []
    locks: list[int] = []
    for root in Path(tempfile.gettempdir()).glob(f"{PREFIX}*"):
        # Gone meanwhile, another user's, in use, or no sandbox's at all: none of these is abandoned.
        with suppress(OSError):
            if root.is_symlink() or root.stat().st_uid != os.geteuid():
                continue
            locks.append(os.open(root / _OWNER, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW))
            fcntl.flock(locks[-1], fcntl.LOCK_EX | fcntl.LOCK_NB)
            folders.append(root)
    try:
        yield folders
    finally:
        for lock in locks:
            os.close(lock)


def remove_tree(root: Path) -> None:
    """Delete a folder whatever an agent made of it: any depth, any modes, links left unfollowed.

    Every folder found is first moved to the top, so that neither recursion nor the length of a path is a limit.
    """
    top = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        waiting: list[str] = []

        def clear(folder: int) -> None:
            for name in os.listdir(folder):
                if folder == top and name == _OWNER:
                    continue
                if stat.S_ISDIR(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode):
                    os.chmod(name, 0o700, dir_fd=folder)
                    waiting.append(uuid.uuid4().hex)
                    os.rename(name, waiting[-1], src_dir_fd=folder, dst_dir_fd=top)
                else:
                    os.unlink(name, dir_fd=folder)

        clear(top)
        while waiting:
            name = waiting.pop()
            folder = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=top)
            try:
                clear(folder)
            finally:
                os.close(folder)
            os.rmdir(name, dir_fd=top)
        with suppress(FileNotFoundError):
            os.unlink(_OWNER, dir_fd=top)
    finally:
        os.close(top)
    os.rmdir(root)
