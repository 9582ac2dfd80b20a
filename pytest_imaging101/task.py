"""A task folder read as data, and what each mechanism and level may see of it."""

from __future__ import annotations

import hashlib
import json
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from pytest_imaging101.faults import TaskFault, UsageError

TASK_FILE = "task.toml"
DOMAINS = ("astronomy", "biology", "chemistry_materials", "earth_science", "medicine", "physics")
DIFFICULTIES = ("easy", "medium", "hard")
Mechanism = Literal["planning", "function", "end2end"]
MECHANISMS: tuple[Mechanism, ...] = ("planning", "function", "end2end")
LEVELS = ("L1", "L2", "L3")
PLAN_FILES = ("plan/approach.md", "plan/design.md")
PARTS_OF_A_PLAN = ("preprocessing", "forward_model", "inverse_solver", "visualization")

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]*\Z")
_REQUIRED_SECTIONS = ("publication", "output")


@dataclass(frozen=True)
class Publication:
    """The paper a task stands on."""

    authors: tuple[str, ...]
    year: int
    title: str
    venue: str
    doi: str | None = None


@dataclass(frozen=True)
class Output:
    """The array an end2end attempt must leave."""

    file: str
    shape: tuple[int, ...]
    dtype: str
    unit: str


@dataclass(frozen=True)
class TaskLimits:
    """Time and memory of one command of an agent at this task."""

    command_seconds: float = 120.0
    memory_gib: float = 2.0


@dataclass(frozen=True)
class Task:
    """One task folder. Reading it opens ``task.toml`` alone; arrays are opened by whoever needs them."""

    folder: Path
    name: str
    title: str
    domain: str
    keywords: tuple[str, ...]
    difficulty: str
    tier: int
    modules: tuple[str, ...]
    publication: Publication
    output: Output
    limits: TaskLimits
    # A draft is validated and can be run by its name, but no sweep over all tasks takes it along.
    draft: bool = False

    @classmethod
    def read(cls, folder: Path) -> Task:
        """Read ``folder/task.toml``. Raises UsageError with the file, the value and what is expected."""
        path = folder / TASK_FILE
        try:
            table = tomllib.loads(path.read_text(encoding="utf-8"))
        except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
            raise UsageError(f"{path}: cannot be read as a task: {error}") from error
        return _Reader(path, table).task()

    def path(self, *parts: str) -> Path:
        """A path inside the folder."""
        return self.folder.joinpath(*parts)

    def text(self, relative: str) -> str:
        """A text file of the folder. Raises TaskFault if it cannot be read."""
        try:
            return self.path(relative).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise TaskFault(f"task {self.name}: {relative} cannot be read ({error})") from error

    def visible(self, mechanism: str, part: str | None = None) -> dict[str, Path]:
        """Files an agent sees, as workspace path -> file; part is the level or the module.

        The folder's own layout is kept. Nothing under ``evaluation/`` but the visible tests and fixtures
        of the module asked for is ever in it. Raises TaskFault where a file is missing or a link.
        """
        wanted = ["README.md", "requirements.txt"]
        trees = ["data"]
        if mechanism == "function":
            wanted += [*PLAN_FILES, f"evaluation/tests/test_{part}.py"]
            wanted += [f"src/{module}.py" for module in self.modules if module != part]
            trees.append(f"evaluation/fixtures/{part}")
        elif mechanism == "end2end" and part in ("L2", "L3"):
            wanted += PLAN_FILES[:1] if part == "L2" else PLAN_FILES
        files = {name: self.path(name) for name in wanted}
        for name, file in files.items():
            if file.is_symlink() or not file.is_file():
                what = "is a link, which could lead out of the task" if file.is_symlink() else "is missing"
                raise TaskFault(f"task {self.name}: {name} {what}; {part or mechanism} cannot be attempted")
        for tree in trees:
            files |= self.tree(tree)
        if not any(name.startswith("data/") for name in files):
            raise TaskFault(f"task {self.name}: data/ holds no file; there is nothing to reconstruct from")
        return files

    def tree(self, folder: str) -> dict[str, Path]:
        """Regular files below a sub-folder as relative path -> file, sorted, without caches and links."""
        root = self.path(folder)
        return {
            file.relative_to(self.folder).as_posix(): file
            for file in sorted(root.rglob("*"))
            if file.is_file() and not file.is_symlink() and "__pycache__" not in file.parts
        }

    def requirements(self) -> tuple[str, ...]:
        """Requirement lines, comments and blanks removed, sorted."""
        file = self.path("requirements.txt")
        if not file.is_file():
            return ()
        lines = (line.split("#")[0].strip() for line in self.text("requirements.txt").splitlines())
        return tuple(sorted(line for line in lines if line))

    def metrics(self) -> dict[str, Any]:
        """``evaluation/metrics.json``. Raises TaskFault if it is not a JSON object."""
        try:
            loaded = json.loads(self.text("evaluation/metrics.json"))
        except ValueError as error:
            raise TaskFault(f"task {self.name}: evaluation/metrics.json is not JSON ({error})") from error
        if not isinstance(loaded, dict):
            raise TaskFault(f"task {self.name}: evaluation/metrics.json must hold an object")
        return loaded

    def design(self) -> dict[str, tuple[str, ...]]:
        """Public functions by module, read from the stubs of ``plan/design.md`` in their order."""
        return parse_design(self.text("plan/design.md"))

    def visible_hash(self, mechanism: str, part: str | None) -> str:
        """SHA-256 of what the agent sees: a change of it makes a new attempt."""
        return _hash_of(self.visible(mechanism, part))

    def grading_hash(self) -> str:
        """SHA-256 of what grading and the built-in models read: a change of it makes a new grade."""
        files = {name: self.path(name) for name in ("task.toml", "main.py") if self.path(name).is_file()}
        for folder in ("plan", "src", "evaluation"):
            files |= self.tree(folder)
        files.pop("evaluation/traps.toml", None)
        return _hash_of(files)


def _hash_of(files: Mapping[str, Path]) -> str:
    digest = hashlib.sha256()
    for name, file in sorted(files.items()):
        content = file.read_bytes()
        digest.update(f"{name}\0{len(content)}\0".encode())
        digest.update(content)
    return digest.hexdigest()


def parse_design(text: str) -> dict[str, tuple[str, ...]]:
    """Function names by module from a design document: ``def`` stubs under ``src/<module>.py`` headings."""
    functions: dict[str, list[str]] = {}
    module: str | None = None
    fenced = False
    for line in text.splitlines():
        if line.lstrip().startswith("```"):
            fenced = not fenced
        elif not fenced and line.startswith("#"):
            heading = re.search(r"src/(\w+)\.py", line)
            module = heading.group(1) if heading else module
        elif fenced and module and (stub := re.match(r"def ([A-Za-z]\w*)\(", line)):
            functions.setdefault(module, []).append(stub.group(1))
    return {name: tuple(names) for name, names in functions.items()}


class _Reader:
    """Turns the TOML table into a Task, naming file and value of whatever is wrong."""

    def __init__(self, path: Path, table: dict[str, Any]) -> None:
        self.path = path
        self.table = table

    def task(self) -> Task:
        name = self.path.parent.name
        if not _NAME.match(name):
            raise UsageError(
                f"{self.path}: the folder's name {name!r} is the task's name and may hold letters, digits, "
                "hyphens and underscores only; rename the folder"
            )
        for section in _REQUIRED_SECTIONS:
            self._expect(section, dict)
        publication, output = self.table["publication"], self.table["output"]
        return Task(
            folder=self.path.parent,
            name=name,
            title=self._expect("title", str),
            domain=self._one_of("domain", DOMAINS),
            keywords=tuple(self.table.get("keywords", ())),
            difficulty=self._one_of("difficulty", DIFFICULTIES),
            tier=self._one_of("tier", (1, 2, 3)),
            modules=self._modules(),
            publication=Publication(
                authors=tuple(self._expect("authors", list, publication, "publication.")),
                year=self._expect("year", int, publication, "publication."),
                title=self._expect("title", str, publication, "publication."),
                venue=self._expect("venue", str, publication, "publication."),
                doi=publication.get("doi"),
            ),
            output=Output(
                file=self._output_file(output),
                shape=tuple(self._expect("shape", list, output, "output.")),
                dtype=self._expect("dtype", str, output, "output."),
                unit=self._expect("unit", str, output, "output."),
            ),
            limits=self._limits(),
            draft=self._draft(),
        )

    def _expect(self, key: str, kind: type, table: dict[str, Any] | None = None, prefix: str = "") -> Any:
        value = (self.table if table is None else table).get(key)
        if not isinstance(value, kind) or isinstance(value, bool):
            found = "is missing" if value is None else f"is {value!r}"
            raise UsageError(f"{self.path}: {prefix}{key} {found}; it must be a {_KINDS[kind]}")
        return value

    def _one_of(self, key: str, allowed: tuple[Any, ...]) -> Any:
        value = self.table.get(key)
        if value not in allowed:
            listed = ", ".join(map(str, allowed))
            raise UsageError(f"{self.path}: {key} is {value!r}; it must be one of {listed}")
        return value

    def _output_file(self, output: dict[str, Any]) -> str:
        file = self._expect("file", str, output, "output.")
        parts = file.split("/")
        if parts[0] != "output" or len(parts) < 2 or ".." in parts or not file.endswith(".npy"):
            raise UsageError(f"{self.path}: output.file is {file!r}; it must be an .npy file below output/")
        return str(file)

    def _modules(self) -> tuple[str, ...]:
        modules = self._expect("modules", list)
        for module in modules:
            if not isinstance(module, str) or not module.isidentifier():
                raise UsageError(
                    f"{self.path}: modules holds {module!r}; each must be a file name in src/ without .py"
                )
        if len(set(modules)) != len(modules):
            raise UsageError(f"{self.path}: modules names one twice: {modules}")
        return tuple(modules)

    def _draft(self) -> bool:
        draft = self.table.get("draft", False)
        if not isinstance(draft, bool):
            raise UsageError(f"{self.path}: draft is {draft!r}; it must be true or false")
        return draft

    def _limits(self) -> TaskLimits:
        limits = self.table.get("limits", {})
        known = TaskLimits.__dataclass_fields__
        for key, value in limits.items():
            if key not in known or not isinstance(value, int | float) or value <= 0:
                raise UsageError(
                    f"{self.path}: limits.{key} is {value!r}; known are {', '.join(known)}, positive numbers"
                )
        return TaskLimits(**{key: float(value) for key, value in limits.items()})


_KINDS: dict[type, str] = {str: "string", int: "whole number", list: "list", dict: "table"}
