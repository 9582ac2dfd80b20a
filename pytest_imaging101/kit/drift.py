"""What the diagnosis of convention drifts calls a wrong answer."""

from __future__ import annotations

from pytest_imaging101.task import Task


def named_by_diagnosis(task: Task, submitted: bytes) -> str:
    """The kinds of change that the diagnosis names, joined by ``+``; empty if it names none."""
    from pytest_imaging101.scoring.drift import diagnose_submission

    drift = diagnose_submission(task, submitted)
    return drift.name if drift else ""
