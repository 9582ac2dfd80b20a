"""How a command is started: its environment variables, its shell, and the limits that the kernel keeps."""

from __future__ import annotations

import os
import shutil
import socket
from collections.abc import Mapping, Sequence

from pytest_imaging101.sandboxes.base import Resources

CHANNEL = "IMAGING101_CHANNEL"
SYSTEM_PATH = "/usr/local/bin:/usr/bin:/bin"

# Nothing pages, prompts, opens an editor or a window, and what is printed is there when a limit ends the command.
_FIXED = {
    "LANG": "C.UTF-8",
    "TERM": "dumb",
    "PAGER": "cat",
    "GIT_PAGER": "cat",
    "GIT_EDITOR": "true",
    "GIT_TERMINAL_PROMPT": "0",
    "DEBIAN_FRONTEND": "noninteractive",
    "MPLBACKEND": "Agg",
    "PYTHONUNBUFFERED": "1",
    "PYTHONNOUSERSITE": "1",
    # Bytecode would litter the workspace, and one written within a file's second can be run for its next version.
    "PYTHONDONTWRITEBYTECODE": "1",
}

# The same number of threads everywhere, so that sums are taken in the same order and times are comparable.
_THREADS = "2"
_THREAD_VARIABLES = (
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "NUMEXPR_NUM_THREADS",
    "NUMBA_NUM_THREADS",
    "VECLIB_MAXIMUM_THREADS",
)

# Settings of numerical libraries that a machine may need for right results on its processor.
_FROM_HOST = ("OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE", "MKL_CBWR", "NPY_DISABLE_CPU_FEATURES")


def variables(path: str, *, home: str, temporary: str, extra: Mapping[str, str] | None) -> dict[str, str]:
    """The whole environment of a command: built from a list, so that no key of the host is ever in it."""
    host = {name: os.environ[name] for name in _FROM_HOST if name in os.environ}
    places = {
        "PATH": path,
        "HOME": home,
        "TMPDIR": temporary,
        "XDG_CACHE_HOME": f"{temporary}/.cache",
        "XDG_CONFIG_HOME": f"{temporary}/.config",
        "MPLCONFIGDIR": f"{temporary}/.matplotlib",
    }
    return {**_FIXED, **dict.fromkeys(_THREAD_VARIABLES, _THREADS), **host, **places, **(extra or {})}


def with_channel(
    environment: Mapping[str, str] | None, channel: socket.socket | None
) -> tuple[dict[str, str], tuple[int, ...]]:
    """The extra variables and the descriptors to hand down. The caller's end of the channel stays the caller's."""
    if channel is None:
        return dict(environment or {}), ()
    return {**(environment or {}), CHANNEL: str(channel.fileno())}, (channel.fileno(),)


def shell() -> str:
    """Bash where there is one: it is what agents write for."""
    return shutil.which("bash", path="/usr/bin:/bin") or "/bin/sh"


def limited(arguments: Sequence[str], resources: Resources, *, limit_processes: bool) -> list[str]:
    """The arguments behind a shell that sets resource limits and becomes the command.

    No core files; no file larger than allowed; no process with more than twice the memory allowed in data pages,
    so that a hopeless allocation is a MemoryError in the program that asked for it, while arrays and stacks that
    are reserved and never touched still fit (the address space itself is not limited: BLAS and compilers reserve
    many times what they use). A limit of the host's that is stricter stays, which is why failing to set one is
    no error. Processes are limited only in a user namespace of their own: else the kernel counts all the user's.
    """
    limits = [
        "ulimit -c 0",
        f"ulimit -f {resources.file_bytes // 512}",
        f"ulimit -d {2 * resources.memory_bytes // 1024}",
    ]
    if limit_processes:
        limits.append(f"ulimit -u {resources.processes} || ulimit -p {resources.processes}")
    script = "; ".join(f"{{ {limit}; }} 2>/dev/null" for limit in limits)
    return ["/bin/sh", "-c", f'{script}; exec "$@"', "sh", *arguments]
