"""The models that need no endpoint: oracle submits the reference, naive the weak method, nop nothing."""

from __future__ import annotations

import ast
from dataclasses import dataclass

from pytest_imaging101.agents.base import Brief, Transcript
from pytest_imaging101.budget import Budget, StopReason
from pytest_imaging101.faults import TaskFault
from pytest_imaging101.sandboxes.base import Sandbox
from pytest_imaging101.task import PLAN_FILES, Task


@dataclass(frozen=True)
class NopAgent:
    """Submits nothing: every item must fail, or grading is broken."""

    name: str = "nop"
    version: str = "1"

    def work(self, brief: Brief, sandbox: Sandbox, budget: Budget, transcript: Transcript) -> StopReason:
        transcript.event("submit", files=[])
        return StopReason.SUBMITTED


@dataclass(frozen=True)
class OracleAgent:
    """Submits the reference: every item must pass, or the task or the machine is broken."""

    task: Task
    name: str = "oracle"
    version: str = "1"

    def work(self, brief: Brief, sandbox: Sandbox, budget: Budget, transcript: Transcript) -> StopReason:
        names = {
            "planning": PLAN_FILES,
            "function": (f"src/{brief.part}.py",),
            "end2end": ("main.py", *self.task.tree("src")),
        }[brief.mechanism]
        sandbox.put({name: _existing(self.task, name) for name in names})
        transcript.event("submit", files=list(names))
        if brief.mechanism == "end2end":
            _run(sandbox, "main.py", budget, transcript)
        return StopReason.SUBMITTED


@dataclass(frozen=True)
class NaiveAgent:
    """Submits the obvious weak answer: every item must fail, or the marks are too easy."""

    task: Task
    name: str = "naive"
    version: str = "1"

    def work(self, brief: Brief, sandbox: Sandbox, budget: Budget, transcript: Transcript) -> StopReason:
        if brief.mechanism == "planning":
            sandbox.put({name: _existing(self.task, "README.md") for name in PLAN_FILES})
        elif brief.mechanism == "function":
            functions = self.task.design().get(brief.part or "", ())
            sandbox.put({f"src/{brief.part}.py": first_array_module(functions).encode()})
        else:
            sandbox.put({"naive.py": _existing(self.task, "evaluation/naive.py")})
            _run(sandbox, "naive.py", budget, transcript)
        transcript.event("submit", files=[item.path for item in brief.deliverables])
        return StopReason.SUBMITTED


def first_array_module(functions: tuple[str, ...]) -> str:
    """Source of a module whose every function returns its first array argument."""
    lines = [
        '"""Every function returns its first array."""',
        "import numpy as np",
        "",
        "def _first_array(args, kwargs):",
        "    values = [*args, *kwargs.values()]",
        "    return next((value for value in values if isinstance(value, np.ndarray)), None)",
    ]
    for name in functions:
        lines += ["", f"def {name}(*args, **kwargs):", "    return _first_array(args, kwargs)"]
    source = "\n".join(lines) + "\n"
    ast.parse(source)
    return source


def _existing(task: Task, name: str) -> bytes:
    try:
        return task.path(name).read_bytes()
    except OSError as error:
        raise TaskFault(f"task {task.name}: {name} cannot be read ({error.strerror})") from error


def _run(sandbox: Sandbox, script: str, budget: Budget, transcript: Transcript) -> None:
    timeout = min(budget.limits.command_seconds, budget.remaining_seconds)
    done = sandbox.run(["python", script], timeout=timeout)
    transcript.event("run", command=f"python {script}", exit_code=done.exit_code, output=done.output)
