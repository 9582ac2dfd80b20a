"""Real sandboxes over a real environment, and a way to see on the host what runs in them."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from pytest_imaging101.sandboxes.base import Resources, Sandbox
from pytest_imaging101.sandboxes.choose import Backend, open_sandbox
from pytest_imaging101.sandboxes.environment import Environment, provide_environment

MakeSandbox = Callable[..., Sandbox]


@pytest.fixture(scope="session")
def environment() -> Environment:
    """A small environment, kept in the user's cache so that only the first run of the tests builds it."""
    return provide_environment(["numpy>=1.26"])


@pytest.fixture(params=["bubblewrap", "local"])
def backend(request: pytest.FixtureRequest) -> str:
    """The kinds that live on this host alone."""
    return str(request.param)


@pytest.fixture(params=["bubblewrap", "docker", "docker-sent", "local"])
def chosen(request: pytest.FixtureRequest) -> Backend:
    """Every kind of sandbox; docker-sent is an engine that cannot mount folders of this host."""
    name, _, sent = str(request.param).partition("-")
    if name == "docker":
        request.getfixturevalue("docker")
    return Backend(name, shares_files=not sent)


@pytest.fixture
def make_sandbox(chosen: Backend, environment: Environment) -> Iterator[MakeSandbox]:
    """Opens sandboxes of the backend under test, with resources by keyword, and closes them."""
    opened: list[Sandbox] = []

    def make(**resources: int) -> Sandbox:
        opened.append(open_sandbox(chosen, environment, Resources(**resources)))
        return opened[-1]

    yield make
    for sandbox in opened:
        sandbox.close()


@pytest.fixture
def sandbox(make_sandbox: MakeSandbox) -> Sandbox:
    return make_sandbox()


@pytest.fixture
def marker() -> str:
    """A word to put among a process's arguments, by which ``alive`` finds it."""
    return f"marker-{uuid.uuid4().hex}"


@pytest.fixture
def alive() -> Callable[[str], list[int]]:
    """Processes of the machine that have a word among their arguments, inside sandboxes too."""

    def find(word: str) -> list[int]:
        found = []
        for folder in Path("/proc").glob("[0-9]*"):
            try:
                arguments = (folder / "cmdline").read_bytes().split(b"\0")
            except OSError:
                continue
            if word.encode() in arguments:
                found.append(int(folder.name))
        return found

    return find
