"""Whether the container engine can be used here: found out by really starting a sandbox on it."""

from __future__ import annotations

import secrets
import sys
import tempfile
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from pytest_imaging101.faults import SandboxFault
from pytest_imaging101.sandboxes.base import NotDelivered, Resources
from pytest_imaging101.sandboxes.docker import DockerSandbox
from pytest_imaging101.sandboxes.docker_engine import Engine
from pytest_imaging101.sandboxes.docker_leftovers import engine_is_named
from pytest_imaging101.sandboxes.environment import Environment

_CALL_SECONDS = 20


@dataclass(frozen=True)
class Found:
    """What a probe found: why there is no Docker sandbox ("" if there is), and whether folders can be mounted."""

    trouble: str = ""
    shares_files: bool = True


def probe_docker(image: str) -> Found:
    """Start a sandbox with the image, with mounted folders first and with files sent if that does not work."""
    if trouble := _missing(image):
        return Found(trouble)
    troubles = []
    with tempfile.TemporaryDirectory(prefix="imaging101-probe-") as folder:
        environment = _bare_environment(Path(folder))
        for shares_files in (True, False):
            if not (trouble := _try(image, environment, shares_files)):
                return Found(shares_files=shares_files)
            troubles.append(trouble)
    return Found(f"the container engine cannot run a sandbox with image {image}: {troubles[-1]}")


def _missing(image: str) -> str:
    """Why there is nothing to try, or ""."""
    if sys.platform != "linux":
        return (
            "the environments that this system builds do not run in containers, which have Linux in them; run in "
            "WSL 2, or on Linux"
        )
    if not engine_is_named():
        return "no container engine is there: start Docker (or Podman's service), or set DOCKER_HOST to its address"
    try:
        with closing(Engine(_CALL_SECONDS)) as engine:
            engine.ask("looking for the image", engine.api.inspect_image, image)
    except SandboxFault as fault:
        from docker.errors import ImageNotFound

        if isinstance(fault.__cause__, ImageNotFound):
            return (
                f"the container engine has no image {image}: build it with 'imaging101 sandbox build', or name one "
                "that is there with --docker-image"
            )
        return f"no container engine answers: {fault.message}"
    return ""


def _bare_environment(folder: Path) -> Environment:
    """A virtual environment without packages, made of two files: a real one may not be built yet."""
    program = Path(sys.executable).resolve()
    python = folder / "bin" / "python"
    python.parent.mkdir()
    python.symlink_to(program)
    (folder / "pyvenv.cfg").write_text(f"home = {program.parent}\n", encoding="utf-8")
    folder.chmod(0o755)
    return Environment(python, folder, "probe")


def _try(image: str, environment: Environment, shares_files: bool) -> str:
    """Why a sandbox of this kind does not work, or ""."""
    word = secrets.token_hex(8)
    program = f"import ctypes; print(open('asked').read()); open('answer', 'w').write({word!r})"
    try:
        with closing(DockerSandbox(image, environment, Resources(), shares_files=shares_files)) as sandbox:
            sandbox.put({"asked": word.encode()})
            done = sandbox.run(f'exec python -c "{program}"', timeout=_CALL_SECONDS)
            if done.output.strip() != word:
                return done.output.strip()[-300:] or f"exit code {done.exit_code}"
            return "" if sandbox.get("answer", 100) == word.encode() else "files do not come back"
    except (SandboxFault, NotDelivered, ValueError) as error:
        said = getattr(error, "evidence", "").strip().splitlines()
        return f"{error} {said[-1] if said else ''}".strip()
