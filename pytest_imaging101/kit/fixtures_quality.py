"""Checks of fixtures: hidden ones have the same files and keys, and other values and shapes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from pytest_imaging101.kit.finding import Verdict, counted
from pytest_imaging101.kit.subject import Subject, arrays_of
from pytest_imaging101.task import Task


def hidden_fixtures(subject: Subject) -> Verdict:
    """Every visible fixture has a hidden twin with the same keys, other values and, module by module, other shapes."""
    task, problems, count = subject.task, [], 0
    for module in task.modules:
        visible, hidden = (_files(task, label, module) for label in ("fixtures", "fixtures_hidden"))
        count += len(visible)
        for name in sorted(set(visible) ^ set(hidden)):
            where = "hidden" if name in visible else "visible"
            problems.append(f"{module}/{name} has no {where} twin")
        pairs = {name: (visible[name], hidden[name]) for name in visible if name in hidden}
        for name, pair in pairs.items():
            problems += list(_pair_problems(f"{module}/{name}", *pair))
        if pairs and not any(_shapes_differ(*pair) for pair in pairs.values()):
            problems.append(f"every hidden fixture of {module} has the shapes of the visible one")
    return Verdict(counted(count, "pair"), tuple(problems))


def fixtures_read(subject: Subject) -> Verdict:
    """Tests read every fixture, by its name."""
    task, problems, count = subject.task, [], 0
    for module in task.modules:
        text = task.text(f"evaluation/tests/test_{module}.py")
        names = _files(task, "fixtures", module)
        count += len(names)
        problems += [
            f"test_{module}.py never reads the fixture {name}"
            for name in names
            if Path(name).stem not in text
        ]
        if names and "IMAGING101_FIXTURES" not in text:
            problems.append(f"test_{module}.py does not take its fixtures from IMAGING101_FIXTURES")
    return Verdict(counted(count, "fixture"), tuple(problems))


def _pair_problems(name: str, visible: Path, hidden: Path) -> Iterator[str]:
    import numpy as np

    seen, unseen = arrays_of(visible), arrays_of(hidden)
    if set(seen) != set(unseen):
        yield f"{name}: visible and hidden differ in keys ({', '.join(sorted(set(seen) ^ set(unseen)))})"
        return
    if all(np.array_equal(seen[key], unseen[key]) for key in seen):
        yield f"{name}: the hidden fixture equals the visible one"


def _shapes_differ(visible: Path, hidden: Path) -> bool:
    seen, unseen = arrays_of(visible), arrays_of(hidden)
    return any(seen[key].shape != unseen[key].shape for key in set(seen) & set(unseen))


def _files(task: Task, label: str, module: str) -> dict[str, Path]:
    root = f"evaluation/{label}/{module}/"
    return {name.removeprefix(root): file for name, file in task.tree(root).items() if file.suffix == ".npz"}
