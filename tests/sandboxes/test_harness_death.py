"""A harness that is interrupted or killed: what it ran is gone, and what it left behind is found again."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from pytest_imaging101.sandboxes.base import Sandbox
from pytest_imaging101.sandboxes.environment import Environment
from pytest_imaging101.sandboxes.leftovers import remove_leftovers

Alive = Callable[[str], list[int]]

HARNESS = """
import sys
from pathlib import Path
from pytest_imaging101.sandboxes.base import Resources
from pytest_imaging101.sandboxes.choose import open_sandbox
from pytest_imaging101.sandboxes.environment import Environment
backend, root = sys.argv[1:]
marker = input()
sandbox = open_sandbox(backend, Environment(Path(root, "bin", "python"), Path(root), ""), Resources())
sandbox.run(f"setsid bash -c 'sleep 600; :' {marker} & sleep 600", timeout=600)
"""


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder for temporary files of these harnesses alone, so that no other run's leftovers are touched."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    return tmp_path


@pytest.fixture
def harness(
    backend: str, environment: Environment, temporary: Path, alive: Alive, marker: str
) -> Iterator[subprocess.Popen[bytes]]:
    """A process that has a command running in a sandbox."""
    process = subprocess.Popen(
        [sys.executable, "-c", HARNESS, backend, str(environment.root)],
        stdin=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    assert process.stdin is not None
    with process.stdin as stdin:
        stdin.write(marker.encode() + b"\n")
    while not alive(marker):
        assert process.poll() is None
        time.sleep(0.01)
    yield process
    process.kill()
    process.wait()
    remove_leftovers()


def gone(alive: Alive, marker: str) -> bool:
    """Whether the processes end within a generous time; the kernel does its part after the harness is dead."""
    deadline = time.monotonic() + 20
    while alive(marker) and time.monotonic() < deadline:
        time.sleep(0.01)
    return not alive(marker)


def test_an_interrupted_harness_leaves_no_process(
    harness: subprocess.Popen[bytes], alive: Alive, marker: str
) -> None:
    harness.send_signal(signal.SIGINT)
    harness.wait()
    assert alive(marker) == []


def test_a_killed_harness_leaves_nothing_that_the_next_run_does_not_remove(
    harness: subprocess.Popen[bytes], backend: str, temporary: Path, alive: Alive, marker: str
) -> None:
    harness.kill()
    harness.wait()
    if backend == "bubblewrap":  # local warns that its processes stay until the next run
        assert gone(alive, marker)
    (left,) = temporary.glob("imaging101-*")
    assert remove_leftovers() == 1
    assert not left.exists()
    assert gone(alive, marker)
    assert remove_leftovers() == 0


def test_what_a_live_run_owns_is_left_alone(
    harness: subprocess.Popen[bytes], temporary: Path, sandbox: Sandbox, alive: Alive, marker: str
) -> None:
    running = min(alive(marker))  # the shell; a child that it has just forked still has its arguments
    sandbox.put({"mine.txt": b"mine"})
    strangers = temporary / "imaging101-sandbox-notes"
    strangers.mkdir()
    assert remove_leftovers() == 0
    assert running in alive(marker)
    assert sandbox.get("mine.txt", 10) == b"mine"
    assert strangers.is_dir()
    harness.kill()
    harness.wait()
    assert remove_leftovers() == 1
    assert sandbox.get("mine.txt", 10) == b"mine"


def test_a_removal_that_was_cut_short_is_finished(temporary: Path, sandbox: Sandbox) -> None:
    sandbox.run("mkdir -p a/b/c d/e; touch a/f; chmod 0 d", timeout=60)
    (folder,) = temporary.glob("imaging101-*")
    os.rename(folder / "workspace" / "a", folder / "half-removed")
    sandbox.close()
    assert not folder.exists()
