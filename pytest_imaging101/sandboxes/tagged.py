"""Processes found by a tag in their environment variables, wherever they have detached themselves to."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from contextlib import suppress

TAG = "IMAGING101_SANDBOX"
_PATIENCE_SECONDS = 10.0


def kill_tagged(prefix: str) -> bool:
    """Kill every process whose tag starts so, and wait until none is left; whether that came about.

    A process that rewrites its environment is not found. Where there is no /proc, none is.
    """
    deadline = time.monotonic() + _PATIENCE_SECONDS
    # One look can miss a process whose parent made it and died while the look was going on; the next finds it.
    looks_in_vain = 0
    while looks_in_vain < 2:
        if not (pids := list(_tagged(prefix))):
            looks_in_vain += 1
            continue
        looks_in_vain = 0
        for pid in pids:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        if time.monotonic() > deadline:
            return False
        time.sleep(0.002)
    return True


def _tagged(prefix: str) -> Iterator[int]:
    wanted = f"\0{TAG}={prefix}".encode()
    with suppress(OSError):
        for name in filter(str.isdigit, os.listdir("/proc")):
            # Gone meanwhile, or another user's.
            with suppress(OSError), open(f"/proc/{name}/environ", "rb") as environ:
                if wanted in b"\0" + environ.read():
                    yield int(name)
