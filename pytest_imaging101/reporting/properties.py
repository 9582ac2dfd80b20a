"""An outcome as flat properties that junit and xdist can carry, and as the few words of a verbose line."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import groupby
from typing import Any

from pytest_imaging101.outcome import Check, Outcome, plain
from pytest_imaging101.reporting.text import one_line

MAX_CHARACTERS = 300


def to_properties(outcome: Outcome) -> list[tuple[str, Any]]:
    """Name and value pairs; every value is exactly str, int, float or bool, fit for XML and short.

    A score that could not be computed reads ``null (why)``. A score named like another property gets the
    prefix ``score_``. What does not apply (a level of ``planning``) is left out.
    """
    facts = {name: value for name, value in _facts(outcome).items() if value not in (None, "")}
    scores = {f"score_{name}" if name in facts else name: name for name in outcome.scores}
    pairs = [*facts.items(), *((label, _score(outcome, name)) for label, name in scores.items())]
    return [(one_line(name, 80), _exact(value)) for name, value in pairs]


def headline(outcome: Outcome) -> str:
    """The result in a few words: ``ncc=0.97 nrmse=0.06``, ``18/20 tests``, ``plan 3/4 parts``, the fault."""
    if outcome.verdict == "ungraded":
        return one_line(f"ungraded: {outcome.fault.kind}" if outcome.fault else "ungraded", 80)
    if outcome.mechanism == "end2end":
        words = scores_line(outcome)
    elif outcome.mechanism == "function":
        words = _counted([check.passed for check in outcome.checks], "{} tests")
    else:
        words = _counted(parts_of_a_plan(outcome.checks).values(), "plan {} parts")
    return words or one_line(outcome.reason, 80) or outcome.verdict


def scores_line(outcome: Outcome) -> str:
    """The judged scores, or the published pair where none is named: ``ncc=0.97 nrmse=0.06``."""
    names = [*outcome.boundaries] or ["ncc", "nrmse"]
    shown = [name for name in names if name in outcome.scores]
    return " ".join(f"{one_line(name, 40)}={_figure(outcome.scores[name])}" for name in shown)


def parts_of_a_plan(checks: Iterable[Check]) -> dict[str, bool]:
    """Whether each part of a plan is right: all of its checks passed."""
    ordered = sorted(checks, key=lambda check: check.group)
    return {
        group: all(check.passed for check in members)
        for group, members in groupby(ordered, key=lambda check: check.group)
    }


def _facts(outcome: Outcome) -> dict[str, Any]:
    usage, clocks = outcome.usage, outcome.clocks
    return {
        "task": outcome.task,
        "domain": outcome.domain,
        "difficulty": outcome.difficulty,
        "tier": outcome.tier,
        "mechanism": outcome.mechanism,
        "level": outcome.part if outcome.mechanism == "end2end" else None,
        "module": outcome.part if outcome.mechanism == "function" else None,
        "model": outcome.model,
        "agent": outcome.agent,
        "epoch": outcome.epoch,
        "retry": outcome.retry,
        "verdict": outcome.verdict,
        "reason": outcome.reason,
        "stop_reason": outcome.stop,
        "failure_mode": outcome.failure_mode,
        "drift": outcome.drift.name if outcome.drift else None,
        "drift_explained": outcome.drift.explained if outcome.drift else None,
        "integrity": outcome.integrity.verdict if outcome.integrity else None,
        **_pipeline(outcome),
        "fault": outcome.fault.kind if outcome.fault else None,
        "judge": outcome.judge,
        "sandbox": outcome.sandbox,
        "checks_passed": sum(check.passed for check in outcome.checks) if outcome.checks else None,
        "checks": len(outcome.checks) or None,
        "iterations": outcome.iterations,
        "tokens": usage.tokens,
        "cost_usd": usage.cost_usd,
        "usage_estimated": usage.estimated or None,
        "seconds": round(clocks.attempt_seconds, 3),
        "setup_seconds": round(clocks.setup_seconds, 3),
        "grading_seconds": round(clocks.grading_seconds, 3),
        "waiting_seconds": round(clocks.waiting_seconds, 3),
        "key": outcome.key,
        "record": outcome.folder,
    }


def _pipeline(outcome: Outcome) -> dict[str, Any]:
    """What came of running main.py again: in a word, in a sentence, and its judged figures."""
    if (again := outcome.pipeline) is None:
        return {}
    figures = {f"pipeline_{name}": again.scores.get(name) for name in ("difference", *outcome.boundaries)}
    return {"pipeline": again.word, "pipeline_reason": again.reason, **figures}


def _score(outcome: Outcome, name: str) -> Any:
    value = outcome.scores[name]
    if value is None:
        return f"null ({outcome.score_notes.get(name, 'not computed')})"
    return value


def _exact(value: Any) -> Any:
    """One of the four exact types; ``plain`` has made built-ins of subclasses and null of NaN."""
    value = plain(value)
    if isinstance(value, bool | int | float):
        return value
    return "null" if value is None else one_line(value, MAX_CHARACTERS)


def _counted(results: Iterable[bool], form: str) -> str:
    found = list(results)
    return form.format(f"{sum(map(bool, found))}/{len(found)}") if found else ""


def _figure(value: float | None) -> str:
    """Two decimals for what lies near one, else two significant digits."""
    if value is None:
        return "null"
    return f"{value:.2f}" if 0.1 <= abs(value) < 100 or value == 0 else f"{value:.2g}"
