"""The kinds of sandbox that the battery runs in."""

from __future__ import annotations

import pytest

BACKENDS = ("bubblewrap", "docker", "local")


@pytest.fixture(params=BACKENDS)
def backend(request: pytest.FixtureRequest) -> str:
    """A kind of sandbox; skipped where there is no Docker engine, unless IMAGING101_REQUIRE_DOCKER is set."""
    name = str(request.param)
    if name == "docker":
        request.getfixturevalue("docker")
    return name
