"""Watches over a container from inside: kills all of a command's processes when told to or when a limit is broken.

It is the container's main program, root with the one capability to kill, while commands run as another user: they
can neither stop nor trace it. It speaks in lines over the connection that started it, and ends with that, whereupon
the kernel ends everything else in the container::

    begin                -> begun                  a command is about to start
    kill                 -> gone LIMIT | stuck     every other process is dead; the limit that was broken, or "none"
                            limit LIMIT            (unasked) a limit is broken, and every other process is dead
"""

from __future__ import annotations

import json
import os
import select
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from pytest_imaging101.sandboxes.base import Resources
from pytest_imaging101.sandboxes.watchdog import PERIOD, Watchdog

_PATIENCE_SECONDS = 10.0
# Where the kernel counts the processes of this container that it killed for want of memory: cgroup 2, cgroup 1.
_MEMORY_EVENTS = ("/sys/fs/cgroup/memory.events", "/sys/fs/cgroup/memory/memory.oom_control")


class Warden:
    """Answers what the harness asks and looks after the limits that the kernel does not keep by itself."""

    def __init__(self, resources: Resources) -> None:
        self._watchdog = Watchdog(resources, (Path("/workspace"), Path("/tmp")))
        self._killed_before = 0
        self._limit = "none"
        self._busy = False

    def obey(self) -> None:
        """Serve until the harness is gone."""
        say("ready")
        pending = b""
        while True:
            if select.select([0], [], [], PERIOD if self._busy else None)[0]:
                if not (chunk := os.read(0, 4096)):
                    return
                *orders, pending = (pending + chunk).split(b"\n")
                for order in orders:
                    self._follow(order)
            elif self._busy and (limit := self._broken_limit()):
                self._limit = limit
                kill_others()
                self._busy = False
                say(f"limit {limit}")

    def _follow(self, order: bytes) -> None:
        if order == b"begin":
            self._killed_before = out_of_memory_kills()
            self._watchdog.begin()
            self._limit, self._busy = "none", True
            say("begun")
        elif order == b"kill":
            self._busy = False
            limit = self._limit if self._limit != "none" else self._memory_limit() or "none"
            say(f"gone {limit}" if kill_others() else "stuck")

    def _broken_limit(self) -> str:
        return self._memory_limit() or self._watchdog.exceeded(None)

    def _memory_limit(self) -> str:
        return "memory" if out_of_memory_kills() > self._killed_before else ""


def say(line: str) -> None:
    os.write(1, line.encode() + b"\n")


def out_of_memory_kills() -> int:
    """How many processes of this container the kernel has killed to free memory; 0 where it does not say."""
    for file in _MEMORY_EVENTS:
        with suppress(OSError):
            for line in Path(file).read_text().splitlines():
                if line.startswith("oom_kill "):
                    return int(line.split()[1])
    return 0


def kill_others() -> bool:
    """Kill every process but the init and this one, and wait until all are dead; whether that came about."""
    deadline = time.monotonic() + _PATIENCE_SECONDS
    while True:
        # The kernel goes through all processes without letting one fork meanwhile.
        with suppress(ProcessLookupError, PermissionError):
            os.kill(-1, signal.SIGKILL)
        if not any(others()):
            return True
        if time.monotonic() > deadline:
            return False
        time.sleep(0.002)


def others() -> Iterator[int]:
    """Processes that are neither the init, nor this one, nor dead and only waiting to be noticed."""
    for name in filter(str.isdigit, os.listdir("/proc")):
        if int(name) in (1, os.getpid()):
            continue
        with suppress(OSError), open(f"/proc/{name}/stat", "rb") as stat:
            if stat.read().rpartition(b")")[2].split()[0] not in (b"Z", b"X"):
                yield int(name)


def give_workspace(user: str) -> None:
    """Hand a workspace that the engine has made over to the commands' user ("1000:1000")."""
    owner, group = map(int, user.split(":"))
    if os.stat("/workspace").st_uid != owner:
        os.chmod("/workspace", 0o700)
        os.chown("/workspace", owner, group)


if __name__ == "__main__":
    if sys.argv[2]:
        give_workspace(sys.argv[2])
    Warden(Resources(**json.loads(sys.argv[1]))).obey()
