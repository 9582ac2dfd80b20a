"""What every attempt of one process shares: settings, run folder, journal, broker, sandbox backend."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import Any

from pytest_imaging101 import __version__
from pytest_imaging101.agents.base import prompts_hash
from pytest_imaging101.agents.registry import agent_identity
from pytest_imaging101.budget import Usage
from pytest_imaging101.collection import Planned
from pytest_imaging101.faults import Fault, UsageError
from pytest_imaging101.model_config import BUILT_IN, REPLAY, is_built_in
from pytest_imaging101.models.base import Model, ModelSettings
from pytest_imaging101.models.broker import Broker
from pytest_imaging101.models.client import BrokerClient
from pytest_imaging101.models.replay import ReplayModel
from pytest_imaging101.models.wire import BrokerAddress
from pytest_imaging101.options import Settings
from pytest_imaging101.outcome import PlannedItem
from pytest_imaging101.reporting.atomic import write_atomic
from pytest_imaging101.reporting.journal import Journal
from pytest_imaging101.reporting.store import RunFolder
from pytest_imaging101.sandboxes.base import Resources, Sandbox
from pytest_imaging101.sandboxes.choose import Backend, choose_backend, open_sandbox
from pytest_imaging101.sandboxes.environment import Environment, provide_environment
from pytest_imaging101.scoring.judge import Judge, LLMJudge, RubricJudge
from pytest_imaging101.scoring.version import grader_version
from pytest_imaging101.slugs import slug
from pytest_imaging101.task import Task
from pytest_imaging101.waiting import MachineSlots, Waited

STOPPED_FOLDER = "stopped"


class NotTried(Fault):
    """An earlier attempt met a fault that every later one with the same model would meet."""

    kind = "not_tried"
    retryable = False


class NotHere(Fault):
    """What the item takes cannot be had on this system."""

    kind = "platform"
    retryable = False


@dataclass
class Run:
    """One process's part in a run. The controller starts the broker; workers reach it by its address."""

    settings: Settings
    folder: RunFolder
    writer: str
    backend: Backend
    address: BrokerAddress | None
    slots: MachineSlots
    broker: Broker | None = None
    broken_environments: dict[tuple[str, ...], Fault] = field(default_factory=dict)

    @classmethod
    def start(cls, settings: Settings, reports: Path) -> Run:
        """Begin or resume a run in the controlling process. Nothing is written before all that can be refused is."""
        backend = choose_backend(settings.sandbox, settings.docker_image)
        slots = MachineSlots.of(settings)
        broker = Broker(settings.model_settings) if settings.model_settings else None
        if settings.resume is not None:
            folder = RunFolder.open(settings.resume)
            check_models(folder, settings.models)
            for flag in (folder.path / STOPPED_FOLDER).glob("*.json"):
                flag.unlink()
        else:
            now = datetime.now(UTC)
            folder = RunFolder.create(settings.output, "-".join(settings.models), now, reports=reports)
        address = broker.start() if broker else None
        return cls(settings, folder, "main", backend, address, slots, broker)

    def for_workers(self) -> str:
        """What a worker needs to join, as text; no key is in it."""
        models = {
            name: asdict(entry) | {"api_key": None} for name, entry in self.settings.model_settings.items()
        }
        address = asdict(self.address) if self.address else None
        facts = {
            "folder": str(self.folder.path),
            "address": address,
            "backend": asdict(self.backend),
            "models": models,
        }
        return json.dumps(facts, default=str)

    @classmethod
    def join(cls, settings: Settings, text: str, worker: str) -> Run:
        """Join a run from an xdist worker."""
        facts = json.loads(text)
        address = BrokerAddress(**facts["address"]) if facts["address"] else None
        backend = Backend(**facts["backend"] | {"warnings": tuple(facts["backend"]["warnings"])})
        folder = RunFolder(Path(facts["folder"]))
        return cls(settings, folder, worker, backend, address, MachineSlots.of(settings))

    @cached_property
    def journal(self) -> Journal:
        """This process's journal."""
        return Journal(self.folder.path, f"{self.writer}-{os.getpid()}")

    @cached_property
    def prompts(self) -> str:
        return prompts_hash()

    def close(self) -> None:
        """Close what this process holds open."""
        if "journal" in self.__dict__:
            self.journal.close()
        if self.broker:
            self.broker.close()

    def item(self, planned: Planned, node_id: str) -> PlannedItem:
        """The record of an item before it runs."""
        agent = agent_identity(self.settings.agent, planned.model)
        task = planned.task
        return PlannedItem(
            key=planned.key(self.settings, agent, self.prompts),
            node_id=node_id,
            task=task.name,
            domain=task.domain,
            difficulty=task.difficulty,
            tier=task.tier,
            mechanism=planned.mechanism,
            part=planned.part,
            model=planned.model,
            agent=agent.partition("/")[0],
            epoch=planned.epoch,
        )

    def graded_keys(self) -> set[str]:
        """Keys of attempts that already have a verdict, which a resumed run does not repeat."""
        return {outcome.key for outcome in self.folder.outcomes() if outcome.verdict != "ungraded"}

    def record_plan(self, items: Sequence[PlannedItem], command: Sequence[str]) -> None:
        """Write what this session is about to do."""
        settings = {
            name: value
            for name, value in asdict(self.settings).items()
            if name not in ("model_settings", "warnings")
        }
        settings["model_parameters"] = {
            model: self.settings.model_parameters(model) for model in self.settings.models
        }
        record = {
            "command": list(command),
            "started": datetime.now(UTC).isoformat(timespec="seconds"),
            "settings": json.loads(json.dumps(settings, default=str)),
            "sandbox": self.backend.name,
            "versions": versions(),
        }
        self.folder.write_run_record(record, items)

    def environment(self, task: Task) -> Environment:
        """The task's environment, built at first use. A failed build is not tried again by this process."""
        requirements = task.requirements()
        if requirements in self.broken_environments:
            raise self.broken_environments[requirements]
        try:
            return provide_environment(requirements)
        except Fault as fault:
            self.broken_environments[requirements] = fault
            raise

    def open_sandbox(self, task: Task) -> Sandbox:
        """A new, empty sandbox with the task's environment and limits."""
        resources = Resources(memory_bytes=int(task.limits.memory_gib * 2**30))
        return open_sandbox(self.backend, self.environment(task), resources, run=self.folder.path.name)

    def check_can_grade_modules(self) -> None:
        """Raises the fault that grading a module would meet, before a model is asked for one."""
        if self.backend.name == "local" and sys.platform == "win32":
            raise NotHere(
                "the local sandbox on Windows cannot join two sandboxes, which grading a module takes; use "
                "--sandbox docker, or run in WSL 2"
            )

    def model(self, planned: Planned, waited: Waited) -> Model | None:
        """The model that answers an attempt, or None for the built-in ones that submit files.

        ``waited`` is told how long each call waited for a slot.
        """
        if planned.model.startswith(REPLAY):
            return ReplayModel(self._recording(planned))
        if planned.model in BUILT_IN:
            return None
        return self._endpoint(planned.model, waited)

    def judge(self, planned: Planned, spend: Callable[[Usage], None], waited: Waited) -> Judge:
        """A model as judge where one is named or the examined model has an endpoint, else the rubric check."""
        wanted = self.settings.judge_model
        if wanted == "rubric" or (wanted is None and is_built_in(planned.model)):
            return RubricJudge()
        return LLMJudge(self._endpoint(wanted or planned.model, waited), spend=spend)

    def _endpoint(self, name: str, waited: Waited) -> Model:
        if self.address is None:
            raise Fault(f"no broker was started, so model {name} cannot be reached")
        return self.slots.model(BrokerClient(self.address, name), waited)

    def _recording(self, planned: Planned) -> Path:
        folder = Path(planned.model.removeprefix(REPLAY))
        if (folder / "transcript.jsonl").is_file():
            return folder
        wanted = (planned.task.name, planned.mechanism, planned.part, planned.epoch)
        for outcome in reversed(RunFolder.open(folder).outcomes()):
            if (outcome.task, outcome.mechanism, outcome.part, outcome.epoch) == wanted and outcome.folder:
                return folder / outcome.folder
        raise Fault(f"{folder} holds no recorded attempt at {' '.join(filter(None, map(str, wanted)))}")

    def stop_model(self, model: str, fault: Fault) -> None:
        """Say to every process that no later attempt with this model can succeed."""
        flag = self.folder.path / STOPPED_FOLDER / f"{slug(model)}.json"
        flag.parent.mkdir(exist_ok=True)
        write_atomic(flag, json.dumps({"kind": fault.kind, "message": fault.message}).encode())

    def check_not_stopped(self, model: str) -> None:
        """Raises the fault that an earlier attempt met and that this one would meet again."""
        flag = self.folder.path / STOPPED_FOLDER / f"{slug(model)}.json"
        if flag.is_file():
            told = json.loads(flag.read_text(encoding="utf-8"))
            raise NotTried(f"not tried, since an earlier attempt ended with: {told['message']}")

    def grader(self, task: Task) -> str:
        """The grader's version: this package's and the task's own files."""
        return f"{grader_version()}-{task.grading_hash()[:16]}"


def check_models(folder: RunFolder, models: Sequence[str]) -> None:
    """Raise UsageError where a run to be resumed is about other models: their attempts do not belong into it."""
    sessions, _ = folder.sessions()
    known = [name for session in sessions[:1] for name in session.facts.get("settings", {}).get("models", ())]
    strangers = [name for name in models if name not in known]
    if known and strangers:
        raise UsageError(
            f"--resume: {folder.path} is a run of {', '.join(known)}, not of {', '.join(strangers)}; "
            "start another run for that"
        )


def versions() -> dict[str, str]:
    """Versions that a reader of results may ask for."""
    return {"pytest-imaging101": __version__, "python": sys.version.split()[0], "platform": sys.platform}


def settings_of_models(text: str) -> Mapping[str, ModelSettings]:
    """Model settings as a worker sees them: everything but the key."""
    models: dict[str, dict[str, Any]] = json.loads(text)["models"]
    return {
        name: ModelSettings(
            **(entry | {"prices_usd_per_million": tuple(entry["prices_usd_per_million"] or ()) or None})
        )
        for name, entry in models.items()
    }
