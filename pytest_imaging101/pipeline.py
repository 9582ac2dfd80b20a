"""Runs a submitted main.py again in a fresh sandbox and compares its array with the one that the agent left."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_imaging101.faults import Fault
from pytest_imaging101.outcome import Pipeline, finite_scores
from pytest_imaging101.sandboxes.base import NotDelivered, Sandbox
from pytest_imaging101.task import Task

if TYPE_CHECKING:
    from numpy.typing import NDArray

MAIN = "main.py"
# Room for another order of summation on another run; a solver that draws other random numbers differs by more.
TOLERANCE = 0.01


def submitted_sources(folder: Path) -> dict[str, bytes]:
    """The Python files that were kept of an attempt, by their path in its workspace."""
    return {
        file.relative_to(folder).as_posix(): file.read_bytes()
        for file in sorted(folder.rglob("*.py"))
        if file.is_file()
    }


def verify_pipeline(
    task: Task,
    level: str | None,
    sources: Mapping[str, bytes],
    left: bytes | None,
    open_sandbox: Callable[[], Sandbox],
    *,
    timeout: float,
    max_bytes: int,
) -> Pipeline:
    """What main.py makes of the files that the level shows and of the submitted sources.

    ``left`` is the array that the agent left, ``max_bytes`` bounds the one that main.py leaves. Never raises for
    what goes wrong: the verdict does not hang on it.
    """
    if MAIN not in sources:
        return Pipeline(ran=False, agrees=None, reason=f"no {MAIN} was submitted")
    try:
        with closing(open_sandbox()) as sandbox:
            sandbox.put({**task.visible("end2end", level), **sources})
            done = sandbox.run(["python", MAIN], timeout=timeout)
            if done.exit_code:
                how = f"was stopped at its limit of {done.killed_by}" if done.killed_by else "failed"
                last = (done.output.strip().splitlines() or [f"exit code {done.exit_code}"])[-1]
                return Pipeline(ran=False, agrees=False, reason=f"{MAIN} {how} when run again: {last[:300]}")
            try:
                made = sandbox.get(task.output.file, max_bytes)
            except NotDelivered as missing:
                return Pipeline(
                    ran=True, agrees=left is None, reason=f"run again, {MAIN} left nothing: {missing}"
                )
        return _compare(task, made, left)
    except Fault as fault:
        return Pipeline(ran=False, agrees=None, reason=f"{fault.kind}: {fault.message}")
    # An attempt with a verdict must not lose it to a mistake in what is only told beside it.
    except Exception as error:
        return Pipeline(ran=False, agrees=None, reason=f"{type(error).__name__}: {error}"[:300])


def _compare(task: Task, made: bytes, left: bytes | None) -> Pipeline:
    from pytest_imaging101.scoring.reconstruction import score_reconstruction

    again = score_reconstruction(task, made)
    figures: dict[str, Any] = dict(again.scores)
    verdict = "passes" if again.passed else "misses"
    difference, reason = _difference(task, made, left)
    if difference is not None:
        figures["difference"] = difference
    return Pipeline(
        ran=True,
        agrees=difference is not None and difference <= TOLERANCE,
        scores=finite_scores(figures)[0],
        reason=f"run again, {MAIN} {verdict} ({again.reason}); {reason}",
    )


def _difference(task: Task, made: bytes, left: bytes | None) -> tuple[float | None, str]:
    """The relative L2 distance of two arrays, or None where they cannot be compared, and that in words."""
    import numpy as np

    from pytest_imaging101.scoring.arrays import NotComparable, kind_of, load_array

    if left is None:
        return None, "the agent left none"
    kind = kind_of(task.output.dtype)
    try:
        before: NDArray[Any] = load_array(left, None, kind)
        after: NDArray[Any] = load_array(made, before.shape, kind)
    except NotComparable as reason:
        return (0.0, "both files are the same") if made == left else (None, str(reason))
    size = float(np.linalg.norm(before))
    distance = float(np.linalg.norm(after - before))
    difference = distance / size if size else float(distance > 0)
    return difference, f"its array differs from what the agent left by {difference:.2g} of its norm"
