"""Lets the package, and nothing else in this process, see another operating system than the one it runs on."""

from __future__ import annotations

import importlib
import pkgutil
import sys
from collections.abc import Iterable, Mapping
from types import ModuleType
from typing import Any

PACKAGE = "pytest_imaging101"
# Programs that run inside a sandbox, which has Linux in it wherever the harness is.
INSIDE = (f"{PACKAGE}.scoring.grader", f"{PACKAGE}.sandboxes.inside")

WINDOWS_LACKS: Mapping[str, tuple[str, ...]] = {
    "os": (
        *(
            "O_CLOEXEC",
            "O_DIRECTORY",
            "O_NOFOLLOW",
            "O_NONBLOCK",
            "chown",
            "fchmod",
            "fork",
            "forkpty",
            "getegid",
        ),
        *(
            "geteuid",
            "getgid",
            "getpgid",
            "getuid",
            "killpg",
            "mkfifo",
            "pidfd_open",
            "sched_getaffinity",
            "setsid",
        ),
        *("statvfs", "sysconf", "uname", "waitid"),
    ),
    "signal": (
        *("SIGALRM", "SIGCHLD", "SIGHUP", "SIGKILL", "SIGPIPE"),
        *("pidfd_send_signal", "pthread_sigmask", "setitimer"),
    ),
    "socket": ("AF_UNIX", "send_fds", "recv_fds"),
    "select": ("poll", "epoll"),
}
WINDOWS_SAYS = {"os": {"name": "nt"}, "sys": {"platform": "win32"}}
WINDOWS_HAS_NO = ("fcntl", "grp", "posix", "pty", "pwd", "resource", "termios", "tty")

# What the package imports where it is first used.
LIBRARIES = (
    "docker",
    "filelock",
    "matplotlib.backends.backend_agg",
    "numpy",
    "skimage.metrics",
    "xdist.plugin",
)

MACOS_LACKS = {
    "os": ("pidfd_open", "sched_getaffinity", "sched_setaffinity"),
    "signal": ("pidfd_send_signal",),
    "select": ("epoll",),
}
MACOS_SAYS = {"sys": {"platform": "darwin"}}


class _Elsewhere(ModuleType):
    """A module without some of its names, and with others' values; all else is the real one's."""

    def __init__(self, real: ModuleType, lacks: Iterable[str], says: Mapping[str, Any]) -> None:
        super().__init__(real.__name__)
        self.__dict__.update(says)
        self._real, self._lacks = real, frozenset(lacks)

    def __getattr__(self, name: str) -> Any:
        if name in self._lacks:
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r} here")
        return getattr(self._real, name)


def modules() -> list[str]:
    """Every module of the package but the programs that run inside sandboxes."""
    package = importlib.import_module(PACKAGE)
    found = [info.name for info in pkgutil.walk_packages(package.__path__, f"{PACKAGE}.")]
    return [name for name in found if not name.startswith(INSIDE)]


def pretend_windows() -> None:
    """From here on, what is imported of the package finds itself on Windows."""
    _pretend(WINDOWS_LACKS, WINDOWS_SAYS, WINDOWS_HAS_NO)


def pretend_macos() -> None:
    """From here on, what is imported of the package finds itself on macOS."""
    _pretend(MACOS_LACKS, MACOS_SAYS, ())


def _pretend(
    lacks: Mapping[str, Iterable[str]], says: Mapping[str, Mapping[str, Any]], absent: Iterable[str]
) -> None:
    # Libraries are imported first: they are right on either system, and only the package is asked here.
    for name in (*modules(), *LIBRARIES):
        importlib.import_module(name)
    for name in [name for name in sys.modules if name.partition(".")[0] == PACKAGE]:
        del sys.modules[name]
    for name in absent:
        sys.modules[name] = None  # type: ignore[assignment]
    for name in {*lacks, *says}:
        sys.modules[name] = _Elsewhere(importlib.import_module(name), lacks.get(name, ()), says.get(name, {}))
