"""The published JSON Schema of outcomes, generated from the record itself."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from pytest_imaging101.outcome import SCHEMA_VERSION, Outcome
from pytest_imaging101.reporting.atomic import write_atomic


def outcome_schema() -> dict[str, Any]:
    """JSON Schema (draft 2020-12) of ``outcome.json`` and of each line of ``results.jsonl``."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        **Outcome.model_json_schema(),
        "title": f"Outcome of one attempt, version {SCHEMA_VERSION}",
    }


def write_schema(path: Path) -> None:
    """Write the schema, as ``docs/outcome.schema.json`` has it. Raises StorageFault."""
    write_atomic(path, f"{json.dumps(outcome_schema(), indent=2)}\n".encode())
