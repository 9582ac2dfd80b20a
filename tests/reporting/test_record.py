"""An outcome can hold anything that a model, a tool or numpy puts into it, and is read back."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from pydantic import ValidationError

from pytest_imaging101.budget import StopReason, Usage
from pytest_imaging101.outcome import Check, Clocks, FaultRecord, Outcome, plain
from tests.reporting.records import HOSTILE, make_item, make_outcome, strict_json


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE.keys())
def test_hostile_text_everywhere_is_written_as_strict_json_and_read_back(text: str) -> None:
    outcome = make_outcome(
        node_id=text,
        model=text,
        agent=text,
        task=text,
        verdict="ungraded",
        reason=text,
        fault=FaultRecord(kind=text, message=text, evidence=text),
        scores={text: 1.0},
        checks=[Check(name=text, passed=False, group=text, detail=text)],
        warnings=[text],
        parameters={text: [text, {text: text}]},
        versions={text: text},
    )
    for indent in (2, None):
        written = outcome.to_json(indent)
        assert written.isascii()
        strict_json(written)
    assert Outcome.model_validate_json(outcome.to_json()).verdict == "ungraded"


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, np.float32("nan")])
def test_a_score_that_is_not_finite_is_null_with_a_reason(value: float) -> None:
    outcome = make_outcome(
        scores={"ncc": value, "nrmse": 0.5, "psnr": None}, score_notes={"psnr": "truth is flat"}
    )
    assert outcome.scores == {"ncc": None, "nrmse": 0.5, "psnr": None}
    assert outcome.score_notes == {"ncc": f"computed as {value}", "psnr": "truth is flat"}
    record = strict_json(outcome.to_json())
    assert record["scores"]["ncc"] is None


@pytest.mark.parametrize("scalar", [np.float64(0.5), np.float32(0.5), np.float16(0.5), np.array(0.5)])
def test_numpy_scalars_in_scores_become_floats(scalar: Any) -> None:
    outcome = make_outcome(scores={"ncc": scalar})
    assert type(outcome.scores["ncc"]) is float
    assert strict_json(outcome.to_json())["scores"] == {"ncc": 0.5}


def test_numpy_values_in_free_form_fields_are_written_as_what_they_stand_for() -> None:
    outcome = make_outcome(
        checks=[Check("close", np.bool_(True))],  # type: ignore[arg-type]
        parameters={"seed": np.int64(3), "grid": np.arange(3), "rate": np.float32("nan")},
        usage=Usage(calls=np.int64(2), cost_usd=math.nan),  # type: ignore[arg-type]
    )
    record = strict_json(outcome.to_json())
    assert record["parameters"] == {"seed": 3, "grid": [0, 1, 2], "rate": None}
    assert record["checks"][0]["passed"] is True
    assert (record["usage"]["calls"], record["usage"]["cost_usd"]) == (2, None)
    assert Outcome.model_validate(record).usage.calls == 2


def test_a_boundary_or_clock_that_is_not_finite_is_refused_where_it_is_made() -> None:
    with pytest.raises(ValidationError, match=r"boundaries\.ncc"):
        make_outcome(boundaries={"ncc": math.nan})
    with pytest.raises(ValidationError, match="setup_seconds"):
        Clocks(setup_seconds=math.inf)


def test_plain_values_are_exact_built_ins() -> None:
    class Text(str):
        __slots__ = ()

    found = plain(
        {
            "enumeration": StopReason.COST,
            "text": Text("a"),
            "float": np.float64(1.5),
            "truth": np.bool_(False),
            "complex": 1 + 2j,
            "bytes": b"\xff\xfe",
            "set": {1},
            np.int64(7): make_item,
        }
    )
    assert {type(key) for key in found} == {str}
    assert type(found["enumeration"]) is type(found["text"]) is str
    assert type(found["float"]) is float
    assert found["truth"] is False
    assert found["set"] == [1]


def test_identity_does_not_hang_on_the_node_id() -> None:
    alone = make_item(node_id="tasks/ct/task.toml::end2end[L1]")
    among_others = make_item(node_id="tasks/ct/task.toml::end2end[L1-gpt-4o-epoch1]")
    assert alone.identity == among_others.identity
    assert make_item(epoch=2).identity != make_item(epoch=1).identity
