"""The Docker sandbox: one container without network and without the host's files, commands executed in it."""

from __future__ import annotations

import builtins
import socket
import threading
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from pytest_imaging101.faults import SandboxFault
from pytest_imaging101.sandboxes import launch
from pytest_imaging101.sandboxes.base import Completed, Entry, Resources
from pytest_imaging101.sandboxes.docker_command import Execution, execute
from pytest_imaging101.sandboxes.docker_container import Container
from pytest_imaging101.sandboxes.docker_engine import Engine
from pytest_imaging101.sandboxes.docker_places import Connected, MountedPlace, Place
from pytest_imaging101.sandboxes.docker_sent import SentPlace
from pytest_imaging101.sandboxes.environment import Environment
from pytest_imaging101.sandboxes.mounts import ENVIRONMENT
from pytest_imaging101.sandboxes.owner import owner_labels
from pytest_imaging101.sandboxes.process import Stop

NAME_PREFIX = "imaging101-sandbox-"
_PATH = f"{ENVIRONMENT}/bin:{launch.SYSTEM_PATH}"
# The engine has a pipe for either stream, of which nobody can tell what was written first. A command may have taken the
# workspace's permissions away, which its owner alone can give back.
_ENTER = 'exec 2>&1; cd /workspace 2>/dev/null || { chmod 700 /workspace; cd /workspace; }; exec "$@"'


class DockerSandbox:
    """A container that is made for the first command and serves all of them, one after the other.

    Making one takes a few times as long as executing a command in it (0.5 against 0.1 s where it was measured), so
    a container a command would be dearer from the second command on. After each the warden kills whatever is left.
    A container that ended, for want of memory say, is replaced for the next command; files in /workspace stay.
    ``shares_files``: whether the engine can mount this host's folders. Raises SandboxFault.
    """

    backend: str = "docker"
    warnings: tuple[str, ...] = ()

    def __init__(
        self, image: str, environment: Environment, resources: Resources, *, shares_files: bool, run: str = ""
    ) -> None:
        self._image = image
        self._resources = resources
        self._name = f"{NAME_PREFIX}{uuid.uuid4().hex}"
        self._labels = owner_labels(run)
        self._engine = Engine()
        self._container: Container | None = None
        self._closed = False
        self._stop = Stop()
        # Held by whoever uses the container: killing what one command leaves would kill another beside it.
        self._turn = threading.RLock()
        self._place: Place = (
            MountedPlace(environment)
            if shares_files
            else SentPlace(self._engine, self._name, self._labels, environment, resources, self._running)
        )

    def put(self, files: Mapping[str, bytes | Path]) -> None:
        """Write files into the workspace."""
        with self._use():
            self._place.put(files)

    def get(self, path: str, max_bytes: int) -> bytes:
        """Contents of a regular file."""
        with self._use():
            return self._place.get(path, max_bytes)

    def list(self, folder: str = "") -> builtins.list[Entry]:
        """Regular files below a folder."""
        with self._use():
            return self._place.list(folder)

    def run(
        self,
        command: str | Sequence[str],
        *,
        timeout: float,
        stdin: bytes | None = None,
        environment: Mapping[str, str] | None = None,
        channel: socket.socket | None = None,
    ) -> Completed:
        """Run a shell text or an argument list in /workspace. A second command waits until the first has ended."""
        with self._stop, self._use(), ExitStack() as stack:
            self._place.restore()
            container = self._running()
            if isinstance(command, str):
                command = ["/bin/bash", stack.enter_context(self._place.script(command))]
            joined = stack.enter_context(self._place.connect(channel)) if channel else Connected()
            execution = Execution(
                arguments=[
                    *("/bin/sh", "-c", _ENTER, "sh", *joined.prefix),
                    *launch.limited(command, self._resources, limit_processes=False),
                ],
                environment=launch.variables(_PATH, home="/workspace", temporary="/tmp", extra=environment),
                timeout=timeout,
                output_bytes=self._resources.output_bytes,
                stdin=stdin,
                settle=joined.settle,
            )
            return execute(container, execution, self._stop.reader)

    def close(self) -> None:
        """Kill what runs, remove the container and delete the workspace."""
        self._stop.request()
        with self._turn:
            if self._closed:
                return
            self._closed = True
            try:
                if self._container is not None:
                    self._container.remove()
            finally:
                self._place.remove()
                self._engine.close()

    @contextmanager
    def _use(self) -> Iterator[None]:
        with self._turn:
            if self._closed:
                raise SandboxFault("the sandbox is closed")
            yield

    def _running(self) -> Container:
        """The container, made if there is none that lives."""
        if self._container is not None and self._container.dead:
            self._container.remove()
            self._container = None
        if self._container is None:
            layout = self._place.layout(self._image)
            self._container = Container(self._engine, self._name, self._labels, layout, self._resources)
        return self._container
