"""A submitted array against a task's truth and boundaries."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pytest_imaging101.faults import GraderFault, TaskFault
from pytest_imaging101.scoring.reconstruction import (
    Boundary,
    NotComparable,
    boundaries,
    check_grader_inputs,
    compare,
    score_reconstruction,
)
from pytest_imaging101.task import Task
from tests.scoring.toy import make_task


def npy(array: np.ndarray) -> bytes:
    stream = io.BytesIO()
    np.save(stream, array)
    return stream.getvalue()


def truth_of(task: Task) -> np.ndarray:
    stored: np.ndarray = np.load(task.path("evaluation/reference_outputs/ground_truth.npy"))
    return stored


def set_metrics(task: Task, **changes: Any) -> None:
    path = task.path("evaluation/metrics.json")
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


def own_score(task: Task, text: str) -> None:
    task.path("evaluation/score.py").write_text(text)


@pytest.fixture
def task(tmp_path: Path) -> Task:
    return make_task(tmp_path)


def test_the_reference_passes_and_every_boundary_is_a_check(task: Task) -> None:
    found = score_reconstruction(task, npy(truth_of(task) + 0.02))
    assert found.passed
    assert found.reason == "all 4 boundaries met"
    assert [check.name for check in found.checks] == ["ncc", "nrmse", "cncc", "rel_l2"]
    assert all(check.passed and check.group == "boundary" for check in found.checks)
    assert found.checks[3].detail.startswith("rel_l2 0.01")
    assert found.checks[3].detail.endswith("<= boundary 0.2")
    assert set(found.scores) == {"ncc", "nrmse", "cncc", "rel_l2", "psnr", "ssim"}
    assert found.grading == "arrays"


def test_a_miss_names_every_boundary_it_misses(task: Task) -> None:
    found = score_reconstruction(task, npy(2 * truth_of(task)))
    assert not found.passed
    assert "rel_l2 1 misses the boundary 0.2" in found.reason
    assert [check.passed for check in found.checks] == [True, False, True, False]
    assert found.checks[3].detail == "rel_l2 1 > boundary 0.2"


@pytest.mark.parametrize("flip", [np.fliplr, np.flipud, np.negative, np.zeros_like])
def test_turned_and_trivial_answers_miss(task: Task, flip: Any) -> None:
    assert not score_reconstruction(task, npy(flip(truth_of(task)))).passed


@pytest.mark.parametrize(
    ("submitted", "reason"),
    [
        (b"\x80\x04N.", "the file is not an .npy file"),
        (npy(np.full((6, 8), np.nan)), "48 of the array's 48 values are not finite"),
        (npy(np.ones((8, 6))), "the array's shape is (8, 6) instead of (6, 8)"),
        (
            npy(np.ones((6, 8), dtype=complex)),
            "the array is complex (complex128) where a real one is expected",
        ),
    ],
)
def test_what_cannot_be_compared_is_a_miss_and_no_fault(task: Task, submitted: bytes, reason: str) -> None:
    found = score_reconstruction(task, submitted)
    assert not found.passed
    assert found.reason == reason
    assert found.scores == {}
    assert len(found.checks) == 4
    assert not any(check.passed for check in found.checks)


def test_a_missing_file_is_a_miss_with_the_reason_given(task: Task) -> None:
    assert score_reconstruction(task, None, "it is a link").reason == "it is a link"
    assert score_reconstruction(task, None).reason == "output/reconstruction.npy was not delivered"


def test_integers_are_taken_for_floats(task: Task) -> None:
    assert score_reconstruction(task, npy(np.ones((6, 8), dtype=int))).scores


def test_absurd_values_miss_without_a_warning(task: Task) -> None:
    found = score_reconstruction(task, npy(np.full((6, 8), 1e300)))
    assert not found.passed


@pytest.mark.parametrize(
    ("boundary", "figure", "met"),
    [
        (Boundary("ncc", 0.9, "min"), 0.9, True),
        (Boundary("ncc", 0.9, "min"), float("nan"), False),
        (Boundary("nrmse", 0.1, "max"), 0.1, True),
        (Boundary("nrmse", 0.1, "max"), float("nan"), False),
        (Boundary("nrmse", 0.1, "max"), float("inf"), False),
    ],
)
def test_boundaries_are_inclusive_and_nan_fails(boundary: Boundary, figure: float, met: bool) -> None:
    assert boundary.met(figure) is met


def test_a_figure_beside_its_boundary_is_told_from_it() -> None:
    assert Boundary("rel_l2", 0.06, "max").describe(0.06000001) == "rel_l2 0.06000001 > boundary 0.06"


def test_mask_and_align_decide_what_is_compared(task: Task) -> None:
    truth = truth_of(task)
    mask = np.ones((6, 8), dtype=bool)
    mask[0] = False
    np.save(task.path("evaluation/mask.npy"), mask)
    set_metrics(task, mask="mask.npy", align=["scale"])
    answer = 3 * truth
    answer[0] = 1e6
    found = score_reconstruction(task, npy(answer))
    assert found.passed
    assert found.scores["rel_l2"] < 1e-12


def test_a_null_boundary_is_not_judged(task: Task) -> None:
    set_metrics(task, rel_l2_boundary=None, nrmse_boundary=None)
    found = score_reconstruction(task, npy(3 * truth_of(task)))
    assert found.passed
    assert found.scores["rel_l2"] == pytest.approx(2)


def test_score_py_adds_figures_with_their_direction(task: Task) -> None:
    own_score(task, "def score(a, b, meta):\n    return {'worst': float(abs(a - b).max()) * meta['gain']}\n")
    set_metrics(task, worst_boundary=0.1, direction={"worst": "max"})
    check_grader_inputs(task)
    found = score_reconstruction(task, npy(truth_of(task) + 0.1))
    assert found.reason == "worst 0.25 misses the boundary 0.1"
    assert found.scores["worst"] == pytest.approx(0.25)
    assert "ncc" in found.scores


def test_score_py_replaces_a_built_in_figure_of_the_same_name(task: Task) -> None:
    own_score(task, "def score(a, b, meta):\n    return {'rel_l2': 0.19}\n")
    assert score_reconstruction(task, npy(9 * truth_of(task))).scores["rel_l2"] == 0.19


def test_score_py_says_the_shape_of_a_submission(task: Task) -> None:
    own_score(
        task,
        "SHAPE = (None, 2)\n\n\ndef score(a, b, meta):\n"
        "    if len(a) > 3:\n        raise ValueError('too many points')\n    return {'n': len(a)}\n",
    )
    path = task.path("evaluation/metrics.json")
    path.write_text(json.dumps({"n_boundary": 2, "direction": {"n": "min"}}))
    np.save(task.path("evaluation/reference_outputs/reconstruction.npy"), np.ones((2, 2)))
    check_grader_inputs(task)
    found = score_reconstruction(task, npy(np.ones((2, 2))))
    assert found.passed
    assert found.reason == "the boundary is met"
    assert "the truth" in found.score_notes["ncc"]
    assert score_reconstruction(task, npy(np.ones((4, 2)))).reason == "score.py: too many points"
    assert "instead of (any, 2)" in score_reconstruction(task, npy(np.ones((2, 3)))).reason


def test_score_py_cannot_change_the_arrays_that_others_see(task: Task) -> None:
    own_score(task, "def score(a, b, meta):\n    a[:] = b\n    return {}\n")
    assert score_reconstruction(task, npy(9 * truth_of(task))).scores["rel_l2"] == pytest.approx(8)


def test_a_score_py_that_breaks_is_the_graders_fault(task: Task) -> None:
    own_score(task, "def score(a, b, meta):\n    return meta['nothing']\n")
    with pytest.raises(GraderFault, match=r"task toy_blur: score\.py failed .*KeyError") as caught:
        score_reconstruction(task, npy(truth_of(task)))
    assert "meta['nothing']" in caught.value.evidence


@pytest.mark.parametrize("returned", ["None", "{'a': None}", "3.0"])
def test_a_score_py_that_returns_no_figures_is_the_graders_fault(task: Task, returned: str) -> None:
    own_score(task, f"def score(a, b, meta):\n    return {returned}\n")
    with pytest.raises(GraderFault, match="must return names and numbers"):
        score_reconstruction(task, npy(truth_of(task)))


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"align": ["rotate"]}, "unknown align step 'rotate'"),
        ({"align": "scale"}, "must be a list"),
        ({"align": ["global_phase"]}, "needs complex arrays"),
        ({"mask": "nowhere.npy"}, "nowhere.npy cannot be read"),
        ({"mask": 3}, "must be a path"),
        ({"ncc_boundary": "high"}, "ncc_boundary is 'high'"),
        ({"ncc_boundary": True}, "ncc_boundary is True"),
        ({"ncc_boundary": float("nan")}, "ncc_boundary is nan"),
        ({"sharpness_boundary": 1}, "direction of 'sharpness' is None"),
        ({"sharpness_boundary": 1, "direction": {"sharpness": "max"}}, "which nothing computes"),
        ({"direction": {"ncc": "up"}}, "direction of 'ncc' is 'up'"),
        ({"direction": ["max"]}, "must map"),
    ],
)
def test_broken_metrics_are_found_before_any_model_is_asked(
    task: Task, changes: dict[str, Any], sentence: str
) -> None:
    set_metrics(task, **changes)
    with pytest.raises(TaskFault, match=sentence) as caught:
        check_grader_inputs(task)
    assert str(caught.value).startswith("task toy_blur: ")


def test_metrics_without_a_boundary_would_judge_nothing() -> None:
    with pytest.raises(TaskFault, match="nothing would be judged"):
        boundaries({"baseline": []})


def test_a_missing_truth_is_the_tasks_fault_and_no_score(task: Task) -> None:
    check_grader_inputs(task)
    task.path("evaluation/reference_outputs/ground_truth.npy").unlink()
    with pytest.raises(TaskFault, match=r"task toy_blur: reference_outputs/ground_truth\.npy cannot be read"):
        check_grader_inputs(task)
    with pytest.raises(TaskFault):
        score_reconstruction(task, npy(np.ones((6, 8))))


@pytest.mark.parametrize(
    ("truth", "sentence"),
    [
        (np.array([{}], dtype=object), "cannot be read"),
        (np.array(["a"]), "one array of numbers"),
        (np.full((6, 8), np.nan), "not finite"),
    ],
)
def test_an_odd_truth_is_the_tasks_fault(task: Task, truth: np.ndarray, sentence: str) -> None:
    np.save(task.path("evaluation/reference_outputs/ground_truth.npy"), truth, allow_pickle=True)
    with pytest.raises(TaskFault, match=sentence):
        check_grader_inputs(task)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("import nothing_of_that_name", "cannot be imported"),
        ("x = 1", "has no function score"),
        ("SHAPE = 'wide'\n\n\ndef score(a, b, meta):\n    return {}", "expected shape is 'wide'"),
        ("def score(a, b, meta):\n    raise ValueError('no')", "refuses the reference's own"),
    ],
)
def test_a_broken_score_py_is_found_before_any_model_is_asked(task: Task, text: str, sentence: str) -> None:
    own_score(task, text)
    with pytest.raises(TaskFault, match=sentence):
        check_grader_inputs(task)


def test_a_mask_of_another_shape_is_the_tasks_fault(task: Task) -> None:
    np.save(task.path("evaluation/mask.npy"), np.ones((3, 3), dtype=bool))
    set_metrics(task, mask="mask.npy")
    with pytest.raises(TaskFault, match="does not fit"):
        check_grader_inputs(task)


def test_compare_needs_no_task(tmp_path: Path) -> None:
    truth = np.arange(12.0).reshape(3, 4)
    figures = compare(truth + 1, truth, {"align": ["offset_mean"]}, tmp_path)
    assert figures["rel_l2"] == pytest.approx(0, abs=1e-15)


def test_compare_passes_a_refusal_of_score_py_on(tmp_path: Path) -> None:
    (tmp_path / "score.py").write_text("def score(a, b, meta):\n    raise ValueError('not sorted')\n")
    with pytest.raises(NotComparable, match="not sorted"):
        compare(np.ones((3, 4)), np.eye(3, 4), {}, tmp_path)


def test_importing_the_module_imports_no_numpy() -> None:
    modules = ("reconstruction", "unit_tests", "plan", "judge")
    program = "import sys\n" + "\n".join(f"import pytest_imaging101.scoring.{name}" for name in modules)
    program += "\nassert not {'numpy', 'skimage', 'scipy', 'openai'} & set(sys.modules), sorted(sys.modules)"
    subprocess.run([sys.executable, "-c", program], check=True)
