"""One command in a container, from its start to the certain end of all its processes."""

from __future__ import annotations

import selectors
import socket
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from pytest_imaging101.faults import SandboxFault
from pytest_imaging101.sandboxes.base import Completed
from pytest_imaging101.sandboxes.docker_container import Container
from pytest_imaging101.sandboxes.docker_engine import Stream, engine_faults
from pytest_imaging101.sandboxes.output import HeadAndTail
from pytest_imaging101.sandboxes.process import FLOOD_BYTES, with_sign

# How soon the end of a command is noticed whose child holds its output open: at first, and once it takes long.
_SOON, _LATE = 0.01, 0.25
_DRAIN_SECONDS = 5.0
_CHUNK = 2**16


def _nothing() -> None:
    pass


@dataclass(frozen=True)
class Execution:
    """What to execute, and how. ``settle`` is called when it has ended by itself, before all it left is killed."""

    arguments: Sequence[str]
    environment: Mapping[str, str]
    timeout: float
    output_bytes: int
    stdin: bytes | None = None
    settle: Callable[[], None] = _nothing


class Bell:
    """Wakes the thread that waits for something to happen, from any other thread."""

    def __init__(self) -> None:
        # Sockets, since pipes cannot be waited for on Windows.
        self._reader, self._writer = socket.socketpair()
        self._reader.setblocking(False)
        self._writer.setblocking(False)
        self._lock = threading.Lock()
        self._open = True

    def __enter__(self) -> Bell:
        return self

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._open = False
            self._reader.close()
            self._writer.close()

    def ring(self) -> None:
        """Wake the waiting thread, if it still waits."""
        with self._lock, suppress(BlockingIOError):  # a full pipe wakes as well
            if self._open:
                self._writer.send(b".")

    def wait(self, seconds: float, stop: int) -> bool:
        """Wait for a ring; whether ``stop`` has told something instead."""
        with selectors.DefaultSelector() as selector:  # select() itself knows no descriptor above 1023
            selector.register(self._reader, selectors.EVENT_READ)
            selector.register(stop, selectors.EVENT_READ)
            told = {key.fd for key, _ in selector.select(max(0.0, seconds))}
        if self._reader.fileno() in told:
            with suppress(BlockingIOError):
                self._reader.recv(_CHUNK)
        return stop in told


def execute(container: Container, execution: Execution, stop: int) -> Completed:
    """Execute a command and kill all that it leaves. ``stop`` is a descriptor that is readable once it must end.

    Raises SandboxFault if it could not be started or its processes not be ended.
    """
    started = time.monotonic()
    output = HeadAndTail(execution.output_bytes)
    with Bell() as bell:
        container.begin()
        container.notify = bell.ring
        running = _Running(container, execution, output, bell)
        try:
            try:
                running.start()
            except BaseException:  # perhaps the engine starts it later on
                container.remove()
                raise
            killed_by = running.until_end(started + execution.timeout, stop)
            if not killed_by:
                execution.settle()
        finally:  # also when the harness is interrupted
            limit = container.kill_all()
            running.close()
    if killed_by == "closed":
        raise SandboxFault("the sandbox was closed while a command ran in it")
    killed_by = killed_by or limit
    if not killed_by and container.dead:
        if not container.ran_out_of_memory():
            raise SandboxFault("the container ended under a command", evidence=output.text())
        killed_by = "memory"
    return Completed(
        exit_code=-9 if killed_by else with_sign(running.exit_code()),
        output=output.text(),
        output_bytes=output.total,
        truncated=output.truncated,
        timed_out=killed_by == "timeout",
        seconds=time.monotonic() - started,
        killed_by=killed_by,
    )


class _Running:
    """A command under way."""

    def __init__(self, container: Container, execution: Execution, output: HeadAndTail, bell: Bell) -> None:
        self._container = container
        self._execution = execution
        self._output = output
        self._bell = bell
        self._silent = threading.Event()
        self._stream: Stream | None = None
        self._id = ""

    def start(self) -> None:
        """Start it, and feed its stdin from a thread."""
        api, execution = self._container.engine.api, self._execution
        with engine_faults("starting a command"):
            self._id = api.exec_create(
                self._container.name,
                list(execution.arguments),
                stdin=execution.stdin is not None,
                user=self._container.user,
                environment=dict(execution.environment),
                workdir="/",
            )["Id"]
            connection = api.exec_start(self._id, socket=True)
        self._stream = Stream(connection, self._output.add, self._fall_silent)
        if execution.stdin is not None:
            threading.Thread(target=self._feed, args=(execution.stdin,), daemon=True).start()

    def until_end(self, deadline: float, stop: int) -> str:
        """Why it must be ended: the limit's name, "closed", or "" because it has ended by itself."""
        patience = _SOON
        while True:
            now = time.monotonic()
            if now >= deadline:
                return "timeout"
            if self._bell.wait(min(patience, deadline - now), stop):
                return "closed"
            if self._container.broken_limit or self._container.dead:
                return self._container.broken_limit
            if self._output.total > FLOOD_BYTES:
                return "output"
            if self._has_ended():
                return ""
            patience = _SOON if self._silent.is_set() else min(2 * patience, _LATE)

    def _has_ended(self) -> bool:
        state = self._state()
        # One that has not begun yet does not run either.
        begun = bool(state.get("Pid")) or self._silent.is_set()
        return begun and not state["Running"] and state["ExitCode"] is not None

    def exit_code(self) -> int:
        """How it ended by itself."""
        return int(self._state()["ExitCode"])

    def close(self) -> None:
        """Read what was printed before the end, and let go."""
        if self._stream is not None:
            if not self._container.dead:
                self._stream.join(_DRAIN_SECONDS)
            self._stream.close()
            self._stream.join(_DRAIN_SECONDS)

    def _state(self) -> Any:
        api = self._container.engine.api
        return self._container.engine.ask("asking after a command", api.exec_inspect, self._id)

    def _fall_silent(self) -> None:
        self._silent.set()
        self._bell.ring()

    def _feed(self, data: bytes) -> None:
        assert self._stream is not None
        view = memoryview(data)
        with suppress(OSError):  # it does not want the rest
            while view:
                self._stream.send(bytes(view[:_CHUNK]))
                view = view[_CHUNK:]
            self._stream.end_input()
