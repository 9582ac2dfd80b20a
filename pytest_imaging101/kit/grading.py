"""The built-in models take the task's exam, as users run it: by pytest, in real sandboxes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from pytest_imaging101.faults import GraderFault
from pytest_imaging101.kit.finding import Verdict
from pytest_imaging101.kit.subject import Subject
from pytest_imaging101.sandboxes.environment import CACHE_VARIABLE

EXPECTED = {"oracle": "passed", "nop": "failed", "naive": "failed"}
_SECONDS = 1800.0
_FORGOTTEN = ("MODEL", "BASE_URL", "API_KEY", "PYTEST_ADDOPTS", "PYTEST_PLUGINS")


def exam(subject: Subject, model: str) -> Verdict:
    """Every item of the task has the verdict that a built-in model must get: the oracle passes, others miss."""
    outcomes = run_exam(subject, model)
    wanted = EXPECTED[model]
    problems = tuple(
        f"{model} {_met(one['verdict'])} {one['node_id'].partition('::')[2]} ({one['reason']})"
        for one in outcomes
        if one["verdict"] != wanted
    )
    return Verdict(f"{len(outcomes) - len(problems)}/{len(outcomes)} {wanted}", problems)


def _met(verdict: str) -> str:
    return {"passed": "passes", "failed": "misses"}.get(verdict, "is not graded at")


def run_exam(subject: Subject, model: str) -> list[dict[str, Any]]:
    """Outcomes of a built-in model at every item of the task. Raises GraderFault if the run itself failed."""
    task = subject.task
    with TemporaryDirectory(prefix="imaging101-kit-") as name:
        folder = Path(name)
        # Of its own, so that no setting of a project around it applies.
        (folder / "pytest.ini").write_text("[pytest]\n", encoding="utf-8")
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", f"--rootdir={folder}"]
        command += [f"--imaging101-model={model}", f"--imaging101-tasks={task.folder.parent}"]
        command += [f"--imaging101-task={task.name}", f"--imaging101-sandbox={subject.backend.name}"]
        command += ["--imaging101-output=run"]
        done = subprocess.run(
            command,
            cwd=folder,
            env=_environment(),
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_SECONDS,
        )
        results = folder / "run/results.jsonl"
        if not results.is_file():
            raise GraderFault(
                f"pytest made no results (exit code {done.returncode})", evidence=done.stdout + done.stderr
            )
        outcomes = [json.loads(line) for line in results.read_text(encoding="utf-8").splitlines()]
        if not outcomes:
            raise GraderFault("pytest found no item of the task", evidence=done.stdout)
        return outcomes


def _environment() -> dict[str, str]:
    return {
        name: value
        for name, value in os.environ.items()
        if name not in _FORGOTTEN and (not name.startswith("IMAGING101_") or name == CACHE_VARIABLE)
    }
