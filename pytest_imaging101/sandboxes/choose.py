"""Which sandbox a run uses, and how one is opened."""

from __future__ import annotations

import sys
from dataclasses import dataclass

from pytest_imaging101.faults import UsageError
from pytest_imaging101.sandboxes.base import Resources, Sandbox
from pytest_imaging101.sandboxes.environment import Environment

KNOWN = ("auto", "bubblewrap", "local")


@dataclass(frozen=True)
class Backend:
    """The kind of sandbox that every attempt of a run gets, and what the run must say about that choice."""

    name: str
    warnings: tuple[str, ...] = ()


def choose_backend(wanted: str) -> Backend:
    """Resolve ``--sandbox`` once per session. Raises UsageError for what cannot be had, with the remedy."""
    if wanted == "docker":
        raise UsageError(
            "--sandbox docker: this version has no Docker sandbox yet; use --sandbox bubblewrap, or auto for the "
            "best that works here"
        )
    if wanted not in KNOWN:
        raise UsageError(f"--sandbox {wanted}: there is no such sandbox; choose one of {', '.join(KNOWN)}")
    if sys.platform == "win32":
        raise UsageError(
            "--sandbox: there is no sandbox for Windows yet; run in WSL 2, where bubblewrap works"
        )
    if wanted == "local":
        return Backend("local")
    from pytest_imaging101.sandboxes.availability import probe

    trouble = probe()
    if trouble is None:
        return Backend("bubblewrap")
    if wanted == "bubblewrap":
        raise UsageError(f"--sandbox bubblewrap: {trouble}")
    return Backend("local", (f"no isolation: the local sandbox is used, because {trouble}",))


def open_sandbox(backend: str, environment: Environment, resources: Resources) -> Sandbox:
    """A new sandbox of a kind that ``choose_backend`` named. Raises SandboxFault if it cannot be made."""
    if backend == "bubblewrap":
        from pytest_imaging101.sandboxes.bubblewrap import BubblewrapSandbox

        return BubblewrapSandbox(environment, resources)
    if backend == "local":
        from pytest_imaging101.sandboxes.local import LocalSandbox

        return LocalSandbox(environment, resources)
    raise UsageError(f"there is no sandbox named {backend}; choose_backend names those that can be opened")
