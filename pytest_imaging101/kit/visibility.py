"""Checks that no agent can see the truth: not as a file, not as values, not by a word."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_imaging101.kit.finding import Verdict, counted
from pytest_imaging101.kit.subject import Subject, arrays_of
from pytest_imaging101.task import LEVELS, Task

if TYPE_CHECKING:
    from numpy.typing import NDArray

_TELLING_NAME = re.compile(r"truth|ground|\bgt\b|_gt|gt_|phantom|answer|solution|target|label", re.IGNORECASE)
_PRIVATE_WORDS = (
    *("imaging101-canary", "reference_outputs", "ground_truth", "fixtures_hidden", "generate.py", "naive.py"),
    *("traps.toml", "rubric.toml"),
)
# Arrays that agree to this after the best scale and offset are the same array.
_SAME = 1e-3
_SHARE_OF_VALUES = 0.5
_FEWEST_VALUES = 32


def visible_files(task: Task) -> dict[str, Path]:
    """Everything that an agent sees at any mechanism, level or module."""
    files = task.visible("planning")
    for level in LEVELS:
        files |= task.visible("end2end", level)
    for module in task.modules:
        files |= task.visible("function", module)
    return files


def private_files(task: Task) -> dict[str, Path]:
    """Everything that must stay unseen."""
    seen = visible_files(task)
    return {name: file for name, file in task.tree("evaluation").items() if name not in seen}


def no_private_content(subject: Subject) -> Verdict:
    """No visible file has the content of a private one."""
    seen = visible_files(subject.task)
    hashes = {_hash(file): name for name, file in private_files(subject.task).items() if file.stat().st_size}
    problems = [
        f"{name}, which agents see, has the content of {hashes[_hash(file)]}"
        for name, file in seen.items()
        if _hash(file) in hashes
    ]
    return Verdict(f"{len(seen)} visible, {len(hashes)} private", tuple(problems))


def no_telling_words(subject: Subject) -> Verdict:
    """No visible text names a private file or carries the canary; no name in data/ speaks of truth."""
    task, problems = subject.task, []
    texts = {n: f for n, f in visible_files(task).items() if f.suffix not in (".npy", ".npz")}
    for name, file in texts.items():
        content = file.read_text(encoding="utf-8", errors="replace")
        problems += [f"{name}, which agents see, says {word!r}" for word in _PRIVATE_WORDS if word in content]
    for name, file in task.tree("data").items():
        keys = arrays_of(file) if file.suffix in (".npy", ".npz") else {}
        problems += [
            f"{name}: the name {n!r} speaks of truth" for n in (file.name, *keys) if _TELLING_NAME.search(n)
        ]
    return Verdict(counted(len(texts), "text"), tuple(problems))


def no_truth_values(subject: Subject) -> Verdict:
    """No visible array is the truth or the reference's answer, turned, scaled, cut or reordered."""
    task, problems, count = subject.task, [], 0
    secrets = {
        name: next(iter(arrays_of(task.path(f"evaluation/reference_outputs/{name}.npy")).values()))
        for name in ("ground_truth", "reconstruction")
    }
    for name, file in visible_files(task).items():
        for label, secret in secrets.items():
            if secret.nbytes >= 64 and _middle(secret) in file.read_bytes():
                problems.append(f"{name} holds the bytes of {label}.npy")
        if file.suffix not in (".npy", ".npz"):
            continue
        for key, array in arrays_of(file).items():
            count += 1
            for label, secret in secrets.items():
                problems += [
                    f"{name}: {key or 'the array'} {how} {label}.npy" for how in _likeness(array, secret)
                ]
    return Verdict(counted(count, "array"), tuple(problems))


def _likeness(array: NDArray[Any], secret: NDArray[Any]) -> Iterator[str]:
    """In which way an array gives a secret away."""
    if array.dtype.kind not in "fiubc" or array.size < _FEWEST_VALUES:
        return
    if any(
        _same(piece, turned) for turned in _orientations(secret) for piece in _pieces(array, turned.shape)
    ):
        yield "is, up to orientation, scale and offset,"
    elif (share := _shared_values(array, secret)) > _SHARE_OF_VALUES:
        yield f"holds {share:.0%} of the values of"


def _pieces(array: NDArray[Any], shape: tuple[int, ...]) -> Iterator[NDArray[Any]]:
    """The array, or each of its leading slices, where they have the shape; real parts and magnitudes too."""
    if array.ndim < len(shape) or array.shape[array.ndim - len(shape) :] != shape:
        return
    for piece in array.reshape(-1, *shape)[:64]:
        yield piece
        if piece.dtype.kind == "c":
            yield abs(piece)
            yield piece.real


def _orientations(secret: NDArray[Any]) -> list[NDArray[Any]]:
    """A secret turned every way that a save in another convention would turn it."""
    import numpy as np

    flips = [secret]
    for axis in range(secret.ndim):
        flips += [np.flip(one, axis) for one in flips]
    turned = [*flips, *(one.T for one in flips)]
    return turned + ([abs(one) for one in turned] if secret.dtype.kind == "c" else [])


def _same(array: NDArray[Any], secret: NDArray[Any]) -> bool:
    import numpy as np

    a, b = (values.astype(complex).ravel() for values in (array, secret))
    if not np.isfinite(a).all():
        return False
    a, b = a - a.mean(), b - b.mean()
    norms = float(np.linalg.norm(a)), float(np.linalg.norm(b))
    if min(norms) == 0:
        return False
    cosine = min(abs(np.vdot(a / norms[0], b / norms[1])), 1.0)
    return bool(np.sqrt(1 - cosine**2) < _SAME)


def _shared_values(array: NDArray[Any], secret: NDArray[Any]) -> float:
    """Share of the secret's distinct values that the array holds too; whole numbers do not tell."""
    import numpy as np

    if array.dtype.kind not in "fc":
        return 0.0
    values = np.unique(np.abs(secret).astype(np.float32))
    values = values[values != np.round(values)]
    if values.size < _FEWEST_VALUES:
        return 0.0
    return float(np.isin(values, np.abs(array).astype(np.float32)).mean())


def _middle(array: NDArray[Any]) -> bytes:
    """Bytes from where the array varies most, so that zeros of a background match nothing."""
    import numpy as np

    flat = np.ascontiguousarray(array).ravel()
    start = max(0, min(int(np.argmax(np.abs(flat))) - 2, flat.size - 8))
    return flat[start : start + 8].tobytes()


def _hash(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()
