"""A task under examination, and the sandboxes in which its own code runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_imaging101.sandboxes.base import Completed, NotDelivered, Resources, Sandbox
from pytest_imaging101.sandboxes.choose import Backend, open_sandbox
from pytest_imaging101.sandboxes.environment import provide_environment
from pytest_imaging101.task import Task

if TYPE_CHECKING:
    from numpy.typing import NDArray

Files = Mapping[str, bytes | Path]

# Of what a script of the task may leave for us to read.
MOST_BYTES = 64 * 2**20


@dataclass(frozen=True)
class Ran:
    """How a script of the task ended, and the files that were asked for and are there."""

    completed: Completed
    files: dict[str, bytes]

    @property
    def ending(self) -> str:
        """The last line that it printed, or which limit ended it."""
        lines = self.completed.output.strip().splitlines()
        return self.completed.killed_by or (lines[-1] if lines else f"exit code {self.completed.exit_code}")


@dataclass(frozen=True)
class Subject:
    """One task and the kind of sandbox that attempts at it would get."""

    task: Task
    backend: Backend

    def open_sandbox(self, extra: Sequence[str] = (), memory_gib: float | None = None) -> Sandbox:
        """A new sandbox with the task's environment, or that and more. Raises a Fault if it cannot be had."""
        memory = int((memory_gib or self.task.limits.memory_gib) * 2**30)
        environment = provide_environment((*self.task.requirements(), *extra))
        return open_sandbox(self.backend, environment, Resources(memory_bytes=memory))

    def run(self, command: Sequence[str], files: Files, wanted: Sequence[str] = (), **how: Any) -> Ran:
        """Run a command in a new sandbox that holds these files, and fetch what it wrote.

        ``how`` may hold ``timeout``, and ``extra`` and ``memory_gib`` of ``open_sandbox``.
        """
        timeout = how.pop("timeout", self.task.limits.command_seconds)
        with closing(self.open_sandbox(**how)) as sandbox:
            sandbox.put(files)
            completed = sandbox.run(command, timeout=timeout)
            return Ran(completed, fetch(sandbox, wanted))

    def pipeline_files(self) -> dict[str, bytes | Path]:
        """What ``main.py`` runs on: what level 1 sees, and the reference."""
        files: dict[str, bytes | Path] = dict(self.task.visible("end2end", "L1"))
        return files | self.task.tree("src") | {"main.py": self.task.path("main.py")}


NOT_OF_THE_TASK = {
    "__pycache__",
    "output",
    ".ipynb_checkpoints",
    ".pytest_cache",
    ".ruff_cache",
    ".mypy_cache",
}


def files_of(folder: Path) -> dict[str, Path]:
    """Every file of a task's folder, sorted, but for links and what running its code leaves there."""
    files = {file.relative_to(folder): file for file in sorted(folder.rglob("*"))}
    return {
        name.as_posix(): file
        for name, file in files.items()
        if file.is_file() and not file.is_symlink() and not set(name.parts) & NOT_OF_THE_TASK
    }


def fetch(sandbox: Sandbox, wanted: Sequence[str]) -> dict[str, bytes]:
    """Those of the wanted files that are there."""
    found = {}
    for name in wanted:
        try:
            found[name] = sandbox.get(name, MOST_BYTES)
        except NotDelivered:
            continue
    return found


def arrays_of(file: Path) -> dict[str, NDArray[Any]]:
    """Arrays of an ``.npy`` or ``.npz`` file by key, that of an ``.npy`` under the empty key; never a pickle.

    Raises OSError or ValueError for a file that holds anything else.
    """
    import numpy as np

    loaded = np.load(file, allow_pickle=False)
    if isinstance(loaded, np.ndarray):
        return {"": loaded}
    with loaded:
        return {key: loaded[key] for key in loaded.files}


def as_npy(array: NDArray[Any]) -> bytes:
    """An array as the bytes of an ``.npy`` file, as an agent would submit it."""
    import io

    import numpy as np

    stream = io.BytesIO()
    np.save(stream, array, allow_pickle=False)
    return stream.getvalue()
