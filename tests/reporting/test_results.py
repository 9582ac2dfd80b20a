"""All files of a run can be made again from its folder, after any end of the process that ran it."""

from __future__ import annotations

import signal
from pathlib import Path
from xml.etree import ElementTree

import pytest

from pytest_imaging101.faults import StorageFault, UsageError
from pytest_imaging101.outcome import Outcome
from pytest_imaging101.reporting.journal import Journal
from pytest_imaging101.reporting.report import rebuild
from pytest_imaging101.reporting.results import write_results
from pytest_imaging101.reporting.store import RunFolder
from tests.reporting.records import (
    HOSTILE,
    make_item,
    make_outcome,
    start_python,
    strict_json,
    strict_json_lines,
)


@pytest.fixture
def run(tmp_path: Path) -> RunFolder:
    """A run of three levels: one passed, one missed after a retried fault, one that never began."""
    run = RunFolder(tmp_path / "run")
    run.write_run_record(
        {"command": ["pytest", "--model", "gpt-4o"]}, [make_item(part=p) for p in ("L1", "L2", "L3")]
    )
    run.write_outcome(make_outcome(part="L1", scores={"ncc": 0.97}))
    run.write_outcome(make_outcome(part="L2", verdict="ungraded", finished="2026-11-30T10:00:00.000+00:00"))
    run.write_outcome(make_outcome(part="L2", verdict="failed", retry=2))
    return run


def test_results_hold_one_line_an_item_in_order(run: RunFolder) -> None:
    summary = write_results(run.path)
    lines = strict_json_lines(run.path / "results.jsonl")
    assert [(line["part"], line["verdict"]) for line in lines] == [
        ("L1", "passed"),
        ("L2", "failed"),
        ("L3", "ungraded"),
    ]
    assert lines[0]["folder"].startswith("attempts/")
    assert lines[0]["scores"] == {"ncc": 0.97}
    assert Outcome.model_validate(lines[1]).retry == 2
    assert lines[2]["fault"]["kind"] == "interrupted"
    stored = strict_json((run.path / "summary.json").read_bytes())
    assert stored["total"] | {"interval_95": None} == {
        "passed": 1,
        "graded": 2,
        "planned": 3,
        "items": 2,
        "rate": 0.5,
        "interval_95": None,
        "bounds": [1 / 3, 2 / 3],
    }
    assert stored["complete"] is False
    assert stored["command"] == ["pytest", "--model", "gpt-4o"]
    assert (summary.attempts, summary.retried_items) == (3, 1)


def test_everything_is_made_again_byte_for_byte(run: RunFolder) -> None:
    names = ("results.jsonl", "summary.json", "junit.xml")
    first = rebuild(run.path)
    contents = [(run.path / name).read_bytes() for name in names]
    for name in names:
        (run.path / name).unlink()
    assert rebuild(run.path) == first
    assert [(run.path / name).read_bytes() for name in names] == contents
    assert len(ElementTree.fromstring(contents[2]).findall(".//testcase")) == 3


def test_damage_is_warned_of_and_the_rest_stands(run: RunFolder) -> None:
    broken = run.write_outcome(make_outcome(part="L3"))
    broken.write_bytes(broken.read_bytes()[:100])
    with Journal(run.path, "gw0") as journal:
        journal.started(make_item(part="L3"))
    journal.path.write_bytes(journal.path.read_bytes() + b'{"event": "ver')
    (run.path / "run-2.json").write_bytes(b"{")
    summary = rebuild(run.path)
    assert (summary.total.graded, summary.total.planned) == (2, 3)
    assert len(summary.warnings) == 3
    assert "The attempt began at" in summary.faults[0].message
    stored = strict_json((run.path / "summary.json").read_bytes())
    assert len(stored["warnings"]) == 3


def test_a_hostile_run_gives_strict_files(tmp_path: Path) -> None:
    run = RunFolder(tmp_path / "run")
    outcomes = [
        make_outcome(task=text, model=text, node_id=text, domain=text, reason=text, warnings=[text])
        for text in HOSTILE.values()
    ]
    run.write_run_record({"command": ["pytest", *HOSTILE.values()]}, outcomes)
    for outcome in outcomes:
        run.write_outcome(outcome)
    with Journal(run.path, "gw0") as journal:
        for outcome in outcomes:
            journal.started(outcome)
            journal.verdict(outcome)
    summary = rebuild(run.path)
    assert summary.total.graded == summary.total.planned == len(HOSTILE)
    assert len(strict_json_lines(run.path / "results.jsonl")) == len(HOSTILE)
    for file in run.path.rglob("*.json"):
        strict_json(file.read_bytes())
    ElementTree.fromstring((run.path / "junit.xml").read_bytes())


_RUN_UNTIL_KILLED = """
import itertools, sys
from pathlib import Path
from pytest_imaging101.reporting.journal import Journal
from pytest_imaging101.reporting.store import RunFolder
from tests.reporting.records import make_item, make_outcome
run = RunFolder(Path(sys.argv[1]))
items = [make_item(task=f"t{number}") for number in range(1000)]
run.write_run_record({"command": ["pytest"]}, items)
with Journal(run.path, "main") as journal:
    for item in items:
        journal.started(item)
        outcome = make_outcome(item, reason="r" * 100_000)
        run.write_outcome(outcome)
        journal.verdict(outcome)
        print(item.task, flush=True)
"""


def test_a_killed_run_loses_only_what_was_in_flight(tmp_path: Path) -> None:
    process = start_python(_RUN_UNTIL_KILLED, tmp_path / "run")
    assert process.stdout is not None
    finished = [process.stdout.readline().strip() for _ in range(12)]
    process.send_signal(signal.SIGKILL)
    process.communicate()
    summary = rebuild(tmp_path / "run")
    assert summary.total.planned == 1000
    assert summary.total.graded >= 12
    lines = strict_json_lines(tmp_path / "run" / "results.jsonl")
    verdicts = {line["task"]: line["verdict"] for line in lines}
    assert {verdicts[task] for task in finished} == {"passed"}
    begun = [line for line in lines if line["verdict"] == "ungraded" and "began at" in line["reason"]]
    assert len(begun) <= 1
    assert len(lines) == 1000


def test_a_folder_that_is_no_run_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="is not the folder of a run"):
        rebuild(tmp_path)


def test_results_that_cannot_be_written_are_a_storage_fault(run: RunFolder) -> None:
    (run.path / "summary.json").mkdir()
    with pytest.raises(StorageFault, match=r"summary\.json cannot be written"):
        rebuild(run.path)
