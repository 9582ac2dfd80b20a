"""What a validation found, as a table for people and as JSON for machines."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING

from pytest_imaging101.kit.finding import Finding
from pytest_imaging101.kit.validate import Report

if TYPE_CHECKING:
    from rich.console import Console

_MARKS = {"passed": "[green]ok[/]", "failed": "[red]FAILED[/]", "fault": "[yellow]FAULT[/]", "skipped": "-"}


def print_reports(console: Console, reports: Sequence[Report]) -> None:
    """A table for each task, and one line that sums up."""
    for report in reports:
        _print_table(console, report)
        bad = [finding for finding in report.findings if not finding.good and finding.status != "skipped"]
        for finding in bad:
            console.print(f"{report.task}: {finding.check}: {finding.sentence}", markup=False, soft_wrap=True)
    accepted = sum(report.accepted for report in reports)
    console.print(f"{accepted} of {len(reports)} accepted", highlight=False)


def _print_table(console: Console, report: Report) -> None:
    from rich.markup import escape
    from rich.table import Table

    notes = ["draft"] * report.draft + ["unchanged since it was accepted"] * report.cached
    title = report.task + (f" ({', '.join(notes)})" if notes else "")
    table = Table(title=title, title_justify="left", box=None, pad_edge=False)
    for heading in ("group", "check", "", "figure"):
        table.add_column(heading, overflow="fold")
    table.add_column("s", justify="right")
    for finding in report.findings:
        seconds = f"{finding.seconds:.1f}" if finding.seconds >= 0.05 else ""
        mark = _MARKS[finding.status]
        table.add_row(finding.group, escape(finding.check), mark, escape(finding.figure), seconds)
    console.print(table)


def to_json(reports: Sequence[Report]) -> str:
    """The same as JSON: one object per task."""
    content = [
        {
            "task": report.task,
            "draft": report.draft,
            "accepted": report.accepted,
            "cached": report.cached,
            "findings": [asdict(finding) for finding in report.findings],
        }
        for report in reports
    ]
    return json.dumps(content, indent=2)


def progress_line(finding: Finding) -> str:
    """One line for a check that has just ended."""
    words = {"passed": "ok", "failed": "FAILED", "fault": "FAULT", "skipped": "not looked at"}
    return f"{finding.task} {finding.check}: {words[finding.status]} {finding.figure}".rstrip()
