"""Checks of a task's modules against plan/design.md: the same functions, with the same signatures."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping

from pytest_imaging101.kit.finding import Verdict, counted
from pytest_imaging101.kit.subject import Subject
from pytest_imaging101.task import Task

_BLOCK = re.compile(r"^```[^\n]*\n(.*?)^```", re.MULTILINE | re.DOTALL)
_HEADING = re.compile(r"^#+[^\n]*src/(\w+)\.py", re.MULTILINE)

Signature = tuple[tuple[str, str, str], ...]


def design(subject: Subject) -> Verdict:
    """Each module has a section in design.md, and both define the same functions with the same signatures."""
    task = subject.task
    problems, count = [], 0
    stated = task.design()
    for module in task.modules:
        stubs, broken = stub_signatures(task.text("plan/design.md"), module)
        problems += broken
        defined = public_functions(task.text(f"src/{module}.py"))
        count += len(defined)
        if not stated.get(module):
            problems.append(f"design.md has no stubs below a heading that names src/{module}.py")
            continue
        problems += list(_differences(module, stubs, defined, stated[module]))
    return Verdict(counted(count, "function"), tuple(problems))


def _differences(
    module: str, stubs: dict[str, Signature], defined: dict[str, Signature], stated: tuple[str, ...]
) -> Iterator[str]:
    for name in stated:
        if name not in defined:
            yield f"src/{module}.py does not define {name}, which design.md states"
        elif name in stubs and stubs[name] != defined[name]:
            wanted, found = _shown(stubs[name]), _shown(defined[name])
            yield f"{module}.{name} is ({wanted}) in design.md and ({found}) in src/{module}.py"
    for name in defined:
        if name not in stated:
            yield f"design.md does not state {name}, a public function of src/{module}.py"


def stub_signatures(text: str, module: str) -> tuple[dict[str, Signature], list[str]]:
    """Signatures of a module's stubs, and what cannot be read of them."""
    signatures: dict[str, Signature] = {}
    broken = []
    for block in _blocks(text, module):
        try:
            signatures |= public_functions(block)
        except SyntaxError as error:
            first = next(iter(block.strip().splitlines()), "")
            broken.append(f"design.md: the stub {first!r} is no Python ({error.msg})")
    return signatures, broken


def _blocks(text: str, module: str) -> Iterator[str]:
    headings = [*_HEADING.finditer(text)]
    for heading, following in zip(headings, [*headings[1:], None], strict=True):
        if heading.group(1) == module:
            section = text[heading.end() : following.start() if following else len(text)]
            yield from (block.group(1) for block in _BLOCK.finditer(section))


def public_functions(source: str) -> dict[str, Signature]:
    """Signatures of a module's public functions: kind, name and default of each argument."""
    body = ast.parse(source).body
    constants = {
        target.id: node.value
        for node in body
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant | ast.UnaryOp)
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    return {
        node.name: _signature(node.args, constants)
        for node in body
        if isinstance(node, ast.FunctionDef) and not node.name.startswith("_")
    }


def _signature(arguments: ast.arguments, constants: Mapping[str, ast.expr]) -> Signature:
    def default(value: ast.expr | None) -> str:
        if isinstance(value, ast.Name):  # design.md says the number that a constant of the module has
            value = constants.get(value.id, value)
        return "" if value is None else f"={ast.unparse(value)}"

    positional = [*arguments.posonlyargs, *arguments.args]
    defaults = [None] * (len(positional) - len(arguments.defaults)) + list(arguments.defaults)
    found = [("", one.arg, default(value)) for one, value in zip(positional, defaults, strict=True)]
    if arguments.vararg:
        found.append(("*", arguments.vararg.arg, ""))
    for one, value in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True):
        found.append(("keyword ", one.arg, default(value)))
    if arguments.kwarg:
        found.append(("**", arguments.kwarg.arg, ""))
    return tuple(found)


def _shown(signature: Signature) -> str:
    return ", ".join(f"{kind}{name}{default}" for kind, name, default in signature)


def plain_modules(subject: Subject) -> Verdict:
    """src/ has functions alone, documented; neither it nor main.py knows of evaluation/."""
    task, problems = subject.task, []
    for module in task.modules:
        problems += list(_module_problems(task, module))
    for name in ("main.py", *task.tree("src")):
        if "evaluation" in _without_docstrings(task.text(name)):
            problems.append(f"{name} speaks of evaluation/, which no solution has")
    return Verdict(counted(len(task.modules), "module"), tuple(problems))


def _module_problems(task: Task, module: str) -> Iterator[str]:
    for node in ast.parse(task.text(f"src/{module}.py")).body:
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
            yield f"src/{module}.py has the public class {node.name}; only functions cross a module's border"
        if (
            isinstance(node, ast.FunctionDef)
            and not node.name.startswith("_")
            and not ast.get_docstring(node)
        ):
            yield f"src/{module}.py: {node.name} has no docstring"


def _without_docstrings(source: str) -> str:
    """The code with comments and docstrings removed."""
    tree = ast.parse(source)
    for node in ast.walk(tree):
        if (
            isinstance(node, ast.Module | ast.FunctionDef | ast.ClassDef)
            and ast.get_docstring(node) is not None
        ):
            node.body = node.body[1:] or [ast.Pass()]
    return ast.unparse(tree)
