"""Tries changes of convention on an expected array: all of them at some points, the few best everywhere.

Numpy only: the diagnosis of conventions runs in grading sandboxes too.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .case import Case
from .fits import Fit, Points, fits, named
from .frames import Coordinates, Frame, Interpolation, Step, correlated, frames, half_shifted
from .values import Value, values

Array = NDArray[Any]

MOST_STEPS = 2
# The residual that rounding leaves.
LEAST_UNEXPLAINED = 1e-12

_LEAST_RTOL = 1e-9
_SCREENED_POINTS = 4096
_SCREENED_EXPLAINED = 0.5
_VERIFIED_POINTS = 2**18
_VERIFIED_PER_COST = 4
_VERIFIED_BEST = 6
_HALF_PIXEL_ELEMENTS = 2**21
_CORRELATED_ELEMENTS = 2**21
# Leading axis whose slices are quantities of different units (a temperature and a fraction), each to count alike.
_MOST_QUANTITIES = 16
_QUANTITY_RATIO = 30.0


@dataclass(frozen=True)
class Candidate:
    """A change that does well at some points: frame, values, and the form of the fit that is left.

    ``cost`` counts its named steps, ``level`` is its residual in coarse steps, ``rank`` when it was tried.
    """

    frame: Frame
    how: Interpolation
    value: Value | None
    form: str
    cost: int
    level: int
    rank: int


@dataclass(frozen=True)
class Verified:
    """A change as it does everywhere, its constants named. ``undo`` brings the actual array back, if that can be."""

    steps: tuple[Step, ...]
    rank: int
    residual: float
    level: int
    explained: float
    fitted: bool
    exact: bool
    undo: Callable[[], Array] | None

    @property
    def cost(self) -> int:
        return len(self.steps)


@dataclass
class Trials:
    """What was tried on two arrays: finite float64 or complex128, of the same number of axes.

    ``spent`` are steps already taken to make them comparable; ``tried`` counts changes by their cost.
    """

    case: Case
    expected: Array
    actual: Array
    spent: tuple[Step, ...]
    moved: dict[tuple[tuple[int, ...], Interpolation], Array] = field(default_factory=dict)
    tried: Counter[int] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        size = self.expected.ndim
        self.identity = Frame(tuple(range(size)), (False,) * size, (0.0,) * size)
        self.comparable = self.expected.shape == self.actual.shape
        self.weights = self._quantity_weights()
        self.values = values(self.expected, self.actual.shape)

    def shortlist(self) -> list[Candidate]:
        """The best of each cost, and the best of all, by some thousand points."""
        points = self._points(self._sample(_SCREENED_POINTS))
        ordered = sorted(self._screened(points), key=lambda one: (one.level, one.cost, one.rank))
        chosen = ordered[:_VERIFIED_BEST]
        for cost in range(1, MOST_STEPS + 1):
            alike = [one for one in ordered if one.cost == cost]
            chosen += [one for one in alike[:_VERIFIED_PER_COST] if one not in chosen]
        return chosen

    def verified(self, shortlist: Sequence[Candidate]) -> list[Verified]:
        """The candidates as they do everywhere; without those whose constants mean nothing."""
        points = self._points(self._sample(_VERIFIED_POINTS))
        found = [self._verify(candidate, points) for candidate in shortlist]
        return [one for one in found if one is not None]

    def freedom(self) -> float:
        """How many independent facts the expected array holds: the participation ratio of its power spectrum."""
        centred = self.expected * self._weights_of(self.expected.shape)
        if self.case.mask is not None:
            centred = np.where(self.case.mask, centred, centred[self.case.mask].mean())
        axes = tuple(range(1 if self.weights is not None else 0, centred.ndim))
        centred = centred - centred.mean(axis=axes, keepdims=True)
        stride = tuple(slice(None, None, max(1, length // 256)) for length in centred.shape)
        power = np.abs(np.fft.fftn(centred[stride])) ** 2
        total = float(power.sum())
        return total**2 / float((power**2).sum()) if total > 0 else 0.0

    def _quantity_weights(self) -> Array | None:
        length = self.expected.shape[0]
        if self.expected.ndim < 2 or length > _MOST_QUANTITIES or not self.comparable:
            return None
        size = np.sqrt((np.abs(self.expected) ** 2).mean(axis=tuple(range(1, self.expected.ndim))))
        if size.min() <= 0 or size.max() < _QUANTITY_RATIO * size.min():
            return None
        weights: Array = 1 / size
        return weights

    def _weights_of(self, shape: Sequence[int]) -> Array:
        if self.weights is None:
            return np.ones(())
        return self.weights.reshape((-1,) + (1,) * (len(shape) - 1))

    def _sample(self, most: int) -> Coordinates:
        """Points of the actual array: all if they are few, else half at random and half where it stands out."""
        size, shape = self.actual.size, self.actual.shape
        if size <= most:
            return tuple(np.unravel_index(np.arange(size), shape))
        chosen = np.random.default_rng(size).integers(0, size, most // 2)
        flat = np.abs(self.actual.ravel() - np.median(self.actual.real))
        standing_out = np.argpartition(flat, size - most // 2)[-(most // 2) :]
        return tuple(np.unravel_index(np.union1d(chosen, standing_out), shape))

    def _points(self, coordinates: Coordinates) -> Points:
        weight = np.ones(1) if self.weights is None else self.weights[coordinates[0]]
        rows = None if self.weights is None else coordinates[0]
        return Points(coordinates, self.actual[coordinates] * weight, weight, rows)

    def _expected_at(
        self, frame: Frame, how: Interpolation, points: Points
    ) -> tuple[Array, NDArray[np.bool_] | None]:
        """What the changed expected array has at the points, and which of them count."""
        source, keep = frame.source(points.coordinates, self.expected.shape)
        axes = frame.half_axes
        if (axes, how) not in self.moved:
            self.moved[axes, how] = half_shifted(self.expected, axes, how).ravel()
        if self.case.mask is not None:
            counts = self.case.mask.ravel()[source]
            keep = counts if keep is None else counts & keep
        return self.moved[axes, how][source], keep

    def _frames(self) -> Iterator[tuple[Frame, Interpolation]]:
        if self.comparable:
            yield self.identity, "linear"
        halves = self.expected.size <= _HALF_PIXEL_ELEMENTS
        for frame in frames(self.expected.shape, MOST_STEPS - len(self.spent)):
            if frame.shape(self.expected.shape) != self.actual.shape:
                continue
            if not frame.half_axes:
                yield frame, "linear"
            elif halves:
                yield frame, "linear"
                yield frame, "fourier"
        if self.comparable and not self.spent and self.actual.size <= _CORRELATED_ELEMENTS:
            shifted = correlated(self.actual, self.expected)
            self.tried[1] += self.actual.size  # as many shifts were tried
            if shifted is not None:
                yield shifted, "linear"

    def _screened(self, points: Points) -> Iterator[Candidate]:
        error = self._error(points)
        for frame, how in self._frames():
            found, keep = self._expected_at(frame, how, points)
            cost = len(self.spent) + len(frame.steps)
            for value in (None, *self.values):
                steps = cost + (value is not None)
                if steps > MOST_STEPS:
                    continue
                changed = found if value is None else value.forward(found, points.coordinates)
                for fit in fits(points, changed, keep, self.case.free):
                    total = steps + fit.cost
                    if not 0 < total <= MOST_STEPS:
                        continue
                    self.tried[total] += 1
                    scale = min(error, fit.structure)
                    if fit.structure > 0 and fit.residual <= (1 - _SCREENED_EXPLAINED) * scale:
                        rank = self.tried.total()
                        yield Candidate(frame, how, value, fit.form, total, _level(fit), rank)

    def _error(self, points: Points) -> float:
        """Mean square of the error as it is; infinite where the arrays cannot be compared as they are."""
        if self.spent or not self.comparable:
            return np.inf
        found, keep = self._expected_at(self.identity, "linear", points)
        fit = next(fits(points, found, keep, self.case.free), None)
        return np.inf if fit is None else fit.at(fit.factor, fit.offset, points, found, keep).residual

    def _verify(self, candidate: Candidate, points: Points) -> Verified | None:
        """The candidate with its constants named, everywhere; None if its constants mean nothing."""
        found, keep = self._expected_at(candidate.frame, candidate.how, points)
        value = candidate.value
        changed = found if value is None else value.forward(found, points.coordinates)
        fitted = fits(points, changed, keep, self.case.free)
        fit = next((one for one in fitted if one.form == candidate.form), None)
        if fit is None:
            return None
        exact = self._equal(fit, points, changed, keep)
        steps: tuple[Step, ...] = ()
        if fit.cost:
            plausible = self.case.declared | ({"scale", "offset", "phase"} if exact else set())
            # Parameters of the fit are named by the array as it would be without them.
            naming = named(fit, self.expected if value is None else changed, self.actual, plausible)
            if naming is None:
                return None
            steps, fit = naming.steps, replace(fit, factor=naming.factor, offset=naming.offset)
            exact = exact and self._equal(fit, points, changed, keep)
        fit = fit.at(fit.factor, fit.offset, points, changed, keep)
        error = min(self._error(points), fit.structure)
        if error <= 0 or not np.isfinite(fit.residual):
            return None
        changes = () if value is None else (value.step,)
        all_steps = self.spent + candidate.frame.steps + changes + steps
        if not 0 < len(all_steps) <= MOST_STEPS + 1:
            return None
        return Verified(
            steps=all_steps,
            rank=candidate.rank,
            residual=max(fit.residual, LEAST_UNEXPLAINED * fit.structure),
            level=_level(fit),
            explained=1 - fit.residual / error,
            fitted=bool(fit.cost) and fit.form != "sign",
            exact=exact,
            undo=self._undo(candidate, fit),
        )

    def _equal(self, fit: Fit, points: Points, changed: Array, keep: NDArray[np.bool_] | None) -> bool:
        if self.case.tolerance is None:
            return False
        # A test for equality leaves no room for the rounding of the change itself.
        rtol, atol = max(self.case.tolerance[0], _LEAST_RTOL), self.case.tolerance[1]
        atol = max(atol, _LEAST_RTOL * float(np.abs(changed).max()))
        predicted = fit.factor * changed + fit.offset
        actual = self.actual[points.coordinates]
        chosen = slice(None) if keep is None else keep
        return bool(np.allclose(actual[chosen], predicted[chosen], rtol=rtol, atol=atol * abs(fit.factor)))

    def _undo(self, candidate: Candidate, fit: Fit) -> Callable[[], Array] | None:
        value = candidate.value
        if fit.factor == 0 or (value is not None and value.inverse is None):
            return None
        inverse = None if value is None else value.inverse

        def undo() -> Array:
            array = (self.actual - fit.offset) / fit.factor
            return candidate.frame.undo(array if inverse is None else inverse(array))

        return undo


def _level(fit: Fit) -> int:
    """The residual in coarse steps, so that of changes that do equally well the first tried is taken."""
    return round(2 * math.log(max(fit.residual / fit.structure, LEAST_UNEXPLAINED)))
