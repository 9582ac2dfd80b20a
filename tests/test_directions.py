"""Arrows between parts point one way, and start-up stays light."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "pytest_imaging101"
LEAVES = {"faults", "budget", "outcome", "task", "slugs"}
ALLOWED = {
    "faults": set(),
    "budget": set(),
    "slugs": set(),
    "slots": {"faults", "slugs"},
    "task": {"faults"},
    "outcome": {"budget"},
    "models": LEAVES | {"models"},
    "sandboxes": LEAVES | {"sandboxes"},
    "scoring": LEAVES | {"sandboxes", "scoring"},
    "agents": LEAVES | {"models", "sandboxes", "agents", "model_config"},
    "reporting": LEAVES | {"reporting"},
    "kit": LEAVES | {"sandboxes", "scoring", "agents", "collection", "kit"},
}


def imported_parts(file: Path) -> set[str]:
    """Parts of the package that a file imports, wherever in the file."""
    parts = set()
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("pytest_imaging101."):
            parts.add((node.module or "").split(".")[1])
    return parts


@pytest.mark.parametrize("part", sorted(ALLOWED))
def test_a_part_imports_only_what_it_may(part: str) -> None:
    path = PACKAGE / part
    files = sorted(path.rglob("*.py")) if path.is_dir() else [path.with_suffix(".py")]
    assert files
    offences = {str(file.relative_to(PACKAGE)): imported_parts(file) - ALLOWED[part] for file in files}
    assert not {name: extra for name, extra in offences.items() if extra}


def test_only_the_plugin_implements_hooks() -> None:
    for file in PACKAGE.rglob("*.py"):
        # The grader runs in a sandbox, under another pytest than ours.
        inside_sandbox = file.parent.name == "grader"
        if inside_sandbox or file.name in ("plugin.py", "hookspecs.py") or file == PACKAGE / "__init__.py":
            continue
        functions = [
            node.name for node in ast.walk(ast.parse(file.read_text())) if isinstance(node, ast.FunctionDef)
        ]
        assert not [name for name in functions if name.startswith("pytest_")], file


def test_collecting_imports_nothing_heavy(toy_tasks: Path, tmp_path: Path) -> None:
    heavy = ["openai", "numpy", "skimage", "docker", "matplotlib", "huggingface_hub", "pydantic", "scipy"]
    arguments = ["--model=oracle", f"--tasks={toy_tasks}", "--collect-only", "-q", "-p", "no:cacheprovider"]
    program = (
        "import sys, pytest\n"
        f"code = pytest.main({arguments!r})\n"
        f"print('LOADED', sorted(set({heavy!r}) & set(sys.modules)), int(code))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert "LOADED [] 0" in done.stdout
