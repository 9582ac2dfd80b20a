"""One record an item: a miss is never bettered, a result never lost to a fault, nothing planned forgotten."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest

from pytest_imaging101.outcome import Outcome
from pytest_imaging101.reporting.journal import Journal, read_events
from pytest_imaging101.reporting.settle import settle
from tests.reporting.records import make_item, make_outcome


def attempt(number: int, verdict: str, **changes: object) -> Outcome:
    return make_outcome(
        retry=number, verdict=verdict, finished=f"2026-11-30T10:{number:02d}:00.000+00:00", **changes
    )


@pytest.mark.parametrize(
    ("verdicts", "counts"),
    [
        (["ungraded", "passed"], 2),
        (["ungraded", "failed"], 2),
        (["failed", "passed"], 1),
        (["passed", "failed"], 1),
        (["failed", "ungraded"], 1),
        (["ungraded", "ungraded"], 2),
    ],
)
def test_the_first_graded_attempt_counts_in_whatever_order_files_are_read(
    verdicts: list[str], counts: int
) -> None:
    attempts = [attempt(number, verdict) for number, verdict in enumerate(verdicts, start=1)]
    for order in itertools.permutations(attempts):
        (final,) = settle(order).outcomes
        assert final.retry == counts


def test_a_second_verdict_for_the_same_content_is_warned_of() -> None:
    settled = settle([attempt(1, "failed"), attempt(2, "passed")])
    assert settled.warnings == (
        "1 item was graded more than once with the same content and grader; the first verdict counts",
    )
    assert settle([attempt(1, "ungraded"), attempt(2, "passed")]).warnings == ()


@pytest.mark.parametrize("changed", ["key", "grader"])
def test_an_attempt_at_changed_content_or_by_another_grader_replaces_the_earlier(changed: str) -> None:
    settled = settle([attempt(1, "failed", **{changed: "old"}), attempt(2, "passed", **{changed: "new"})])
    assert [outcome.verdict for outcome in settled.outcomes] == ["passed"]
    assert settled.warnings == ()


def test_a_planned_item_without_an_outcome_is_interrupted() -> None:
    item = make_item()
    (final,) = settle([], [item]).outcomes
    assert final.verdict == "ungraded"
    assert final.fault is not None
    assert final.fault.kind == "interrupted"
    assert "before the attempt began" in final.fault.message
    assert final.identity == item.identity


def test_an_attempt_in_flight_says_when_it_began(tmp_path: Path) -> None:
    item = make_item()
    with Journal(tmp_path, "gw0") as journal:
        journal.started(item)
    events, _ = read_events(tmp_path)
    (final,) = settle([], [item], events).outcomes
    assert final.fault is not None
    assert (
        final.fault.message
        == f"The attempt began at {events[0]['time']} and left no outcome: its process was ended."
    )
    assert final.started == events[0]["time"]


def test_a_skipped_item_is_neither_planned_nor_missing_until_it_is_begun(tmp_path: Path) -> None:
    item = make_item(tier=3)
    with Journal(tmp_path, "gw0") as journal:
        journal.skipped(item, "needs an environment of its own")
        settled = settle([], [item], read_events(tmp_path)[0])
        assert settled.outcomes == ()
        assert settled.skipped[0].reason == "needs an environment of its own"
        journal.started(item)
    assert len(settle([], [item], read_events(tmp_path)[0]).outcomes) == 1
    assert settle([make_outcome(item)], [item], read_events(tmp_path)[0]).skipped == ()


def test_an_outcome_that_was_not_planned_counts_too() -> None:
    settled = settle([make_outcome(part="L1")], [make_item(part="L2")])
    assert [outcome.verdict for outcome in settled.outcomes] == ["passed", "ungraded"]


def test_outcomes_are_sorted_by_node_id_model_and_epoch() -> None:
    outcomes = [
        make_outcome(node_id=node_id, task=node_id, model=model, epoch=epoch)
        for node_id in "ba"
        for model in "nm"
        for epoch in (2, 1)
    ]
    found = [(outcome.node_id, outcome.model, outcome.epoch) for outcome in settle(outcomes).outcomes]
    assert found == sorted(found)
    assert len(found) == 8


def test_tries_are_counted_an_item() -> None:
    other = make_item(part="L2")
    settled = settle([attempt(1, "ungraded"), attempt(2, "passed")], [other])
    assert sorted(settled.tries.values()) == [0, 2]
