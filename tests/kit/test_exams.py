"""Built-in models take a task's exam, and the wrong result of one is a problem that names the item."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_imaging101.kit.grading import exam
from tests.kit.conftest import Looking
from tests.kit.spoiling import replaced, with_json


def test_the_oracle_passes_every_item_of_a_good_task(toy_tasks: Path, looking: Looking) -> None:
    verdict = exam(looking.at(toy_tasks / "toy"), "oracle")
    assert (verdict.figure, verdict.problems) == ("6/6 passed", ())


def test_a_reference_that_fails_its_own_tests_is_named(toy_tasks: Path, looking: Looking) -> None:
    replaced("src/solvers.py", "/ 2.0", "/ 2.000001")(toy_tasks / "toy")
    verdict = exam(looking.at(toy_tasks / "toy"), "oracle")
    assert verdict.figure == "5/6 passed"
    assert verdict.problems[0].startswith("oracle misses function[solvers] (")


def test_a_naive_method_that_passes_is_named(
    toy_tasks: Path, looking: Looking, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A developer's own settings must not reach the exam.
    monkeypatch.setenv("IMAGING101_LEVEL", "L1")
    with_json("evaluation/metrics.json", ncc_boundary=0.5, rel_l2_boundary=None)(toy_tasks / "toy")
    verdict = exam(looking.at(toy_tasks / "toy"), "naive")
    assert verdict.figure == "3/6 failed"
    assert [problem.partition(" (")[0] for problem in verdict.problems] == [
        f"naive passes end2end[{level}]" for level in ("L1", "L2", "L3")
    ]
