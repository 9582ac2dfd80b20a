"""The published schema is the record's own, current, and described field by field."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from pytest_imaging101.budget import StopReason
from pytest_imaging101.outcome import Check, Outcome
from pytest_imaging101.reporting.schema import outcome_schema, write_schema
from tests.reporting.records import HOSTILE, ROOT, make_outcome, strict_json

SAMPLES = [
    make_outcome(),
    make_outcome(verdict="ungraded"),
    make_outcome(
        scores={"ncc": float("nan"), "nrmse": 0.1},
        boundaries={"ncc": 0.9},
        stop=StopReason.DEADLINE,
        checks=[Check("a", True, "boundary", "fine")],
        parameters={"limits": {"tokens": None}},
    ),
    make_outcome(reason=HOSTILE["surrogate"], model=HOSTILE["nul"]),
]


def test_the_published_file_is_current(tmp_path: Path) -> None:
    write_schema(tmp_path / "schema.json")
    published = (ROOT / "docs" / "outcome.schema.json").read_bytes()
    assert published == (tmp_path / "schema.json").read_bytes(), (
        "the record has changed: run `imaging101 schema docs/outcome.schema.json`"
    )


@pytest.mark.parametrize("outcome", SAMPLES)
def test_outcomes_are_valid(outcome: Outcome) -> None:
    schema = outcome_schema()
    jsonschema.Draft202012Validator.check_schema(schema)
    jsonschema.validate(strict_json(outcome.to_json()), schema)


@pytest.mark.parametrize(
    "change",
    [{"verdict": "maybe"}, {"scores": {"ncc": "high"}}, {"stop": "tired"}, {"usage": 3}, {"key": None}],
)
def test_what_is_no_outcome_is_invalid(change: dict[str, Any]) -> None:
    record = json.loads(make_outcome().to_json()) | change
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(record, outcome_schema())


def test_every_field_is_described() -> None:
    schema = outcome_schema()
    undescribed = [name for name, field in schema["properties"].items() if not field.get("description")]
    assert undescribed == []
    assert set(schema["properties"]) == set(Outcome.model_fields)
