"""Which sandbox a run uses, and how one is opened."""

from __future__ import annotations

import sys
from dataclasses import dataclass

from pytest_imaging101.faults import UsageError
from pytest_imaging101.sandboxes.base import Resources, Sandbox
from pytest_imaging101.sandboxes.environment import Environment

KNOWN = ("auto", "docker", "bubblewrap", "local")
# The number changes when sandboxes need something that older images lack.
DEFAULT_IMAGE = "imaging101-sandbox:1"


@dataclass(frozen=True)
class Backend:
    """The kind of sandbox that every attempt of a run gets, and what the run must say about that choice.

    ``image`` and ``shares_files`` are Docker's: what containers are made of, and whether the engine can mount this
    host's folders.
    """

    name: str
    warnings: tuple[str, ...] = ()
    image: str = DEFAULT_IMAGE
    shares_files: bool = True


def choose_backend(wanted: str, image: str | None = None) -> Backend:
    """Resolve ``--sandbox`` once per session, by starting one sandbox of each kind that comes into question.

    ``image`` is ``--docker-image``. Raises UsageError for what cannot be had, with the remedy.
    """
    if wanted not in KNOWN:
        raise UsageError(f"--sandbox {wanted}: there is no such sandbox; choose one of {', '.join(KNOWN)}")
    if wanted == "local":
        return Backend("local")
    troubles = []
    if wanted in ("auto", "docker"):
        backend, trouble = _docker(image or DEFAULT_IMAGE)
        if backend is not None:
            return backend
        # An image that is named is wanted, whatever else there is.
        if wanted == "docker" or image is not None:
            raise UsageError(f"--sandbox {wanted}: {trouble}")
        troubles.append(trouble)
    from pytest_imaging101.sandboxes.availability import probe

    unusable = "bubblewrap is for Linux" if sys.platform == "win32" else probe()
    if unusable is None:
        return Backend("bubblewrap")
    if wanted == "bubblewrap":
        raise UsageError(f"--sandbox bubblewrap: {unusable}")
    reasons = "; and ".join([unusable, *troubles])
    return Backend("local", (f"no isolation: the local sandbox is used, because {reasons}",))


def _docker(image: str) -> tuple[Backend | None, str]:
    from pytest_imaging101.sandboxes.docker_probe import probe_docker

    found = probe_docker(image)
    if found.trouble:
        return None, found.trouble
    return Backend("docker", image=image, shares_files=found.shares_files), ""


def open_sandbox(
    backend: Backend | str, environment: Environment, resources: Resources, *, run: str = ""
) -> Sandbox:
    """A new sandbox of a kind that ``choose_backend`` chose. Raises SandboxFault if it cannot be made.

    ``run`` names the run that it is for, on what is left to find if that is killed.
    """
    chosen = backend if isinstance(backend, Backend) else Backend(backend)
    if chosen.name == "docker":
        from pytest_imaging101.sandboxes.docker import DockerSandbox

        return DockerSandbox(chosen.image, environment, resources, shares_files=chosen.shares_files, run=run)
    if chosen.name == "bubblewrap":
        from pytest_imaging101.sandboxes.bubblewrap import BubblewrapSandbox

        return BubblewrapSandbox(environment, resources)
    if chosen.name == "local" and sys.platform == "win32":
        from pytest_imaging101.sandboxes.portable import PortableSandbox

        return PortableSandbox(environment, resources)
    if chosen.name == "local":
        from pytest_imaging101.sandboxes.local import LocalSandbox

        return LocalSandbox(environment, resources)
    raise UsageError(
        f"there is no sandbox named {chosen.name}; choose_backend names those that can be opened"
    )
