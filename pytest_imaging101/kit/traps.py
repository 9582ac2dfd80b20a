"""Traps: mutated references, each with one realistic error, that the real grading must notice."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from pytest_imaging101.faults import TaskFault
from pytest_imaging101.kit.answers import WRONG_ROOM, worst_miss
from pytest_imaging101.kit.drift import named_by_diagnosis
from pytest_imaging101.kit.finding import Verdict, counted
from pytest_imaging101.kit.subject import Subject
from pytest_imaging101.scoring.reconstruction import score_reconstruction
from pytest_imaging101.scoring.unit_tests import grade_module
from pytest_imaging101.task import Task

TRAPS_FILE = "evaluation/traps.toml"
FEWEST = 4
NOTICERS = ("tests", "boundaries")
_KEYS = {"id", "what", "noticed_by", "edits", "drift"}
_GRADING_SECONDS = 180.0


@dataclass(frozen=True)
class Edit:
    """One change of one file: a text that stands there exactly once, and the mistaken one."""

    file: str
    find: str
    replace: str


@dataclass(frozen=True)
class Trap:
    """One mistake, and who must notice it."""

    id: str
    what: str
    noticed_by: tuple[str, ...]
    edits: tuple[Edit, ...]
    drift: str | None = None

    def files(self, task: Task) -> dict[str, bytes]:
        """The edited files. Raises TaskFault for an edit that does not apply exactly once."""
        texts: dict[str, str] = {}
        for edit in self.edits:
            text = texts.get(edit.file) or task.text(edit.file)
            if (found := text.count(edit.find)) != 1:
                raise TaskFault(
                    f"trap {self.id}: {edit.find!r} stands {found} times in {edit.file}; it must stand there once"
                )
            texts[edit.file] = text.replace(edit.find, edit.replace)
        return {name: text.encode() for name, text in texts.items()}


def read_traps(task: Task) -> tuple[Trap, ...]:
    """Read ``traps.toml``. Raises TaskFault, naming the trap, if it is broken."""
    try:
        entries = tomllib.loads(task.text(TRAPS_FILE)).get("trap", [])
    except tomllib.TOMLDecodeError as error:
        raise TaskFault(f"{TRAPS_FILE} is not TOML ({error})") from error
    if not isinstance(entries, list):
        raise TaskFault(f"{TRAPS_FILE}: write each trap as [[trap]]")
    return tuple(_read_trap(number, entry) for number, entry in enumerate(entries, 1))


def _read_trap(number: int, entry: Mapping[str, Any]) -> Trap:
    where = f"{TRAPS_FILE}: trap {entry.get('id', number)}"
    if unknown := set(entry) - _KEYS:
        raise TaskFault(f"{where} has the unknown key {min(unknown)!r}; known are {', '.join(sorted(_KEYS))}")
    for key, kind in (("id", str), ("what", str), ("noticed_by", list), ("edits", list)):
        if not isinstance(entry.get(key), kind) or not entry[key]:
            raise TaskFault(
                f"{where}: {key} is {entry.get(key)!r}; it must be a {kind.__name__} that is not empty"
            )
    if odd := set(entry["noticed_by"]) - set(NOTICERS):
        raise TaskFault(f"{where}: noticed_by holds {min(odd)!r}; known are {', '.join(NOTICERS)}")
    try:
        edits = tuple(Edit(**edit) for edit in entry["edits"])
    except TypeError as error:
        raise TaskFault(f"{where}: each edit is {{ file, find, replace }} ({error})") from error
    return Trap(entry["id"], entry["what"], tuple(entry["noticed_by"]), edits, entry.get("drift"))


def traps_file(subject: Subject) -> Verdict:
    """At least four traps, each with an id of its own and edits that apply exactly once."""
    task = subject.task
    traps = read_traps(task)
    problems = []
    if len(traps) < FEWEST:
        problems.append(f"{TRAPS_FILE} has {counted(len(traps), 'trap')}; a task has at least {FEWEST}")
    ids = [trap.id for trap in traps]
    problems += [
        f"{TRAPS_FILE}: the id {id!r} stands there twice" for id in sorted(set(ids)) if ids.count(id) > 1
    ]
    for trap in traps:
        problems += list(_trap_problems(task, trap))
    drifts = sum(trap.drift is not None for trap in traps)
    return Verdict(f"{counted(len(traps), 'trap')}, {drifts} drifts", tuple(problems))


def _trap_problems(task: Task, trap: Trap) -> Iterator[str]:
    for edit in trap.edits:
        if edit.file != "main.py" and edit.file not in task.tree("src"):
            yield f"trap {trap.id} edits {edit.file}; only main.py and src/ are the reference"
            return
    if "tests" in trap.noticed_by and not edited_modules(task, trap):
        yield f"trap {trap.id}: tests cannot notice it, since it edits no module of src/"
    try:
        trap.files(task)
    except TaskFault as fault:
        yield fault.message


def edited_modules(task: Task, trap: Trap) -> list[str]:
    """The modules that a trap changes."""
    return [module for module in task.modules if any(e.file == f"src/{module}.py" for e in trap.edits)]


def trap_noticed(subject: Subject, trap: Trap) -> Verdict:
    """A trap goes through the real grading, and each of those whom it names notices it."""
    files = trap.files(subject.task)
    figures, problems = [], []
    if "tests" in trap.noticed_by:
        failed, total = _failed_tests(subject, trap, files)
        figures.append(f"tests {failed}/{total}")
        if not failed:
            problems.append(f"trap {trap.id}: no unit test notices it ({trap.what})")
    if "boundaries" in trap.noticed_by:
        figure, problem = _missed_boundaries(subject, trap, files)
        figures.append(figure)
        problems += [problem] if problem else []
    return Verdict(", ".join(figures), tuple(problems))


def _failed_tests(subject: Subject, trap: Trap, files: Mapping[str, bytes]) -> tuple[int, int]:
    failed = total = 0
    for module in edited_modules(subject.task, trap):
        source = files[f"src/{module}.py"]
        assessment = grade_module(
            subject.task, module, source, subject.open_sandbox, timeout=_GRADING_SECONDS
        )
        failed += sum(not check.passed for check in assessment.checks)
        total += len(assessment.checks)
    return failed, total


def _missed_boundaries(subject: Subject, trap: Trap, files: Mapping[str, bytes]) -> tuple[str, str]:
    """What the mutated pipeline scores, and what is wrong if no boundary notices it."""
    target = subject.task.output.file
    ran = subject.run(["python", "main.py"], subject.pipeline_files() | dict(files), [target])
    if target not in ran.files:
        return "no picture", (
            f"trap {trap.id}: main.py leaves no reconstruction ({ran.ending}); a crash is no convention error"
        )
    assessment = score_reconstruction(subject.task, ran.files[target])
    share, name = worst_miss(subject.task, assessment)
    if assessment.passed:
        return "passes", f"trap {trap.id}: no boundary notices it ({trap.what})"
    narrow = (
        f"trap {trap.id}: misses too narrowly ({share:.0%} of what {name} allows)"
        if share < WRONG_ROOM
        else ""
    )
    drift = named_by_diagnosis(subject.task, ran.files[target])
    return f"{share:.2g} x {name}'s limit" + (f", named {drift}" if drift else ""), narrow
