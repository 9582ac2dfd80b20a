"""A task folder becomes items: their ids, markers and what each is an attempt at."""

from __future__ import annotations

import hashlib
import json
import signal
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from difflib import get_close_matches
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pytest_imaging101 import attempts
from pytest_imaging101.faults import Fault, UsageError
from pytest_imaging101.model_config import BUILT_IN
from pytest_imaging101.options import Settings
from pytest_imaging101.slugs import slug
from pytest_imaging101.task import DIFFICULTIES, DOMAINS, LEVELS, MECHANISMS, TASK_FILE, Mechanism, Task

if TYPE_CHECKING:
    from pytest_imaging101.record import Attempt

# Long: an attempt may wait for slots far longer than it works, and what it waits counts against no limit.
BACKSTOP_SECONDS = 24 * 3600.0
MARKERS = {
    **{domain: f"tasks of the domain {domain.replace('_', ' ')}" for domain in DOMAINS},
    **{mechanism: f"items of the mechanism {mechanism}" for mechanism in MECHANISMS},
    **{level: f"end2end items of level {level}" for level in LEVELS},
    **{difficulty: f"{difficulty} tasks" for difficulty in DIFFICULTIES},
    "tier1": "tasks that need plain pip packages",
    "tier2": "tasks that need specialised pip packages",
    "tier3": "tasks that bring an environment of their own",
}


@dataclass(frozen=True)
class Planned:
    """One attempt that is planned: what, by whom, for the how-manieth time."""

    task: Task
    mechanism: Mechanism
    part: str | None
    model: str
    epoch: int

    @cached_property
    def limits_of_task(self) -> dict[str, Any]:
        return asdict(self.task.limits)

    def key(self, settings: Settings, agent: str, prompts: str) -> str:
        """Hash of all that the attempt's course depends on, and of nothing else.

        ``agent`` is its name and version, ``prompts`` a hash of its prompt files. Paths, concurrency and verbosity are
        not in it. Built-in models submit files of the task, so these belong to their content.
        """
        content = {
            "task": self.task.name,
            "files": self.task.visible_hash(self.mechanism, self.part),
            "submitted": self.task.grading_hash() if self.model in BUILT_IN else None,
            "task_limits": self.limits_of_task,
            "mechanism": self.mechanism,
            "part": self.part,
            "model": settings.model_parameters(self.model),
            "agent": agent,
            "prompts": prompts if self.model not in BUILT_IN else None,
            "limits": asdict(settings.limits),
            "context_tokens": settings.context_tokens,
            "epoch": self.epoch,
        }
        return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:32]


def bundled_tasks() -> Path:
    """The tasks that come with the package: inside a wheel, beside the package in a checkout."""
    package = Path(__file__).parent
    inside = package / "tasks"
    return inside if inside.is_dir() else package.parent / "tasks"


def tasks_folder(asked: Path | None, invocation: Path) -> Path:
    """``--tasks``, else ./tasks where it holds tasks, else the bundled ones."""
    if asked is not None:
        if not asked.is_dir():
            raise UsageError(f"--tasks: {asked} is not a folder")
        if not any(asked.glob(f"*/{TASK_FILE}")):
            raise UsageError(f"--tasks: {asked} holds no task: no */{TASK_FILE} is in it")
        return asked
    here = invocation / "tasks"
    return here if any(here.glob(f"*/{TASK_FILE}")) else bundled_tasks()


def resolve_arguments(args: Sequence[str], tasks: Path, invocation: Path) -> list[str]:
    """Let ``tasks/NAME/task.toml::item``, as ids are printed, mean the chosen task folder wherever it lies."""
    return [_resolve_argument(argument, tasks, invocation) for argument in args]


def _resolve_argument(argument: str, tasks: Path, invocation: Path) -> str:
    path, separator, item = argument.partition("::")
    if (invocation / path).exists():
        return argument
    parts = Path(path).parts
    if parts and parts[0] == "tasks" and (tasks.joinpath(*parts[1:])).exists():
        return f"{tasks.joinpath(*parts[1:])}{separator}{item}"
    return argument


def check_tasks(args: Iterable[str], settings: Settings, invocation: Path) -> list[Task]:
    """Read every task that the arguments reach, so that a broken or missing one is said before anything runs."""
    for argument in args:
        if not (invocation / argument.split("::")[0]).exists():
            raise UsageError(f"not found: {argument} (tasks are in {settings.tasks})")
    found = sorted({file for argument in args for file in _task_files(invocation / argument.split("::")[0])})
    known = [file.parent.name for file in found]
    for name in settings.task_names:
        if name not in known:
            near = get_close_matches(name, known, n=1)
            hint = f" Did you mean {near[0]}?" if near else ""
            raise UsageError(f"--task {name}: no such task among {', '.join(known) or 'none'}.{hint}")
    wanted = [file for file in found if not settings.task_names or file.parent.name in settings.task_names]
    tasks = [Task.read(file.parent) for file in wanted]
    modules = {module for task in tasks for module in task.modules}
    for module in settings.modules:
        if tasks and module not in modules:
            raise UsageError(
                f"--target-function {module}: no task has it; modules are {', '.join(sorted(modules))}"
            )
    return tasks


def _task_files(path: Path) -> Iterator[Path]:
    if path.name == TASK_FILE and path.is_file():
        yield path
    elif path.is_dir():
        yield from (path / TASK_FILE,) if (path / TASK_FILE).is_file() else path.glob(f"**/{TASK_FILE}")


class AttemptItem(pytest.Function):
    """One attempt as a pytest item; ``planned`` says at what."""

    planned: Planned
    retry: int = 1
    attempt: Attempt | None = None
    last_error: BaseException | None = None

    def may_retry(self) -> bool:
        """Whether the last try ended in a fault that another try may not meet."""
        return isinstance(self.last_error, Fault) and self.last_error.retryable

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> Any:
        """One sentence for a miss; a traceback only for what nobody foresaw."""
        if isinstance(excinfo.value, attempts.Miss):
            return excinfo.getrepr(style="value")
        return super().repr_failure(excinfo)

    def reportinfo(self) -> tuple[Path, int | None, str]:
        return self.path, None, self.name


class TaskFile(pytest.Module):
    """A ``task.toml`` as a collector whose test bodies are those of ``attempts``."""

    settings: Settings

    def _getobj(self) -> Any:
        return attempts

    def collect(self) -> Iterator[AttemptItem]:
        task = Task.read(self.path.parent)
        if self.settings.task_names and task.name not in self.settings.task_names:
            return
        if task.draft and not self._asked_for(task):
            return
        for planned in plan(task, self.settings):
            yield self._item(planned)

    def _asked_for(self, task: Task) -> bool:
        """Whether the task is named, by ``--task`` or by its path; a draft belongs to no sweep."""
        paths = (argument.partition("::")[0] for argument in self.config.args)
        named = {self.config.invocation_params.dir / path for path in paths}
        return task.name in self.settings.task_names or not named.isdisjoint((self.path, task.folder))

    def _item(self, planned: Planned) -> AttemptItem:
        item: AttemptItem = AttemptItem.from_parent(
            self,
            name=item_name(planned, self.settings),
            callobj=getattr(attempts, planned.mechanism),
        )
        item.planned = planned
        item.extra_keyword_matches.update({planned.task.name, planned.model})
        task = planned.task
        for marker in (task.domain, planned.mechanism, task.difficulty, f"tier{task.tier}"):
            item.add_marker(marker)
        if planned.mechanism == "end2end" and planned.part:
            item.add_marker(planned.part)
        if self.config.pluginmanager.hasplugin("timeout"):
            # A last backstop, far behind the attempt's own clocks, and instead of the ini file's timeout.
            seconds = self.settings.limits.attempt_seconds + BACKSTOP_SECONDS
            method = "signal" if hasattr(signal, "SIGALRM") else "thread"
            item.add_marker(pytest.mark.timeout(seconds, method=method))
        return item


def collect_task_file(path: Path, parent: pytest.Collector, settings: Settings) -> TaskFile:
    """The collector of one task file. Its ids are the same wherever the folder lies."""
    file: TaskFile = TaskFile.from_parent(parent, path=path, nodeid=f"tasks/{path.parent.name}/{TASK_FILE}")
    file.settings = settings
    return file


def plan(task: Task, settings: Settings) -> Iterator[Planned]:
    """Every attempt at a task that the settings ask for, in the order in which it is reported."""
    for mechanism in MECHANISMS:
        if settings.mechanisms and mechanism not in settings.mechanisms:
            continue
        for part in _parts(task, mechanism, settings):
            for model in settings.models:
                for epoch in range(1, settings.epochs + 1):
                    yield Planned(task, mechanism, part, model, epoch)


def _parts(task: Task, mechanism: str, settings: Settings) -> Sequence[str | None]:
    if mechanism == "planning":
        return () if settings.levels or settings.modules else (None,)
    wanted, all_parts = (
        (settings.levels, LEVELS) if mechanism == "end2end" else (settings.modules, task.modules)
    )
    if not wanted and (settings.levels or settings.modules):
        return ()
    return tuple(part for part in all_parts if not wanted or part in wanted)


def item_id(planned: Planned, settings: Settings) -> str:
    """The node id of an attempt, the same on every machine."""
    return f"tasks/{planned.task.name}/{TASK_FILE}::{item_name(planned, settings)}"


def item_name(planned: Planned, settings: Settings) -> str:
    """``end2end[L1]``; the model and the epoch are added where there are several."""
    words = [planned.part] if planned.part else []
    if len(settings.models) > 1:
        words.append(slug(planned.model))
    if settings.epochs > 1:
        words.append(f"epoch{planned.epoch}")
    return f"{planned.mechanism}[{'-'.join(words)}]" if words else planned.mechanism


def deselect_other_shards(config: pytest.Config, items: list[pytest.Item], settings: Settings) -> None:
    """Keep every N-th attempt, so that tasks and mechanisms spread evenly over the shards."""
    if settings.shard is None:
        return
    index, count = settings.shard
    attempts_in_order = [item for item in items if isinstance(item, AttemptItem)]
    others = [item for number, item in enumerate(attempts_in_order) if number % count != index - 1]
    if others:
        config.hook.pytest_deselected(items=others)
        items[:] = [item for item in items if item not in others]
