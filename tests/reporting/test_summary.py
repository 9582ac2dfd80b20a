"""A summary counts everything once, and what was paid for even if it counts for nothing."""

from __future__ import annotations

import math

import pytest

from pytest_imaging101.budget import StopReason, Usage
from pytest_imaging101.outcome import Clocks, FaultRecord, Outcome, PlannedItem
from pytest_imaging101.reporting.summary import Row, Summary, summarise
from tests.reporting.records import HOSTILE, make_item, make_outcome, strict_json


def rates(rows: tuple[Row, ...]) -> dict[tuple[str, ...], tuple[int, int, int]]:
    return {
        tuple(filter(None, (row.model, row.mechanism, row.label))): (
            row.rate.passed,
            row.rate.graded,
            row.rate.planned,
        )
        for row in rows
    }


def test_rates_are_given_by_mechanism_part_and_domain() -> None:
    outcomes = [
        make_outcome(part="L1"),
        make_outcome(part="L2", verdict="failed"),
        make_outcome(part="L1", task="lucky", domain="astronomy", verdict="ungraded"),
        make_outcome(mechanism="function", part="solvers"),
        make_outcome(mechanism="planning", part=None, verdict="failed"),
        make_outcome(mechanism="planning", part=None, model="other"),
    ]
    summary = summarise(outcomes, [])
    assert rates(summary.by_mechanism) == {
        ("gpt-4o", "planning"): (0, 1, 1),
        ("gpt-4o", "function"): (1, 1, 1),
        ("gpt-4o", "end2end"): (1, 2, 3),
        ("other", "planning"): (1, 1, 1),
    }
    assert [row.mechanism for row in summary.by_mechanism][:3] == ["planning", "function", "end2end"]
    assert rates(summary.by_part) == {
        ("gpt-4o", "function", "solvers"): (1, 1, 1),
        ("gpt-4o", "end2end", "L1"): (1, 1, 2),
        ("gpt-4o", "end2end", "L2"): (0, 1, 1),
    }
    assert rates(summary.by_domain)["gpt-4o", "end2end", "astronomy"] == (0, 0, 1)
    assert (summary.total.passed, summary.total.graded, summary.total.planned) == (3, 5, 6)
    assert not summary.complete


def test_planned_items_without_an_outcome_stay_in_the_denominator() -> None:
    planned = [make_item(task=f"t{number}") for number in range(10)]
    outcomes = [make_outcome(item) for item in planned[:8]]
    summary = summarise(outcomes, planned)
    assert (summary.total.passed, summary.total.graded, summary.total.planned) == (8, 8, 10)
    assert summary.total.bounds == pytest.approx((0.8, 1.0))
    assert [(group.kind, len(group.node_ids)) for group in summary.faults] == [("interrupted", 2)]
    assert not summary.complete


def test_two_agents_of_one_model_are_not_pooled() -> None:
    summary = summarise([make_outcome(agent="react"), make_outcome(agent="multi_agent")], [])
    assert [(row.agent, row.rate.planned) for row in summary.by_mechanism] == [
        ("multi_agent", 1),
        ("react", 1),
    ]


def fault(kind: str, message: str, **changes: object) -> Outcome:
    return make_outcome(verdict="ungraded", fault=FaultRecord(kind=kind, message=message), **changes)


def test_faults_are_grouped_by_kind_with_their_commonest_sentence() -> None:
    summary = summarise(
        [
            fault("sandbox", "It died.", task="a"),
            fault("sandbox", "It died.", task="b"),
            fault("sandbox", "It would not start.", task="c"),
            fault("endpoint.quota_spent", "The balance is spent.", task="d"),
        ],
        [],
    )
    found = [(group.kind, group.message, group.messages, len(group.node_ids)) for group in summary.faults]
    assert found == [
        ("endpoint.quota_spent", "The balance is spent.", 1, 1),
        ("sandbox", "It died.", 2, 3),
    ]


def test_retried_attempts_are_paid_for_and_counted_but_give_one_verdict() -> None:
    usage = Usage(calls=2, prompt_tokens=100, completion_tokens=10, cost_usd=0.25)
    clocks = Clocks(setup_seconds=1, attempt_seconds=10, grading_seconds=2, waiting_seconds=3)
    first = make_outcome(verdict="ungraded", usage=usage, clocks=clocks, finished="2026-11-30T10:01:00")
    second = make_outcome(
        retry=2, usage=usage, clocks=clocks, finished="2026-11-30T10:02:00", stop=StopReason.SUBMITTED
    )
    summary = summarise([first, second, make_outcome(part="L2")], [])
    assert (summary.total.passed, summary.total.planned) == (2, 2)
    assert (summary.attempts, summary.retried_items) == (3, 1)
    (spent,) = summary.spent
    assert (spent.usage.calls, spent.usage.tokens, spent.usage.cost_usd) == (4, 220, 0.5)
    assert (spent.attempt_seconds, spent.waiting_seconds) == (20, 6)
    assert summary.stops == {"submitted": 1}
    assert summary.finished == "2026-11-30T10:05:00.000+00:00"


def test_attempts_without_a_price_are_counted_apart_and_the_judge_too() -> None:
    outcomes = [
        make_outcome(part="L1", usage=Usage(calls=1, cost_usd=1.0)),
        make_outcome(part="L2", usage=Usage(calls=1), judge_usage=Usage(calls=3, cost_usd=0.5)),
        make_outcome(part="L3"),
    ]
    (spent,) = summarise(outcomes, []).spent
    assert (spent.usage.cost_usd, spent.unpriced, spent.judge_usage.cost_usd) == (1.0, 1, 0.5)


def test_warnings_of_outcomes_are_given_once_with_their_count() -> None:
    outcomes = [make_outcome(part=part, warnings=["local sandbox", "local sandbox"]) for part in ("L1", "L2")]
    assert summarise(outcomes, []).warnings == ("local sandbox (2 items)",)


def test_an_empty_run_has_a_summary() -> None:
    summary = summarise([], [])
    assert (summary.total.planned, summary.by_mechanism, summary.spent) == (0, (), ())
    strict_json_of(summary)


def strict_json_of(summary: Summary) -> object:
    import json

    return strict_json(json.dumps(summary.as_dict(), allow_nan=False))


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE.keys())
def test_a_summary_of_hostile_text_is_strict_json(text: str) -> None:
    names = {"model": text, "agent": text, "domain": text, "part": text, "task": text, "node_id": text}
    outcomes = [
        make_outcome(**names, usage=Usage(calls=1, cost_usd=math.nan), warnings=[text]),
        fault(text, text, **names | {"epoch": 2}),
    ]
    strict_json_of(summarise(outcomes, [PlannedItem(**make_item(**names | {"epoch": 3}).model_dump())]))
