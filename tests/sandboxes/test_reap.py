"""`imaging101 reap`: what dead owners left is removed and said, and nothing of a live run is touched."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from pytest_imaging101.sandboxes.environment import Environment

Alive = Callable[[str], list[int]]
Start = Callable[..., "subprocess.Popen[str]"]

RUN = """
import sys, threading
from pathlib import Path
from pytest_imaging101.sandboxes.base import Resources
from pytest_imaging101.sandboxes.choose import open_sandbox
from pytest_imaging101.sandboxes.environment import Environment
backend, root, marker = sys.argv[1:]
sandbox = open_sandbox(backend, Environment(Path(root, "bin", "python"), Path(root), ""), Resources())
sandbox.put({"mine.txt": b"mine"})
command = f"touch started; setsid bash -c 'sleep 600; :' {marker} & sleep 600"
threading.Thread(target=lambda: sandbox.run(command, timeout=600), daemon=True).start()
while "started" not in {entry.path for entry in sandbox.list()}:
    pass
print("ready", flush=True)
input()
print(sandbox.get("mine.txt", 10).decode(), flush=True)
sandbox.close()
"""

BUILD = """
import sys
from pathlib import Path
from filelock import FileLock
root = Path(sys.argv[1])
with FileLock(root.parent / f"{root.name}.lock"):
    (root / "bin").mkdir(parents=True)
    print("ready", flush=True)
    input()
"""


@pytest.fixture(autouse=True)
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Folders for temporary files and environments that no other run on this machine knows of."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setenv("IMAGING101_CACHE", str(tmp_path / "cache"))
    return tmp_path


@pytest.fixture
def start() -> Iterator[Start]:
    """Start a Python program, and wait until it says that it is ready."""
    started: list[subprocess.Popen[str]] = []

    def begin(program: str, *arguments: str) -> subprocess.Popen[str]:
        command = [sys.executable, "-c", program, *arguments]
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        started.append(process)
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        return process

    yield begin
    for process in started:
        process.kill()
        process.communicate()
    reap()


def reaper(*arguments: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", "from pytest_imaging101.cli import main; main()", "reap", *arguments]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def reap(*arguments: str) -> list[str]:
    """What the command prints."""
    process = reaper(*arguments)
    output = process.communicate()[0]
    assert process.returncode == 0, output
    return output.splitlines()


def sandboxes(machine: Path) -> set[Path]:
    return set(machine.glob("imaging101-sandbox-*"))


def kill(process: subprocess.Popen[str]) -> None:
    process.kill()
    process.wait()


def gone(alive: Alive, marker: str) -> bool:
    deadline = time.monotonic() + 20
    while alive(marker) and time.monotonic() < deadline:
        time.sleep(0.01)
    return not alive(marker)


def test_of_two_runs_the_dead_ones_things_are_removed_and_the_live_ones_stay(
    start: Start, backend: str, environment: Environment, machine: Path, alive: Alive, marker: str
) -> None:
    dead = start(RUN, backend, str(environment.root), f"{marker}-dead")
    (left,) = sandboxes(machine)
    live = start(RUN, backend, str(environment.root), f"{marker}-live")
    assert reap() == ["nothing was left behind"]
    kill(dead)
    assert reap("--dry-run") == [f"would remove sandbox {left}"]
    assert left.is_dir()
    assert reap() == [f"removed sandbox {left}"]
    assert not left.exists()
    assert gone(alive, f"{marker}-dead")
    assert alive(f"{marker}-live")
    assert live.communicate("\n", timeout=60)[0] == "mine\n"
    assert live.returncode == 0
    assert sandboxes(machine) == set()
    assert reap() == ["nothing was left behind"]


def test_two_reapers_at_once_remove_everything_once(
    start: Start, backend: str, environment: Environment, machine: Path, marker: str
) -> None:
    runs = [start(RUN, backend, str(environment.root), f"{marker}-{number}") for number in range(4)]
    left = sandboxes(machine)
    assert len(left) == 4
    for run in runs:
        kill(run)
    both = [reaper() for _ in range(2)]
    lines = [line for process in both for line in process.communicate(timeout=60)[0].splitlines()]
    assert [process.returncode for process in both] == [0, 0]
    assert sorted(line for line in lines if line != "nothing was left behind") == sorted(
        f"removed sandbox {folder}" for folder in left
    )


def test_a_half_built_environment_is_removed_once_nobody_builds_it(start: Start, machine: Path) -> None:
    folder = machine / "cache" / "environments"
    whole, half = folder / "aaa", folder / "bbb"
    whole.mkdir(parents=True)
    (whole / "environment.json").write_text("{}")
    builder = start(BUILD, str(half))
    assert reap() == ["nothing was left behind"]
    kill(builder)
    assert reap("--dry-run") == [f"would remove half-built environment {half}"]
    assert half.is_dir()
    assert reap() == [f"removed half-built environment {half}"]
    assert not half.exists()
    assert whole.is_dir()


def test_what_cannot_be_removed_is_said_and_fails(machine: Path) -> None:
    # Nothing resists root but a mount, which a test should not make: the removal itself is made to fail.
    program = """
import sys
from pytest_imaging101.sandboxes import leftovers
def refuse(root):
    raise OSError("it is in use")
leftovers.remove_tree = refuse
from pytest_imaging101.cli import main
sys.argv = ["imaging101", "reap"]
main()
"""
    folder = machine / "imaging101-sandbox-stuck"
    folder.mkdir()
    (folder / "owner").touch()
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert f"sandbox {folder} is still there: it is in use" in done.stderr
    assert folder.is_dir()
