"""Fixtures of the project's own tests."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.toy import make_toy_task

_SETTINGS = ("MODEL", "BASE_URL", "API_KEY", "OPENAI_API_KEY", "PYTEST_ADDOPTS")


@pytest.fixture(autouse=True)
def _no_settings_of_the_shell(monkeypatch: pytest.MonkeyPatch) -> None:
    """A developer's own model settings must not reach the runs that tests start."""
    for name in list(os.environ):
        if name in _SETTINGS or (name.startswith("IMAGING101_") and name != "IMAGING101_CACHE"):
            monkeypatch.delenv(name)


@pytest.fixture
def toy_tasks(tmp_path: Path) -> Path:
    """A folder of tasks that holds one small task, ``toy``, whose environment is numpy alone."""
    folder = tmp_path / "toy_tasks"
    make_toy_task(folder / "toy")
    return folder
