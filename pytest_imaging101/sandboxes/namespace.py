"""The process namespace of one bubblewrap command: how its start and end are known, and how it is killed."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import time
from contextlib import suppress
from pathlib import Path

from pytest_imaging101.faults import SandboxFault
from pytest_imaging101.sandboxes.tagged import kill_tagged

_PATIENCE_SECONDS = 10


class Namespace:
    """The process namespace of one command, known by its first process, which ends last.

    ``tag`` is the value of the variable TAG in bubblewrap's own environment.
    """

    def __init__(self, tag: str) -> None:
        self._tag = tag
        self._first_pid: int | None = None
        self._first: int | None = None
        self._status = b""
        self._ended = False

    def __enter__(self) -> Namespace:
        self._reader, self.writer = os.pipe()
        os.set_blocking(self._reader, False)
        return self

    def __exit__(self, *_: object) -> None:
        for descriptor in (self._reader, self.writer, self._first):
            if descriptor is not None and descriptor >= 0:
                os.close(descriptor)

    def options(self) -> list[str]:
        """What makes bubblewrap report the first process, and later how the command ended."""
        return ["--json-status-fd", str(self.writer)]

    def attach(self, process: subprocess.Popen[bytes]) -> None:
        """Wait for bubblewrap's word on the first process, and take hold of that."""
        os.close(self.writer)
        self.writer = -1
        deadline = time.monotonic() + _PATIENCE_SECONDS
        while not self._ended and b"\n" not in self._status:
            if not select.select([self._reader], [], [], max(0.0, deadline - time.monotonic()))[0]:
                raise SandboxFault(f"bubblewrap started nothing within {_PATIENCE_SECONDS} s")
            self._read()
        pid = self._report().get("child-pid")
        if pid is None:  # it failed; what it printed says why, and exit_code() passes that on
            return
        with suppress(ProcessLookupError):
            first = os.pidfd_open(pid)
            # The number can have been given to a stranger by now, who is no child of this bubblewrap.
            if _parent(pid) == process.pid:
                self._first, self._first_pid = first, pid
            else:
                os.close(first)

    def watched(self) -> int | None:
        """The namespace's first process."""
        return self._first_pid

    def kill(self) -> None:
        """Kill the first process, with which the kernel kills all others before it lets it go."""
        if self._first is not None:
            with suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._first, signal.SIGKILL)
            gone = bool(select.select([self._first], [], [], _PATIENCE_SECONDS)[0])
        else:
            # It failed, or the harness was interrupted while it started: then one half of bubblewrap may have
            # ended without the other, which would wait for ever.
            gone = kill_tagged(self._tag)
        if not gone:
            raise SandboxFault(f"processes of a sandbox were still alive {_PATIENCE_SECONDS} s after SIGKILL")

    def exit_code(self, returncode: int, output: str) -> int:
        """The command's own exit code, which bubblewrap reports only if the command was really started."""
        code = self._report().get("exit-code")
        if code is not None:
            return code
        if returncode < 0:
            name = signal.Signals(-returncode).name
            raise SandboxFault(
                f"bubblewrap was ended from outside by {name}; the machine may be short of memory"
            )
        raise SandboxFault("bubblewrap could not start the command", evidence=output)

    def _report(self) -> dict[str, int]:
        """What bubblewrap has reported so far: an object a line, the last perhaps not yet whole."""
        self._read()
        report: dict[str, int] = {}
        for line in self._status.split(b"\n")[:-1]:
            report |= json.loads(line)
        return report

    def _read(self) -> None:
        with suppress(BlockingIOError):
            while chunk := os.read(self._reader, 4096):
                self._status += chunk
            self._ended = True


def _parent(pid: int) -> int | None:
    try:
        stat = Path(f"/proc/{pid}/stat").read_bytes()
    except OSError:
        return None
    return int(stat.rpartition(b")")[2].split()[1])
