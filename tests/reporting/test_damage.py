"""Whatever a file of a run has become, a report is made of the rest and says what it left out."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from pytest_imaging101.outcome import Outcome, PlannedItem
from pytest_imaging101.reporting.journal import Journal
from pytest_imaging101.reporting.report import rebuild
from pytest_imaging101.reporting.store import RunFolder
from tests.reporting.records import ROOT, make_item, make_outcome, strict_json_lines

JUNK: list[Any] = [
    None,
    3,
    -1.5,
    10**400,
    True,
    "text",
    [],
    [1, [2]],
    {},
    {"ncc": "high"},
    {"a": [None]},
    [{"x": 1}],
]


@pytest.mark.parametrize("field", Outcome.model_fields)
def test_junk_in_a_field_of_an_outcome(tmp_path: Path, field: str) -> None:
    run = RunFolder(tmp_path / "run")
    planned = [make_item(task=f"t{number}") for number in range(len(JUNK))]
    run.write_run_record({}, planned)
    for item, junk in zip(planned, JUNK, strict=True):
        file = run.write_outcome(make_outcome(item))
        if field != "schema_version" or not isinstance(junk, int) or junk < 2:
            file.write_text(json.dumps(json.loads(file.read_text()) | {field: junk}))
    summary = rebuild(run.path)
    assert summary.total.planned >= len(JUNK)
    assert len(strict_json_lines(run.path / "results.jsonl")) == summary.total.planned


@pytest.mark.parametrize("field", ["planned", "command", "schema_version"])
@pytest.mark.parametrize("junk", JUNK[4:], ids=repr)
def test_junk_in_the_record_of_a_session(tmp_path: Path, field: str, junk: Any) -> None:
    run = RunFolder(tmp_path / "run")
    run.write_run_record({}, [make_item()])
    run.write_run_record({}, [])
    (run.path / "run-2.json").write_text(json.dumps({"command": [], field: junk}))
    assert rebuild(run.path).total.planned == 1


@pytest.mark.parametrize("field", ["event", "time", *PlannedItem.model_fields])
def test_junk_in_events(tmp_path: Path, field: str) -> None:
    run = RunFolder(tmp_path / "run")
    run.write_run_record({}, [make_item()])
    with Journal(run.path, "gw0") as journal:
        journal.started(make_item())
        event = json.loads(journal.path.read_text())
        with journal.path.open("a") as file:
            file.writelines(json.dumps(event | {field: junk}) + "\n" for junk in JUNK)
    summary = rebuild(run.path)
    assert summary.total.planned == 1
    assert "began at" in summary.faults[0].message


def test_reporting_is_light_until_it_draws() -> None:
    program = (
        "import importlib, pathlib, sys\n"
        "for file in pathlib.Path('pytest_imaging101/reporting').glob('*.py'):\n"
        "    importlib.import_module(f'pytest_imaging101.reporting.{file.stem}')\n"
        "print(sorted({'numpy', 'matplotlib', 'rich', 'pytest'} & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"
