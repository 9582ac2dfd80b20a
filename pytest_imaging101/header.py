"""What a run says before it starts: models and endpoints, tasks, limits, where results go."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pytest_imaging101 import __version__
from pytest_imaging101.model_config import is_built_in
from pytest_imaging101.options import PREFIX, Settings
from pytest_imaging101.task import Task

if TYPE_CHECKING:
    from pytest_imaging101.session import BenchmarkSession


def header_lines(
    settings: Settings, taken: Sequence[str], session: BenchmarkSession | None, tasks: Sequence[Task]
) -> list[str]:
    """Lines for pytest's header; a dry run (no session) also says what would have to be made."""
    lines = [f"imaging101: {__version__}, tasks in {settings.tasks}, agent {settings.agent}"]
    lines += [f"imaging101: model {name}: {_endpoint(settings, name)}" for name in settings.models]
    if taken:
        prefixed = ", ".join(f"--{PREFIX}-{name.removeprefix('--')}" for name in taken)
        lines.append(
            f"imaging101: {', '.join(taken)} belong to another plugin or conftest.py; use {prefixed}"
        )
    lines += [f"imaging101: warning: {warning}" for warning in settings.warnings]
    if session is None:
        return lines + _dry_run_lines(settings, tasks)
    backend = session.run.backend
    lines.append(f"imaging101: results in {session.run.folder.path}, sandbox {backend.name}")
    lines += [f"imaging101: warning: {warning}" for warning in backend.warnings]
    if slots := session.run.slots.cpu:
        lines.append(
            f"imaging101: at most {slots.count} commands compute at once on this machine (--cpu-slots)"
        )
    if session.removed:
        lines.append(f"imaging101: removed {session.removed} leftover(s) of dead runs")
    return lines


def _endpoint(settings: Settings, name: str) -> str:
    if is_built_in(name):
        return "built in, needs no endpoint"
    entry = settings.model_settings[name]
    key = "with a key" if entry.api_key else "without a key"
    return f"{entry.base_url or 'the SDK default endpoint'}, {key}"


def _dry_run_lines(settings: Settings, tasks: Sequence[Task]) -> list[str]:
    from pytest_imaging101.sandboxes.environment import is_ready

    lines = [f"imaging101: dry run, nothing is called or installed; sandbox {settings.sandbox}"]
    for requirements in sorted({task.requirements() for task in tasks}):
        state = "ready" if is_ready(requirements) else "to be built"
        lines.append(f"imaging101: environment {', '.join(requirements)}: {state}")
    return lines
