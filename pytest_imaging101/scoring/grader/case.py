"""Two arrays that differ, and what counts as right; numpy only, since it is used in grading sandboxes too."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]

_LEAST_ELEMENTS = 4


@dataclass(frozen=True)
class Case:
    """What is compared and what counts as right.

    Parameters
    ----------
    expected, actual : ndarray
        Real or complex numbers.
    mask : ndarray of bool, optional
        Pixels of ``expected`` that count.
    free : frozenset of str
        What the comparison ignores anyway: ``scale``, ``offset``, ``phase``.
    declared : frozenset of str
        Fitted changes (``scale``, ``offset``) that are plausible without a name.
    tolerance : (rtol, atol), optional
        For arrays that are deterministic: fitted changes must make them equal.
    passes : callable, optional
        Whether an array, brought back to the expected convention, is right.
    """

    expected: Array
    actual: Array
    mask: NDArray[np.bool_] | None = None
    free: frozenset[str] = frozenset()
    declared: frozenset[str] = frozenset()
    tolerance: tuple[float, float] | None = None
    passes: Callable[[Array], bool] | None = None


def array_case(expected: Array, actual: Array, rtol: float, atol: float) -> Case:
    """The case of two arrays that a test wanted to be equal within a tolerance."""
    return Case(expected, actual, tolerance=(rtol, atol))


def comparable(expected: Array, actual: Array) -> bool:
    """Whether two arrays can be diagnosed: finite numbers, shapes alike up to their order, more than a constant."""
    if sorted(np.shape(expected)) != sorted(np.shape(actual)) or np.size(actual) < _LEAST_ELEMENTS:
        return False
    return all(
        side.dtype.kind in "fiubc" and bool(np.isfinite(side).all()) and bool((side != side.flat[0]).any())
        for side in (np.asarray(expected), np.asarray(actual))
    )
