"""Says which change of convention (sign, scale, axis order, half a pixel ...) would have made a missed array right.

The search itself stands in ``grader/conventions.py``, since failing unit tests are diagnosed where they ran.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

from pytest_imaging101.outcome import Assessment, Drift
from pytest_imaging101.scoring.arrays import Kind, NotComparable, load_array
from pytest_imaging101.scoring.reconstruction import boundaries, compare, read_mask, read_truth
from pytest_imaging101.task import Task

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from pytest_imaging101.scoring.grader.case import Case
    from pytest_imaging101.scoring.grader.conventions import Found

_KINDS: tuple[Kind, ...] = ("real", "complex")

# Steps of ``align`` that a comparison ignores anyway, and what of the search they make free.
_FREE = {
    "scale": ("scale", "phase"),
    "flux": ("scale",),
    "offset_mean": ("offset",),
    "offset_median": ("offset",),
    "global_phase": ("phase",),
}


def explained(task: Task, submitted: bytes, assessment: Assessment) -> Assessment:
    """A missed assessment of an ``.npy`` file with the change of convention that would have made it right, if any.

    The verdict stands already: what goes wrong in explaining it is noted and takes nothing from it.
    """
    try:
        return with_drift(assessment, diagnose_submission(task, submitted))
    except Exception as error:
        note = f"the search for a drifted convention failed ({type(error).__name__}: {error})"
        return replace(assessment, notes=(*assessment.notes, note))


def diagnose_submission(task: Task, submitted: bytes) -> Drift | None:
    """`diagnose_reconstruction` of a submitted ``.npy`` file; None where it holds no finite numbers."""
    for kind in _KINDS:
        try:
            return diagnose_reconstruction(task, load_array(submitted, None, kind))
        except NotComparable:
            continue
    return None


def diagnose_reconstruction(task: Task, submitted: NDArray[Any]) -> Drift | None:
    """The simplest change of convention that explains why a reconstruction misses, or None.

    A change counts if it turns the miss into a pass by the task's own boundaries and explains most of the error's
    energy, or if it explains 99 % of it. Fitted factors and offsets need a name (2π, an SI prefix) or stand in the
    ``drift`` list of ``metrics.json``. An answer whose shape is no permutation of the truth's has no drift.
    """
    return _drift(_search(_case(task, submitted)))


def diagnose_array(
    expected: NDArray[Any], actual: NDArray[Any], rtol: float, atol: float = 0.0
) -> Drift | None:
    """The same for an array of a unit test, which fitted factors and offsets must make equal."""
    from pytest_imaging101.scoring.grader.case import array_case

    return _drift(_search(array_case(expected, actual, rtol, atol)))


def drift_of_tests(found: Mapping[str, Mapping[str, Any] | None]) -> Drift | None:
    """One drift for a module, from what was found in its failed tests that tell whether there is one.

    None unless the same kind of change explains at least half of them: one test may look like a flip by accident.
    """
    kinds = Counter(drift["name"] for drift in found.values() if drift is not None)
    if not kinds:
        return None
    name, count = kinds.most_common(1)[0]
    if 2 * count < len(found):
        return None
    alike = {test: drift for test, drift in found.items() if drift is not None and drift["name"] == name}
    first = next(iter(alike.values()))
    return Drift(**{**first, "checks": list(alike)})


def with_drift(assessment: Assessment, drift: Drift | None) -> Assessment:
    """A missed assessment with what would have made it right, said in its reason and in the checks concerned."""
    if drift is None or assessment.passed:
        return assessment
    named = set(drift.checks)
    checks = tuple(
        replace(check, detail=f"{check.detail}; {drift.sentence}") if check.name in named else check
        for check in assessment.checks
    )
    where = f" (seen in {len(named)} of them)" if named else ""
    return replace(
        assessment, reason=f"{assessment.reason}; {drift.sentence}{where}", checks=checks, drift=drift
    )


def _search(case: Case) -> Found | None:
    from pytest_imaging101.scoring.grader.conventions import search

    return search(case)


def _drift(found: Found | None) -> Drift | None:
    if found is None:
        return None
    return Drift(**asdict(found))


def _case(task: Task, submitted: NDArray[Any]) -> Case:
    import numpy as np

    from pytest_imaging101.scoring.alignment import parse_step
    from pytest_imaging101.scoring.grader.case import Case

    metrics, folder = task.metrics(), task.path("evaluation")
    truth, judged = read_truth(task), boundaries(metrics)
    steps = metrics.get("align") or []
    ignored = {parse_step(step)[0] for step in steps}
    mask = _cropped(read_mask(task, truth), steps)

    def passes(array: NDArray[Any]) -> bool:
        try:
            figures = compare(array, truth, metrics, folder)
        except NotComparable:
            return False
        return all(one.name in figures and one.met(figures[one.name]) for one in judged)

    expected = truth
    if "magnitude" in ignored:
        expected, submitted = np.abs(truth), np.abs(submitted)
    free = {name for step in ignored for name in _FREE.get(step, ())}
    declared = {name for name in metrics.get("drift") or () if name in ("scale", "offset")}
    return Case(
        expected,
        submitted,
        mask=None if mask.all() else mask,
        free=frozenset(free),
        declared=frozenset(declared),
        passes=passes,
    )


def _cropped(mask: NDArray[Any], steps: Sequence[str]) -> NDArray[Any]:
    """The mask without what ``crop`` cuts off, found by cropping the numbers of the pixels."""
    import numpy as np

    from pytest_imaging101.scoring.alignment import Pair, align

    numbers = np.arange(mask.size, dtype=float).reshape(mask.shape)
    left = align(Pair(numbers, numbers, mask), [step for step in steps if step.startswith("crop")])
    cropped = np.zeros(mask.size, dtype=bool)
    cropped[left.inside[0].astype(int)] = True
    return cropped.reshape(mask.shape)
