"""Everything that reports a run made again from its folder, whatever happened to the process that ran it."""

from __future__ import annotations

from pathlib import Path

from pytest_imaging101.reporting.junit import JUNIT_FILE, write_junit
from pytest_imaging101.reporting.results import read_run, write_results_of
from pytest_imaging101.reporting.summary import Summary


def rebuild(run_folder: Path) -> Summary:
    """Write ``results.jsonl``, ``summary.json`` and ``junit.xml`` of a run again and return its summary.

    Attempts that were in flight when the run ended are ungraded, ``interrupted``. Raises UsageError,
    StorageFault.
    """
    run = read_run(run_folder)
    summary = write_results_of(run)
    write_junit(run_folder / JUNIT_FILE, run.outcomes, run.planned, run.events)
    return summary
