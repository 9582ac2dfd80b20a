"""One attempt as it happens: brief, clocks, transcript, what was delivered, and at the end its outcome."""

from __future__ import annotations

import time
from contextlib import AbstractContextManager, suppress
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from string import Template
from typing import Any

from pytest_imaging101.agents.base import PROMPTS, Agent, Brief, Deliverable, Transcript
from pytest_imaging101.agents.last_error import last_error
from pytest_imaging101.budget import Budget, StopReason, Usage
from pytest_imaging101.collection import Planned
from pytest_imaging101.faults import Fault
from pytest_imaging101.outcome import (
    Assessment,
    Clocks,
    FaultRecord,
    Integrity,
    Outcome,
    Pipeline,
    PlannedItem,
    finite_scores,
)
from pytest_imaging101.reporting.store import attempt_name
from pytest_imaging101.run import Run, versions
from pytest_imaging101.sandboxes.base import NotDelivered, Sandbox
from pytest_imaging101.task import PLAN_FILES, Task

PLAN_BYTES = 200_000
MODULE_BYTES = 1_000_000
KEPT_BYTES = 5_000_000
KEPT_FILES = 200
KEPT_NAME_CHARACTERS = 200
GRADING_SECONDS = 300.0
SUBMITTED_FOLDER = "submitted"


class AgentFault(Fault):
    """An agent's program does not keep its part of the interface, which is no model's doing."""

    kind = "agent"
    retryable = False


@dataclass(frozen=True)
class Delivered:
    """What left the sandbox as data: contents by path, and for what is missing the reason."""

    files: dict[str, bytes]
    missing: dict[str, str]

    def get(self, path: str) -> bytes | None:
        return self.files.get(path)


@dataclass
class Attempt:
    """The state of one attempt. Bodies call ``work`` and then ``conclude``; a fault is recorded by the plugin."""

    planned: Planned
    item: PlannedItem
    run: Run
    retry: int
    folder: Path = field(init=False)
    budget: Budget = field(init=False)
    outcome: Outcome | None = None
    stop: StopReason | None = None
    missing: dict[str, str] = field(default_factory=dict)
    integrity: Integrity | None = None
    sandbox_name: str = ""
    warnings: list[str] = field(default_factory=list)
    judge_usage: Usage = field(default_factory=Usage)
    pipeline: Pipeline | None = None
    started: str = field(default_factory=lambda: _now())
    _opened: float = field(default_factory=time.monotonic)
    _agent_version: dict[str, str] = field(default_factory=dict)
    _work_began: float | None = None
    _work_ended: float | None = None
    _setup_waited: float = 0.0
    _grading_waited: float = 0.0

    def __post_init__(self) -> None:
        limits = self.run.settings.limits.with_command_seconds(self.task.limits.command_seconds)
        self.budget = Budget(limits)
        self.folder = self.run.folder.attempt_folder(attempt_name(self.item, self.retry))
        self.run.journal.started(self.item)

    @property
    def task(self) -> Task:
        return self.planned.task

    def waited(self, seconds: float) -> None:
        """Account for a wait through no doing of the attempt's, which no clock may count."""
        if self._work_began is None:
            self._setup_waited += seconds
        elif self._work_ended is None:
            self.budget.credit(seconds)
        else:
            self._grading_waited += seconds

    def computing(self) -> AbstractContextManager[None]:
        """Hold one of the machine's CPU slots while something of this attempt computes outside its sandbox."""
        return self.run.slots.computing(self.waited)

    def use(self, sandbox: Sandbox) -> None:
        """Note where the attempt takes place, and what that place cannot promise."""
        self.sandbox_name = sandbox.backend
        self.warnings += [*self.run.backend.warnings, *sandbox.warnings]
        self.warnings = list(dict.fromkeys(self.warnings))

    def work(self, agent: Agent, sandbox: Sandbox) -> Delivered:
        """Let the agent work, then take its deliverables out and destroy the sandbox.

        Deliverables are taken also when the agent crashed, and before the error goes on.
        """
        from pytest_imaging101.scoring.integrity import Secrets, examine

        brief = make_brief(self.planned)
        secrets = Secrets.of(self.task, self._shown(), self._handed())
        transcript = Transcript(self.folder / "transcript.jsonl")
        self._agent_version = {"agent": f"{agent.name} {agent.version}"}
        self._work_began = time.monotonic()
        self.budget.start()
        try:
            stop = agent.work(brief, sandbox, self.budget, transcript)
        finally:
            self.budget.stop()
            self._work_ended = time.monotonic()
            records = [file for file in self.folder.iterdir() if file.is_file()]
            delivered = self._collect(brief, sandbox)
            self.missing = delivered.missing
            self.integrity = examine(secrets, sandbox, delivered.files, records)
            sandbox.close()
        if not isinstance(stop, StopReason):
            raise AgentFault(f"the agent {agent.name} returned {stop!r}; its work() must return a StopReason")
        self.stop = stop
        transcript.event("stopped", reason=str(self.stop), missing=delivered.missing)
        secrets.require_unchanged(self.task)
        return delivered

    def _shown(self) -> dict[str, Path]:
        return self.task.visible(self.planned.mechanism, self.planned.part)

    def _handed(self) -> dict[str, Path]:
        """Private files that the harness itself puts into the sandbox: the naive model submits one."""
        return {"naive.py": self.task.path("evaluation/naive.py")} if self.planned.model == "naive" else {}

    def _collect(self, brief: Brief, sandbox: Sandbox) -> Delivered:
        files: dict[str, bytes] = {}
        missing: dict[str, str] = {}
        for item in brief.deliverables:
            try:
                files[item.path] = sandbox.get(item.path, item.max_bytes)
            except NotDelivered as error:
                missing[item.path] = str(error)
        kept = self._kept_sources(sandbox, set(files))
        for path, content in {**kept, **files}.items():
            target = self.folder / SUBMITTED_FOLDER / path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(content)
        return Delivered(files, missing)

    def _kept_sources(self, sandbox: Sandbox, have: set[str]) -> dict[str, bytes]:
        """Sources the agent wrote beside its deliverables, kept for who reads the attempt later."""
        kept: dict[str, bytes] = {}
        if self.planned.mechanism != "end2end":
            return kept
        room = KEPT_BYTES
        for entry in sandbox.list():
            wanted = entry.path.endswith(".py") and entry.path not in have
            # The names are the agent's own choice: what could not be written here under its name is left out.
            wanted = wanted and len(entry.path) <= KEPT_NAME_CHARACTERS and len(kept) < KEPT_FILES
            if wanted and entry.size <= min(room, MODULE_BYTES):
                with suppress(NotDelivered):
                    kept[entry.path] = sandbox.get(entry.path, MODULE_BYTES)
                    room -= entry.size
        return kept

    @property
    def grading_seconds(self) -> float:
        """The grader's own clock, for one set of fixtures."""
        return GRADING_SECONDS

    def spend_on_judging(self, usage: Usage) -> None:
        """Account for a judge's call, apart from the agent's."""
        self.judge_usage = self.judge_usage + usage

    def draw(self, submitted: bytes | None) -> None:
        """Save the picture of reconstruction, reference and error, where there is something to show."""
        from pytest_imaging101.reporting.figure import save_comparison
        from pytest_imaging101.scoring.arrays import NotComparable, kind_of, load_array
        from pytest_imaging101.scoring.reconstruction import read_truth

        if submitted is None:
            return
        task = self.task
        try:
            array = load_array(submitted, None, kind_of(task.output.dtype))
        except NotComparable:
            return  # the verdict says what is wrong with it
        title = f"{task.name}: {self.planned.model}, {self.planned.part}"
        save_comparison(self.folder / "comparison.png", array, read_truth(task), title, task.output.unit)

    def run_pipeline_again(self, left: bytes | None) -> None:
        """Where --verify-pipeline asks for it: whether the submitted main.py makes the array that was left."""
        from pytest_imaging101.pipeline import submitted_sources, verify_pipeline

        if not self.run.settings.verify_pipeline:
            return
        self.pipeline = verify_pipeline(
            self.task,
            self.planned.part,
            submitted_sources(self.folder / SUBMITTED_FOLDER),
            left,
            lambda: self.run.slots.sandbox(self.run.open_sandbox(self.task), self.waited),
            timeout=self.budget.limits.command_seconds,
            max_bytes=deliverables(self.planned)[0].max_bytes,
        )

    def conclude(self, assessment: Assessment) -> Outcome:
        """Write the verdict. Raises Miss, with the reason, where the mark is missed."""
        from pytest_imaging101.attempts import Miss
        from pytest_imaging101.scoring.failure_mode import failure_mode

        warnings = [*self.warnings, *assessment.notes]
        if self.integrity is not None and self.integrity.verdict == "tainted":
            tainted = f"tainted: {'; '.join(self.integrity.evidence[:3])}"
            warnings.append(tainted)
            if assessment.passed:
                assessment = replace(assessment, passed=False, reason=tainted)
        scores, notes = finite_scores(assessment.scores)
        scores |= dict.fromkeys(assessment.score_notes)
        notes |= assessment.score_notes
        outcome = self._outcome(
            verdict="passed" if assessment.passed else "failed",
            reason=assessment.reason,
            scores=scores,
            score_notes=notes,
            checks=list(assessment.checks),
            boundaries=self._boundaries(),
            grading=assessment.grading,
            judge=assessment.judge,
            drift=assessment.drift,
            warnings=warnings,
        )
        self.outcome = outcome.model_copy(update={"failure_mode": failure_mode(outcome)})
        self._write(self.outcome)
        if not assessment.passed:
            raise Miss(assessment.reason)
        return self.outcome

    def ungraded(self, error: BaseException) -> Outcome:
        """Write that the attempt has no verdict, and why."""
        if isinstance(error, Fault):
            record = FaultRecord(kind=error.kind, message=error.message, evidence=error.evidence)
        else:
            record = FaultRecord(kind="harness", message=f"{type(error).__name__}: {error}"[:2000])
        self.outcome = self._outcome(
            verdict="ungraded", reason=record.message, fault=record, warnings=self.warnings
        )
        self._write(self.outcome)
        return self.outcome

    def _boundaries(self) -> dict[str, float]:
        if self.planned.mechanism != "end2end":
            return {}
        ending = "_boundary"
        metrics = self.task.metrics()
        return {
            key.removesuffix(ending): float(value)
            for key, value in metrics.items()
            if key.endswith(ending) and isinstance(value, int | float)
        }

    def _write(self, outcome: Outcome) -> None:
        self.run.folder.write_outcome(outcome, self.folder)
        self.run.journal.verdict(outcome)

    def _outcome(self, **judged: Any) -> Outcome:
        began = self._work_began or time.monotonic()
        ended = self._work_ended or began
        waited = self._setup_waited + self.budget.credited_seconds + self._grading_waited
        clocks = Clocks(
            setup_seconds=round(began - self._opened - self._setup_waited, 3),
            attempt_seconds=round(self.budget.seconds, 3),
            grading_seconds=round(time.monotonic() - ended - self._grading_waited, 3),
            waiting_seconds=round(waited, 3),
        )
        return Outcome(
            **self.item.model_dump(),
            grader=self.run.grader(self.task),
            retry=self.retry,
            stop=self.stop,
            missing=self.missing,
            last_error=last_error(self.folder / "transcript.jsonl") if self.missing else "",
            integrity=self.integrity,
            iterations=self.budget.iterations,
            usage=self.budget.usage,
            judge_usage=self.judge_usage,
            pipeline=self.pipeline,
            clocks=clocks,
            sandbox=self.sandbox_name,
            artefacts=sorted(
                file.relative_to(self.folder).as_posix() for file in self.folder.rglob("*") if file.is_file()
            ),
            parameters=self.run.settings.model_parameters(self.planned.model)
            | {"limits": asdict(self.budget.limits)},
            versions=versions() | self._agent_version,
            started=self.started,
            finished=_now(),
            **judged,
        )


def make_brief(planned: Planned) -> Brief:
    """The prompt of an item, from its file under ``agents/prompts``."""
    task = planned.task
    name = f"end2end_{planned.part}" if planned.mechanism == "end2end" else planned.mechanism
    template = Template((PROMPTS / f"{name}.md").read_text(encoding="utf-8"))
    visible = task.visible(planned.mechanism, planned.part)
    plan = {file: task.text(file) for file in PLAN_FILES if file in visible}
    text = template.substitute(
        part=planned.part or "",
        modules=", ".join(f"`src/{module}.py`" for module in task.modules),
        files="\n".join(f"- {name} ({file.stat().st_size} bytes)" for name, file in visible.items()),
        readme=task.text("README.md"),
        approach=plan.get("plan/approach.md", ""),
        design=plan.get("plan/design.md", ""),
        output=task.output.file,
        shape=task.output.shape,
        dtype=task.output.dtype,
        unit=task.output.unit,
    )
    return Brief(task.name, planned.mechanism, planned.part, text, deliverables(planned))


def deliverables(planned: Planned) -> tuple[Deliverable, ...]:
    """What an item asks for; nothing else leaves the sandbox as an answer."""
    if planned.mechanism == "planning":
        return tuple(Deliverable(path, "a part of the plan", PLAN_BYTES) for path in PLAN_FILES)
    if planned.mechanism == "function":
        return (Deliverable(f"src/{planned.part}.py", "the module", MODULE_BYTES),)
    output = planned.task.output
    elements = 1
    for length in output.shape:
        elements *= length
    # Room for complex128 twice over, so that a wrong shape is judged as such and not as a missing file.
    return (Deliverable(output.file, "the reconstruction", 32 * elements + 1_000_000),)


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")
