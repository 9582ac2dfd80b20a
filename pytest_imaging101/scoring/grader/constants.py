"""Names for factors and offsets that people forget: 2π, degrees for radians, SI prefixes, FFT norms, normalisations.

Numpy only: the diagnosis of conventions runs in grading sandboxes too.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]

# How near a normalised array's maximum, sum or norm must be to one.
_NORMALISED = 1e-6
_LARGEST_PREFIX = 15


def factor_name(factor: float, shape: Sequence[int], tolerance: float) -> tuple[str, float] | None:
    """Name and exact value of the constant nearest to a positive factor, if one is within a relative tolerance.

    Among several the simplest is taken, unless another one is much nearer.
    """
    best: tuple[float, str, float] | None = None
    for rank, (name, value) in enumerate(_factors(tuple(shape))):
        distance = abs(math.log(factor / value))
        if distance <= tolerance:
            score = distance + 1e-3 * tolerance * rank
            if best is None or score < best[0]:
                best = (score, name, value)
    return None if best is None else best[1:]


def offset_name(offset: float, expected: Array, tolerance: float) -> tuple[str, float] | None:
    """Name and exact value of the constant that an offset is, within an absolute tolerance."""
    mean, least = float(np.mean(expected)), float(np.min(expected))
    named = (
        ("the mean subtracted", -mean),
        ("the minimum subtracted", -least),
        ("1", 1.0),
        ("π", math.pi),
        ("2π", 2 * math.pi),
        ("π/2", math.pi / 2),
        ("90", 90.0),
        ("180", 180.0),
        ("360", 360.0),
        ("273.15 (kelvin for degrees Celsius)", 273.15),
    )
    for name, value in named:
        for sign in (1, -1) if value > 0 and "subtracted" not in name else (1,):
            if value and abs(offset - sign * value) <= tolerance:
                return (name if sign == 1 else f"-{name}"), sign * value
    return None


def normalisation(actual: Array, *, affine: bool) -> str | None:
    """What an array is normalised to: its maximum, sum or norm to one, or, ``affine``, its range or spread.

    These are seen in the array itself, whatever factor led there.
    """
    if affine:
        if np.iscomplexobj(actual):
            return None
        if abs(actual.min()) <= _NORMALISED and abs(actual.max() - 1) <= _NORMALISED:
            return "normalised to the range 0 to 1"
        if abs(actual.mean()) <= _NORMALISED and abs(actual.std() - 1) <= _NORMALISED:
            return "normalised to mean 0 and standard deviation 1"
        return None
    found = (
        ("normalised to a maximum of 1", np.abs(actual).max()),
        ("normalised to a norm of 1", np.linalg.norm(actual)),
        ("normalised to a sum of 1", np.abs(actual.sum())),
        ("normalised to a mean of 1", np.abs(actual.mean())),
    )
    return next((name for name, value in found if abs(value - 1) <= _NORMALISED), None)


def _factors(shape: tuple[int, ...]) -> Iterator[tuple[str, float]]:
    """Named factors and their reciprocals, simplest first."""
    for name, value in (("2", 2.0), ("2π", 2 * math.pi), ("π", math.pi)):
        yield from _both(name, value)
    yield "180/π (degrees for radians)", 180 / math.pi
    yield "π/180 (radians for degrees)", math.pi / 180
    for exponent in range(3, _LARGEST_PREFIX + 1, 3):
        for signed in (exponent, -exponent):
            yield f"10^{signed} (SI prefix)", 10.0**signed
    yield from _both("√2", math.sqrt(2))
    for exponent in (1, 2):
        for signed in (exponent, -exponent):
            yield f"10^{signed}", 10.0**signed
    for words, value in _lengths(shape):
        yield f"{value} (FFT norm: {words})", float(value)
        yield f"1/{value} (FFT norm: {words})", 1 / value
        yield f"√{value} (unitary FFT norm: {words})", math.sqrt(value)
        yield f"1/√{value} (unitary FFT norm: {words})", 1 / math.sqrt(value)
    for name, value in (
        ("4π", 4 * math.pi),
        ("4", 4.0),
        ("√(2π)", math.sqrt(2 * math.pi)),
        ("ln 10", math.log(10)),
        ("10/ln 10 (decibel)", 10 / math.log(10)),
        ("20/ln 10 (decibel)", 20 / math.log(10)),
        ("2√(2 ln 2) (full width for sigma)", 2 * math.sqrt(2 * math.log(2))),
    ):
        yield from _both(name, value)


def _lengths(shape: tuple[int, ...]) -> Iterator[tuple[str, int]]:
    """Numbers of samples that a Fourier transform may divide by: of an axis, of an image, of all."""
    yield from ((f"samples of axis {axis}", length) for axis, length in enumerate(shape) if length > 2)
    if len(shape) > 2:
        yield "samples of the last two axes", math.prod(shape[-2:])
    if len(shape) > 1:
        yield "all samples", math.prod(shape)


def _both(name: str, value: float) -> Iterator[tuple[str, float]]:
    yield name, value
    words, bracket, rest = name.partition(" (")
    single = words.isdigit() or words in ("π", "√2")
    yield (f"1/{words}" if single else f"1/({words})") + bracket + rest, 1 / value
