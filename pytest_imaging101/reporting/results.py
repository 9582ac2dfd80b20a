"""The results of a run as data: ``results.jsonl``, one outcome a line, and ``summary.json``."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from pathlib import Path

from pytest_imaging101.outcome import Outcome, PlannedItem
from pytest_imaging101.reporting.atomic import write_atomic
from pytest_imaging101.reporting.journal import Event, read_events
from pytest_imaging101.reporting.settle import settle
from pytest_imaging101.reporting.store import RunFolder, union
from pytest_imaging101.reporting.summary import Summary, summarise

RESULTS_FILE = "results.jsonl"
SUMMARY_FILE = "summary.json"


@dataclass(frozen=True)
class Run:
    """All that a run's folder holds, read once."""

    path: Path
    outcomes: list[Outcome]
    planned: list[PlannedItem]
    events: list[Event]
    command: tuple[str, ...]
    warnings: tuple[str, ...]

    def summary(self) -> Summary:
        summary = summarise(self.outcomes, self.planned, self.events)
        return replace(summary, warnings=(*summary.warnings, *self.warnings), command=self.command)


def read_run(run_folder: Path) -> Run:
    """Read a run's folder. Raises UsageError if it is none, or if a newer version wrote it."""
    folder = RunFolder.open(run_folder)
    outcomes, outcome_warnings = folder.read_outcomes()
    sessions, session_warnings = folder.sessions()
    events, event_warnings = read_events(run_folder)
    command = sessions[0].facts.get("command", ()) if sessions else ()
    return Run(
        path=run_folder,
        outcomes=outcomes,
        planned=union(session.planned for session in sessions),
        events=events,
        command=tuple(map(str, command)) if isinstance(command, list) else (),
        warnings=(*session_warnings, *outcome_warnings, *event_warnings),
    )


def write_results(run_folder: Path) -> Summary:
    """Write ``results.jsonl`` and ``summary.json`` of a run from what its folder holds; each file atomically.

    Raises UsageError, StorageFault.
    """
    return write_results_of(read_run(run_folder))


def write_results_of(run: Run) -> Summary:
    """The same for a run that has been read."""
    summary = run.summary()
    settled = settle(run.outcomes, run.planned, run.events)
    lines = "".join(f"{outcome.to_json(indent=None)}\n" for outcome in settled.outcomes)
    write_atomic(run.path / RESULTS_FILE, lines.encode())
    text = json.dumps(summary.as_dict(), allow_nan=False, indent=2)
    write_atomic(run.path / SUMMARY_FILE, f"{text}\n".encode())
    return summary
