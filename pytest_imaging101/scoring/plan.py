"""Grades a plan against its task's rubric by patterns: deterministic, without a model."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from pytest_imaging101.faults import TaskFault
from pytest_imaging101.outcome import Assessment, Check
from pytest_imaging101.task import PARTS_OF_A_PLAN, PLAN_FILES, Task

RUBRIC_FILE = "plan/rubric.toml"

# The plan is hostile text and the patterns may backtrack: what bounds their time is how much they get to see.
MAX_PLAN_CHARACTERS = 200_000
MAX_PARAGRAPH_CHARACTERS = 5_000
_OVERLAP = 500

_ITEM_KEYS = {"part", "id", "text", "all_of", "none_of"}
_LIST_ITEM = re.compile(r"\s*(?:[-*+]|\d{1,3}[.)])\s")


class PlanMissing(Exception):
    """A plan file was not delivered or is empty: a miss, with the sentence that says which."""


@dataclass(frozen=True)
class Item:
    """One thing that a right plan says, in words for a judge and in patterns for this check."""

    part: str
    id: str
    text: str
    all_of: tuple[re.Pattern[str], ...]
    none_of: tuple[re.Pattern[str], ...] = ()

    def met(self, paragraphs: Sequence[str]) -> bool:
        """Whether one paragraph matches everything of ``all_of`` and nothing of ``none_of``."""
        return any(
            all(pattern.search(paragraph) for pattern in self.all_of)
            and not any(pattern.search(paragraph) for pattern in self.none_of)
            for paragraph in paragraphs
        )


@dataclass(frozen=True)
class Rubric:
    """What a right plan of one task contains; every part has at least one item."""

    items: tuple[Item, ...]

    @classmethod
    def read(cls, task: Task) -> Rubric:
        """Read ``plan/rubric.toml``. Raises TaskFault, naming file and item, if it is broken."""
        where = f"task {task.name}: {RUBRIC_FILE}"
        try:
            table = tomllib.loads(task.text(RUBRIC_FILE))
        except tomllib.TOMLDecodeError as error:
            raise TaskFault(f"{where} is not TOML ({error})") from error
        entries = table.get("item")
        if not isinstance(entries, list) or not entries:
            raise TaskFault(f"{where} has no [[item]]")
        items = tuple(_read_item(f"{where}: item {n}", entry) for n, entry in enumerate(entries, 1))
        ids = [item.id for item in items]
        if repeated := {id for id in ids if ids.count(id) > 1}:
            raise TaskFault(f"{where}: the id {min(repeated)!r} stands there twice")
        for part in PARTS_OF_A_PLAN:
            if all(item.part != part for item in items):
                raise TaskFault(f"{where} has no item for the part {part!r}")
        return cls(items)


def join_plan(files: Mapping[str, bytes | None]) -> str:
    """The text of both plan files. Raises PlanMissing if one was not delivered or holds only white space."""
    texts = []
    for name in PLAN_FILES:
        content = files.get(name)
        if content is None:
            raise PlanMissing(f"{name} was not delivered")
        text = content.decode("utf-8", errors="replace").replace("\r\n", "\n")
        if not text.strip():
            raise PlanMissing(f"{name} is empty")
        texts.append(text)
    return "\n\n".join(texts)


def reference_plan(task: Task) -> str:
    """The text of the task's own plan. Raises TaskFault if a file is missing."""
    return "\n\n".join(task.text(name) for name in PLAN_FILES)


def check_rubric(rubric: Rubric, plan_text: str) -> Assessment:
    """Hold a plan against every item: a part is right when all its items are met, the whole when all parts are.

    Only the first 200,000 characters are read, and a paragraph longer than 5,000 is looked at in overlapping
    pieces of that length; a note says so where it happened.
    """
    paragraphs = split_paragraphs(plan_text[:MAX_PLAN_CHARACTERS])
    met = {item.id: item.met(paragraphs) for item in rubric.items}
    return assess_items(rubric, met, judge="rubric", notes=length_notes(plan_text))


def miss_plan(rubric: Rubric, reason: str, judge: str) -> Assessment:
    """The assessment of a plan that is not there."""
    missed = assess_items(rubric, {item.id: False for item in rubric.items}, judge=judge)
    return replace(missed, reason=reason)


def assess_items(
    rubric: Rubric,
    met: Mapping[str, bool],
    *,
    judge: str,
    notes: tuple[str, ...] = (),
    details: Mapping[str, str] | None = None,
    right_parts: Mapping[str, bool] | None = None,
    right_overall: bool = True,
) -> Assessment:
    """Items to parts to the whole. A judge's own verdicts on parts and the whole can only take away."""
    checks = tuple(
        Check(item.id, met[item.id], item.part, (details or {}).get(item.id) or item.text)
        for item in rubric.items
    )
    parts = {
        part: all(check.passed for check in checks if check.group == part)
        and (right_parts or {}).get(part, True)
        for part in PARTS_OF_A_PLAN
    }
    passed = all(parts.values()) and right_overall
    scores = {part: float(right) for part, right in parts.items()}
    scores["overall"] = float(passed)
    scores["items_met_fraction"] = sum(check.passed for check in checks) / len(checks)
    return Assessment(
        passed=passed,
        reason=_reason(checks, parts, passed),
        scores=scores,
        checks=checks,
        notes=notes,
        grading="plan",
        judge=judge,
    )


def length_notes(plan_text: str) -> tuple[str, ...]:
    """What is said of a plan that is longer than what gets read of it."""
    if len(plan_text) <= MAX_PLAN_CHARACTERS:
        return ()
    return (f"only the first {MAX_PLAN_CHARACTERS} of the plan's {len(plan_text)} characters were read",)


def split_paragraphs(text: str) -> list[str]:
    """Text between blank lines, each with its white space collapsed, so that line breaks change no match.

    The items of one list stay together even with blank lines between them.
    """
    paragraphs: list[str] = []
    for block in re.split(r"\n(?:[ \t]*\n)+", text.replace("\r\n", "\n")):
        continues = paragraphs and _LIST_ITEM.match(paragraphs[-1]) and _LIST_ITEM.match(block)
        if continues:
            paragraphs[-1] += "\n" + block
        elif block.strip():
            paragraphs.append(block)
    return [piece for paragraph in paragraphs for piece in _pieces(" ".join(paragraph.split()))]


def _pieces(paragraph: str) -> list[str]:
    step = MAX_PARAGRAPH_CHARACTERS - _OVERLAP
    last = max(1, len(paragraph) - _OVERLAP)
    return [paragraph[start : start + MAX_PARAGRAPH_CHARACTERS] for start in range(0, last, step)]


def _reason(checks: Sequence[Check], parts: Mapping[str, bool], passed: bool) -> str:
    if passed:
        return f"all {len(parts)} parts of the plan are right"
    wrong = [part for part, right in parts.items() if not right]
    if not wrong:
        return "every part of the plan is right, the whole is not"
    lacking = [
        f"{part} ({', '.join(c.name for c in checks if c.group == part and not c.passed) or 'judged wrong'})"
        for part in wrong
    ]
    return f"{len(wrong)} of {len(parts)} parts of the plan are not right: {', '.join(lacking)}"


def _read_item(where: str, entry: Any) -> Item:
    if not isinstance(entry, dict):
        raise TaskFault(f"{where} is no table")
    if isinstance(entry.get("id"), str):
        where = f"{where} ({entry['id']})"
    if unknown := set(entry) - _ITEM_KEYS:
        raise TaskFault(
            f"{where} has the unknown key {min(unknown)!r}; known are {', '.join(sorted(_ITEM_KEYS))}"
        )
    for key in ("id", "text"):
        if not isinstance(entry.get(key), str) or not entry[key].strip():
            raise TaskFault(f"{where}: {key} is {entry.get(key)!r}; it must be a text")
    if entry.get("part") not in PARTS_OF_A_PLAN:
        raise TaskFault(
            f"{where}: part is {entry.get('part')!r}; it must be one of {', '.join(PARTS_OF_A_PLAN)}"
        )
    all_of = _patterns(where, "all_of", entry.get("all_of"))
    if not all_of:
        raise TaskFault(f"{where}: all_of is empty, so that every plan would meet it")
    none_of = _patterns(where, "none_of", entry.get("none_of", []))
    return Item(entry["part"], entry["id"], entry["text"], all_of, none_of)


def _patterns(where: str, key: str, values: Any) -> tuple[re.Pattern[str], ...]:
    if not isinstance(values, list) or not all(isinstance(value, str) for value in values):
        raise TaskFault(f"{where}: {key} is {values!r}; it must be a list of regular expressions")
    patterns = []
    for value in values:
        try:
            patterns.append(re.compile(value, re.IGNORECASE))
        except re.error as error:
            raise TaskFault(
                f"{where}: {key} holds {value!r}, which is no regular expression ({error})"
            ) from error
    return tuple(patterns)
