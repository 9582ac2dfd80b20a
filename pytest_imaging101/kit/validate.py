"""Looks at tasks with every check, several at a time; what was accepted and has not changed is not looked at again."""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from dataclasses import asdict, dataclass
from pathlib import Path

from pytest_imaging101.faults import Fault, TaskFault, UsageError
from pytest_imaging101.kit.checks import first_units, other_units
from pytest_imaging101.kit.finding import Finding, Status, Unit, sentence_of
from pytest_imaging101.kit.subject import Subject, files_of
from pytest_imaging101.sandboxes.choose import Backend
from pytest_imaging101.sandboxes.environment import cache_folder, environment_key
from pytest_imaging101.task import Task

Progress = Callable[[Finding], None]

_PACKAGE = Path(__file__).parents[1]


@dataclass(frozen=True)
class Report:
    """What was found at one task. ``cached`` if it was accepted before and has not changed."""

    task: str
    draft: bool
    findings: tuple[Finding, ...]
    cached: bool = False

    @property
    def accepted(self) -> bool:
        return bool(self.findings) and all(finding.good for finding in self.findings)


def validate(
    folders: Sequence[Path],
    backend: Backend,
    *,
    workers: int = 1,
    force: bool = False,
    only: Sequence[str] = (),
    progress: Progress = lambda finding: None,
) -> list[Report]:
    """Validate task folders; at most so many checks run at the same time.

    ``only`` names checks, or the beginnings of their names; such a part is never remembered as accepted.
    """
    with ThreadPoolExecutor(workers) as pool:
        try:
            return [_validate(folder, backend, pool, force, tuple(only), progress) for folder in folders]
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise


def _validate(
    folder: Path,
    backend: Backend,
    pool: ThreadPoolExecutor,
    force: bool,
    only: tuple[str, ...],
    progress: Progress,
) -> Report:
    try:
        task = Task.read(folder)
    except UsageError as error:
        broken = Finding(folder.name, "task_toml", "layout", "failed", sentence=str(error))
        progress(broken)
        return Report(folder.name, False, (broken,))
    remembered = _memory(task)
    if not force and not only and remembered.is_file():
        stored = json.loads(remembered.read_text(encoding="utf-8"))
        return Report(task.name, task.draft, tuple(Finding(**entry) for entry in stored), cached=True)
    subject = Subject(task, backend)
    rest = _chosen(other_units(task), only)
    first = [look_at(subject, unit) for unit in first_units()]
    wanted = {unit.name for unit in _chosen(first_units(), only)}
    if not rest and not wanted:
        names = sorted({unit.name.partition("[")[0] for unit in (*first_units(), *other_units(task))})
        raise UsageError(f"--check {' '.join(only)}: there is no such check; there are {', '.join(names)}")
    shown = [finding for finding in first if finding.check in wanted or not finding.good]
    for finding in shown:
        progress(finding)
    if all(finding.good for finding in first):
        findings = [*shown, *_look_at_all(subject, rest, pool, progress)]
    else:
        findings = [*shown, *(_skipped(task, unit) for unit in rest)]
    report = Report(task.name, task.draft, tuple(findings))
    if report.accepted and not only:
        _remember(remembered, report)
    return report


def _chosen(units: Sequence[Unit], only: Sequence[str]) -> list[Unit]:
    return [unit for unit in units if not only or unit.name.startswith(tuple(only)) or unit.group in only]


def _remember(file: Path, report: Report) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    temporary = file.with_suffix(f".{os.getpid()}")
    temporary.write_text(json.dumps([asdict(finding) for finding in report.findings]), encoding="utf-8")
    temporary.replace(file)


def _look_at_all(
    subject: Subject, units: Sequence[Unit], pool: ThreadPoolExecutor, progress: Progress
) -> list[Finding]:
    running: dict[Future[Finding], int] = {
        pool.submit(look_at, subject, unit): place for place, unit in enumerate(units)
    }
    found: dict[int, Finding] = {}
    for done in as_completed(running):
        found[running[done]] = done.result()
        progress(done.result())
    return [found[place] for place in range(len(units))]


def look_at(subject: Subject, unit: Unit) -> Finding:
    """One unit's finding. What the task is to blame for is a failure, what the machine is to blame for a fault."""
    started, name = time.monotonic(), subject.task.name
    try:
        verdict = unit.look(subject)
    except Fault as fault:
        status: Status = "failed" if isinstance(fault, TaskFault) else "fault"
        evidence = " | ".join(fault.evidence.strip().splitlines()[-3:])
        said = f"{fault.kind}: {fault}" + (f" [{evidence}]" if evidence else "")
        return Finding(name, unit.name, unit.group, status, "", said, time.monotonic() - started)
    # A task's files may be broken in ways that nobody foresaw; the check's name says where to look.
    except Exception as error:
        said = f"{type(error).__name__}: {error}"
        return Finding(name, unit.name, unit.group, "failed", "", said, time.monotonic() - started)
    status = "failed" if verdict.problems else "passed"
    seconds = round(time.monotonic() - started, 3)
    return Finding(
        name, unit.name, unit.group, status, verdict.figure, sentence_of(verdict.problems), seconds
    )


def _skipped(task: Task, unit: Unit) -> Finding:
    return Finding(
        task.name, unit.name, unit.group, "skipped", sentence="not looked at until the layout is right"
    )


def _memory(task: Task) -> Path:
    """Where it stands that this very folder was accepted by this very package in this environment."""
    digest = hashlib.sha256(environment_key(task.requirements()).encode())
    for root, files in ((task.folder, files_of(task.folder).values()), (_PACKAGE, _package_files())):
        for file in files:
            digest.update(f"{file.relative_to(root).as_posix()}\0".encode())
            digest.update(hashlib.sha256(file.read_bytes()).digest())
    return cache_folder() / "accepted" / f"{task.name}-{digest.hexdigest()[:32]}.json"


def _package_files() -> Iterable[Path]:
    for part in ("kit", "scoring", "sandboxes", "agents"):
        for file in sorted((_PACKAGE / part).rglob("*")):
            if file.is_file() and "__pycache__" not in file.parts:
                yield file
