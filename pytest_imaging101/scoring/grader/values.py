"""Changes of an array's values: conjugate, magnitude, square, logarithm, a forgotten phase; each with its inverse.

Numpy only: the diagnosis of conventions runs in grading sandboxes too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .frames import Step

Array = NDArray[Any]

# exp of more is no number that anybody reconstructs; 1/x of less against the largest is mostly noise.
_LARGEST_EXPONENT = 50.0
_LEAST_DIVISOR = 1e-6

_SQUARE = "a square (it is the square of what is right)"


@dataclass(frozen=True)
class Value:
    """One change of values. ``forward`` takes values and their coordinates; ``inverse`` a whole array.

    ``inverse`` is None where the change loses what it would need.
    """

    step: Step
    forward: Callable[[Array, Sequence[Array]], Array]
    inverse: Callable[[Array], Array] | None


def values(expected: Array, shape: tuple[int, ...]) -> list[Value]:
    """The changes that make sense for an expected array; ``shape`` is that of the actual one."""
    if np.iscomplexobj(expected):
        return [*_complex(), *_modulations(shape, complex_valued=True)]
    return [*_real(expected), *_modulations(shape, complex_valued=False)]


def readings(expected: Array, actual: Array) -> list[tuple[Step | None, Array]]:
    """What may be compared of an array: itself, or a part of a complex one where a real one is right."""
    if not np.iscomplexobj(actual) or np.iscomplexobj(expected):
        return [(None, actual)]
    return [
        (Step("magnitude", "taking the magnitude of a complex array"), np.abs(actual)),
        (Step("real_part", "taking the real part of a complex array"), np.ascontiguousarray(actual.real)),
        (
            Step("imaginary_part", "taking the imaginary part of a complex array"),
            np.ascontiguousarray(actual.imag),
        ),
    ]


def _value(
    name: str, words: str, forward: Callable[[Array], Array], inverse: Callable[[Array], Array] | None
) -> Value:
    return Value(Step(name, words), lambda array, _: forward(array), inverse)


def _complex() -> Iterator[Value]:
    def swapped(array: Array) -> Array:
        return array.imag + 1j * array.real

    yield _value("conjugate", "complex conjugation", np.conj, np.conj)
    yield _value("swap_real_imaginary", "real and imaginary part swapped", swapped, swapped)
    yield _value("magnitude", "the phase, which is lost (it is the magnitude)", np.abs, None)
    yield _value("real_part", "the imaginary part, which is lost", np.real, None)
    yield _value("imaginary_part", "the real part, which is lost", np.imag, None)
    yield _value("square", f"{_SQUARE}, phases kept", _signed_square, _signed_root)
    yield _value(
        "square",
        "the phase, which is lost, and a square (it is the intensity)",
        lambda a: np.abs(a) ** 2,
        None,
    )


def _real(expected: Array) -> Iterator[Value]:
    least, largest = float(expected.min()), float(expected.max())
    smallest = float(np.abs(expected).min())
    signed = least < 0
    if signed:
        yield _value("magnitude", "the sign of its values (it is the magnitude)", np.abs, None)
    yield _value("square", _SQUARE, np.square, None if signed else _root)
    if signed:
        yield _value("square", f"{_SQUARE}, signs kept", _signed_square, _signed_root)
    if not signed:
        yield _value("root", "a square root (it is the root of what is right)", _root, np.square)
    if smallest > _LEAST_DIVISOR * max(abs(least), abs(largest)):
        yield _value("reciprocal", "a reciprocal", np.reciprocal, np.reciprocal)
    if least > 0:
        yield _value("log", "a logarithm (it is the logarithm of what is right)", np.log, np.exp)
    if largest < _LARGEST_EXPONENT:
        yield _value("exp", "an exponential (it is the exponential of what is right)", np.exp, np.log)


def _signed_square(array: Array) -> Array:
    return array * np.abs(array)


def _signed_root(array: Array) -> Array:
    size = np.sqrt(np.abs(array))
    return np.divide(array, size, out=np.zeros_like(array), where=size > 0)


def _root(array: Array) -> Array:
    root: Array = np.sqrt(np.maximum(array, 0))
    return root


def _modulations(shape: tuple[int, ...], *, complex_valued: bool) -> Iterator[Value]:
    """What a forgotten fftshift, or a shift by one sample, on the other side of a Fourier transform leaves."""
    axes = [axis for axis, length in enumerate(shape) if length > 2]
    for chosen in [(axis,) for axis in axes] + ([tuple(axes)] if len(axes) > 1 else []):
        named = "axis" if len(chosen) == 1 else "axes"
        where = f"{named} {', '.join(map(str, chosen))}"
        step = Step(
            "alternating_sign",
            f"a sign that alternates along {where} (an fftshift in the other domain)",
            (("axes", chosen),),
        )
        yield _modulation(step, shape, {axis: shape[axis] / 2 for axis in chosen}, complex_valued=False)
        for sign in (1, -1) if complex_valued else ():
            step = Step(
                "linear_phase",
                f"a phase of {'one turn' if sign > 0 else 'minus one turn'} along {where} "
                "(a shift by one sample in the other domain)",
                (("axes", chosen), ("turns", sign)),
            )
            yield _modulation(step, shape, dict.fromkeys(chosen, float(sign)), complex_valued=True)


def _modulation(
    step: Step, shape: tuple[int, ...], turns: dict[int, float], *, complex_valued: bool
) -> Value:
    def factor(coordinates: Sequence[Array]) -> Array:
        # The origin is the central sample, as in a centred transform.
        angle = sum(turn * (coordinates[k] - shape[k] // 2) / shape[k] for k, turn in turns.items())
        phase: Array = np.exp(2j * np.pi * np.asarray(angle))
        return phase if complex_valued else np.sign(phase.real)

    def forward(array: Array, coordinates: Sequence[Array]) -> Array:
        return array * factor(coordinates)

    def inverse(array: Array) -> Array:
        return array / factor(np.ogrid[tuple(slice(length) for length in shape)])

    return Value(step, forward, inverse)
