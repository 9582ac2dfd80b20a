"""Checks of a task's unit tests: each function is tested, each test asserts, and wrong values are noticed."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

from pytest_imaging101.agents.builtin import first_array_module
from pytest_imaging101.faults import TaskFault
from pytest_imaging101.kit.finding import Verdict, counted
from pytest_imaging101.kit.interfaces import public_functions
from pytest_imaging101.kit.subject import Subject
from pytest_imaging101.task import Task

_ALLOWED = {"numpy", "scipy", "pytest", "src"}
_ASSERTING = ("raises", "warns", "fail")
_TEST_SECONDS = 120.0
# The module under test whose one function is replaced for its callers outside alone: what the module itself
# calls stays right, so that only a test of that very function can notice.
_REPLACED = """
import src._whole_{module} as _whole
globals().update({{name: value for name, value in vars(_whole).items() if not name.startswith("__")}})
"""


def tests_stay_within_design(subject: Subject) -> Verdict:
    """Tests import what the grader has and the module under test, and use only names that design.md states."""
    task, problems, count = subject.task, [], 0
    stated = task.text("plan/design.md")
    for module in task.modules:
        tree = _tests(task, module)
        count += 1
        for name in _imports(tree):
            if not _importable(name, module):
                problems.append(
                    f"test_{module}.py imports {name}; it may import the standard library, numpy, scipy, pytest "
                    f"and src.{module}"
                )
        for used in _used_names(tree, module):
            if used not in stated:
                problems.append(f"test_{module}.py uses {module}.{used}, which design.md does not state")
    return Verdict(counted(count, "test file"), tuple(problems))


def every_function_tested(subject: Subject) -> Verdict:
    """Every public function of a module is used in its tests."""
    task, problems, count = subject.task, [], 0
    for module in task.modules:
        used = _used_names(_tests(task, module), module)
        for name in public_functions(task.text(f"src/{module}.py")):
            count += 1
            if name not in used:
                problems.append(f"test_{module}.py never calls {name}")
    return Verdict(counted(count, "function"), tuple(problems))


def every_test_asserts(subject: Subject) -> Verdict:
    """Every test holds an assertion, or calls a helper that does."""
    task, problems, count = subject.task, [], 0
    for module in task.modules:
        tree = _tests(task, module)
        functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
        asserting = {function.name for function in functions if _asserts(function, set())}
        for function in functions:
            if function.name.startswith("test"):
                count += 1
                if not _asserts(function, asserting):
                    problems.append(f"test_{module}.py: {function.name} asserts nothing")
    return Verdict(counted(count, "test"), tuple(problems))


def wrong_values_noticed(subject: Subject, module: str) -> Verdict:
    """With one public function that returns its first array instead, at least one test fails; for each in turn."""
    task = subject.task
    functions = list(public_functions(task.text(f"src/{module}.py")))
    problems = []
    with closing(subject.open_sandbox()) as sandbox:
        sandbox.put(_test_files(task, module))
        for name in functions:
            replaced = _REPLACED.format(module=module) + first_array_module((name,))
            sandbox.put({f"src/{module}.py": replaced.encode()})
            command = [
                "python",
                "-B",
                "-m",
                "pytest",
                "-x",
                "-q",
                "-p",
                "no:cacheprovider",
                "evaluation/tests",
            ]
            ran = sandbox.run(command, timeout=_TEST_SECONDS)
            if ran.exit_code == 0:
                problems.append(f"test_{module}.py passes when {name} returns its first array")
            elif ran.exit_code != 1:
                raise TaskFault(
                    f"test_{module}.py cannot be run (pytest's exit code {ran.exit_code})",
                    evidence=ran.output,
                )
    return Verdict(f"{len(functions) - len(problems)}/{len(functions)} noticed", tuple(problems))


def _test_files(task: Task, module: str) -> dict[str, bytes | Path]:
    files: dict[str, bytes | Path] = dict(task.tree("data"))
    files |= task.tree(f"evaluation/fixtures/{module}")
    files |= task.tree("src")
    files[f"src/_whole_{module}.py"] = task.path(f"src/{module}.py")
    files[f"evaluation/tests/test_{module}.py"] = task.path(f"evaluation/tests/test_{module}.py")
    return files | {"pytest.ini": b"[pytest]\n"}


def _tests(task: Task, module: str) -> ast.Module:
    name = f"evaluation/tests/test_{module}.py"
    try:
        return ast.parse(task.text(name))
    except SyntaxError as error:
        raise TaskFault(f"{name} is no Python ({error})") from error


def _imports(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module == "src":
            yield from (f"src.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.module or "."


def _importable(name: str, module: str) -> bool:
    import sys

    top = name.partition(".")[0]
    if top == "src":
        return name == f"src.{module}"
    return top in _ALLOWED or top in sys.stdlib_module_names


def _used_names(tree: ast.Module, module: str) -> set[str]:
    """Names of the module under test that its tests use, imported by name or reached through the module."""
    by_name: dict[str, str] = {}
    modules = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module == f"src.{module}":
            by_name |= {alias.asname or alias.name: alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module == "src":
            modules |= {alias.asname or alias.name for alias in node.names if alias.name == module}
        elif isinstance(node, ast.Import):
            modules |= {
                alias.asname for alias in node.names if alias.name == f"src.{module}" and alias.asname
            }
    used = {by_name[n.id] for n in ast.walk(tree) if isinstance(n, ast.Name) and n.id in by_name}
    return used | {
        node.attr
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in modules
    }


def _asserts(function: ast.FunctionDef, helpers: set[str]) -> bool:
    for node in ast.walk(function):
        if isinstance(node, ast.Assert) and not isinstance(node.test, ast.Constant):
            return True
        if isinstance(node, ast.Call):
            called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            if called.startswith("assert") or called in _ASSERTING or called in helpers:
                return True
    return False
