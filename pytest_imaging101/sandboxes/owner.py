"""Who owns what a run leaves on an engine: the labels that say so, and whether that process is dead."""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

LABEL = "imaging101.run"
_HOST, _BOOT, _PID, _START = (f"imaging101.{name}" for name in ("host", "boot", "pid", "start"))


def owner_labels(run: str) -> dict[str, str]:
    """Labels that name this process for good: a process number alone is given to others later."""
    return {
        LABEL: run or "none",
        _HOST: _host(),
        _BOOT: _boot(),
        _PID: str(os.getpid()),
        _START: _start_time(os.getpid()),
    }


def is_dead(labels: Mapping[str, str]) -> bool:
    """Whether the owner that the labels name has ended. Unknown, as on another host, is no."""
    if labels.get(_HOST) != _host() or not labels.get(_PID, "").isdigit():
        return False
    if labels.get(_BOOT) != _boot():
        return True
    pid = int(labels[_PID])
    return not _exists(pid) or _start_time(pid) != labels.get(_START)


def _exists(pid: int) -> bool:
    with suppress(OSError):
        # One that has ended and waits for its parent to notice owns nothing any more.
        if Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()[0] in (b"Z", b"X"):
            return False
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    return True


def _host() -> str:
    """The host, and which process numbers are meant: two containers of one host each have their own."""
    with suppress(OSError):
        return f"{socket.gethostname()} {os.readlink('/proc/self/ns/pid')}"
    return socket.gethostname()


def _boot() -> str:
    with suppress(OSError):
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    return ""


def _start_time(pid: int) -> str:
    """When a process began, in the kernel's ticks since boot; empty where there is no /proc."""
    with suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()[19].decode()
    return ""
