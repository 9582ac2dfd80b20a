"""The commands as users type them: a new task is accepted, a spoiled one refused, a mistake said in a sentence."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from pytest_imaging101.task import Task
from tests.kit.spoiling import with_json


def imaging101(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", "from pytest_imaging101.cli import main; main()", *arguments]
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=1700)


@pytest.mark.timeout(1800)  # everything that a task must pass, on a machine that may be busy
def test_a_new_task_is_accepted(tmp_path: Path) -> None:
    made = imaging101("new-task", "demo", "--domain", "physics", cwd=tmp_path)
    assert made.returncode == 0, made.stderr
    assert Task.read(tmp_path / "tasks/demo").draft
    first = imaging101("validate-task", "demo", "-n", "2", "--json", cwd=tmp_path)
    (report,) = json.loads(first.stdout)
    wrong = [(one["check"], one["sentence"]) for one in report["findings"] if one["status"] != "passed"]
    assert not wrong
    assert (report["accepted"], report["cached"], first.returncode) == (True, False, 0)
    checks = {one["check"] for one in report["findings"]}
    assert {
        "exam_oracle",
        "exam_nop",
        "exam_naive",
        "trap[displacement_sign]",
        "notebook",
        "generated",
    } <= checks


def test_a_check_that_fails_is_named_and_ends_with_exit_code_1(demo: Path) -> None:
    with_json("data/meta_data.json", tolerance=1e-3)(demo)
    done = imaging101(
        "validate-task", "demo", "--check", "metadata", f"--tasks={demo.parent}", cwd=demo.parent
    )
    assert done.returncode == 1
    assert "demo: metadata: data/meta_data.json: 'tolerance' is a setting of a solver" in done.stdout


def test_a_task_whose_layout_is_wrong_is_looked_at_no_further(demo: Path) -> None:
    (demo / "evaluation/naive.py").unlink()
    done = imaging101("validate-task", "demo", "--json", f"--tasks={demo.parent}", cwd=demo.parent)
    (report,) = json.loads(done.stdout)
    states = {one["check"]: one["status"] for one in report["findings"]}
    assert (states["layout"], states["exam_oracle"], done.returncode) == ("failed", "skipped", 1)


def test_one_check_alone_can_be_looked_at(demo: Path) -> None:
    done = imaging101(
        "validate-task", "demo", "--json", "--check", "arrays", f"--tasks={demo.parent}", cwd=demo.parent
    )
    (report,) = json.loads(done.stdout)
    assert [one["check"] for one in report["findings"]] == ["arrays"]
    assert done.returncode == 0


def test_a_task_file_that_cannot_be_read_is_refused_by_its_sentence(demo: Path) -> None:
    (demo / "task.toml").write_text((demo / "task.toml").read_text().replace("tier = 1", "tier = 9"))
    done = imaging101("validate-task", "--all", f"--tasks={demo.parent}", cwd=demo.parent)
    assert done.returncode == 1
    assert "tier is 9; it must be one of 1, 2, 3" in done.stdout


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("validate-task",), "name tasks, or say --all"),
        (("validate-task", "dmo"), "dmo: no such task in"),
        (
            ("validate-task", "demo", "--check", "spelling"),
            "--check spelling: there is no such check; there are",
        ),
        (("new-task", "demo", "--domain", "physics", "--tasks", "."), "exists already"),
        (("new-task", "../demo", "--domain", "physics"), "a task's name is no path"),
        (
            ("new-task", "two words", "--domain", "physics"),
            "may hold letters, digits, hyphens and underscores only",
        ),
    ],
)
def test_a_mistake_gives_one_sentence_and_exit_code_4(
    demo: Path, arguments: tuple[str, ...], said: str
) -> None:
    tasks = (f"--tasks={demo.parent}",) if arguments[0] == "validate-task" else ()
    done = imaging101(*arguments, *tasks, cwd=demo.parent)
    assert done.returncode == 4
    assert done.stderr.startswith("Error: ")
    assert said in done.stderr
    assert not (demo.parent / "tasks").exists() or not any((demo.parent / "tasks").iterdir())


def test_a_draft_is_run_by_its_name_and_not_in_a_sweep(demo: Path, pytester: pytest.Pytester) -> None:
    def collected(*arguments: str) -> bool:
        result = pytester.runpytest_subprocess("--model=oracle", "--collect-only", "-q", *arguments)
        return "tasks/demo/task.toml::planning" in result.outlines

    assert not collected(f"--tasks={demo.parent}")
    assert collected(f"--tasks={demo.parent}", "--task=demo")
    assert collected(str(demo))
    assert collected(f"{demo}/task.toml::planning")
    (demo / "task.toml").write_text((demo / "task.toml").read_text().replace("draft = true", "draft = false"))
    assert collected(f"--tasks={demo.parent}")
