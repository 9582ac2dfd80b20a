"""Fixtures of the project's own tests."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from pytest_imaging101.sandboxes.choose import DEFAULT_IMAGE, Backend
from pytest_imaging101.sandboxes.environment import cache_folder
from tests.toy import make_toy_task

_CACHE = cache_folder()
_SETTINGS = ("MODEL", "BASE_URL", "API_KEY", "OPENAI_API_KEY", "PYTEST_ADDOPTS")


@pytest.fixture(autouse=True)
def _no_settings_of_the_shell(monkeypatch: pytest.MonkeyPatch) -> None:
    """A developer's own model settings must not reach the runs that tests start."""
    for name in list(os.environ):
        if name in _SETTINGS or name.startswith("IMAGING101_"):
            monkeypatch.delenv(name)
    # pytester gives each test a home of its own, where every run would build its environment again.
    monkeypatch.setenv("IMAGING101_CACHE", str(_CACHE))


# Read before the fixture below hides them: the engine for tests, and whether a test may do without.
_ENGINE = os.environ.get("IMAGING101_TEST_DOCKER_HOST") or os.environ.get("DOCKER_HOST")
_REQUIRED = bool(os.environ.get("IMAGING101_REQUIRE_DOCKER"))
_NO_ENGINE = "unix:///no/engine/for/this/test"


@pytest.fixture(autouse=True)
def _no_engine_unless_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """Which sandbox ``auto`` takes must not depend on what else the machine has."""
    monkeypatch.setenv("DOCKER_HOST", _NO_ENGINE)


@pytest.fixture(scope="session")
def docker_trouble() -> str:
    """Why there is no Docker sandbox on this machine, or ""."""
    from pytest_imaging101.sandboxes.docker_probe import probe_docker

    with pytest.MonkeyPatch.context() as monkeypatch:
        _reach_engine(monkeypatch)
        return probe_docker(DEFAULT_IMAGE).trouble


@pytest.fixture
def docker(docker_trouble: str, monkeypatch: pytest.MonkeyPatch) -> Backend:
    """Docker, as a test's sandboxes and the runs that it starts find it.

    Skips with the reason where no engine answers, or fails if IMAGING101_REQUIRE_DOCKER is set.
    """
    if docker_trouble:
        (pytest.fail if _REQUIRED else pytest.skip)(docker_trouble)
    _reach_engine(monkeypatch)
    return Backend("docker")


def _reach_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    if _ENGINE:
        monkeypatch.setenv("DOCKER_HOST", _ENGINE)
    else:
        monkeypatch.delenv("DOCKER_HOST", raising=False)


@pytest.fixture
def toy_tasks(tmp_path: Path) -> Path:
    """A folder of tasks that holds one small task, ``toy``, whose environment is numpy alone."""
    folder = tmp_path / "toy_tasks"
    make_toy_task(folder / "toy")
    return folder
