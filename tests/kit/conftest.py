"""A task fresh from the skeleton, and how a test looks at it."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from pytest_imaging101.kit.new import new_task
from pytest_imaging101.kit.subject import Subject
from pytest_imaging101.sandboxes.choose import Backend, choose_backend
from pytest_imaging101.task import Task


@pytest.fixture(scope="session")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder that ``new-task demo`` makes, made once."""
    return new_task("demo", "physics", tmp_path_factory.mktemp("made")).folder


@pytest.fixture
def demo(made: Path, tmp_path: Path) -> Path:
    """A copy of it to spoil."""
    return Path(shutil.copytree(made, tmp_path / "tasks" / "demo"))


@pytest.fixture(scope="session")
def backend() -> Backend:
    """The kind of sandbox that works here."""
    return choose_backend("auto")


class Looking:
    """Reads a folder anew each time, as a validation does."""

    def __init__(self, backend: Backend) -> None:
        self.backend = backend

    def at(self, folder: Path) -> Subject:
        return Subject(Task.read(folder), self.backend)


@pytest.fixture
def looking(backend: Backend) -> Looking:
    return Looking(backend)
