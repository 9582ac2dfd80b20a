"""Checks of a task's files: which are there, what they may be, how large they are."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

from pytest_imaging101.kit.finding import Verdict, counted
from pytest_imaging101.kit.subject import NOT_OF_THE_TASK, Subject, arrays_of, files_of
from pytest_imaging101.task import Task

SKELETON = Path(__file__).parent / "skeleton"
# What every file that new-task writes starts with, and no accepted task has left.
MARKER = "What goes here:"

DATA_BYTES = 2**20
FOLDER_BYTES = 3 * 2**20

_ROOT = {
    "task.toml",
    "README.md",
    "requirements.txt",
    "main.py",
    "data",
    "plan",
    "src",
    "evaluation",
    "notebooks",
}
_ROOT_OPTIONAL = {"assets_manifest.json", "Dockerfile", "environment.yml", "ENVIRONMENT.md"}
_ARRAYS = (".npy", ".npz")
_TEXTS = (".py", ".toml", ".json", ".md", ".txt", ".ipynb", ".yml", ".yaml")
_CANARY = re.compile(r"imaging101-canary-[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}")
_CANARY_FILES = (
    "generate.py",
    "naive.py",
    "score.py",
    "traps.toml",
    "metrics.json",
    "reference_outputs/metrics.json",
)


def layout(subject: Subject) -> Verdict:
    """Every file that a task consists of is there, and nothing else is."""
    task = subject.task
    wanted = required_files(task)
    problems = [f"{name} is missing" for name in wanted if not task.path(name).is_file()]
    for label in ("fixtures", "fixtures_hidden"):
        problems += [
            f"evaluation/{label}/{module}/ holds no .npz file"
            for module in task.modules
            if not any(task.path("evaluation", label, module).glob("*.npz"))
        ]
    known = _ROOT | _ROOT_OPTIONAL | NOT_OF_THE_TASK
    problems += [f"{entry.name} does not belong in a task" for entry in _entries(task.folder, known)]
    links = [file for file in task.folder.rglob("*") if file.is_symlink()]
    problems += [f"{_name(task, link)} is a link; put the file itself there" for link in links]
    if task.path("src/__init__.py").exists():
        problems.append("src/__init__.py must not exist: src is a namespace package")
    return Verdict(counted(len(files_of(subject.task.folder)), "file"), tuple(problems))


def required_files(task: Task) -> list[str]:
    """The files that every task has."""
    modules = [name for m in task.modules for name in (f"src/{m}.py", f"evaluation/tests/test_{m}.py")]
    outputs = [
        f"evaluation/reference_outputs/{n}"
        for n in ("ground_truth.npy", "reconstruction.npy", "metrics.json")
    ]
    plan = [f"plan/{name}" for name in ("approach.md", "design.md", "rubric.toml")]
    evaluation = [f"evaluation/{name}" for name in ("metrics.json", "generate.py", "naive.py", "traps.toml")]
    data = ["data/raw_data.npz", "data/meta_data.json"]
    root = ["task.toml", "README.md", "requirements.txt", "main.py", f"notebooks/{task.name}.ipynb"]
    return [*root, *data, *plan, *modules, *evaluation, *outputs]


def arrays(subject: Subject) -> Verdict:
    """Arrays are plain, numeric and finite where they are compared; no file is a pickle or of an unknown kind."""
    task, problems, count = subject.task, [], 0
    for name, file in files_of(subject.task.folder).items():
        if file.suffix in _TEXTS or name in _ROOT_OPTIONAL:
            continue
        if file.suffix not in _ARRAYS:
            problems.append(f"{name} is neither text nor an .npy or .npz file")
            continue
        try:
            found = arrays_of(file)
        except (OSError, ValueError, EOFError) as error:
            problems.append(f"{name} cannot be read without pickles ({error})")
            continue
        count += len(found)
        problems += [
            f"{name}: {key or 'the array'} has dtype {array.dtype}, which is no plain one"
            for key, array in found.items()
            if array.dtype.kind not in "fiubcU"
        ]
    return Verdict(counted(count, "array"), (*problems, *_wrong_outputs(task)))


def _wrong_outputs(task: Task) -> Iterable[str]:
    import numpy as np

    for name in ("ground_truth", "reconstruction"):
        file = task.path(f"evaluation/reference_outputs/{name}.npy")
        try:
            array = np.load(file, allow_pickle=False)
        except (OSError, ValueError, EOFError):  # said above
            continue
        if array.dtype.kind in "fiubc" and not np.isfinite(array).all():
            yield f"reference_outputs/{name}.npy holds values that are not finite"
        if name == "reconstruction" and array.shape != task.output.shape:
            yield f"reference_outputs/{name}.npy has shape {array.shape}, task.toml says {task.output.shape}"


def sizes(subject: Subject) -> Verdict:
    """Data under 1 MiB, the whole folder under 3 MiB."""
    files = files_of(subject.task.folder)
    total = sum(file.stat().st_size for file in files.values())
    data = sum(file.stat().st_size for file in subject.task.tree("data").values())
    problems = [
        f"{what} has {size / 2**20:.2f} MiB, the limit is {limit >> 20}; float32, fewer samples or a smaller grid"
        for what, size, limit in (("data/", data, DATA_BYTES), ("the folder", total, FOLDER_BYTES))
        if size > limit
    ]
    return Verdict(f"data {data / 2**10:.0f} KiB, all {total / 2**10:.0f} KiB", tuple(problems))


def requirements(subject: Subject) -> Verdict:
    """Lower bounds alone; tier 1 has one and the same list, so that one environment serves all its tasks."""
    lines = subject.task.requirements()
    problems = [
        f"requirements.txt: {line!r} is no lower bound; write name>=version"
        for line in lines
        if not re.fullmatch(r"[\w.-]+(\[[\w,-]+\])?\s*>=\s*[\w.]+(\s*;.*)?", line)
    ]
    common = _lines(SKELETON / "requirements.txt")
    if subject.task.tier == 1 and lines != common:
        problems.append(f"requirements.txt of a tier 1 task is exactly: {', '.join(common)}")
    return Verdict(counted(len(lines), "requirement"), tuple(problems))


def canary(subject: Subject) -> Verdict:
    """Every private text file carries one and the same canary, and nothing that an agent may see carries it."""
    task, found, problems = subject.task, set(), []
    for name in _CANARY_FILES:
        file = task.path("evaluation", name)
        if not file.is_file():
            continue
        marks = set(_CANARY.findall(file.read_text(encoding="utf-8")))
        found |= marks
        if not marks:
            problems.append(f"evaluation/{name} has no canary; put a line imaging101-canary-<uuid4> in it")
    if len(found) > 1:
        problems.append(f"the private files have {len(found)} different canaries; a task has one")
    return Verdict(next(iter(sorted(found)), "none")[-12:], tuple(problems))


def finished(subject: Subject) -> Verdict:
    """Nothing of the skeleton's explanations is left in a task that is not marked draft."""
    left = [
        name
        for name, file in files_of(subject.task.folder).items()
        if file.suffix in _TEXTS and MARKER in file.read_text(encoding="utf-8", errors="ignore")
    ]
    if subject.task.draft:
        return Verdict(f"draft, {counted(len(left), 'placeholder')} left")
    return Verdict("", tuple(f"{name} still has the skeleton's line {MARKER!r}" for name in left))


def _lines(file: Path) -> tuple[str, ...]:
    lines = (line.split("#")[0].strip() for line in file.read_text(encoding="utf-8").splitlines())
    return tuple(sorted(line for line in lines if line))


def _entries(folder: Path, known: set[str]) -> list[Path]:
    return [entry for entry in sorted(folder.iterdir()) if entry.name not in known]


def _name(task: Task, file: Path) -> str:
    return file.relative_to(task.folder).as_posix()
