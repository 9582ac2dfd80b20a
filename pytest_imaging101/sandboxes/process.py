"""One command from its start to the certain end of all its processes: fed, drained, watched."""

from __future__ import annotations

import os
import selectors
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Protocol

from pytest_imaging101.faults import SandboxFault
from pytest_imaging101.sandboxes.base import Completed
from pytest_imaging101.sandboxes.output import HeadAndTail
from pytest_imaging101.sandboxes.watchdog import PERIOD, Watchdog

# A command that has printed this much is one that will not stop (`yes`), and is ended.
FLOOD_BYTES = 4 * 2**30
_CHUNK = 2**16
# As much as a pipe may hold: what was printed before the end is read, what a survivor goes on printing is not.
_LAST_BYTES = 2**20
# How soon an exit is noticed where no descriptor tells it (macOS, gVisor).
_POLL_SECONDS = 0.02


@dataclass(frozen=True)
class Command:
    """What to start, and how. ``descriptors`` are handed down under their own numbers."""

    arguments: Sequence[str]
    environment: Mapping[str, str]
    folder: Path
    timeout: float
    output_bytes: int
    stdin: bytes | None = None
    descriptors: tuple[int, ...] = ()


class Tree(Protocol):
    """The processes of one command, as far as a backend can reach them."""

    def attach(self, process: subprocess.Popen[bytes]) -> None:
        """The command's first process was started. Raises SandboxFault if it came to nothing."""

    def watched(self) -> int | None:
        """The process that, with its descendants, is held against the limits; None if there is none."""

    def kill(self) -> None:
        """Kill every process and return when all are gone. Raises SandboxFault if one stays."""

    def exit_code(self, returncode: int, output: str) -> int:
        """How the command itself ended. Raises SandboxFault if it never started."""


class Stop:
    """Lets ``close`` end the commands that other threads of this process wait for."""

    def __init__(self) -> None:
        # Sockets, since pipes cannot be waited for on Windows.
        self._told, self._teller = socket.socketpair()
        self.reader = self._told.fileno()
        self._condition = threading.Condition()
        self._running = 0
        self._requested = False

    def __enter__(self) -> Stop:
        with self._condition:
            if self._requested:
                raise SandboxFault("a command was given to a sandbox that is closed")
            self._running += 1
        return self

    def __exit__(self, *_: object) -> None:
        with self._condition:
            self._running -= 1
            self._condition.notify_all()

    def request(self) -> None:
        """End what runs, let nothing new start, and return when all has ended; may be called twice."""
        with self._condition:
            if not self._requested:
                self._requested = True
                self._teller.close()
                self._condition.wait_for(lambda: self._running == 0)
                self._told.close()


def run_command(command: Command, tree: Tree, watchdog: Watchdog, stop: Stop) -> Completed:
    """Run a command to its end. Raises SandboxFault if it could not be started or its processes not be ended.

    The calling thread starts the process and waits for it. This matters: the kernel's parent-death signal, which
    ends a sandbox when the harness dies, follows the thread that started it and not the process.
    """
    started = time.monotonic()
    output = HeadAndTail(command.output_bytes)
    watchdog.begin()
    process: subprocess.Popen[bytes] | None = None
    try:
        process = _start(command)
        tree.attach(process)
        killed_by = _Conversation(process, command.stdin, output, stop.reader).until_end(
            started + command.timeout, tree, watchdog
        )
    finally:  # also when the harness is interrupted, be it while the process is being started
        tree.kill()
        if process is not None:
            process.kill()
            process.wait()
            _drain(process, output)
    if killed_by == "closed":
        raise SandboxFault("the sandbox was closed while a command ran in it")
    code = -signal.SIGKILL if killed_by else tree.exit_code(process.returncode, output.text())
    return Completed(
        exit_code=with_sign(code),
        output=output.text(),
        output_bytes=output.total,
        truncated=output.truncated,
        timed_out=killed_by == "timeout",
        seconds=time.monotonic() - started,
        killed_by=killed_by,
    )


def _start(command: Command) -> subprocess.Popen[bytes]:
    try:
        return subprocess.Popen(
            command.arguments,
            bufsize=0,
            cwd=command.folder,
            env=command.environment,
            stdin=subprocess.DEVNULL if command.stdin is None else subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            pass_fds=command.descriptors,
            start_new_session=True,
        )
    except OSError as error:
        raise SandboxFault(f"the command could not be started: {error}") from error


class _Conversation:
    """Reads what a process prints, feeds it its input and notices its end, all in one thread."""

    def __init__(
        self, process: subprocess.Popen[bytes], stdin: bytes | None, output: HeadAndTail, stop_reader: int
    ) -> None:
        self._process = process
        self._input = memoryview(stdin or b"")
        self._output = output
        self._stop_reader = stop_reader
        self._selector = selectors.DefaultSelector()

    def until_end(self, deadline: float, tree: Tree, watchdog: Watchdog) -> str:
        """Why the process must be ended: the limit's name, "closed", or "" because it has ended by itself."""
        exit_signal = _exit_descriptor(self._process.pid)
        longest = PERIOD if exit_signal is not None else _POLL_SECONDS
        next_look = time.monotonic() + PERIOD
        try:
            self._register(exit_signal)
            while True:
                told = self._serve(min(deadline - time.monotonic(), longest))
                if exit_signal in told or (exit_signal is None and self._process.poll() is not None):
                    return ""
                if self._stop_reader in told:
                    return "closed"
                now = time.monotonic()
                if now >= deadline:
                    return "timeout"
                if self._output.total > FLOOD_BYTES:
                    return "output"
                if now >= next_look:
                    if limit := watchdog.exceeded(tree.watched()):
                        return limit
                    next_look = time.monotonic() + PERIOD
        finally:
            self._selector.close()
            if exit_signal is not None:
                os.close(exit_signal)

    def _register(self, exit_signal: int | None) -> None:
        """Streams get the function that serves them; the other descriptors only tell that something happened."""
        if self._process.stdout is not None:
            self._add_stream(self._process.stdout, selectors.EVENT_READ, self._read)
        if self._process.stdin is not None:
            self._add_stream(self._process.stdin, selectors.EVENT_WRITE, self._feed)
        for descriptor in (self._stop_reader, exit_signal):
            if descriptor is not None:
                self._selector.register(descriptor, selectors.EVENT_READ)

    def _add_stream(self, stream: IO[bytes], event: int, serve: Callable[[IO[bytes]], None]) -> None:
        os.set_blocking(stream.fileno(), False)
        self._selector.register(stream, event, serve)

    def _serve(self, seconds: float) -> set[int]:
        """Wait up to so long, move what can be moved, and return the descriptors that told something."""
        told = set()
        for key, _ in self._selector.select(max(0.0, seconds)):
            if key.data is None:
                told.add(key.fd)
            else:
                key.data(key.fileobj)
        return told

    def _read(self, stdout: IO[bytes]) -> None:
        if chunk := os.read(stdout.fileno(), _CHUNK):
            self._output.add(chunk)
        else:
            self._selector.unregister(stdout)

    def _feed(self, stdin: IO[bytes]) -> None:
        try:
            if self._input:
                self._input = self._input[os.write(stdin.fileno(), self._input[:_CHUNK]) :]
        except BrokenPipeError:  # it does not want the rest
            self._input = memoryview(b"")
        if not self._input:
            self._selector.unregister(stdin)
            stdin.close()


def _exit_descriptor(pid: int) -> int | None:
    """A descriptor that becomes readable when the process ends, where the system has such a thing."""
    try:
        return os.pidfd_open(pid)
    except (AttributeError, OSError):
        return None


def _drain(process: subprocess.Popen[bytes], output: HeadAndTail) -> None:
    """Read what was printed before the end and not yet read, and close the streams."""
    most = output.total + _LAST_BYTES
    with process, suppress(BlockingIOError):
        while process.stdout and output.total < most and (chunk := os.read(process.stdout.fileno(), _CHUNK)):
            output.add(chunk)


def with_sign(code: int) -> int:
    """A shell's 128 + signal as the negative signal."""
    return 128 - code if code - 128 in signal.valid_signals() else code
