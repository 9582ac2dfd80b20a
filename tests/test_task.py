"""A task folder as data: what is read, what is refused, what each mechanism may see."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from pytest_imaging101.faults import TaskFault, UsageError
from pytest_imaging101.task import Task, parse_design

PRIVATE = ("task.toml", "main.py", "evaluation/metrics.json", "evaluation/naive.py")


@pytest.fixture
def toy(toy_tasks: Path) -> Path:
    return toy_tasks / "toy"


def test_planning_and_level_1_see_the_problem_and_the_data_alone(toy: Path) -> None:
    task = Task.read(toy)
    expected = ["README.md", "data/meta_data.json", "data/raw_data.npz", "requirements.txt"]
    assert sorted(task.visible("planning")) == expected
    assert sorted(task.visible("end2end", "L1")) == expected


def test_each_level_adds_one_part_of_the_plan(toy: Path) -> None:
    task = Task.read(toy)
    levels = [set(task.visible("end2end", level)) for level in ("L1", "L2", "L3")]
    assert levels[1] - levels[0] == {"plan/approach.md"}
    assert levels[2] - levels[1] == {"plan/design.md"}


def test_function_sees_its_tests_and_the_other_modules_but_not_its_own(toy: Path) -> None:
    seen = set(Task.read(toy).visible("function", "solvers"))
    assert {"src/physics_model.py", "evaluation/tests/test_solvers.py"} <= seen
    assert "evaluation/fixtures/solvers/invert.npz" in seen
    assert "src/solvers.py" not in seen
    assert not [name for name in seen if "hidden" in name or "physics_model/" in name]


@pytest.mark.parametrize(
    ("mechanism", "part"),
    [("planning", None), ("function", "solvers"), ("end2end", "L1"), ("end2end", "L3")],
)
def test_nothing_private_is_ever_visible(toy: Path, mechanism: str, part: str | None) -> None:
    seen = Task.read(toy).visible(mechanism, part)
    assert not set(seen) & set(PRIVATE)
    assert not [name for name in seen if "reference_outputs" in name or "rubric" in name]


@pytest.mark.parametrize("name", ["README.md", "requirements.txt", "plan/approach.md"])
def test_a_missing_or_linked_file_is_the_tasks_fault(toy: Path, name: str) -> None:
    (toy / name).unlink()
    with pytest.raises(TaskFault, match=f"{name} is missing"):
        Task.read(toy).visible("end2end", "L2")
    (toy / name).symlink_to("/etc/hostname")
    with pytest.raises(TaskFault, match=f"{name} is a link"):
        Task.read(toy).visible("end2end", "L2")


def test_a_task_without_data_is_at_fault(toy: Path) -> None:
    shutil.rmtree(toy / "data")
    with pytest.raises(TaskFault, match="data/ holds no file"):
        Task.read(toy).visible("planning")


def test_a_link_in_data_is_not_followed(toy: Path) -> None:
    (toy / "data/truth.npy").symlink_to(toy / "evaluation/reference_outputs/ground_truth.npy")
    assert "data/truth.npy" not in Task.read(toy).visible("end2end", "L1")


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('domain = "physics"', 'domain = "alchemy"', "domain is 'alchemy'; it must be one of astronomy"),
        ("tier = 1", "tier = 4", "tier is 4"),
        ('title = "Gain and offset"', "", "title is missing"),
        ("shape = [16, 12]", 'shape = "16"', "output.shape is '16'"),
        ('"solvers"]', '"solvers.py"]', "'solvers.py'"),
        ('"output/reconstruction.npy"', '"output/../../x.npy"', "must be an .npy file below output/"),
        ("memory_gib = 1", "memory = 1", "limits.memory"),
        ("memory_gib = 1", "memory_gib = -1", "-1"),
        ("[output]", "[output", "cannot be read as a task"),
    ],
)
def test_a_broken_task_file_is_refused_by_file_and_value(toy: Path, old: str, new: str, said: str) -> None:
    path = toy / "task.toml"
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))
    with pytest.raises(UsageError) as refused:
        Task.read(toy)
    assert str(path) in str(refused.value)
    assert said in str(refused.value)


def test_a_change_of_a_boundary_changes_the_grade_and_not_the_attempt(toy: Path) -> None:
    task = Task.read(toy)
    before = task.visible_hash("end2end", "L3"), task.grading_hash()
    (toy / "evaluation/metrics.json").write_text("{}")
    assert task.visible_hash("end2end", "L3") == before[0]
    assert task.grading_hash() != before[1]


def test_a_change_of_the_data_changes_the_attempt(toy: Path) -> None:
    task = Task.read(toy)
    before = task.visible_hash("end2end", "L1")
    (toy / "data/meta_data.json").write_text("{}")
    assert task.visible_hash("end2end", "L1") != before


def test_functions_are_read_from_the_stubs_of_their_modules() -> None:
    module_a = "# `src/a.py`\n```python\ndef f(x):\n    def g(): ...\ndef h(y):\n```\n"
    text = f"{module_a}def not_me():\n## src/b.py\n```\ndef k():\n```"
    assert parse_design(text) == {"a": ("f", "h"), "b": ("k",)}
