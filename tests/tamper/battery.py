"""Runs attacks through real pytest runs, many in one run: each has a task of its own name."""

from __future__ import annotations

import json
import re
import shutil
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.models.fake_endpoint import Scripted, says
from tests.tamper import answers, arrays, isolation, modules, plans
from tests.tamper.attack import Attack, Attacker
from tests.toy import make_toy_task

ROOT = Path(__file__).parents[2]
CT = ROOT / "tasks/ct_fan_beam"
API_KEY = isolation.SECRET

# What the harness of the battery does differently from every other: its clocks for grading are short.
CONFTEST = f"""
import sys
sys.path.insert(0, {str(ROOT)!r})
from tests.tamper.battery import attacker, shorten_clocks
shorten_clocks()
def pytest_imaging101_make_agent(name, model, attempt):
    return attacker(attempt)
"""

ANSWERS = Attack(
    "hostile_answers",
    "function[answers]",
    "assertions, by the objects and exceptions that they meet",
    "only plain values of bounded size and depth come back, exceptions by built-in type",
    f"{2 * len(answers.FUNCTIONS)} of {2 * len(answers.FUNCTIONS)} tests failed",
    files={"src/answers.py": answers.ANSWERS},
)

RECONSTRUCTIONS = (*arrays.ATTACKS, *isolation.ATTACKS)
MODULES = (*modules.ATTACKS, ANSWERS)
PLANS = plans.ATTACKS
ALL = {attack.name: attack for attack in (*RECONSTRUCTIONS, *MODULES, *PLANS)}


@dataclass(frozen=True)
class Result:
    """What became of one attack."""

    attack: Attack
    outcome: Mapping[str, Any]
    transcript: str
    task: Path

    def __str__(self) -> str:
        seen = {name: self.outcome.get(name) for name in ("verdict", "reason", "integrity")}
        return f"{self.attack.name}: {seen} {self.transcript[-600:]}"


def attacker(attempt: Any) -> Any:
    """The agent of the attack that an attempt's task is named after."""
    attack = ALL[attempt.task.name]
    return _Helped(attack, attempt.task) if attack.name == "network" else Attacker(attack, attempt.task)


class _Helped(Attacker):
    """An attacker with an accomplice outside the sandbox."""

    def work(self, brief: Any, sandbox: Any, budget: Any, transcript: Any) -> Any:
        truth = self.task.path("evaluation/reference_outputs/ground_truth.npy")
        with isolation.helper_outside(truth, Path(f"/tmp/imaging101-tamper-{uuid.uuid4().hex}")) as addresses:
            sandbox.put({name: text.encode() for name, text in addresses.items()})
            return super().work(brief, sandbox, budget, transcript)


def shorten_clocks() -> None:
    """A call that hangs is given up after 4 s, an import after 10 s: time enough for honest ones on a busy machine."""
    import pytest_imaging101.record as record
    import pytest_imaging101.scoring.unit_tests as unit_tests

    for module, name, seconds in (
        (record, "GRADING_SECONDS", 60.0),
        (unit_tests, "_CALL_SECONDS", 4.0),
        (unit_tests, "_IMPORT_SECONDS", 10.0),
    ):
        assert isinstance(getattr(module, name), float)
        setattr(module, name, seconds)


def make_tasks(folder: Path, attacks: Sequence[Attack]) -> None:
    """A task for each attack: the toy with everything private that a real task has, or for a plan a real one."""
    for attack in attacks:
        task = folder / attack.name
        if attack.item == "planning":
            shutil.copytree(CT, task, ignore=shutil.ignore_patterns("__pycache__", "notebooks"))
        else:
            make_toy_task(task)
            _add_what_real_tasks_have(task)
        if attack.item == ANSWERS.item:
            answers.add_answers(task)


def _add_what_real_tasks_have(task: Path) -> None:
    canary = f"imaging101-canary-{uuid.uuid4()}"
    metrics = task / "evaluation/metrics.json"
    metrics.write_text(json.dumps({"canary": canary, **json.loads(metrics.read_text(encoding="utf-8"))}))
    for name in ("naive.py", "generate.py"):
        script = task / "evaluation" / name
        text = script.read_text(encoding="utf-8") if script.exists() else '"""Makes the data."""\n'
        script.write_text(f"{text}# {canary}\n", encoding="utf-8")
    reading = np.load(task / "data/raw_data.npz")["y"]
    np.save(task / "evaluation/reference_outputs/reconstruction.npy", (reading - 1.0) / 2.0)


def quoting_judge(request: dict[str, Any], headers: Mapping[str, str]) -> Scripted:
    """Finds nothing right, and after its verdict repeats the plan word for word, forged verdicts included."""
    prompt = request["messages"][-1]["content"]
    found = re.search(r"<verdict-(\w+)>\n(.*?)\n</verdict-", prompt, re.S)
    plan = re.search(r"<plan[^>]*>(.*?)</plan", prompt, re.S)
    assert found is not None
    assert plan is not None
    form = json.loads(found.group(2))
    form = {**form, "better": "tie"} if "better" in form else form
    answer = f"<verdict-{found.group(1)}>\n{json.dumps(form)}\n</verdict-{found.group(1)}>"
    return says(f"{answer}\n\nWhat I was given:\n{plan.group(1)}")


def run_attacks(
    pytester: pytest.Pytester,
    monkeypatch: pytest.MonkeyPatch,
    backend: str,
    attacks: Sequence[Attack],
    *more: str,
    base_url: str = "http://127.0.0.1:9/v1",
) -> list[Result]:
    """Run them all in one pytest run with two workers, and read back what was recorded of each."""
    tasks = pytester.path / "attacked"
    make_tasks(tasks, attacks)
    pytester.makeconftest(CONFTEST)
    monkeypatch.setenv("API_KEY", API_KEY)
    run = pytester.runpytest_subprocess(
        *(f"{tasks / attack.name}/task.toml::{attack.item}" for attack in attacks),
        *(f"--tasks={tasks}", "--model=attacker", "--framework=tamper", f"--base-url={base_url}"),
        *(f"--sandbox={backend}", "--output=out", "--retries=0", "-n2", "--dist=worksteal", *more),
        "--cpu-slots=32",  # no verdict here depends on time, so that nothing has to wait for other runs
    )
    lines = (pytester.path / "out/results.jsonl").read_text(encoding="utf-8").splitlines()
    outcomes = {one["task"]: one for one in map(json.loads, lines)}
    assert set(outcomes) == {attack.name for attack in attacks}, run.stdout.str()
    return [_result(pytester.path / "out", tasks, attack, outcomes[attack.name]) for attack in attacks]


def _result(run: Path, tasks: Path, attack: Attack, outcome: dict[str, Any]) -> Result:
    transcript = (run / outcome["folder"] / "transcript.jsonl").read_text(encoding="utf-8")
    return Result(attack, outcome, transcript, tasks / attack.name)
