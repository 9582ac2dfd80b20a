"""junit XML of a whole run, made from outcomes alone, resumed parts and missing items included."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from xml.etree import ElementTree

from pytest_imaging101.outcome import Outcome, PlannedItem
from pytest_imaging101.reporting.atomic import write_atomic
from pytest_imaging101.reporting.journal import Event
from pytest_imaging101.reporting.properties import headline, to_properties
from pytest_imaging101.reporting.settle import Settled, settle
from pytest_imaging101.reporting.text import clean, one_line

JUNIT_FILE = "junit.xml"
MAX_DETAIL = 3000
MAX_CHECKS = 20


def write_junit(
    path: Path,
    outcomes: Iterable[Outcome],
    planned: Iterable[PlannedItem],
    events: Iterable[Event] = (),
    *,
    properties: bool = True,
) -> None:
    """Write a run's junit XML atomically, a few kilobytes an item at most. Raises StorageFault.

    A miss is a failure, an ungraded attempt an error of its fault's kind, a planned item without an outcome
    an error ``interrupted``. Transcripts are named by their path in the run's folder. ``properties=False``
    leaves the properties out, for readers whose schema knows none on a test case.
    """
    settled = settle(outcomes, planned, events)
    root = ElementTree.Element("testsuites", name="imaging101")
    root.append(_suite(settled, properties))
    ElementTree.indent(root, " ")
    write_atomic(path, ElementTree.tostring(root, encoding="utf-8", xml_declaration=True) + b"\n")


def _suite(settled: Settled, properties: bool) -> ElementTree.Element:
    verdicts = Counter(outcome.verdict for outcome in settled.outcomes)
    started = min((outcome.started for outcome in settled.outcomes if outcome.started), default="")
    suite = ElementTree.Element(
        "testsuite",
        name="imaging101",
        tests=str(len(settled.outcomes) + len(settled.skipped)),
        failures=str(verdicts["failed"]),
        errors=str(verdicts["ungraded"]),
        skipped=str(len(settled.skipped)),
        time=_seconds(sum(map(_duration, settled.outcomes))),
    )
    if started:
        suite.set("timestamp", one_line(started, 40))
    items: list[PlannedItem] = [*settled.outcomes, *(skip.item for skip in settled.skipped)]
    shared = {name for name, count in Counter(item.node_id for item in items).items() if count > 1}
    for outcome in settled.outcomes:
        suite.append(_case(outcome, outcome.node_id in shared, properties))
    for skip in settled.skipped:
        case = _named_case(skip.item, skip.item.node_id in shared, seconds=0.0)
        ElementTree.SubElement(case, "skipped", type="skipped", message=skip.reason)
        suite.append(case)
    return suite


def _named_case(item: PlannedItem, shared: bool, seconds: float) -> ElementTree.Element:
    """A test case named as pytest names it; model and epoch follow where node ids alone are not unique."""
    path, _, name = item.node_id.partition("::")
    name = f"{name or path} {item.model} {item.agent} epoch {item.epoch}" if shared else name or path
    classname = re.sub(r"[/\\]", ".", path.removesuffix(".py"))
    return ElementTree.Element(
        "testcase", classname=one_line(classname), name=one_line(name), time=_seconds(seconds)
    )


def _case(outcome: Outcome, shared: bool, properties: bool) -> ElementTree.Element:
    case = _named_case(outcome, shared, _duration(outcome))
    if properties:
        holder = ElementTree.SubElement(case, "properties")
        for name, value in to_properties(outcome):
            ElementTree.SubElement(holder, "property", name=name, value=str(value))
    if outcome.verdict == "failed":
        message = one_line(f"{headline(outcome)}: {outcome.reason}" if outcome.reason else headline(outcome))
        failure = ElementTree.SubElement(case, "failure", type="missed", message=message)
        failure.text = _failed_checks(outcome)
    elif outcome.verdict == "ungraded":
        kind = outcome.fault.kind if outcome.fault else "unknown"
        message = outcome.fault.message if outcome.fault else outcome.reason
        error = ElementTree.SubElement(case, "error", type=one_line(kind, 80), message=one_line(message))
        error.text = clean(outcome.fault.evidence, MAX_DETAIL) if outcome.fault else ""
    ElementTree.SubElement(case, "system-out").text = _where_to_look(outcome)
    return case


def _failed_checks(outcome: Outcome) -> str:
    failed = [check for check in outcome.checks if not check.passed]
    lines = [_line(check.group, check.name, check.detail) for check in failed[:MAX_CHECKS]]
    if len(failed) > MAX_CHECKS:
        lines.append(f"… and {len(failed) - MAX_CHECKS} more")
    return clean("\n".join(lines), MAX_DETAIL)


def _line(group: str, name: str, detail: str) -> str:
    return one_line(f"{group + ' ' if group else ''}{name}{': ' + detail if detail else ''}")


def _where_to_look(outcome: Outcome) -> str:
    """The result again (some readers drop properties) and the files to open, relative to the run's folder."""
    lines = [headline(outcome)]
    if outcome.stop:
        lines.append(f"the agent stopped: {outcome.stop}")
    lines += [f"{outcome.folder}/{name}" for name in _transcripts(outcome.artefacts)]
    return clean("\n".join(lines), MAX_DETAIL)


def _transcripts(artefacts: Sequence[str]) -> list[str]:
    return [name for name in artefacts if name.rpartition("/")[2].startswith("transcript")]


def _duration(outcome: Outcome) -> float:
    clocks = outcome.clocks
    return clocks.setup_seconds + clocks.attempt_seconds + clocks.grading_seconds


def _seconds(value: float) -> str:
    return f"{value:.3f}"
