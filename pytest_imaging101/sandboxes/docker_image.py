"""Builds the image of Docker sandboxes from the Dockerfile that comes with the package."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pytest_imaging101.faults import SandboxFault
from pytest_imaging101.sandboxes.docker_engine import Engine, engine_faults

_BUILD_SECONDS = 1800


def build_image(tag: str, base: str | None, progress: Callable[[str], None]) -> None:
    """Build the image, from another base than the Dockerfile's if one is named. Raises SandboxFault."""
    engine = Engine(_BUILD_SECONDS)
    try:
        with engine_faults("building the image"):
            said = engine.api.build(
                fileobj=io.BytesIO((Path(__file__).parent / "Dockerfile").read_bytes()),
                tag=tag,
                buildargs={"BASE": base} if base else {},
                rm=True,
                forcerm=True,
                decode=True,
            )
            for entry in said:
                _take(entry, progress)
    finally:
        engine.close()


def _take(entry: dict[str, Any], progress: Callable[[str], None]) -> None:
    if message := entry.get("error"):
        raise SandboxFault(
            f"the image cannot be built: {message.strip()}; name a base that the engine has with --base"
        )
    if line := entry.get("stream", "").strip():
        progress(line)
