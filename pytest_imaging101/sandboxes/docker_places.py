"""Where a container's files lie: in folders of the host that are mounted, or on an engine that has its own disks."""

from __future__ import annotations

import builtins
import itertools
import os
import socket
import threading
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from pytest_imaging101.faults import SandboxFault
from pytest_imaging101.sandboxes.base import Entry
from pytest_imaging101.sandboxes.docker_container import Layout, homes_below
from pytest_imaging101.sandboxes.docker_programs import Programs
from pytest_imaging101.sandboxes.environment import Environment
from pytest_imaging101.sandboxes.launch import CHANNEL
from pytest_imaging101.sandboxes.mounts import (
    ENVIRONMENT,
    PREFIX_FOLDERS,
    interpreter_prefixes,
    package_folders,
)
from pytest_imaging101.sandboxes.scratch import Scratch
from pytest_imaging101.sandboxes.workspace import Workspace

USER = 1000
_SHARED = "/run/imaging101"


@dataclass(frozen=True)
class Connected:
    """What a command line must begin with so that the command has its channel, and how to wait for its last words."""

    prefix: tuple[str, ...] = ()

    def settle(self) -> None:
        """Wait until what the command has written is on its way to the harness."""


class Place(Protocol):
    """Where the files of one container lie."""

    def put(self, files: Mapping[str, bytes | Path]) -> None: ...

    def get(self, path: str, max_bytes: int) -> bytes: ...

    def list(self, folder: str) -> list[Entry]: ...

    def layout(self, image: str) -> Layout:
        """What a container needs to have the files."""

    def script(self, text: str) -> AbstractContextManager[str]:
        """A file that holds a command's text, under its path in the container."""

    def connect(self, channel: socket.socket) -> AbstractContextManager[Connected]:
        """Be ready to join a command with the harness."""

    def restore(self) -> None:
        """Make the workspace usable again, whatever a command did to it."""

    def remove(self) -> None:
        """Delete the files."""


class MountedPlace:
    """Folders of this host, mounted: for an engine that shares its file system, and its kernel.

    Commands run as this process's user; where that is root, as another, to whom the files are given.
    """

    def __init__(self, environment: Environment) -> None:
        owner = USER if os.geteuid() == 0 else None
        self._environment = environment
        self._user = f"{USER}:{USER}" if owner else f"{os.geteuid()}:{os.getegid()}"
        self._scratch = Scratch(owner)
        self._workspace = Workspace(self._scratch)
        self._numbers = itertools.count(1)
        self._programs = Programs()
        self._shared = self._scratch.own / "shared"
        self._empty = self._scratch.own / "empty"
        try:
            for folder in (self._shared, self._empty):
                folder.mkdir()
                folder.chmod(0o755)
        except OSError as error:
            self._scratch.remove()
            raise SandboxFault(f"the sandbox cannot be laid out: {error}") from error

    def put(self, files: Mapping[str, bytes | Path]) -> None:
        self._workspace.put(files)

    def get(self, path: str, max_bytes: int) -> bytes:
        return self._workspace.get(path, max_bytes)

    def list(self, folder: str) -> builtins.list[Entry]:
        return self._workspace.list(folder)

    def layout(self, image: str) -> Layout:
        environment = self._environment
        interpreter = interpreter_paths(environment)
        mounts = [
            bind(self._scratch.workspace, "/workspace", read_only=False),
            bind(self._scratch.temporary, "/tmp", read_only=False),
            bind(self._shared, _SHARED),
            bind(environment.root, ENVIRONMENT),
            *(bind(path, str(path)) for path in interpreter),
        ]
        for prefix in interpreter_prefixes(environment.python, environment.root):
            mounts += [bind(self._empty, str(packages)) for packages in package_folders(prefix)]
        return Layout(image, mounts, homes_below([str(path) for path in interpreter]), self._user)

    @contextmanager
    def script(self, text: str) -> Iterator[str]:
        file = self._shared / f"command-{next(self._numbers)}"
        try:
            file.write_bytes(text.encode("utf-8", "replace") + b"\n")
            file.chmod(0o644)
        except OSError as error:
            raise SandboxFault(f"the command's text cannot be written to {file}: {error}") from error
        try:
            yield f"{_SHARED}/{file.name}"
        finally:
            file.unlink(missing_ok=True)

    @contextmanager
    def connect(self, channel: socket.socket) -> Iterator[Connected]:
        name = f"channel-{next(self._numbers)}"
        folder = os.open(self._shared, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as server:
            try:
                # By descriptor, because the path of a socket has room for a hundred characters only.
                server.bind(f"/proc/self/fd/{folder}/{name}")
                (self._shared / name).chmod(0o666)
                server.listen(1)
            except OSError as error:
                raise SandboxFault(f"no channel can be made in {self._shared}: {error}") from error
            finally:
                os.close(folder)
            giver = threading.Thread(target=_give, args=(server, channel), daemon=True)
            giver.start()
            try:
                arguments = self._programs("channel", "connect", f"{_SHARED}/{name}", CHANNEL)
                yield Connected(tuple(arguments))
            finally:
                with suppress(OSError):
                    server.shutdown(socket.SHUT_RDWR)
                giver.join()
                (self._shared / name).unlink(missing_ok=True)

    def restore(self) -> None:
        self._scratch.restore()

    def remove(self) -> None:
        self._scratch.remove()


def _give(server: socket.socket, channel: socket.socket) -> None:
    """Hand a socket to the first who connects, the command's own start: everything older in there is dead."""
    with suppress(OSError):
        peer, _ = server.accept()
        with peer:
            socket.send_fds(peer, [b"."], [channel.fileno()])


def bind(source: Path, target: str, *, read_only: bool = True) -> Any:
    """A mount of a folder or file of the host."""
    from docker.types import Mount

    return Mount(target, str(source), type="bind", read_only=read_only)


def interpreter_paths(environment: Environment) -> list[Path]:
    """Folders and files of the host that an environment's ``python`` needs under their own names.

    Of an interpreter in /usr, which is the image's own, these are the program and its standard library alone.
    """
    program = environment.python.resolve()
    own = [program, Path("/usr/lib", program.name)] if program.parent == Path("/usr/bin") else []
    folders = [
        prefix / name
        for prefix in interpreter_prefixes(environment.python, environment.root)
        for name in PREFIX_FOLDERS
    ]
    return [path for path in (*own, *folders) if path.exists()]
