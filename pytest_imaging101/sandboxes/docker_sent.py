"""Files of a container whose engine shares no disk with this host: everything goes and comes through the engine."""

from __future__ import annotations

import builtins
import json
import selectors
import socket
import threading
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pytest_imaging101.faults import SandboxFault
from pytest_imaging101.sandboxes.base import Entry, NotDelivered, Resources
from pytest_imaging101.sandboxes.docker_container import Container, Layout, homes_below
from pytest_imaging101.sandboxes.docker_engine import CALL_SECONDS, Engine, Stream, engine_faults
from pytest_imaging101.sandboxes.docker_places import USER, Connected, interpreter_paths
from pytest_imaging101.sandboxes.docker_programs import Programs
from pytest_imaging101.sandboxes.docker_volumes import make_volume, provide_volume, volume_mount
from pytest_imaging101.sandboxes.environment import Environment
from pytest_imaging101.sandboxes.launch import CHANNEL
from pytest_imaging101.sandboxes.mounts import ENVIRONMENT
from pytest_imaging101.sandboxes.workspace import read_source

_SCRIPTS, _SCRIPT = "/run/imaging101", "command"
_SETTLE_SECONDS = 2.0
_CHUNK = 2**16


class SentPlace:
    """A volume of the engine's for the workspace, a temporary file system for /tmp, and volumes that many share
    for the environment and its interpreter. ``running`` gives the container through which files go.
    """

    def __init__(
        self,
        engine: Engine,
        name: str,
        labels: Mapping[str, str],
        environment: Environment,
        resources: Resources,
        running: Callable[[], Container],
    ) -> None:
        self._engine = engine
        self._volume = name
        self._labels = labels
        self._environment = environment
        self._resources = resources
        self._running = running
        self._programs = Programs()

    def layout(self, image: str) -> Layout:
        engine = self._engine
        mounts = [volume_mount(self._volume, "/workspace", read_only=False)]
        make_volume(engine, self._volume, self._labels)
        paths = [path for path in interpreter_paths(self._environment) if path.is_dir()]
        for source, target in [(self._environment.root, ENVIRONMENT), *((path, str(path)) for path in paths)]:
            mounts.append(volume_mount(provide_volume(engine, image, source, target), target))
        temporary = {
            **homes_below([str(path) for path in paths]),
            "/tmp": f"rw,exec,nosuid,nodev,size={self._resources.disk_bytes},mode=1777",
            _SCRIPTS: "rw,noexec,nosuid,nodev,size=16m,mode=1777",
        }
        return Layout(image, mounts, temporary, f"{USER}:{USER}", new_workspace=True)

    def put(self, files: Mapping[str, bytes | Path]) -> None:
        contents = []
        for content in files.values():
            with read_source(content) as source:
                contents.append(source.read())
        sizes = list(zip(files, map(len, contents), strict=True))
        self._ask({"do": "put", "folder": "/workspace", "files": sizes}, b"".join(contents))

    def get(self, path: str, max_bytes: int) -> bytes:
        _, content = self._ask({"do": "get", "folder": "/workspace", "path": path, "max_bytes": max_bytes})
        return content

    def list(self, folder: str) -> builtins.list[Entry]:
        reply, _ = self._ask({"do": "list", "folder": "/workspace", "path": folder})
        return [Entry(*entry) for entry in reply["entries"]]

    @contextmanager
    def script(self, text: str) -> Iterator[str]:
        data = text.encode("utf-8", "replace") + b"\n"
        self._ask({"do": "put", "folder": _SCRIPTS, "files": [(_SCRIPT, len(data))]}, data)
        yield f"{_SCRIPTS}/{_SCRIPT}"

    @contextmanager
    def connect(self, channel: socket.socket) -> Iterator[Connected]:
        address = f"imaging101-{uuid.uuid4().hex}"
        relay = _Relay(channel)
        stream = execute_stream(
            self._running(), self._programs("channel", "serve", address), relay.hear, relay.end
        )
        try:
            relay.begin(stream)
            yield _Relayed(tuple(self._programs("channel", "relay", address, CHANNEL)), relay)
        finally:
            relay.stop()
            stream.close()

    def restore(self) -> None:
        """Commands see to it themselves."""

    def remove(self) -> None:
        self._engine.remove_volume(self._volume)

    def _ask(self, request: Mapping[str, Any], contents: bytes = b"") -> tuple[dict[str, Any], bytes]:
        """Let inside/files.py do something. Raises what it raised."""
        received = bytearray()
        ended = threading.Event()
        stream = execute_stream(self._running(), self._programs("files"), received.extend, ended.set)
        try:
            with suppress(OSError):  # what it says is the better reason
                stream.send(json.dumps(request).encode() + b"\n" + contents)
            if not ended.wait(CALL_SECONDS):
                raise SandboxFault("the container's files could not be reached in time")
        finally:
            stream.close()
        head, _, content = bytes(received).partition(b"\n")
        try:
            reply: dict[str, Any] = json.loads(head)
        except ValueError as error:
            raise SandboxFault(
                "the container's files could not be reached", evidence=received.decode(errors="replace")
            ) from error
        if kind := reply.get("error"):
            errors = {"value": ValueError, "not_delivered": NotDelivered, "fault": SandboxFault}
            raise errors[kind](reply["message"])
        if len(content) != reply["size"]:
            raise SandboxFault("the connection to the container broke while a file was read")
        return reply, content


def execute_stream(
    container: Container,
    arguments: builtins.list[str],
    receive: Callable[[bytes], None],
    ended: Callable[[], None],
) -> Stream:
    """Execute a program of ours beside the commands, joined to it by its stdio."""
    api = container.engine.api
    with engine_faults("starting a program in a container"):
        execution = api.exec_create(
            container.name, arguments, stdin=True, stderr=False, user=container.user, workdir="/"
        )["Id"]
        return Stream(api.exec_start(execution, socket=True), receive, ended)


@dataclass(frozen=True)
class _Relayed(Connected):
    relay: _Relay | None = field(default=None)

    def settle(self) -> None:
        if self.relay is not None:
            self.relay.ended.wait(_SETTLE_SECONDS)


class _Relay:
    """Carries bytes between a socket of the harness and the relay program in the container."""

    def __init__(self, channel: socket.socket) -> None:
        self._channel = channel
        self._listening = threading.Event()
        self._told, self._teller = socket.socketpair()
        self._thread: threading.Thread | None = None
        self.ended = threading.Event()

    def begin(self, stream: Stream) -> None:
        """Wait until the program is ready, and carry what the harness says."""
        if not self._listening.wait(CALL_SECONDS) or self.ended.is_set():
            raise SandboxFault("no channel could be made in the container")
        self._thread = threading.Thread(target=self._carry, args=(stream,), daemon=True)
        self._thread.start()

    def hear(self, chunk: bytes) -> None:
        """What the program says: that it is ready, then the command's own words."""
        if not self._listening.is_set():
            chunk = chunk[1:]
            self._listening.set()
        if chunk:
            self._channel.sendall(chunk)

    def end(self) -> None:
        """The program has ended."""
        self.ended.set()
        self._listening.set()

    def stop(self) -> None:
        """Carry nothing more; the harness's socket stays open."""
        self._teller.close()
        if self._thread is not None:
            self._thread.join()
        self._told.close()

    def _carry(self, stream: Stream) -> None:
        with suppress(OSError):
            while not self._is_told():
                if not (chunk := self._channel.recv(_CHUNK)):
                    stream.end_input()
                    return
                stream.send(chunk)

    def _is_told(self) -> bool:
        """Wait for either the harness's words or the end; whether it is the end."""
        with selectors.DefaultSelector() as selector:
            selector.register(self._channel, selectors.EVENT_READ)
            selector.register(self._told, selectors.EVENT_READ)
            return any(key.fileobj is self._told for key, _ in selector.select())
