"""Checks of what a task says: README's keys, units and boundaries, meta data, and the plan's rubric."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

from pytest_imaging101.kit.finding import Verdict, counted
from pytest_imaging101.kit.subject import Subject, arrays_of
from pytest_imaging101.scoring.plan import Rubric, check_rubric, join_plan, reference_plan
from pytest_imaging101.scoring.reconstruction import boundaries
from pytest_imaging101.task import PLAN_FILES

_SOLVER_PAIRS = ("step_size", "stopping_rule", "early_stop", "initial_guess")

_UNIT_NAMES = (
    r"[fpnuµμmckMG]?(?:m|s|g|rad|Hz|eV|V|A|W|J|K|T|Pa|bar|mol|sr|Jy|Ohm)|min|h|deg|°|degrees?|radians?|Å|atm|"
    r"electrons?|photo-?electrons?|photons?|counts?|pixels?|index|ind(?:ex|ices)|samples?|cycles?|dB|HU|ppm|a\.u\.|"
    r"arb\.? ?units?|dimensionless|unitless|arcsec|mas|Da|AU|pc|1|%"
)
_UNIT = re.compile(
    rf"(?<![\w.])(?:1/)?(?:{_UNIT_NAMES})(?:\^?-?\d+)?(?:[/ ·*](?:{_UNIT_NAMES})(?:\^?-?\d+)?)*(?![\w])"
)


def readme_data(subject: Subject) -> Verdict:
    """README names every key of the data and every imaging parameter, and their units."""
    text = subject.task.text("README.md")
    problems: list[str] = []
    count = 0
    for name, file in subject.task.tree("data").items():
        if file.suffix not in (".npy", ".npz"):
            continue
        for key in arrays_of(file):
            count += 1
            problems += _key_problems(text, key or file.name, name)
    for key, value in _meta(subject).items():
        count += 1
        problems += _parameter_problems(text, key, value)
    return Verdict(counted(count, "key"), tuple(problems))


def _key_problems(text: str, key: str, file: str) -> Iterator[str]:
    lines = text.splitlines()
    places = [number for number, line in enumerate(lines) if f"`{key}`" in line]
    said = [_says_unit(lines, number) for number in places]
    if not places:
        yield f"README.md does not name the key `{key}` of {file}"
    elif "missing" in said or "said" not in said:
        yield f"README.md does not say the unit of `{key}` ({file}); write 1 for a pure number"


def _says_unit(lines: list[str], number: int) -> str:
    """``said``, ``missing`` (an empty cell in a table's column of units), or ``elsewhere``: only other lines tell."""
    header = _table_header(lines, number)
    for column, title in enumerate(header):
        if title.lower() in ("unit", "units"):
            cells = _cells(lines[number])
            return "said" if column < len(cells) and cells[column].strip("-–?` ") else "missing"
    text = re.sub(r"`[^`]*`|\([\d, ]+\)", " ", lines[number])
    return "said" if _UNIT.search(text) else "elsewhere"


def _table_header(lines: list[str], number: int) -> list[str]:
    if not lines[number].lstrip().startswith("|"):
        return []
    while number > 0 and lines[number - 1].lstrip().startswith("|"):
        number -= 1
    return _cells(lines[number])


def _cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip().strip("|").split("|")]


def _parameter_problems(text: str, key: str, value: Any) -> Iterator[str]:
    places = [match.end() for match in re.finditer(rf"`{re.escape(key)}`", text)]
    if not places:
        yield f"README.md does not name the imaging parameter `{key}` of meta_data.json"
        return
    if (
        not _needs_unit(value)
        or set(key.lower().split("_")) & _words("units")
        or key.lower().endswith(tuple(_words("pure_numbers")))
    ):
        return
    if not any(_UNIT.search(text[place : place + 120]) for place in places):
        yield f"README.md does not say the unit of `{key}` of meta_data.json; say it there or in the key's name"


def _needs_unit(value: Any) -> bool:
    """Whole numbers count things; texts and truth values have no unit."""
    return _needs_unit(value[0]) if isinstance(value, list) and value else isinstance(value, float)


def readme_boundaries(subject: Subject) -> Verdict:
    """README states every judged figure and its boundary."""
    text = subject.task.text("README.md")
    numbers = {float(found) for found in re.findall(r"\d+(?:\.\d+)?(?:[eE][-+]?\d+)?", text)}
    judged = boundaries(subject.task.metrics())
    problems = [f"README.md does not name the judged figure {b.name}" for b in judged if b.name not in text]
    problems += [
        f"README.md does not state {b.name}'s boundary {b.value:g}"
        for b in judged
        if abs(b.value) not in numbers
    ]
    return Verdict(", ".join(f"{b.name} {b.value:g}" for b in judged), tuple(problems))


def metadata(subject: Subject) -> Verdict:
    """meta_data.json holds imaging parameters alone, no setting of a solver."""
    keys = list(_all_keys(_meta(subject)))
    problems = [
        f"data/meta_data.json: {key!r} is a setting of a solver; put it into main.py"
        for key in keys
        if _is_setting(key.lower())
    ]
    return Verdict(counted(len(keys), "parameter"), tuple(problems))


def _is_setting(key: str) -> bool:
    words = set(re.split(r"[^a-z]+", key))
    if "lambda" in words and words & _words("units"):  # a wavelength
        words.discard("lambda")
    return bool(words & _words("solver")) or any(pair in key for pair in _SOLVER_PAIRS)


def _all_keys(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        for key, inner in value.items():
            yield key
            yield from _all_keys(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _all_keys(inner)


@cache
def _words(name: str) -> frozenset[str]:
    """One of the lists of words.toml."""
    lists = tomllib.loads((Path(__file__).parent / "words.toml").read_text(encoding="utf-8"))
    return frozenset(lists[name])


def _meta(subject: Subject) -> dict[str, Any]:
    loaded = json.loads(subject.task.text("data/meta_data.json"))
    if not isinstance(loaded, dict):
        raise ValueError("data/meta_data.json must hold an object")
    return loaded


def rubric(subject: Subject) -> Verdict:
    """The reference plan meets every item; README as a plan leaves the inverse solver, and what it can, unmet."""
    task = subject.task
    items = Rubric.read(task)
    own = check_rubric(items, reference_plan(task))
    readme = check_rubric(items, join_plan(dict.fromkeys(PLAN_FILES, task.text("README.md").encode())))
    problems = [f"the reference plan does not meet {c.name} ({c.group})" for c in own.checks if not c.passed]
    if readme.scores["inverse_solver"]:
        problems.append("README, used as a plan, already meets every item of inverse_solver")
    met = sum(check.passed for check in readme.checks)
    return Verdict(
        f"plan {sum(c.passed for c in own.checks)}/{len(own.checks)}, README {met}", tuple(problems)
    )
