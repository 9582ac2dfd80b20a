"""Whether an attempt saw what it must not: the task's private content, looked for in everything it left.

Evidence is a fact, never a guess: the task's canary, a private file byte for byte, a long run of the truth's exact
values. What honest work can arrive at by itself is none: the reference's reconstruction, arrays of few distinct
values, and sources and plans, which carry no canary because other mechanisms show them. A copy that was encrypted,
rounded or rescaled is not recognised.
"""

from __future__ import annotations

import hashlib
import io
import re
import zipfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_imaging101.faults import TaskFault
from pytest_imaging101.outcome import Integrity
from pytest_imaging101.sandboxes.base import NotDelivered, Sandbox
from pytest_imaging101.scoring.reconstruction import REFERENCE, TRUTH
from pytest_imaging101.task import Task

if TYPE_CHECKING:
    from numpy.typing import NDArray

_CANARY = re.compile(rb"imaging101-canary-([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})")

# Below these an equality can be chance: a small file, an array of few distinct values (a mask, a map of labels).
_LEAST_FILE_BYTES = 256
_LEAST_DISTINCT = 16
# A value that four digits hold is one that anybody may write down.
_ROUND_DIGITS = 4
_ROUND_ERROR = 1e-6
# Lengths of the runs of values looked for: the shortest that tells enough, the whole array at last.
_RUN_LENGTHS = (32, 512)
_RUNS, _CANDIDATES = 4, 64
_PRINTED_VALUES = 6
# What is looked at of one attempt, so that a flooded workspace does not become the harness's main work.
_MOST_FILES = 2_000
_MOST_BYTES = 64 * 2**20
_MOST_EVIDENCE = 10
_NAME_CHARACTERS = 200


@dataclass(frozen=True)
class Secrets:
    """What of a task is private in one attempt, in the forms in which it can be found again.

    ``canaries`` are GUIDs; ``files`` maps SHA-256 to name; ``runs`` are bytes and text of truth values; ``given`` are
    hashes of what the harness itself put into the sandbox; ``before`` is the task folder as it was, hash by name.
    """

    canaries: tuple[bytes, ...]
    files: Mapping[str, str]
    runs: tuple[bytes, ...]
    given: frozenset[str]
    before: Mapping[str, str]

    @classmethod
    def of(cls, task: Task, shown: Mapping[str, Path], handed: Mapping[str, Path]) -> Secrets:
        """Read them, before the agent works.

        ``shown`` is what the item shows to agents, ``handed`` what a built-in model gets beside it. Raises TaskFault
        where a file that is shown carries the canary: every attempt would then look tainted.
        """
        before = _hashes(task)
        given = {**shown, **handed}
        private = {
            name: task.path(name) for name in before if name.startswith("evaluation/") and name not in shown
        }
        canaries = {found for file in private.values() for found in _CANARY.findall(file.read_bytes())}
        visible = {name: file.read_bytes() for name, file in shown.items()}
        for name, content in visible.items():
            if any(canary in content for canary in canaries):
                raise TaskFault(f"task {task.name}: {name} is shown to agents and carries the canary")
        return cls(
            canaries=tuple(sorted(canaries)),
            files={before[name]: name for name, file in private.items() if _is_telling(name, file)},
            runs=tuple(
                run for run in _runs_of_truth(task) if not any(run in content for content in visible.values())
            ),
            given=frozenset(_hash(file.read_bytes()) for file in given.values()),
            before=before,
        )

    def require_unchanged(self, task: Task) -> None:
        """Raise TaskFault if the task is no longer what it was: then nobody knows what was examined by what."""
        after = _hashes(task)
        if changed := {name for name, _ in self.before.items() ^ after.items()}:
            raise TaskFault(
                f"task {task.name}: {', '.join(sorted(changed)[:3])} changed while the agent worked"
            )

    def found_in(self, content: bytes) -> str:
        """What private thing a file holds, in words; empty if none."""
        digest = _hash(content)
        if digest in self.given:
            return ""
        if digest in self.files:
            return f"is {self.files[digest]}, byte for byte"
        if any(canary in content for canary in self.canaries):
            return "holds the canary of the task's private files"
        if any(run in content for run in self.runs):
            return "holds values of the truth, digit for digit"
        return ""


def examine(
    secrets: Secrets, sandbox: Sandbox, delivered: Mapping[str, bytes], records: Iterable[Path]
) -> Integrity:
    """Look for secrets in an attempt's records, in what it delivered, and in what lies in its sandbox at the end."""
    look = _Look(secrets)
    for record in records:
        look.at(record.name, record.read_bytes(), most_bytes=None)
    for path, content in delivered.items():
        look.at(path, content)
    entries = [entry for entry in sandbox.list() if entry.path not in delivered]
    # The small ones first: text comes before what was written to crowd it out.
    for entry in sorted(entries, key=lambda entry: entry.size):
        if look.files >= _MOST_FILES or entry.size > look.bytes_left:
            look.unseen += 1
            continue
        try:
            look.at(entry.path, sandbox.get(entry.path, entry.size))
        except NotDelivered:  # of a name that is no text, or not readable
            look.unseen += 1
    return Integrity(
        verdict="tainted" if look.evidence else "clean",
        evidence=look.evidence[:_MOST_EVIDENCE],
        files_not_examined=look.unseen,
    )


@dataclass
class _Look:
    """Counts what has been looked at and keeps what was found."""

    secrets: Secrets
    evidence: list[str] = field(default_factory=list)
    files: int = 0
    bytes_left: int = _MOST_BYTES
    unseen: int = 0

    def at(self, name: str, content: bytes, most_bytes: int | None = _MOST_BYTES) -> None:
        self.files += 1
        name = name[:_NAME_CHARACTERS]
        if most_bytes is not None:
            self.bytes_left -= len(content)
        if found := self.secrets.found_in(content):
            self.evidence.append(f"{name} {found}")
            return
        for member, unpacked in self._members(content):
            if found := self.secrets.found_in(unpacked):
                self.evidence.append(f"{name}: {member[:_NAME_CHARACTERS]} {found}")

    def _members(self, content: bytes) -> Iterator[tuple[str, bytes]]:
        """Members of a zip archive, which .npz is, as far as there is room for what they unpack to."""
        if not content.startswith(b"PK\x03\x04"):
            return
        # The archive may be hostile, and zipfile and its decompressors have every kind of exception for it.
        try:
            with zipfile.ZipFile(io.BytesIO(content)) as archive:
                for member in archive.infolist()[:_MOST_FILES]:
                    with archive.open(member) as stream:
                        unpacked = stream.read(max(0, self.bytes_left))
                    self.bytes_left -= len(unpacked)
                    yield member.filename, unpacked
        except Exception:
            self.unseen += 1


def _hash(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _hashes(task: Task) -> dict[str, str]:
    """Files that agents see or grading reads, and their hashes. Raises TaskFault if one cannot be read."""
    names = {"task.toml", "README.md", "requirements.txt", "main.py"}
    files = {name: task.path(name) for name in names if task.path(name).is_file()}
    for folder in ("data", "plan", "src", "evaluation"):
        files |= task.tree(folder)
    try:
        return {name: _hash(file.read_bytes()) for name, file in files.items()}
    except OSError as error:
        raise TaskFault(f"task {task.name}: {error.filename} cannot be read ({error.strerror})") from error


def _is_telling(name: str, file: Path) -> bool:
    """Whether nobody arrives at a private file's exact bytes without having seen it."""
    if file.stat().st_size < _LEAST_FILE_BYTES or name == f"evaluation/{REFERENCE}":
        return False
    return file.suffix != ".npy" or _telling_values(_load(file)) >= _LEAST_DISTINCT


def _load(file: Path) -> NDArray[Any]:
    import numpy as np

    try:
        array: NDArray[Any] = np.load(file, allow_pickle=False)
    except (OSError, ValueError, EOFError) as error:
        raise TaskFault(f"{file} cannot be read ({error})") from error
    return array


def _telling_values(values: NDArray[Any]) -> int:
    """How many different numbers are in an array, those not counted that a few digits hold."""
    import numpy as np

    if values.dtype.kind not in "fc":
        return 0
    with np.errstate(all="ignore"):
        numbers = np.unique(np.stack([values.real, values.imag]).astype(np.float64))
        unit = 10.0 ** (np.floor(np.log10(np.abs(numbers))) - _ROUND_DIGITS + 1)
        error = np.abs(numbers - np.round(numbers / unit) * unit)
        return int((error > _ROUND_ERROR * np.abs(numbers)).sum())


def _runs_of_truth(task: Task) -> list[bytes]:
    """Runs of the truth's values as they would stand in a file: in both orders, in full and in single precision.

    A run counts only where the reference's own reconstruction, rounded alike, differs in most of it: an inversion
    without noise can arrive at the truth exactly.
    """
    import numpy as np

    folder = task.path("evaluation")
    if not (folder / TRUTH).is_file():  # said by whoever grades by it
        return []
    truth = _load(folder / TRUTH)
    reached = _load(folder / REFERENCE) if (folder / REFERENCE).is_file() else None
    if reached is None or reached.shape != truth.shape:
        reached = np.full(truth.shape, np.nan)
    found: list[bytes] = []
    with np.errstate(all="ignore"):
        for dtype in dict.fromkeys((truth.dtype, np.dtype("c8" if truth.dtype.kind == "c" else "f4"))):
            for values, others in ((truth, reached), (truth.T, reached.T)):
                found += _runs(values.astype(dtype).ravel(), others.astype(dtype).ravel())
    return list(dict.fromkeys(found))


def _runs(values: NDArray[Any], reached: NDArray[Any]) -> Iterator[bytes]:
    for length in (*_RUN_LENGTHS, values.size):
        starts = [
            start
            for start in _spread(range(0, values.size - length + 1, length), _CANDIDATES)
            if _tells(values[start : start + length], reached[start : start + length])
        ]
        if starts:
            break
    for start in _spread(starts, _RUNS):
        run = values[start : start + length]
        yield run.tobytes()
        printed = run[:_PRINTED_VALUES]
        if _telling_values(printed) >= _PRINTED_VALUES:
            yield ", ".join(map(repr, printed.tolist())).encode()


def _tells(values: NDArray[Any], reached: NDArray[Any]) -> bool:
    return _telling_values(values) >= _LEAST_DISTINCT and bool((values != reached).mean() > 0.5)


def _spread(starts: Sequence[int], count: int) -> Sequence[int]:
    """At most so many of them, evenly from the first on."""
    step = max(1, (len(starts) + count - 1) // count)
    return starts[::step]
