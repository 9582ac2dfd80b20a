"""Makes a new task: the skeleton's files under a new name, and the arrays that its generate.py makes."""

from __future__ import annotations

import shutil
import subprocess
import sys
import uuid
from pathlib import Path

from pytest_imaging101.faults import TaskFault, UsageError
from pytest_imaging101.kit.layout import SKELETON
from pytest_imaging101.task import DOMAINS, Task

# Not called what they become: a task.toml in the package would be collected as a task.
_RENAMED = {"task.template.toml": "task.toml", "notebooks/notebook.ipynb": "notebooks/{name}.ipynb"}


def new_task(name: str, domain: str, tasks: Path) -> Task:
    """Write ``tasks/name``, a draft that already validates. Raises UsageError for what is in the way."""
    folder = tasks / name
    if domain not in DOMAINS:
        raise UsageError(f"--domain {domain}: it must be one of {', '.join(DOMAINS)}")
    if Path(name).name != name:
        raise UsageError(f"{name}: a task's name is no path; say where to make it with --tasks")
    if folder.exists():
        raise UsageError(f"{folder} exists already; choose another name, or remove it")
    values = {"{{name}}": name, "{{domain}}": domain, "{{canary}}": f"imaging101-canary-{uuid.uuid4()}"}
    try:
        _write(folder, name, values)
        task = Task.read(folder)
        _generate(task)
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    return task


def _write(folder: Path, name: str, values: dict[str, str]) -> None:
    for source in sorted(SKELETON.rglob("*")):
        if not source.is_file() or "__pycache__" in source.parts:
            continue
        relative = source.relative_to(SKELETON).as_posix()
        target = folder / _RENAMED.get(relative, relative).format(name=name)
        text = source.read_text(encoding="utf-8")
        for placeholder, value in values.items():
            text = text.replace(placeholder, value)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, encoding="utf-8")


def _generate(task: Task) -> None:
    """Make data, fixtures and reference outputs; the skeleton's generate.py needs numpy alone."""
    done = subprocess.run(
        [sys.executable, "-B", "evaluation/generate.py"],
        cwd=task.folder,
        capture_output=True,
        text=True,
        timeout=120,
    )
    if done.returncode:
        raise TaskFault(f"the skeleton's generate.py failed in {task.folder}", evidence=done.stderr)
