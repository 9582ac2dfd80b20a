"""Least-squares fits of one array by a factor and an offset of another, and what their values are called.

Numpy only: the diagnosis of conventions runs in grading sandboxes too.
"""

from __future__ import annotations

import cmath
import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .constants import factor_name, normalisation, offset_name
from .frames import Coordinates, Step

Array = NDArray[Any]

# A factor nearer to one than this is no convention but a bias.
_LEAST_FACTOR = math.log(1.15)
# How far from a constant a factor may be (relative); within it no closer than the fit can tell.
_LARGEST_TOLERANCE = 0.02
_LEAST_TOLERANCE = 1e-6
_PHASE_TOLERANCE = 0.05


@dataclass(frozen=True)
class Points:
    """Points of the actual array: coordinates, weighted values, weights, and the rows that are centred apart."""

    coordinates: Coordinates
    values: Array
    weight: Array
    rows: NDArray[np.intp] | None


@dataclass(frozen=True)
class Fit:
    """actual = factor * expected + offset; ``residual`` and ``structure`` (the actual's variance) are mean squares."""

    form: str
    factor: complex
    offset: complex
    residual: float
    structure: float
    energy: float
    cost: int

    def at(
        self,
        factor: complex,
        offset: complex,
        points: Points,
        expected: Array,
        keep: NDArray[np.bool_] | None,
    ) -> Fit:
        """The same with given values of factor and offset."""
        v, u, one = _kept(points, expected, keep)
        return replace(
            self, factor=factor, offset=offset, residual=_mean_square(v - factor * u - offset * one)
        )


@dataclass(frozen=True)
class Naming:
    """What factor and offset are called, and their exact values."""

    steps: tuple[Step, ...]
    factor: complex
    offset: complex


def fits(
    points: Points, expected: Array, keep: NDArray[np.bool_] | None, free: frozenset[str]
) -> Iterator[Fit]:
    """Fits of each form, the one that fits nothing but what is ``free`` first."""
    v, u, one = _kept(points, expected, keep)
    if not v.size:
        return
    uu, vv, oo = (_product(side, side).real for side in (u, v, one))
    uv, ou, ov = _product(u, v), _product(one, u), _product(one, v)
    if not (math.isfinite(uu) and uu > 0):
        return
    structure = _structure(v, points, keep)
    determinant = uu * oo - abs(ou) ** 2

    def fit(form: str, factor: complex, cost: int, *, offset: bool) -> Fit:
        d = (ov - factor * ou) / oo if offset else 0.0
        residual = (
            vv
            + abs(factor) ** 2 * uu
            + abs(d) ** 2 * oo
            - 2 * (factor * uv.conjugate()).real
            - 2 * (d * ov.conjugate()).real
            + 2 * (factor * ou * d.conjugate()).real
        )
        energy = abs(factor) ** 2 * uu / v.size
        return Fit(form, factor, d, max(residual, 0.0) / v.size, structure, energy, cost)

    alone = uv / uu
    beside = (uv * oo - ou.conjugate() * ov) / determinant if determinant > 1e-12 * uu * oo else alone
    if "scale" in free:
        best = beside if "offset" in free else alone
        yield fit("same", best, 0, offset="offset" in free)
        if "offset" not in free:
            yield fit("offset", beside, 1, offset=True)
        return
    moved = "offset" in free
    best = beside if moved else alone
    turned = best / abs(best) if best else 1.0
    if "phase" in free:
        yield fit("same", turned, 0, offset=moved)
    else:
        yield fit("same", 1.0, 0, offset=moved)
        yield fit("sign", -1.0, 1, offset=moved)
        if isinstance(uv, complex):
            yield fit("phase", turned, 1, offset=moved)
    yield fit("scale", best, 1, offset=moved)
    if not moved:
        yield fit("offset", 1.0, 1, offset=True)
        yield fit("affine", beside, 2, offset=True)
        yield fit("normalised", beside, 1, offset=True)


def named(fit: Fit, expected: Array, actual: Array, plausible: frozenset[str]) -> Naming | None:
    """Names for the values of a fit, or None where a value means nothing.

    A value without a name needs to be ``plausible``: declared by the task, or exact.
    """
    if fit.form == "sign":
        return Naming((Step("sign", "a sign", (("factor", -1),)),), fit.factor, fit.offset)
    if fit.form == "normalised":
        label = normalisation(actual, affine=True)
        step = Step(
            "normalisation",
            f"being {label}",
            (("factor", _number(fit.factor)), ("offset", _number(fit.offset))),
        )
        return None if label is None else Naming((step,), fit.factor, fit.offset)
    steps: list[Step] = []
    factor, offset = fit.factor, fit.offset
    if fit.form in ("scale", "phase", "affine"):
        found = _named_factor(fit, actual, plausible)
        if found is None:
            return None
        steps, factor = found
    if fit.form in ("offset", "affine"):
        shift = _named_offset(fit, abs(factor), expected, plausible)
        if shift is None:
            return None
        steps, offset = [*steps, shift[0]], shift[1]
    return Naming(tuple(steps), factor, offset)


def _named_offset(
    fit: Fit, factor: float, expected: Array, plausible: frozenset[str]
) -> tuple[Step, complex] | None:
    """The step of an offset, in units of the expected array, and its exact value."""
    offset = fit.offset
    tolerance = max(_LEAST_TOLERANCE * abs(offset), min(math.sqrt(fit.residual), 0.02 * abs(offset)))
    label = None
    if not isinstance(offset, complex):
        label = offset_name(offset / factor, expected.real, tolerance / factor)
    if label is not None:
        name, value = label
        words = name if "subtracted" in name else f"an offset of {name}"
        return Step("offset", words, (("offset", value * factor), ("constant", name))), value * factor
    if "offset" in plausible:
        return Step("offset", f"an offset of {_text(offset)}", (("offset", _number(offset)),)), offset
    return None


def _named_factor(fit: Fit, actual: Array, plausible: frozenset[str]) -> tuple[list[Step], complex] | None:
    """Steps for sign or phase, and for the size of a factor."""
    noise = math.sqrt(fit.residual / fit.energy) if fit.energy else 1.0
    size, turn = abs(fit.factor), cmath.phase(fit.factor)
    steps: list[Step] = []
    unit: complex = 1.0
    slack = min(_PHASE_TOLERANCE, max(noise, _LEAST_TOLERANCE))
    if abs(abs(turn) - math.pi) <= slack:
        unit = -1.0
        steps.append(Step("sign", "a sign", (("factor", -1),)))
    elif abs(abs(turn) - math.pi / 2) <= slack:
        unit = 1j if turn > 0 else -1j
        name = "i" if turn > 0 else "-i"
        steps.append(Step("phase", f"a factor {name}", (("phase_rad", turn), ("constant", name))))
    elif abs(turn) > slack:
        if fit.form != "phase":
            return None
        unit = cmath.exp(1j * turn)
        steps.append(Step("phase", f"a constant phase of {turn:.4g} rad", (("phase_rad", turn),)))
    if fit.form == "phase":
        return (steps, unit) if steps else None
    if size == 0 or abs(math.log(size)) < _LEAST_FACTOR:
        return None
    label = normalisation(actual, affine=False) if fit.form == "scale" else None
    if label is not None:
        steps.append(
            Step("scale", f"a factor {size:.4g}, being {label}", (("factor", size), ("constant", label)))
        )
        return steps, unit * size
    tolerance = min(_LARGEST_TOLERANCE, max(noise, _LEAST_TOLERANCE))
    found = factor_name(size, actual.shape, tolerance)
    if found is not None:
        name, size = found
        parameters = (("factor", size), ("constant", name))
        steps.append(Step("scale", f"a factor {name}" + _value_after(name, size), parameters))
    elif "scale" in plausible:
        steps.append(Step("scale", f"a factor {size:.4g}", (("factor", size),)))
    else:
        return None
    return steps, unit * size


def _value_after(name: str, size: float) -> str:
    """The number, where the name does not already say it."""
    return "" if name.startswith((f"{size:.4g}", "10^")) else f" = {size:.4g}"


def _kept(points: Points, expected: Array, keep: NDArray[np.bool_] | None) -> tuple[Array, Array, Array]:
    weighted = expected * points.weight if points.weight.size > 1 else expected
    weight = np.broadcast_to(points.weight, points.values.shape)
    if keep is None:
        return points.values, weighted, weight
    return points.values[keep], weighted[keep], weight[keep]


def _structure(v: Array, points: Points, keep: NDArray[np.bool_] | None) -> float:
    if points.rows is None:
        return _mean_square(v - v.mean())
    rows = points.rows if keep is None else points.rows[keep]
    counts = np.maximum(np.bincount(rows), 1)
    means = np.bincount(rows, v.real) / counts + 1j * (np.bincount(rows, v.imag) / counts)
    return _mean_square(v - means[rows])


def _mean_square(array: Array) -> float:
    return float(np.vdot(array, array).real) / array.size


def _product(a: Array, b: Array) -> complex:
    """The inner product ⟨a, b⟩: a float for real arrays."""
    product = np.vdot(a, b)
    return complex(product) if np.iscomplexobj(product) else float(product)


def _number(value: complex) -> Any:
    return value.real if abs(value.imag) <= 1e-12 * abs(value) else str(value)


def _text(value: complex) -> str:
    return f"{value.real:.4g}" if not isinstance(value, complex) or not value.imag else f"{value:.4g}"
