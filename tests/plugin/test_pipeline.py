"""--verify-pipeline: the submitted program runs again, alone, and what comes of it is told beside the verdict."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pytest_imaging101.faults import SandboxFault
from pytest_imaging101.outcome import Pipeline
from pytest_imaging101.pipeline import verify_pipeline
from pytest_imaging101.sandboxes.base import Resources, Sandbox
from pytest_imaging101.sandboxes.choose import open_sandbox
from pytest_imaging101.sandboxes.environment import provide_environment
from pytest_imaging101.task import Task
from tests.plugin.runs import junit_cases, outcomes
from tests.toy import MAIN, SOLVERS

SOURCES = {"main.py": MAIN.encode(), "src/solvers.py": SOLVERS.encode()}
Verify = Callable[..., Pipeline]


def npy(array: np.ndarray) -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, array)
    return buffer.getvalue()


@pytest.fixture
def task(toy_tasks: Path) -> Task:
    return Task.read(toy_tasks / "toy")


@pytest.fixture
def right(task: Task) -> np.ndarray:
    """What the reference makes of the data."""
    inverted: np.ndarray = (np.load(task.path("data/raw_data.npz"))["y"] - 1.0) / 2.0
    return inverted


@pytest.fixture
def verify(task: Task) -> Verify:
    """Run sources again in a real sandbox."""

    def open_one() -> Sandbox:
        return open_sandbox("bubblewrap", provide_environment(task.requirements()), Resources())

    def run(sources: dict[str, bytes], left: bytes | None, **options: Any) -> Pipeline:
        given = {"timeout": 60.0, "max_bytes": 10**6, "open_sandbox": open_one, **options}
        return verify_pipeline(task, "L1", sources, left, **given)

    return run


def test_the_reference_makes_again_what_it_left(verify: Verify, right: np.ndarray) -> None:
    found = verify(SOURCES, npy(right))
    assert (found.ran, found.agrees) == (True, True)
    assert found.scores["difference"] == pytest.approx(0.0, abs=1e-12)
    assert found.scores["ncc"] == pytest.approx(1.0, abs=1e-3)
    assert "main.py passes" in found.reason


def test_an_array_that_the_program_does_not_make_is_told_and_so_is_what_it_makes(
    verify: Verify, right: np.ndarray
) -> None:
    found = verify(SOURCES, npy(1.1 * right))
    assert (found.ran, found.agrees) == (True, False)
    assert found.scores["difference"] == pytest.approx(0.1 / 1.1)
    assert "main.py passes" in found.reason


def test_a_file_that_the_agent_computed_is_not_there(verify: Verify, right: np.ndarray) -> None:
    relay = b"import numpy as np\nnp.save('output/reconstruction.npy', np.load('stored.npy'))\n"
    found = verify({"main.py": relay}, npy(right))
    assert (found.ran, found.agrees) == (False, False)
    assert "stored.npy" in found.reason


@pytest.mark.parametrize(
    ("program", "left", "agrees", "words"),
    [
        ("pass", True, False, "left nothing"),
        ("pass", False, True, "left nothing"),
        (MAIN, False, False, "the agent left none"),
        (
            "import os; os.makedirs('output'); open('output/reconstruction.npy', 'w').write('x')",
            True,
            False,
            "npy",
        ),
        ("import sys; sys.exit('no')", True, False, "failed when run again: no"),
        ("while True: pass", True, False, "limit of timeout"),
    ],
)
def test_whatever_the_program_does_there_is_a_word_for_it(
    verify: Verify, right: np.ndarray, program: str, left: bool, agrees: bool, words: str
) -> None:
    sources = {**SOURCES, "main.py": program.encode()}
    found = verify(sources, npy(right) if left else None, timeout=3.0 if "while" in program else 60.0)
    assert found.agrees is agrees
    assert words in found.reason
    json.dumps(found.model_dump(), allow_nan=False)


def test_without_a_program_nothing_runs(verify: Verify, right: np.ndarray) -> None:
    found = verify({"solve.py": b"pass"}, npy(right))
    assert found == Pipeline(ran=False, agrees=None, reason="no main.py was submitted")


@pytest.mark.parametrize("error", [SandboxFault("no room"), RuntimeError("no room")])
def test_what_goes_wrong_is_recorded_and_not_raised(
    verify: Verify, right: np.ndarray, error: Exception
) -> None:
    def broken() -> Sandbox:
        raise error

    found = verify(SOURCES, npy(right), open_sandbox=broken)
    assert (found.ran, found.agrees) == (False, None)
    assert "no room" in found.reason


def test_it_is_told_everywhere_and_changes_no_verdict(pytester: pytest.Pytester, toy_tasks: Path) -> None:
    pytester.makeconftest(
        """
        import pytest

        @pytest.fixture
        def agent(agent, attempt, task):
            class Cheat:
                name, version = "cheat", "1"
                def work(self, brief, sandbox, budget, transcript):
                    stop = agent.work(brief, sandbox, budget, transcript)
                    if attempt.planned.part == "L2":  # right, but not by the program that is left
                        sandbox.put({"main.py": b"raise SystemExit('gone')"})
                    if attempt.planned.part == "L3":
                        sandbox.run(["rm", "main.py"], timeout=60)
                    return stop
            return Cheat()
        """
    )
    result = pytester.runpytest_subprocess(
        "--model=oracle", f"--tasks={toy_tasks}", "--output=out", "--junitxml=j.xml", "--mechanism=end2end",
        "--verify-pipeline",
    )  # fmt: skip
    result.assert_outcomes(passed=3)
    found = {name: one["pipeline"] for name, one in outcomes(pytester.path / "out").items()}
    assert [found[f"end2end[L{level}]"]["agrees"] for level in (1, 2, 3)] == [True, False, None]
    properties = {name: case[1] for name, case in junit_cases(pytester.path / "j.xml").items()}
    assert properties["end2end[L1]"]["pipeline"] == "agrees"
    assert float(properties["end2end[L1]"]["pipeline_ncc"]) > 0.99
    assert properties["end2end[L2]"]["pipeline"] == "differs"
    assert "gone" in properties["end2end[L2]"]["pipeline_reason"]
    assert properties["end2end[L3]"]["pipeline"] == "unknown"
    result.stdout.fnmatch_lines(
        [
            "pipelines run again",
            "1 x main.py makes again what the agent left",
            "1 x main.py does not make what the agent left",
            "*tasks/toy/task.toml::end2end[[]L2[]]",
            "1 x cannot be told",
        ]
    )
    summary = json.loads((pytester.path / "out/summary.json").read_text())
    assert summary["pipelines"]["differs"] == ["tasks/toy/task.toml::end2end[L2]"]


def test_nothing_runs_again_unless_asked_for(pytester: pytest.Pytester, toy_tasks: Path) -> None:
    result = pytester.runpytest_subprocess(
        "--model=nop", f"--tasks={toy_tasks}", "--output=out", "--level=L1"
    )
    assert outcomes(pytester.path / "out")["end2end[L1]"]["pipeline"] is None
    result.stdout.no_fnmatch_line("pipelines run again")
