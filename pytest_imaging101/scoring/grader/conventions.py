"""Finds the change of convention (sign, scale, axis order, half a pixel ...) that explains why an array is wrong.

The expected array is changed by every member of a declared group, and by pairs of them, and held against the actual
one. The simplest change is told that makes it right or explains nearly all of the error, and more than chance would.
Numpy only: it runs in grading sandboxes too.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .candidates import LEAST_UNEXPLAINED, Trials, Verified
from .case import Case, comparable
from .values import readings

Array = NDArray[Any]

# A change must explain this share of the error's energy; less if it also turns the miss into a pass.
EXPLAINED = 0.99
_EXPLAINED_AND_PASSES = 0.75
_EXPLAINED_AND_PASSES_FITTED = 0.9
# The chance that the best of all changes as simple explains so much of an unrelated array of the same roughness.
_CHANCE = 1e-2
# A further change must explain this share of what the simpler one leaves.
_WORTH_ANOTHER = 0.95
# How often the task's own comparison, which may be slow, is asked about changes that explain less.
_MOST_COMPARISONS = 4


@dataclass(frozen=True)
class Found:
    """A change of convention: names joined by ``+``, words, parameters, and the share of the error it explains."""

    name: str
    sentence: str
    parameters: dict[str, Any]
    explained: float


def search(case: Case) -> Found | None:
    """The simplest change that explains the miss, or None where none does better than chance."""
    if not comparable(case.expected, case.actual):
        return None
    expected, actual = _numbers(case.expected), _numbers(case.actual)
    with np.errstate(all="ignore"):
        for step, reading in readings(expected, actual):
            spent = () if step is None else (step,)
            best = _best(Trials(case, expected, reading, spent))
            if best is not None:
                return _found(best, case)
    return None


def _best(trials: Trials) -> Verified | None:
    """The simplest acceptable change, unless a further one explains nearly all that it leaves."""
    shortlist = trials.shortlist()
    if not shortlist:
        return None
    case, freedom = trials.case, trials.freedom()
    verified = sorted(trials.verified(shortlist), key=lambda found: (found.cost, found.level, found.rank))
    chosen: Verified | None = None
    comparisons = 0
    for found in verified:
        if chosen is not None and (chosen.exact or found.residual > (1 - _WORTH_ANOTHER) * chosen.residual):
            continue
        if _by_chance(trials, found, freedom):
            continue
        if not _explains(case, found):
            if not _may_pass(case, found) or comparisons == _MOST_COMPARISONS:
                continue
            comparisons += 1
            if not _passes(case, found):
                continue
        chosen = found
    return chosen


def _explains(case: Case, found: Verified) -> bool:
    if case.tolerance is not None and found.fitted:
        return found.exact
    return found.exact or found.explained >= EXPLAINED


def _may_pass(case: Case, found: Verified) -> bool:
    needed = _EXPLAINED_AND_PASSES_FITTED if found.fitted else _EXPLAINED_AND_PASSES
    return case.passes is not None and found.explained >= needed


def _by_chance(trials: Trials, found: Verified, freedom: float) -> bool:
    """Whether one of as many changes would explain as much of unrelated values, ``freedom`` of them independent."""
    unexplained = max(1 - found.explained, LEAST_UNEXPLAINED)
    power = (freedom - 1 - found.fitted) / 2
    as_simple = sum(count for cost, count in trials.tried.items() if cost <= found.cost)
    return power <= 0 or as_simple * unexplained**power > _CHANCE


def _found(best: Verified, case: Case) -> Found:
    words = " and ".join(step.words for step in best.steps)
    parameters: dict[str, Any] = {}
    for step in best.steps:
        for name, value in step.parameters:
            plain = list(value) if isinstance(value, tuple) else value
            parameters[name if name not in parameters else f"{step.name}_{name}"] = plain
    right = best.exact if case.passes is None else _passes(case, best)
    sentence = (
        f"right up to {words}"
        if right
        else f"{_percent(best.explained)} of its error is explained by {words}"
    )
    return Found("+".join(step.name for step in best.steps), sentence, parameters, round(best.explained, 6))


def _percent(share: float) -> str:
    return f"{min(100 * share, 99.99):.4g} %"


def _passes(case: Case, verified: Verified) -> bool:
    if case.passes is None or verified.undo is None:
        return False
    undone = verified.undo()
    return bool(np.isfinite(undone).all()) and case.passes(undone)


def _numbers(array: Array) -> Array:
    """The array as float64 or complex128."""
    return array.astype(np.complex128 if array.dtype.kind == "c" else np.float64)
