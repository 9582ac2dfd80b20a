"""Properties pass every gate between a worker and a junit reader; headlines fit a verbose line."""

from __future__ import annotations

import math
from typing import Any
from xml.etree import ElementTree

import execnet
import numpy as np
import pytest

from pytest_imaging101.budget import StopReason, Usage
from pytest_imaging101.outcome import Check, Clocks, FaultRecord
from pytest_imaging101.reporting.properties import headline, to_properties
from tests.reporting.records import HOSTILE, make_outcome

EXACT = {str, int, float, bool}


def assert_passes_every_gate(pairs: list[tuple[str, Any]]) -> None:
    for name, value in pairs:
        assert type(name) is str
        assert type(value) in EXACT
        assert len(str(value)) < 400
        text = f"{name}{value}"
        text.encode("utf-8")
        assert not [letter for letter in text if ord(letter) < 32 or 0x7F <= ord(letter) < 0xA0]
        element = ElementTree.Element("property", name=name, value=str(value))
        ElementTree.fromstring(ElementTree.tostring(element, encoding="utf-8"))
    assert execnet.loads(execnet.dumps(pairs)) == pairs


def test_properties_hold_what_the_item_was_and_what_came_of_it() -> None:
    outcome = make_outcome(
        stop=StopReason.SUBMITTED,
        scores={"ncc": 0.97, "nrmse": 0.06},
        usage=Usage(calls=2, prompt_tokens=900, completion_tokens=100, cost_usd=0.5),
        clocks=Clocks(attempt_seconds=12.5),
        checks=[Check("a", True), Check("b", False)],
    )
    found = dict(to_properties(outcome))
    expected = {
        "task": "ct_fan_beam",
        "domain": "medicine",
        "mechanism": "end2end",
        "level": "L1",
        "model": "gpt-4o",
        "epoch": 1,
        "verdict": "passed",
        "stop_reason": "submitted",
        "ncc": 0.97,
        "nrmse": 0.06,
        "tokens": 1000,
        "cost_usd": 0.5,
        "seconds": 12.5,
        "checks_passed": 1,
        "checks": 2,
    }
    assert {name: found.get(name) for name in expected} == expected
    assert "module" not in found
    assert_passes_every_gate(to_properties(outcome))


def test_a_module_is_no_level_and_a_fault_is_named() -> None:
    outcome = make_outcome(
        mechanism="function",
        part="solvers",
        verdict="ungraded",
        fault=FaultRecord(kind="judge", message="No verdict."),
    )
    found = dict(to_properties(outcome))
    assert (found["module"], found["fault"], found.get("level")) == ("solvers", "judge", None)


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE.keys())
def test_hostile_text_passes_every_gate(text: str) -> None:
    outcome = make_outcome(
        task=text,
        model=text,
        node_id=text,
        reason=text,
        judge=text,
        scores={text: 1.0, "ncc": None},
        score_notes={"ncc": text},
    )
    assert_passes_every_gate(to_properties(outcome))
    assert len(headline(outcome)) < 120


@pytest.mark.parametrize("value", [np.float64(0.5), np.float32(0.5), np.int64(1), np.array(0.5)])
def test_numpy_scores_pass_every_gate(value: Any) -> None:
    # By a copy, pydantic's own conversion is passed by.
    outcome = make_outcome().model_copy(update={"scores": {"ncc": value}, "epoch": np.int64(2)})
    assert_passes_every_gate(to_properties(outcome))
    assert dict(to_properties(outcome))["ncc"] == float(value)


def test_a_score_that_is_null_says_why() -> None:
    outcome = make_outcome(scores={"ncc": math.nan, "nrmse": None})
    found = dict(to_properties(outcome))
    assert found["ncc"] == "null (computed as nan)"
    assert found["nrmse"] == "null (not computed)"


def test_a_score_named_like_a_fact_hides_neither() -> None:
    outcome = make_outcome(scores={"tokens": 0.5, "epoch": 7.0})
    pairs = to_properties(outcome)
    found = dict(pairs)
    assert (found["epoch"], found["score_epoch"], found["score_tokens"]) == (1, 7.0, 0.5)
    assert len(found) == len(pairs)


def checks(**groups: tuple[bool, ...]) -> list[Check]:
    return [
        Check(f"{group}{i}", ok, group) for group, results in groups.items() for i, ok in enumerate(results)
    ]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"scores": {"psnr": 31.2, "ncc": 0.9712, "nrmse": 0.0553}}, "ncc=0.97 nrmse=0.055"),
        (
            {
                "scores": {"ncc": 0.5, "rel_l2": math.nan, "cncc": 0.88},
                "boundaries": {"cncc": 0.8, "rel_l2": 0.2},
            },
            "cncc=0.88 rel_l2=null",
        ),
        ({"verdict": "failed", "reason": "no reconstruction was left"}, "no reconstruction was left"),
        ({"scores": {"ncc": -0.0001, "nrmse": 12345.678}}, "ncc=-0.0001 nrmse=1.2e+04"),
        (
            {
                "mechanism": "function",
                "part": "solvers",
                "checks": checks(visible=(True,) * 9, hidden=(True, False)),
            },
            "10/11 tests",
        ),
        (
            {"mechanism": "function", "part": "solvers", "reason": "src/solvers.py is missing"},
            "src/solvers.py is missing",
        ),
        (
            {
                "mechanism": "planning",
                "part": None,
                "checks": checks(
                    preprocessing=(True,),
                    forward_model=(True, False),
                    inverse_solver=(True, True),
                    visualization=(True,),
                ),
            },
            "plan 3/4 parts",
        ),
        ({"verdict": "ungraded"}, "ungraded: endpoint"),
        ({}, "passed"),
    ],
)
def test_a_headline_says_the_result_in_a_few_words(changes: dict[str, Any], words: str) -> None:
    assert headline(make_outcome(**changes)) == words


def test_checks_of_a_part_count_together_wherever_they_stand() -> None:
    mixed = [Check("a", True, "p"), Check("b", True, "q"), Check("c", False, "p")]
    assert headline(make_outcome(mechanism="planning", part=None, checks=mixed)) == "plan 1/2 parts"
