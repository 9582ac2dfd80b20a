"""The failure mode of a miss follows from its outcome alone."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from pytest_imaging101.agents.last_error import last_error
from pytest_imaging101.budget import StopReason
from pytest_imaging101.outcome import Check, Drift, FailureMode, Outcome
from pytest_imaging101.sandboxes.base import Resources
from pytest_imaging101.sandboxes.choose import open_sandbox
from pytest_imaging101.sandboxes.environment import Environment
from pytest_imaging101.scoring.failure_mode import failure_mode
from pytest_imaging101.scoring.unit_tests import grade_module
from tests.reporting.records import make_outcome
from tests.scoring.toy import REFERENCE, make_task

DRIFT = Drift(name="flip", sentence="right up to a flip", explained=1.0)
OUTPUT = {"output/reconstruction.npy": "is not there"}


def miss(**changes: Any) -> Outcome:
    """An end2end miss that was submitted and compared, unless told otherwise."""
    fields = {"verdict": "failed", "stop": StopReason.SUBMITTED, "scores": {"ncc": 0.2}}
    return make_outcome(**(fields | changes))


def module(*details: str, hidden: tuple[str, ...] | None = None, **changes: Any) -> Outcome:
    """A function miss; an empty detail is a test that passed."""
    groups = {"visible": details, "hidden": details if hidden is None else hidden}
    checks = [
        Check(f"{group}::test_{number}", not detail, group, detail)
        for group, members in groups.items()
        for number, detail in enumerate(members)
    ]
    return miss(mechanism="function", part="solvers", checks=checks, scores={}, **changes)


def test_what_did_not_miss_has_no_mode() -> None:
    assert failure_mode(make_outcome()) is None
    assert failure_mode(make_outcome(verdict="ungraded")) is None


def test_a_right_result_that_is_tainted_has_no_mode() -> None:
    assert failure_mode(miss(checks=[Check("ncc", True, "boundary")])) is None


@pytest.mark.parametrize(
    ("changes", "mode"),
    [
        ({}, "wrong_result"),
        ({"drift": DRIFT}, "convention_drift"),
        ({"drift": DRIFT, "stop": StopReason.ITERATIONS}, "convention_drift"),
        ({"scores": {}}, "format"),
        ({"scores": {}, "drift": DRIFT}, "convention_drift"),
        ({"scores": {"ncc": None}}, "format"),
        ({"stop": StopReason.DEADLINE}, "not_finished"),
        ({"stop": StopReason.REFUSED}, "wrong_result"),
        ({"missing": OUTPUT}, "no_deliverable"),
        ({"missing": OUTPUT, "stop": StopReason.REFUSED}, "no_deliverable"),
        ({"missing": OUTPUT, "stop": StopReason.ITERATIONS}, "not_finished"),
        ({"missing": OUTPUT, "stop": StopReason.TOKENS, "last_error": "ImportError: x"}, "not_finished"),
        ({"missing": OUTPUT, "stop": StopReason.CRASHED}, "crashed"),
        ({"missing": OUTPUT, "last_error": "ZeroDivisionError: division by zero"}, "crashed"),
        ({"missing": OUTPUT, "last_error": "KeyError"}, "crashed"),
        ({"missing": OUTPUT, "last_error": "AssertionError"}, "crashed"),
        ({"missing": OUTPUT, "last_error": "numpy.linalg.LinAlgError: singular"}, "crashed"),
        ({"missing": OUTPUT, "last_error": "ModuleNotFoundError: No module named 'astra'"}, "missing_api"),
        (
            {"missing": OUTPUT, "last_error": "AttributeError: module 'numpy' has no attribute 'trapz'"},
            "missing_api",
        ),
        (
            {"missing": OUTPUT, "last_error": "TypeError: ifft2() got an unexpected keyword argument 'axis'"},
            "missing_api",
        ),
        ({"missing": OUTPUT, "last_error": "TypeError: can't multiply sequence by float"}, "crashed"),
        ({"mechanism": "planning", "part": None}, "wrong_result"),
        ({"mechanism": "planning", "part": None, "missing": {"plan/design.md": "no"}}, "no_deliverable"),
    ],
)
def test_the_mode_of_reconstructions_and_plans(changes: dict[str, Any], mode: FailureMode) -> None:
    assert failure_mode(miss(**changes)) == mode


@pytest.mark.parametrize(
    ("outcome", "mode"),
    [
        (module("AssertionError: Not equal to tolerance", ""), "wrong_result"),
        (module("assert 3 == 2", ""), "wrong_result"),
        (module("assert 3 == 2", drift=DRIFT), "convention_drift"),
        (module("", "", hidden=("assert 3 == 2", "")), "overfit_to_visible"),
        (module("", "", hidden=("IndexError: too far", "")), "overfit_to_visible"),
        (module("assert 3 == 2", "", stop=StopReason.COST), "not_finished"),
        (module("ValueError: operands", "assert 3 == 2", ""), "crashed"),
        (module("ValueError: operands", "assert 3 == 2", "assert 1 == 2"), "wrong_result"),
        (module("ValueError: operands", stop=StopReason.ITERATIONS), "crashed"),
        (module("AttributeError: module 'scipy' has no attribute 'ndimages'"), "missing_api"),
        (module("TypeError: fft() got an unexpected keyword argument 'axes'"), "missing_api"),
        (module("src/solvers.py does not import: ImportError: cannot import name 'x'"), "missing_api"),
        (module("src/solvers.py does not import: SyntaxError: invalid syntax"), "crashed"),
        (module("forward: the submission's process ended with exit code 3"), "crashed"),
        (module("Failed: DID NOT RAISE <class 'ValueError'>"), "wrong_result"),
        (module(missing={"src/solvers.py": "is not there"}), "no_deliverable"),
        (module(missing={"src/solvers.py": "no"}, stop=StopReason.ITERATIONS), "not_finished"),
    ],
)
def test_the_mode_of_modules(outcome: Outcome, mode: FailureMode) -> None:
    assert failure_mode(outcome) == mode


@pytest.mark.parametrize(
    ("old", "new", "mode"),
    [
        ("return gain * as_float(image)", "import os; os._exit(3)", "crashed"),
        ('"""Forward model of the toy."""', "from numpy import nothing_there", "missing_api"),
        ("np.asarray(data, dtype=float)", "np.asarray(data, dtyp=float)", None),
    ],
)
def test_what_the_grader_really_says_is_understood(
    tmp_path: Path, old: str, new: str, mode: FailureMode | None
) -> None:
    task = make_task(tmp_path)
    task.path("evaluation/fixtures_hidden/physics_model/forward.npz").unlink()
    environment = Environment(python=Path(sys.executable), root=Path(sys.prefix), key="tests")
    assert old in REFERENCE
    graded = grade_module(
        task,
        "physics_model",
        REFERENCE.replace(old, new).encode(),
        lambda: open_sandbox("bubblewrap", environment, Resources()),
        timeout=60.0,
    )
    checks = [check for check in graded.checks if not check.passed] if mode is None else list(graded.checks)
    outcome = miss(mechanism="function", part="physics_model", checks=checks, scores={})
    assert failure_mode(outcome) == (mode or "missing_api")


def transcript(folder: Path, *events: dict[str, Any]) -> Path:
    path = folder / "transcript.jsonl"
    path.write_text("".join(json.dumps(event) + "\n" for event in events), encoding="utf-8")
    return path


TRACEBACK = 'Traceback (most recent call last):\n  File "main.py", line 1, in <module>\n'


def observation(text: str) -> dict[str, Any]:
    return {"event": "observation", "text": text}


def test_the_last_command_s_exception_is_found(tmp_path: Path) -> None:
    path = transcript(
        tmp_path,
        observation(f"{TRACEBACK}KeyError: 'first'\n[exit code 1, 0.1 s]"),
        observation(f"{TRACEBACK}numpy.linalg.LinAlgError: singular\n[exit code 1, 0.1 s]\n[3 steps left]"),
        observation("Not finished: output/reconstruction.npy is not there."),
        {"event": "stopped", "reason": "submitted"},
    )
    assert last_error(path) == "numpy.linalg.LinAlgError: singular"


def test_a_command_that_ended_well_leaves_no_exception(tmp_path: Path) -> None:
    path = transcript(
        tmp_path,
        observation(f"{TRACEBACK}KeyError: 'first'\n[exit code 1, 0.1 s]"),
        observation("ValueError: this is only printed\n[exit code 0, 0.1 s]"),
    )
    assert last_error(path) == ""


def test_a_submitted_script_is_a_command_too(tmp_path: Path) -> None:
    path = transcript(tmp_path, {"event": "run", "exit_code": 1, "output": f"{TRACEBACK}OSError: no file"})
    assert last_error(path) == "OSError: no file"


def test_a_transcript_that_is_missing_torn_or_huge_is_read_as_far_as_it_goes(tmp_path: Path) -> None:
    assert last_error(tmp_path / "none.jsonl") == ""
    path = transcript(tmp_path, observation("x" * 400_000 + "\n[exit code 0, 0.1 s]"))
    with path.open("a", encoding="utf-8") as file:
        file.write('[1]\n{"event": "observ')
    assert last_error(path) == ""
