"""On Windows and macOS the plugin imports, collects and runs: told by a process that lacks what these lack."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from pytest_imaging101.sandboxes.environment import provide_environment
from tests.plugin.runs import outcomes, verdicts

ROOT = Path(__file__).parents[1]

IMPORT = """
import importlib
from tests import elsewhere
elsewhere.pretend_{system}()
names = elsewhere.modules()
for name in names:
    importlib.import_module(name)
print(len(names), "imported")
"""

HIDDEN = """
from tests import elsewhere
elsewhere.pretend_{system}()
import os, sys
print(sys.platform, os.name, hasattr(os, "pidfd_open"), hasattr(os, "fork"))
try:
    import fcntl
    print("fcntl")
except ImportError:
    print("no fcntl")
"""

RUN = """
import pytest
from tests import elsewhere
elsewhere.pretend_{system}()
code = pytest.main({arguments!r})
print("EXIT", int(code))
"""

OPTIONS = ("--model=oracle", "--output=out", "--sandbox=local", "-p", "no:cacheprovider")
ONE_OF_EACH = ("-k", "planning or solvers or L1")


def run_elsewhere(program: str, folder: Path, system: str, arguments: Sequence[str] = ()) -> str:
    """What a process prints that takes itself to be on another system."""
    text = f"import sys; sys.path.insert(0, {str(ROOT)!r})\n{program.format(system=system, arguments=list(arguments))}"
    command = [sys.executable, "-c", text]
    done = subprocess.run(
        command,
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    print(done.stdout)  # shown where the test fails
    return done.stdout


@pytest.fixture
def environment_of_windows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The toy task's environment with its interpreter where Windows has it."""
    real = provide_environment(["numpy>=1.26"])
    root = tmp_path / "cache" / "environments" / real.key
    (root / "Scripts").mkdir(parents=True)
    for name in ("environment.json", "pyvenv.cfg"):
        shutil.copy(real.root / name, root / name)
    (root / "lib").symlink_to(real.root / "lib")
    for name in ("python", "python.exe"):
        (root / "Scripts" / name).symlink_to(real.python.resolve())
    monkeypatch.setenv("IMAGING101_CACHE", str(tmp_path / "cache"))


@pytest.mark.parametrize(
    ("system", "words"),
    [("windows", "win32 nt False False\nno fcntl"), ("macos", "darwin posix False True\nfcntl")],
)
def test_the_other_system_is_really_hidden_and_named(tmp_path: Path, system: str, words: str) -> None:
    assert run_elsewhere(HIDDEN, tmp_path, system).strip() == words


@pytest.mark.parametrize("system", ["windows", "macos"])
def test_every_module_imports(tmp_path: Path, system: str) -> None:
    count, word = run_elsewhere(IMPORT, tmp_path, system).split()
    assert word == "imported"
    assert int(count) > 60


@pytest.mark.parametrize("system", ["windows", "macos"])
def test_items_are_collected_under_the_same_ids(tmp_path: Path, toy_tasks: Path, system: str) -> None:
    arguments = ["--model=oracle", f"--tasks={toy_tasks}", "--collect-only", "-q", "-p", "no:cacheprovider"]
    lines = run_elsewhere(RUN, tmp_path, system, arguments).splitlines()
    assert [line.partition("::")[2] for line in lines if line.startswith("tasks/toy/task.toml::")] == [
        "planning",
        "function[physics_model]",
        "function[solvers]",
        "end2end[L1]",
        "end2end[L2]",
        "end2end[L3]",
    ]
    assert lines[-1] == "EXIT 0"


@pytest.mark.usefixtures("environment_of_windows")
def test_a_run_on_windows_grades_all_that_its_local_sandbox_can_and_says_what_it_cannot(
    tmp_path: Path, toy_tasks: Path
) -> None:
    arguments = [*OPTIONS, *ONE_OF_EACH, f"--tasks={toy_tasks}"]
    said = run_elsewhere(RUN, tmp_path, "windows", arguments)
    assert said.splitlines()[-1] == "EXIT 1"  # since not all is graded
    assert verdicts(tmp_path / "out") == {
        "planning": "passed",
        "function[solvers]": "ungraded",
        "end2end[L1]": "passed",
    }
    found = outcomes(tmp_path / "out")
    assert found["function[solvers]"]["fault"]["kind"] == "platform"
    assert any("Windows" in warning for warning in found["end2end[L1]"]["warnings"])


def test_a_slot_option_on_windows_is_refused_with_the_way_out(tmp_path: Path, toy_tasks: Path) -> None:
    arguments = [*OPTIONS, f"--tasks={toy_tasks}", "--cpu-slots=2"]
    text = run_elsewhere(RUN, tmp_path, "windows", arguments)
    assert "--cpu-slots: there are no slots on Windows" in text
    assert "EXIT 4" in text


def test_a_run_on_macos_grades_everything_in_the_local_sandbox(tmp_path: Path, toy_tasks: Path) -> None:
    arguments = [*OPTIONS, *ONE_OF_EACH, f"--tasks={toy_tasks}"]
    assert run_elsewhere(RUN, tmp_path, "macos", arguments).splitlines()[-1] == "EXIT 0"
    assert list(verdicts(tmp_path / "out").values()) == ["passed"] * 3
