"""Which record counts for each item of a run, and what stands for an item that has none."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from pytest_imaging101.outcome import FaultRecord, Outcome, PlannedItem
from pytest_imaging101.reporting.journal import ATTEMPT_SKIPPED, ATTEMPT_STARTED, Event, event_identity
from pytest_imaging101.reporting.text import one_line

INTERRUPTED = "interrupted"

Identity = tuple[Any, ...]


@dataclass(frozen=True)
class Skipped:
    """An item that cannot run here, and why. It is neither planned nor missing."""

    item: PlannedItem
    reason: str


@dataclass(frozen=True)
class Settled:
    """One outcome an item, sorted by node id, model and epoch; the skipped items; and what looked odd.

    ``tries`` says how many attempts were recorded for an item, zero for one that has none.
    """

    outcomes: tuple[Outcome, ...]
    skipped: tuple[Skipped, ...]
    tries: dict[Identity, int]
    warnings: tuple[str, ...]


def settle(
    outcomes: Iterable[Outcome], planned: Iterable[PlannedItem] = (), events: Iterable[Event] = ()
) -> Settled:
    """Bring attempts, plan and journal together.

    Of an item's attempts those with the key and grader of the latest are looked at, and the first graded one
    counts: a miss is never replaced by a later success, nor a result by a later fault. A planned item without
    any attempt is ungraded with a fault ``interrupted``, unless the journal says last that it was skipped.
    """
    by_item: dict[Identity, list[Outcome]] = defaultdict(list)
    for outcome in outcomes:
        by_item[outcome.identity].append(outcome)
    decided = {identity: _decisive(attempts) for identity, attempts in by_item.items()}
    repeated = sum(len(_graded(attempts, decided[identity])) > 1 for identity, attempts in by_item.items())
    last_word = {
        event_identity(event): event
        for event in events
        if event["event"] in (ATTEMPT_STARTED, ATTEMPT_SKIPPED)
    }
    skipped: list[Skipped] = []
    for item in planned:
        if item.identity in decided:
            continue
        event = last_word.get(item.identity)
        if event is not None and event["event"] == ATTEMPT_SKIPPED:
            skipped.append(Skipped(item, one_line(event.get("reason") or "no reason was given")))
        else:
            decided[item.identity] = _interrupted(item, event)
    return Settled(
        outcomes=tuple(sorted(decided.values(), key=_order)),
        skipped=tuple(sorted(skipped, key=lambda skip: _order(skip.item))),
        tries={identity: len(by_item.get(identity, ())) for identity in decided},
        warnings=_repeated_warning(repeated),
    )


def _decisive(attempts: Sequence[Outcome]) -> Outcome:
    latest = max(attempts, key=lambda outcome: (outcome.finished, outcome.retry))
    graded = _graded(attempts, latest)
    return min(graded, key=lambda outcome: (outcome.finished, outcome.retry)) if graded else latest


def _graded(attempts: Sequence[Outcome], like: Outcome) -> list[Outcome]:
    """The graded attempts of the same content under the same grader."""
    same = (like.key, like.grader)
    return [item for item in attempts if item.verdict != "ungraded" and (item.key, item.grader) == same]


def _interrupted(item: PlannedItem, event: Event | None) -> Outcome:
    if event is None:
        message, started = "The run ended before the attempt began.", ""
    else:
        started = str(event["time"])
        message = f"The attempt began at {started} and left no outcome: its process was ended."
    return Outcome(
        **item.model_dump(include=set(PlannedItem.model_fields)),
        grader="",
        verdict="ungraded",
        reason=message,
        fault=FaultRecord(kind=INTERRUPTED, message=message),
        started=started,
    )


def _repeated_warning(count: int) -> tuple[str, ...]:
    if not count:
        return ()
    items = "1 item was" if count == 1 else f"{count} items were"
    return (f"{items} graded more than once with the same content and grader; the first verdict counts",)


def _order(item: PlannedItem) -> tuple[Any, ...]:
    return (item.node_id, item.model, item.epoch, item.agent)
