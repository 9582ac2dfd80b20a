"""A harness that is interrupted or killed: what it ran is gone, and what it left behind is found again."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import asdict
from pathlib import Path

import pytest

from pytest_imaging101.sandboxes.base import Sandbox
from pytest_imaging101.sandboxes.choose import Backend
from pytest_imaging101.sandboxes.docker_engine import Engine
from pytest_imaging101.sandboxes.environment import Environment
from pytest_imaging101.sandboxes.leftovers import remove_leftovers
from tests.sandboxes.detached import DETACHED

Alive = Callable[[str], list[int]]

# Takes SIGTERM as the plugin does, and closes its sandbox as fixtures do.
HARNESS = f"""
import json, signal, sys
from pathlib import Path
from pytest_imaging101.sandboxes.base import Resources
from pytest_imaging101.sandboxes.choose import Backend, open_sandbox
from pytest_imaging101.sandboxes.environment import Environment
signal.signal(signal.SIGTERM, signal.default_int_handler)
backend, root = sys.argv[1:]
marker = input()
environment = Environment(Path(root, "bin", "python"), Path(root), "")
sandbox = open_sandbox(Backend(**json.loads(backend)), environment, Resources())
try:
    sandbox.run({DETACHED!r}.replace("{{word}}", marker) + "exec bash -c 'sleep 600; :' all-" + marker, timeout=600)
finally:
    sandbox.close()
"""


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder for temporary files of these harnesses alone, so that no other run's leftovers are touched."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    return tmp_path


@pytest.fixture
def harness(
    chosen: Backend, environment: Environment, temporary: Path, alive: Alive, marker: str
) -> Iterator[subprocess.Popen[bytes]]:
    """A process that has a command running in a sandbox, with children that have detached themselves."""
    process = subprocess.Popen(
        [sys.executable, "-c", HARNESS, json.dumps(asdict(chosen)), str(environment.root)],
        stdin=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    assert process.stdin is not None
    with process.stdin as stdin:
        stdin.write(marker.encode() + b"\n")
    while not alive(f"all-{marker}"):
        assert process.poll() is None
        time.sleep(0.01)
    assert len(alive(marker)) >= 5
    yield process
    process.kill()
    process.wait()
    remove_leftovers()


def gone(alive: Alive, marker: str) -> bool:
    """Whether the processes end within a generous time; the kernel does its part after the harness is dead."""
    deadline = time.monotonic() + 20
    while (alive(marker) or alive(f"all-{marker}")) and time.monotonic() < deadline:
        time.sleep(0.01)
    return not alive(marker) and not alive(f"all-{marker}")


def left_behind(chosen: Backend, pid: int, temporary: Path) -> set[str]:
    """What there is of a harness's sandboxes: folders of its own, containers and volumes by its label."""
    names = {str(path) for path in temporary.glob("imaging101-sandbox-*")}
    if chosen.name == "docker":
        with closing(Engine()) as engine:
            filters = {"label": f"imaging101.pid={pid}"}
            names |= {one["Id"] for one in engine.api.containers(all=True, filters=filters)}
            names |= {one["Name"] for one in engine.api.volumes(filters=filters)["Volumes"] or []}
    return names


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_harness_leaves_nothing(
    harness: subprocess.Popen[bytes],
    chosen: Backend,
    temporary: Path,
    alive: Alive,
    marker: str,
    how: signal.Signals,
) -> None:
    assert left_behind(chosen, harness.pid, temporary)
    harness.send_signal(how)
    harness.wait()
    assert alive(marker) == alive(f"all-{marker}") == []
    assert left_behind(chosen, harness.pid, temporary) == set()


def test_a_killed_harness_leaves_nothing_that_the_next_run_does_not_remove(
    harness: subprocess.Popen[bytes], chosen: Backend, temporary: Path, alive: Alive, marker: str
) -> None:
    harness.kill()
    harness.wait()
    if chosen.name != "local":  # which warns that its processes stay until the next run
        assert gone(alive, marker)
    remove_leftovers()
    assert left_behind(chosen, harness.pid, temporary) == set()
    assert gone(alive, marker)


def test_what_a_live_run_owns_is_left_alone(
    harness: subprocess.Popen[bytes],
    chosen: Backend,
    temporary: Path,
    sandbox: Sandbox,
    alive: Alive,
    marker: str,
) -> None:
    running = min(
        alive(f"all-{marker}")
    )  # the shell; a child that it has just forked still has its arguments
    sandbox.put({"mine.txt": b"mine"})
    strangers = temporary / "imaging101-sandbox-notes"
    strangers.mkdir()
    before = left_behind(chosen, harness.pid, temporary)
    remove_leftovers()
    assert running in alive(f"all-{marker}")
    assert sandbox.get("mine.txt", 10) == b"mine"
    assert left_behind(chosen, harness.pid, temporary) == before
    harness.kill()
    harness.wait()
    assert remove_leftovers() >= 1
    assert sandbox.get("mine.txt", 10) == b"mine"
    assert strangers.is_dir()


def test_a_removal_that_was_cut_short_is_finished(temporary: Path, chosen: Backend, sandbox: Sandbox) -> None:
    sandbox.run("mkdir -p a/b/c d/e; touch a/f; chmod 0 d", timeout=60)
    if chosen.shares_files:
        (folder,) = temporary.glob("imaging101-*")
        os.rename(folder / "workspace" / "a", folder / "half-removed")
    sandbox.close()
    assert list(temporary.glob("imaging101-*")) == []
