"""A run in figures: pass rates by group, what is ungraded and why, what was spent. Pure data."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any, get_args

from pytest_imaging101.budget import Usage
from pytest_imaging101.outcome import SCHEMA_VERSION, Mechanism, Outcome, PlannedItem, plain
from pytest_imaging101.reporting.journal import Event
from pytest_imaging101.reporting.settle import Settled, settle
from pytest_imaging101.reporting.statistics import Rate, rate_of

UNNAMED_MODE = "unnamed"

_MECHANISMS: tuple[str, ...] = get_args(Mechanism)


@dataclass(frozen=True)
class Row:
    """The rate of one group of items: a model (by one agent) at a mechanism, or a part or domain of it."""

    model: str
    agent: str
    mechanism: str
    label: str
    rate: Rate


@dataclass(frozen=True)
class FaultGroup:
    """Items ungraded for one kind of fault; ``message`` is the commonest sentence, ``messages`` how many."""

    kind: str
    message: str
    messages: int
    node_ids: tuple[str, ...]


@dataclass(frozen=True)
class Misses:
    """Missed items of a model (by one agent) with one failure mode, counted by mechanism.

    ``drifts`` counts the changes of convention that were named among them, however often two come together.
    """

    model: str
    agent: str
    mode: str
    by_mechanism: dict[str, int]
    drifts: dict[str, int]

    @property
    def total(self) -> int:
        return sum(self.by_mechanism.values())


@dataclass(frozen=True)
class Spent:
    """What a model took over all attempts, retried ones included; ``unpriced`` ones had no known price."""

    model: str
    attempts: int
    usage: Usage
    judge_usage: Usage
    unpriced: int
    setup_seconds: float
    attempt_seconds: float
    grading_seconds: float
    waiting_seconds: float


@dataclass(frozen=True)
class Summary:
    """A run in figures. Rates count one outcome an item and epoch; see ``settle`` for which.

    ``pipelines`` has the node ids whose main.py was run again, by whether it agrees, differs or that is unknown.
    ``attempts`` are all that left a record; ``retried_items`` are the items that took more than one.
    """

    total: Rate
    by_mechanism: tuple[Row, ...]
    by_part: tuple[Row, ...]
    by_domain: tuple[Row, ...]
    misses: tuple[Misses, ...]
    faults: tuple[FaultGroup, ...]
    skipped: tuple[tuple[str, str], ...]
    stops: dict[str, int]
    pipelines: dict[str, tuple[str, ...]]
    spent: tuple[Spent, ...]
    attempts: int
    retried_items: int
    started: str = ""
    finished: str = ""
    warnings: tuple[str, ...] = ()
    command: tuple[str, ...] = ()

    @property
    def complete(self) -> bool:
        """Whether everything planned was graded."""
        return self.total.ungraded == 0

    def as_dict(self) -> dict[str, Any]:
        """The summary as it stands in summary.json."""
        rows = ("by_mechanism", "by_part", "by_domain")
        content = {
            "schema_version": SCHEMA_VERSION,
            "started": self.started,
            "finished": self.finished,
            "complete": self.complete,
            "total": self.total.as_dict(),
            **{name: [_row_as_dict(row) for row in getattr(self, name)] for name in rows},
            "misses": [asdict(group) | {"total": group.total} for group in self.misses],
            "ungraded": [asdict(group) for group in self.faults],
            "skipped": [{"node_id": node_id, "reason": reason} for node_id, reason in self.skipped],
            "stop_reasons": self.stops,
            "pipelines": self.pipelines,
            "spent": [asdict(spent) for spent in self.spent],
            "attempts": self.attempts,
            "retried_items": self.retried_items,
            "warnings": self.warnings,
            "command": self.command,
        }
        return {name: plain(value) for name, value in content.items()}


def summarise(
    outcomes: Iterable[Outcome], planned: Iterable[PlannedItem], events: Iterable[Event] = ()
) -> Summary:
    """The figures of a run from its attempts (all retries), its plan and its journal."""
    attempts = list(outcomes)
    settled = settle(attempts, planned, events)
    final = settled.outcomes
    return Summary(
        total=rate_of(final),
        by_mechanism=_rows(final, lambda outcome: ""),
        by_part=_rows([outcome for outcome in final if outcome.part], lambda outcome: outcome.part or ""),
        by_domain=_rows(final, lambda outcome: outcome.domain),
        misses=_misses(final),
        faults=_faults(final),
        skipped=tuple((skip.item.node_id, skip.reason) for skip in settled.skipped),
        stops=dict(sorted(Counter(str(outcome.stop) for outcome in final if outcome.stop).items())),
        pipelines=_pipelines(final),
        spent=_spent(attempts),
        attempts=len(attempts),
        retried_items=sum(count > 1 for count in settled.tries.values()),
        started=min((outcome.started for outcome in attempts if outcome.started), default=""),
        finished=max((outcome.finished for outcome in attempts), default=""),
        warnings=(*settled.warnings, *_outcome_warnings(settled)),
    )


def _rows(outcomes: Sequence[Outcome], label: Callable[[Outcome], str]) -> tuple[Row, ...]:
    groups: dict[tuple[str, str, int, str], list[Outcome]] = defaultdict(list)
    for outcome in outcomes:
        place = _MECHANISMS.index(outcome.mechanism)
        groups[outcome.model, outcome.agent, place, label(outcome)].append(outcome)
    return tuple(
        Row(model, agent, _MECHANISMS[place], name, rate_of(members))
        for (model, agent, place, name), members in sorted(groups.items())
    )


def _misses(outcomes: Sequence[Outcome]) -> tuple[Misses, ...]:
    groups: dict[tuple[str, str, str], list[Outcome]] = defaultdict(list)
    for outcome in outcomes:
        if outcome.verdict == "failed":
            groups[outcome.model, outcome.agent, outcome.failure_mode or UNNAMED_MODE].append(outcome)
    found = [
        Misses(
            *group,
            by_mechanism=_counts(outcome.mechanism for outcome in members),
            drifts=_counts(outcome.drift.name for outcome in members if outcome.drift),
        )
        for group, members in groups.items()
    ]
    return tuple(sorted(found, key=lambda one: (one.model, one.agent, -one.total, one.mode)))


def _counts(names: Iterable[str]) -> dict[str, int]:
    """Names by their frequency, the commonest first, then by the alphabet."""
    return dict(sorted(Counter(names).items(), key=lambda pair: (-pair[1], pair[0])))


def _faults(outcomes: Sequence[Outcome]) -> tuple[FaultGroup, ...]:
    groups: dict[str, list[Outcome]] = defaultdict(list)
    for outcome in outcomes:
        if outcome.verdict == "ungraded":
            groups[outcome.fault.kind if outcome.fault else "unknown"].append(outcome)
    return tuple(_fault_group(kind, members) for kind, members in sorted(groups.items()))


def _fault_group(kind: str, members: Sequence[Outcome]) -> FaultGroup:
    sentences = Counter(
        outcome.fault.message if outcome.fault else outcome.reason or "No reason was recorded."
        for outcome in members
    )
    node_ids = tuple(outcome.node_id for outcome in members)
    return FaultGroup(kind, sentences.most_common(1)[0][0], len(sentences), node_ids)


def _pipelines(outcomes: Sequence[Outcome]) -> dict[str, tuple[str, ...]]:
    groups: dict[str, list[str]] = defaultdict(list)
    for outcome in outcomes:
        if outcome.pipeline is not None:
            groups[outcome.pipeline.word].append(outcome.node_id)
    return {word: tuple(node_ids) for word, node_ids in sorted(groups.items())}


def _spent(attempts: Sequence[Outcome]) -> tuple[Spent, ...]:
    models: dict[str, list[Outcome]] = defaultdict(list)
    for outcome in attempts:
        models[outcome.model].append(outcome)
    return tuple(
        Spent(
            model=model,
            attempts=len(members),
            usage=sum((outcome.usage for outcome in members), Usage()),
            judge_usage=sum((outcome.judge_usage for outcome in members), Usage()),
            unpriced=sum(outcome.usage.calls > 0 and outcome.usage.cost_usd is None for outcome in members),
            setup_seconds=sum(outcome.clocks.setup_seconds for outcome in members),
            attempt_seconds=sum(outcome.clocks.attempt_seconds for outcome in members),
            grading_seconds=sum(outcome.clocks.grading_seconds for outcome in members),
            waiting_seconds=sum(outcome.clocks.waiting_seconds for outcome in members),
        )
        for model, members in sorted(models.items())
    )


def _outcome_warnings(settled: Settled) -> tuple[str, ...]:
    """What the outcomes themselves warn of, each sentence once with its count."""
    counted = Counter(sentence for outcome in settled.outcomes for sentence in set(outcome.warnings))
    return tuple(
        f"{sentence} ({count} items)" if count > 1 else sentence for sentence, count in counted.items()
    )


def _row_as_dict(row: Row) -> dict[str, Any]:
    return {
        "model": row.model,
        "agent": row.agent,
        "mechanism": row.mechanism,
        "label": row.label,
        **row.rate.as_dict(),
    }
