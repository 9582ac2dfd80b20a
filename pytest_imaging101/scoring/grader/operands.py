"""Keeps the two arrays of a test's failing comparison, and says which change of convention tells them apart.

Runs inside the trusted sandbox. What is found explains a failed test and never decides one.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Generator
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from .case import array_case, comparable
from .conventions import search

# Larger arrays are not kept, so that a flood of failures costs neither memory nor time.
_MOST_ELEMENTS = 2**19
_MOST_TESTS = 30

# Functions whose first two arguments are the actual and the expected array, and their default tolerances.
_ASSERTIONS = {
    "assert_allclose": (1e-7, 0.0),
    "assert_array_equal": (0.0, 0.0),
    "assert_array_almost_equal": (0.0, 1.5e-6),
}


@dataclass(frozen=True)
class Operands:
    """The two sides of a failing comparison."""

    actual: NDArray[Any]
    expected: NDArray[Any]
    rtol: float
    atol: float


class Witness:
    """A pytest plugin that keeps, for each test, the arrays of its last failing comparison."""

    def __init__(self) -> None:
        self._test = ""
        self._seen: dict[str, Operands] = {}
        self._broken: set[str] = set()

    def watch(self) -> None:
        """Have numpy's assertions tell what they fail on. To be called before a test file imports them."""
        for name, (rtol, atol) in _ASSERTIONS.items():
            setattr(np.testing, name, self._watched(getattr(np.testing, name), rtol, atol))
        setattr(np, "allclose", self._watched_answer(np.allclose))  # noqa: B010

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Generator[None]:
        self._test = item.nodeid.partition("::")[2]
        try:
            return (yield)
        finally:
            self._test = ""

    def pytest_runtest_makereport(self, item: pytest.Item, call: pytest.CallInfo[None]) -> None:
        if call.excinfo is not None and not call.excinfo.errisinstance(
            (AssertionError, pytest.fail.Exception)
        ):
            self._broken.add(item.nodeid.partition("::")[2])

    def pytest_assertrepr_compare(self, op: str, left: object, right: object) -> None:
        """``assert array == pytest.approx(array)`` failed."""
        right_way = hasattr(right, "expected")
        actual, expected = (left, right) if right_way else (right, left)
        if op == "==" and hasattr(expected, "expected"):
            self._keep(actual, expected.expected, 1e-6, 0.0)

    def drifts(self, failed: set[str]) -> dict[str, dict[str, Any] | None]:
        """For failed tests that tell whether a convention drifted: the change that explains them, or None.

        None also where a test ended with an exception or an array of another shape: no drift does that.
        """
        found: dict[str, dict[str, Any] | None] = dict.fromkeys(failed & self._broken)
        for test, seen in self._seen.items():
            if test not in failed or test in found:
                continue
            if comparable(seen.expected, seen.actual):
                drift = search(array_case(seen.expected, seen.actual, seen.rtol, seen.atol))
                found[test] = None if drift is None else asdict(drift)
            elif sorted(seen.expected.shape) != sorted(seen.actual.shape):
                found[test] = None
        return found

    def _keep(self, actual: Any, expected: Any, rtol: float, atol: float) -> None:
        if not self._test:  # not a test's comparison, but one of the diagnosis itself
            return
        both = isinstance(actual, np.ndarray) and isinstance(expected, np.ndarray)
        if not (both and max(actual.size, expected.size) <= _MOST_ELEMENTS):
            self._seen.pop(self._test, None)
        elif len(self._seen) < _MOST_TESTS or self._test in self._seen:
            self._seen[self._test] = Operands(actual.copy(), expected.copy(), rtol, atol)

    def _watched(self, function: Callable[..., None], rtol: float, atol: float) -> Callable[..., None]:
        signature = inspect.signature(function)

        @functools.wraps(function)
        def call(*args: Any, **kwargs: Any) -> None:
            __tracebackhide__ = True
            try:
                function(*args, **kwargs)
            except AssertionError:
                given = signature.bind(*args, **kwargs).arguments
                actual, expected = list(given.values())[:2]
                self._keep(
                    actual,
                    expected,
                    float(np.max(given.get("rtol", rtol))),
                    float(np.max(given.get("atol", atol))),
                )
                raise

        return call

    def _watched_answer(self, function: Callable[..., bool]) -> Callable[..., bool]:
        @functools.wraps(function)
        def call(a: Any, b: Any, rtol: float = 1e-5, atol: float = 1e-8, **kwargs: Any) -> bool:
            equal = function(a, b, rtol=rtol, atol=atol, **kwargs)
            if not equal:
                self._keep(a, b, rtol, atol)
            return equal

        return call
