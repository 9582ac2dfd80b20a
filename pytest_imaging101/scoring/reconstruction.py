"""Grades a reconstruction: aligns it, compares it with the truth, holds the figures against the boundaries.

Numpy and scikit-image are imported when a grade is computed, so that importing this module costs nothing.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from pytest_imaging101.faults import GraderFault, TaskFault
from pytest_imaging101.outcome import Assessment, Check
from pytest_imaging101.scoring.arrays import NotComparable, kind_of, load_array
from pytest_imaging101.scoring.own_score import call_own_score, load_own_score
from pytest_imaging101.task import Task

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = [
    "Boundary",
    "NotComparable",
    "boundaries",
    "check_grader_inputs",
    "compare",
    "score_reconstruction",
]

TRUTH = "reference_outputs/ground_truth.npy"
REFERENCE = "reference_outputs/reconstruction.npy"

_SUFFIX = "_boundary"


@dataclass(frozen=True)
class Boundary:
    """One judged figure: the least ("min") or greatest ("max") value that passes."""

    name: str
    value: float
    direction: Literal["min", "max"]

    def met(self, figure: float) -> bool:
        """Whether a figure passes. Written so that NaN does not."""
        return figure >= self.value if self.direction == "min" else figure <= self.value

    def describe(self, figure: float) -> str:
        """``"nrmse 0.21 > boundary 0.094"``."""
        signs = (">=", "<") if self.direction == "min" else ("<=", ">")
        sign = signs[0] if self.met(figure) else signs[1]
        return f"{self.name} {_short(figure, self.value)} {sign} boundary {self.value:g}"


def boundaries(metrics: Mapping[str, Any]) -> tuple[Boundary, ...]:
    """The boundaries of a ``metrics.json``. Raises TaskFault, naming the key, if one cannot be judged."""
    from pytest_imaging101.scoring.metrics import DIRECTION

    directions = metrics.get("direction") or {}
    if not isinstance(directions, Mapping):
        raise TaskFault(
            f"metrics.json: direction is {directions!r}; it must map a figure's name to min or max"
        )
    found = []
    for key, value in metrics.items():
        if not key.endswith(_SUFFIX) or value is None:
            continue
        name = key.removesuffix(_SUFFIX)
        if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
            raise TaskFault(f"metrics.json: {key} is {value!r}; it must be a finite number")
        direction = directions.get(name, DIRECTION.get(name))
        if direction not in ("min", "max"):
            raise TaskFault(
                f"metrics.json: direction of {name!r} is {direction!r}; say min (at least the boundary) "
                "or max (at most the boundary)"
            )
        found.append(Boundary(name, float(value), direction))
    if not found:
        raise TaskFault(f"metrics.json has no <metric>{_SUFFIX}: nothing would be judged")
    return tuple(found)


def compare(
    reconstruction: NDArray[Any], reference: NDArray[Any], metrics: Mapping[str, Any], folder: Path
) -> dict[str, float]:
    """Every figure of a reconstruction against the truth, as a task's ``metrics.json`` says to compute it.

    Parameters
    ----------
    reconstruction, reference : ndarray
        The answer and the truth, real or complex.
    metrics : mapping
        The content of ``metrics.json``; only ``align`` and ``mask`` matter here.
    folder : Path
        The task's ``evaluation/``: ``mask`` is relative to it, and its ``score.py``, if any, adds its figures
        and replaces built-in ones of the same name. It gets both arrays as they are, before ``align``.

    Raises
    ------
    NotComparable
        ``score.py`` refused the array with a ValueError.
    TaskFault, GraderFault
        The task's mask, align steps or ``score.py`` are broken.
    """
    return _figures(reconstruction, reference, metrics, folder)[0]


def score_reconstruction(task: Task, submitted: bytes | None, missing_reason: str = "") -> Assessment:
    """Judge the submitted ``.npy`` file; None means that none was delivered, for ``missing_reason``.

    A missing, unreadable or non-finite array is a miss with its reason. Raises TaskFault where the task's own
    files are broken, GraderFault where its ``score.py`` failed.
    """
    metrics = task.metrics()
    with _naming(task):
        judged = boundaries(metrics)
        folder = task.path("evaluation")
        truth = _trusted_array(folder / TRUTH)
        shape = _expected_shape(task, folder)
        kind = _kind(task)
    try:
        if submitted is None:
            raise NotComparable(missing_reason or f"{task.output.file} was not delivered")
        reconstruction = load_array(submitted, shape, kind)
        with _naming(task):
            figures, notes = _figures(reconstruction, truth, metrics, folder)
    except NotComparable as miss:
        checks = tuple(Check(b.name, False, "boundary", str(miss)) for b in judged)
        return Assessment(passed=False, reason=str(miss), checks=checks)
    with _naming(task):
        _require(judged, figures)
    return _judge(judged, figures, notes)


def check_grader_inputs(task: Task) -> None:
    """Raise TaskFault unless everything that grades a reconstruction is there and works.

    It computes the figures of the reference's own reconstruction, where that file is stored, and so finds a
    boundary that nothing computes before any model was asked.
    """
    metrics = task.metrics()
    folder = task.path("evaluation")
    with _naming(task):
        judged = boundaries(metrics)
        truth = _trusted_array(folder / TRUTH)
        _expected_shape(task, folder)
        _kind(task)
        trial = folder / REFERENCE
        try:
            figures, _ = _figures(_trusted_array(trial) if trial.exists() else truth, truth, metrics, folder)
        except NotComparable as error:
            raise TaskFault(f"score.py refuses the reference's own reconstruction: {error}") from error
        _require(judged, figures)


def read_truth(task: Task) -> NDArray[Any]:
    """The task's truth, float64 or complex128. Raises TaskFault."""
    with _naming(task):
        return _trusted_array(task.path("evaluation") / TRUTH)


def read_mask(task: Task, truth: NDArray[Any]) -> NDArray[Any]:
    """The pixels of the truth that count, all of them where the task has no mask. Raises TaskFault."""
    with _naming(task):
        return _mask(task.metrics(), truth, task.path("evaluation"))


def _judge(judged: Sequence[Boundary], figures: dict[str, float], notes: Mapping[str, str]) -> Assessment:
    checks = tuple(
        Check(b.name, b.met(figures[b.name]), "boundary", b.describe(figures[b.name])) for b in judged
    )
    missed = [b for b in judged if not b.met(figures[b.name])]
    reason = ", ".join(
        f"{b.name} {_short(figures[b.name], b.value)} misses the boundary {b.value:g}" for b in missed
    )
    if not missed:
        reason = f"all {len(judged)} boundaries met" if len(judged) > 1 else "the boundary is met"
    return Assessment(
        passed=not missed, reason=reason, scores=figures, checks=checks, score_notes=dict(notes)
    )


def _figures(
    reconstruction: NDArray[Any], reference: NDArray[Any], metrics: Mapping[str, Any], folder: Path
) -> tuple[dict[str, float], dict[str, str]]:
    """Built-in figures after alignment, the task's own ones, and why a figure was left out."""
    from pytest_imaging101.scoring import metrics as merit

    figures: dict[str, float] = {}
    notes: dict[str, str] = {}
    if reconstruction.shape == reference.shape:
        figures, notes = _builtin(reconstruction, reference, metrics, folder)
    else:
        why = f"the answer is {reconstruction.shape}, the truth {reference.shape}"
        notes = dict.fromkeys((*merit.JUDGED, *merit.REPORTED), why)
    own = load_own_score(folder)
    if own is not None:
        figures |= call_own_score(own, reconstruction, reference, folder)
    return figures, {name: why for name, why in notes.items() if name not in figures}


def _builtin(
    reconstruction: NDArray[Any], reference: NDArray[Any], metrics: Mapping[str, Any], folder: Path
) -> tuple[dict[str, float], dict[str, str]]:
    import numpy as np

    from pytest_imaging101.scoring import metrics as merit
    from pytest_imaging101.scoring.alignment import Pair, align

    notes: dict[str, str] = {}
    # Overflow on absurd values ends in infinities and NaN, which no boundary lets pass.
    with np.errstate(all="ignore"):
        try:
            pair = align(Pair(reconstruction, reference, _mask(metrics, reference, folder)), _steps(metrics))
        except ValueError as error:
            raise TaskFault(f"metrics.json: {error}") from error
        answer, truth, mask = pair.reconstruction, pair.reference, pair.mask
        if not mask.any():
            raise TaskFault("metrics.json: mask and crop leave no pixel to compare")
        figures = {name: getattr(merit, name)(answer, truth, mask) for name in merit.JUDGED}
        for name in merit.REPORTED:
            try:
                figures[name] = getattr(merit, name)(answer, truth, mask)
            except ValueError as error:
                notes[name] = str(error)
    return figures, notes


def _steps(metrics: Mapping[str, Any]) -> list[str]:
    steps = metrics.get("align") or []
    if not isinstance(steps, list):
        raise TaskFault(f"metrics.json: align is {steps!r}; it must be a list of steps")
    return steps


def _mask(metrics: Mapping[str, Any], reference: NDArray[Any], folder: Path) -> NDArray[Any]:
    import numpy as np

    name = metrics.get("mask")
    if name is None:
        return np.ones(reference.shape, dtype=bool)
    if not isinstance(name, str):
        raise TaskFault(f"metrics.json: mask is {name!r}; it must be a path relative to evaluation/, or null")
    mask = _trusted_array(folder / name).astype(bool)
    try:
        return np.broadcast_to(mask, reference.shape)
    except ValueError as error:
        raise TaskFault(
            f"mask {name} has shape {mask.shape}, which does not fit {reference.shape}"
        ) from error


def _trusted_array(path: Path) -> NDArray[Any]:
    """A stored array of the task. Raises TaskFault if it is missing, not plain or not finite."""
    import numpy as np

    name = "/".join(path.parts[-2:])
    try:
        array = np.load(path, allow_pickle=False)
    except (OSError, ValueError, EOFError) as error:
        raise TaskFault(f"{name} cannot be read ({error})") from error
    if not isinstance(array, np.ndarray) or array.dtype.kind not in "fiubc" or not array.size:
        raise TaskFault(f"{name} must hold one array of numbers")
    if not np.isfinite(array).all():
        raise TaskFault(f"{name} holds values that are not finite")
    if array.dtype.kind == "c":
        return array.astype(np.complex128)
    return array.astype(np.float64)


def _kind(task: Task) -> Literal["real", "complex"]:
    try:
        return kind_of(task.output.dtype)
    except ValueError as error:
        raise TaskFault(f"task.toml: output.dtype {error}") from error


def _expected_shape(task: Task, folder: Path) -> tuple[int | None, ...]:
    """``SHAPE`` of score.py where it says one (None for an axis of any length), else that of task.toml."""
    own = load_own_score(folder)
    shape = task.output.shape if own is None else getattr(own, "SHAPE", task.output.shape)
    plain = isinstance(shape, tuple | list) and all(
        n is None or (isinstance(n, int) and not isinstance(n, bool) and n > 0) for n in shape
    )
    if not plain:
        raise TaskFault(
            f"the expected shape is {shape!r}; it must be positive whole numbers (None for any length)"
        )
    return tuple(shape)


def _require(judged: Sequence[Boundary], figures: Mapping[str, float]) -> None:
    for boundary in judged:
        if boundary.name not in figures:
            known = ", ".join(sorted(figures)) or "none"
            raise TaskFault(
                f"metrics.json judges {boundary.name!r}, which nothing computes (computed: {known}); "
                "let score.py return it or remove its boundary"
            )


def _short(figure: float, boundary: float) -> str:
    """Four digits, or as many as it takes to tell the figure from its boundary."""
    for digits in (4, 6, 9):
        text = f"{figure:.{digits}g}"
        if text != f"{boundary:.{digits}g}":
            return text
    return repr(float(figure))


@contextmanager
def _naming(task: Task) -> Iterator[None]:
    """Puts the task's name before the message of a fault that is raised inside."""
    try:
        yield
    except (TaskFault, GraderFault) as fault:
        prefix = f"task {task.name}: "
        if fault.message.startswith(prefix):
            raise
        raise type(fault)(prefix + fault.message, evidence=fault.evidence) from fault
