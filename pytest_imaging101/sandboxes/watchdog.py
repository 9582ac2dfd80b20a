"""What a command uses, looked at a few times a second: memory, processes and disk, against its resources."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from pytest_imaging101.sandboxes.base import Resources
from pytest_imaging101.sandboxes.workspace import used_bytes

# Seconds between two looks at memory and processes, and at the disk.
PERIOD = 0.1
_DISK_PERIOD = 0.5
# Times as long as a look at the disk took, to rest: a large workspace must not become the harness's main work.
_DISK_REST = 10
_SLACK_BYTES = 2**20


class Watchdog:
    """Limits of one sandbox. Where there is no /proc (macOS) memory and processes are not looked at."""

    def __init__(self, resources: Resources, folders: Sequence[Path]) -> None:
        self._resources = resources
        self._folders = folders
        self._disk_limit = resources.disk_bytes
        self._next_disk = 0.0

    def begin(self) -> None:
        """A command starts. One that finds the disk over its limit may run, to delete, but hardly add to it."""
        used = self._disk_used()
        self._disk_limit = max(self._resources.disk_bytes, used + _SLACK_BYTES)
        over = self._disk_limit > self._resources.disk_bytes
        self._next_disk = time.monotonic() + (PERIOD if over else _DISK_PERIOD)

    def exceeded(self, root: int | None) -> str:
        """The limit that a process and its descendants break ("memory", "processes", "disk"), or ""."""
        tasks = memory = 0
        pids = []
        for pid in () if root is None else descendants(root):
            pids.append(pid)
            tasks += _tasks(pid)
            memory += _resident_bytes(pid)
            if tasks > self._resources.processes:
                return "processes"
        # Resident sizes count a page once for each process that shares it: a breach is looked at again, dearly.
        most = self._resources.memory_bytes
        if memory > most and sum(map(_own_bytes, pids)) > most:
            return "memory"
        return "disk" if self._disk_exceeded() else ""

    def _disk_exceeded(self) -> bool:
        started = time.monotonic()
        if started < self._next_disk:
            return False
        exceeded = self._disk_used() > self._disk_limit
        ended = time.monotonic()
        self._next_disk = ended + max(_DISK_PERIOD, _DISK_REST * (ended - started))
        return exceeded

    def _disk_used(self) -> int:
        return sum(used_bytes(folder) for folder in self._folders)


def descendants(root: int) -> Iterator[int]:
    """A process and everything that descends from it and has not been orphaned out of its tree."""
    waiting = [root]
    while waiting:
        pid = waiting.pop()
        yield pid
        with suppress(OSError):
            for task in os.listdir(f"/proc/{pid}/task"):
                with suppress(OSError), open(f"/proc/{pid}/task/{task}/children", "rb") as children:
                    waiting += map(int, children.read().split())


def _tasks(pid: int) -> int:
    """Threads of a process, which is what the kernel counts as processes."""
    try:
        return len(os.listdir(f"/proc/{pid}/task"))
    except OSError:
        return 0


def _resident_bytes(pid: int) -> int:
    try:
        with open(f"/proc/{pid}/statm", "rb") as statm:
            return int(statm.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return 0


def _own_bytes(pid: int) -> int:
    """A process's share of memory: pages that several map are divided among them; resident size if unreadable."""
    try:
        with open(f"/proc/{pid}/smaps_rollup", "rb") as rollup:
            for line in rollup:
                if line.startswith(b"Pss:"):
                    return int(line.split()[1]) * 1024
    except OSError:
        pass
    return _resident_bytes(pid)
