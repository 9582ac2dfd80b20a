"""A run's summary as lines for a terminal: rates, coverage, faults, what was spent, what to type next."""

from __future__ import annotations

import shlex
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from pytest_imaging101.reporting.redact import REMOVED
from pytest_imaging101.reporting.statistics import Rate
from pytest_imaging101.reporting.summary import FaultGroup, Misses, Row, Spent, Summary
from pytest_imaging101.reporting.text import one_line

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.table import Table

MIN_WIDTH = 78
MAX_WARNINGS = 12
_Group = TypeVar("_Group", Row, Misses)
_DROPPED_OPTIONS = ("resume", "output", "api-key")


def summary_lines(summary: Summary, run_folder: Path, *, width: int = 100, color: bool = False) -> list[str]:
    """The summary in lines of at most ``width`` columns (78 at least); no escape codes without colour."""
    console = _console(max(width, MIN_WIDTH), color)
    if summary.total.planned:
        _print_rates(console, summary)
    else:
        _line(console, "nothing was planned")
    if summary.misses:
        _heading(console, "misses by failure mode")
        for name, groups in _by_model(summary.misses).items():
            _line(console, name)
            console.print(_misses_table(groups))
    for title, lines in (
        ("ungraded", [line for group in summary.faults for line in _fault_lines(group)]),
        ("skipped", _skipped_lines(summary.skipped)),
        ("pipelines run again", _pipeline_lines(summary.pipelines)),
        ("warnings", _warning_lines(summary.warnings)),
    ):
        if lines:
            _heading(console, title)
            for line in lines:
                _line(console, line)
    _heading(console, "spent")
    for line in _spent_lines(summary):
        _line(console, line)
    _heading(console, "next")
    _line(console, f"results in {run_folder}: summary.json, results.jsonl, junit.xml, attempts/")
    for line in next_commands(summary, run_folder):
        # A command is to be copied: it is never wrapped.
        console.print(_text(line), soft_wrap=True)
    text = console.file.getvalue() if isinstance(console.file, StringIO) else ""
    return [line.rstrip() for line in text.splitlines()]


def next_commands(summary: Summary, run_folder: Path) -> list[str]:
    """What can be typed from here: resume, while something is ungraded; else the report again."""
    folder = shlex.quote(str(run_folder))
    if summary.complete:
        return [f"imaging101 report {folder}"]
    return [f"{shlex.join(_without_options(summary.command or ('pytest',)))} --resume={folder}"]


def _console(width: int, color: bool) -> Console:
    from rich.console import Console

    return Console(
        file=StringIO(),
        width=width,
        force_terminal=color,
        color_system="standard" if color else None,
        no_color=not color,
        legacy_windows=False,
        force_jupyter=False,
    )


def _print_rates(console: Console, summary: Summary) -> None:
    parts = _by_model(summary.by_part)
    _heading(console, "pass rate by mechanism")
    for name, rows in _by_model(summary.by_mechanism).items():
        _line(console, name)
        console.print(_rate_table(rows, parts.get(name, [])))
    if len({row.label for row in summary.by_domain}) > 1:
        _heading(console, "by domain (passed/graded, +ungraded)")
        for name, rows in _by_model(summary.by_domain).items():
            _line(console, name)
            console.print(_domain_table(rows))
    total = summary.total
    _line(console, f"\ncoverage: {total.graded} of {total.planned} planned graded ({_percent(total)})")
    if total.ungraded and total.bounds:
        low, high = total.bounds
        _line(
            console,
            f"{total.ungraded} ungraded: over everything planned the rate is {low:.2f} if they all fail, "
            f"{high:.2f} if they all pass",
        )


def _rate_table(mechanisms: Sequence[Row], parts: Sequence[Row]) -> Table:
    """Mechanisms of one model, with their levels or modules below each."""
    table = _table("mechanism", "rate", "95 %", "passed/graded", "planned", "bounds")
    for row in mechanisms:
        table.add_row(_text(f"  {row.mechanism}", "bold"), *_cells(row.rate))
        for part in parts:
            if part.mechanism == row.mechanism:
                table.add_row(_text(f"    {one_line(part.label, 40)}"), *_cells(part.rate))
    return table


def _domain_table(rows: Sequence[Row]) -> Table:
    """Domains of one model by mechanism."""
    mechanisms = list(dict.fromkeys(row.mechanism for row in rows))
    cells: dict[str, dict[str, str]] = defaultdict(dict)
    for row in rows:
        cells[row.label][row.mechanism] = _short(row.rate)
    table = _table("domain", *mechanisms)
    for domain, found in sorted(cells.items()):
        shown = [_text(found.get(mechanism, "")) for mechanism in mechanisms]
        table.add_row(_text(f"  {one_line(domain, 40)}"), *shown)
    return table


def _misses_table(groups: Sequence[Misses]) -> Table:
    """Failure modes of one model by mechanism, the conventions that drifted below theirs."""
    mechanisms = sorted({mechanism for group in groups for mechanism in group.by_mechanism})
    table = _table("failure mode", *mechanisms, "all")
    for group in groups:
        counts = [str(group.by_mechanism.get(mechanism, "")) for mechanism in mechanisms]
        table.add_row(*(_text(cell) for cell in (f"  {group.mode}", *counts, str(group.total))))
        for name, count in group.drifts.items():
            cells = (f"    {one_line(name, 40)}", *("" for _ in mechanisms), str(count))
            table.add_row(*(_text(cell) for cell in cells))
    return table


def _cells(rate: Rate) -> list[RenderableType]:
    share = "none" if rate.rate is None else f"{rate.rate:.2f}"
    interval = "" if rate.interval is None else "[{:.2f}, {:.2f}]".format(*rate.interval)
    bounds = "" if rate.bounds is None or not rate.ungraded else "{:.2f} to {:.2f}".format(*rate.bounds)
    counts = (f"{rate.passed}/{rate.graded}", str(rate.planned))
    return [_text(cell) for cell in (share, interval, *counts, bounds)]


def _short(rate: Rate) -> str:
    share = "none" if rate.rate is None else f"{rate.rate:.2f}"
    missing = f" +{rate.ungraded}" if rate.ungraded else ""
    return f"{share} {rate.passed}/{rate.graded}{missing}"


def _fault_lines(group: FaultGroup) -> list[str]:
    others = f" (and {group.messages - 1} other sentences)" if group.messages > 1 else ""
    return [
        f"{len(group.node_ids)} x {one_line(group.kind, 60)}: {one_line(group.message)}{others}",
        _node_ids(group.node_ids),
    ]


def _skipped_lines(skipped: Iterable[tuple[str, str]]) -> list[str]:
    by_reason: dict[str, int] = defaultdict(int)
    for _, reason in skipped:
        by_reason[reason] += 1
    return [f"{count} x {one_line(reason)}" for reason, count in sorted(by_reason.items())]


def _pipeline_lines(pipelines: Mapping[str, Sequence[str]]) -> list[str]:
    """How many submitted programs make what their agent left, and which do not."""
    sentences = {
        "agrees": "main.py makes again what the agent left",
        "differs": "main.py does not make what the agent left",
        "unknown": "cannot be told",
    }
    lines = []
    for word, node_ids in pipelines.items():
        lines.append(f"{len(node_ids)} x {sentences[word]}")
        if word != "agrees":
            lines.append(_node_ids(node_ids))
    return lines


def _node_ids(node_ids: Sequence[str]) -> str:
    shown = ", ".join(one_line(node_id, 120) for node_id in node_ids[:3])
    more = f" and {len(node_ids) - 3} more" if len(node_ids) > 3 else ""
    return f"    {shown}{more}"


def _warning_lines(warnings: Sequence[str]) -> list[str]:
    lines = [one_line(warning) for warning in warnings[:MAX_WARNINGS]]
    if len(warnings) > MAX_WARNINGS:
        lines.append(f"and {len(warnings) - MAX_WARNINGS} more, see summary.json")
    return lines


def _spent_lines(summary: Summary) -> list[str]:
    lines = [_spent_line(spent) for spent in summary.spent]
    items = summary.total.planned
    share = f" ({100 * summary.retried_items / items:.0f} %)" if items else ""
    lines.append(
        f"{summary.attempts} attempts; {summary.retried_items} of {items} items{share} took more than one"
    )
    return lines


def _spent_line(spent: Spent) -> str:
    usage = spent.usage + spent.judge_usage
    about = "about " if usage.estimated else ""
    words = [
        f"{spent.attempts} attempts",
        f"{usage.calls} calls",
        f"{about}{_count(usage.prompt_tokens)} + {_count(usage.completion_tokens)} tokens",
        _cost(spent),
        f"agents {_duration(spent.attempt_seconds)}",
        f"set-up {_duration(spent.setup_seconds)}",
        f"grading {_duration(spent.grading_seconds)}",
        f"waiting {_duration(spent.waiting_seconds)}",
    ]
    return f"{one_line(spent.model, 60)}: {', '.join(words)}"


def _cost(spent: Spent) -> str:
    usage = spent.usage + spent.judge_usage
    if usage.cost_usd is None:
        return "cost unknown" if usage.calls else "no cost"
    if spent.unpriced:
        return f"at least ${usage.cost_usd:.2f} ({spent.unpriced} attempts without a known price)"
    return f"{'about ' if usage.estimated else ''}${usage.cost_usd:.2f}"


def _without_options(command: Sequence[str]) -> list[str]:
    """A command without the options that name the run's folder or a key, which the next one says anew."""
    kept: list[str] = []
    names = [f"--{prefix}{name}" for name in _DROPPED_OPTIONS for prefix in ("", "imaging101-")]
    drop_next = False
    for word in command:
        option = word.partition("=")[0]
        if drop_next or option in names or word == REMOVED:
            drop_next = word in names
            continue
        kept.append(one_line(word, 500))
    return kept


def _by_model(rows: Sequence[_Group]) -> dict[str, list[_Group]]:
    """Rows by what to call their model; the agent is named where one model was driven by several."""
    agents: dict[str, set[str]] = defaultdict(set)
    for row in rows:
        agents[row.model].add(row.agent)
    groups: dict[str, list[_Group]] = defaultdict(list)
    for row in rows:
        name = f"{row.model} ({row.agent})" if len(agents[row.model]) > 1 else row.model
        groups[one_line(name, 80)].append(row)
    return groups


def _table(first: str, *others: str) -> Table:
    from rich.table import Table

    table = Table(box=None, pad_edge=False, header_style="dim")
    table.add_column(f"  {first}", min_width=18, overflow="fold")
    for name in others:
        table.add_column(name, justify="right", no_wrap=True)
    return table


def _text(words: str, style: str = "") -> RenderableType:
    """Text as it stands: rich reads no markup in it."""
    from rich.text import Text

    return Text(words, style=style)


def _heading(console: Console, words: str) -> None:
    console.print(_text(f"\n{words}" if console.file.tell() else words, "bold"))


def _line(console: Console, words: str) -> None:
    """One line; where it is too long for the width, what follows keeps its indent."""
    from rich.padding import Padding

    text = words.lstrip(" ")
    console.print(Padding(_text(text), (0, 0, 0, len(words) - len(text))))


def _percent(rate: Rate) -> str:
    # Not all may not read as all: 999 of 1000 are 99 %, not 100 %.
    return f"{100 * rate.graded // rate.planned} %"


def _count(number: int) -> str:
    for size, letter in ((1_000_000, "M"), (1_000, "k")):
        if number >= size:
            return f"{number / size:.1f}{letter}"
    return str(number)


def _duration(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours} h {minutes:02d} min"
    return f"{minutes} min {rest:02d} s" if minutes else f"{seconds:.1f} s"
