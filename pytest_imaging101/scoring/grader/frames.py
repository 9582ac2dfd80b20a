"""Changes of an array's frame: transposes, flips, rotations by 90°, fftshifts, shifts by a pixel or half of one.

Numpy only: the diagnosis of conventions runs in grading sandboxes too.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import combinations, permutations, product
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
Coordinates = tuple[NDArray[np.intp], ...]
Interpolation = Literal["fourier", "linear"]

# With more axes than this, only transposes of two axes, and flips and shifts of one axis or of all.
_ALL_COMBINATIONS_AXES = 3
# A shift along a shorter axis is hardly told from a flip.
_LEAST_SHIFTED_LENGTH = 4
# A larger part of an axis than this is taken for a swap of halves, in which what leaves comes in again.
_SMALL_SHIFT = 0.25


@dataclass(frozen=True)
class Step:
    """One named change: ``name`` as in reports (``"flip"``), the sentence's words, its parameters."""

    name: str
    words: str
    parameters: tuple[tuple[str, Any], ...] = ()


@dataclass(frozen=True)
class Frame:
    """Circular shifts (in pixels, halves allowed), then flips, then a permutation of axes; and what it is called.

    ``permutation`` has for each axis of the result the axis that it comes from; flips and shifts belong to
    the axes before the permutation.
    """

    permutation: tuple[int, ...]
    flips: tuple[bool, ...]
    shifts: tuple[float, ...]
    steps: tuple[Step, ...] = ()

    @property
    def half_axes(self) -> tuple[int, ...]:
        """Axes that are shifted by an odd number of half pixels."""
        return tuple(axis for axis, shift in enumerate(self.shifts) if shift % 1)

    def shape(self, shape: Sequence[int]) -> tuple[int, ...]:
        """The result's shape."""
        return tuple(shape[axis] for axis in self.permutation)

    def source(
        self, coordinates: Coordinates, shape: Sequence[int]
    ) -> tuple[NDArray[np.intp], NDArray[np.bool_] | None]:
        """For pixels of the result, the flat index that each comes from; half pixels are left to `half_shifted`.

        Also which of them come from inside, where a small shift brings others in over the edge.
        """
        index: Any = 0
        inside: Any = None
        for axis, length in enumerate(shape):
            place: Any = coordinates[self.permutation.index(axis)]
            if self.flips[axis]:
                place = length - 1 - place
            if shift := self.shifts[axis]:
                place = place - int(np.floor(shift))
                if abs(shift) <= _SMALL_SHIFT * length:
                    here = (place >= (1 if shift % 1 else 0)) & (place < length)
                    inside = here if inside is None else inside & here
                place = place % length
            index = index * length + place
        return index, inside

    def undo(self, array: Array) -> Array:
        """Bring a changed array back: band-limited for half pixels, since a mean of neighbours would denoise."""
        result = np.transpose(array, np.argsort(self.permutation))
        result = np.flip(result, tuple(axis for axis, flip in enumerate(self.flips) if flip))
        for axis, shift in enumerate(self.shifts):
            whole = int(np.floor(shift))
            if shift % 1:
                result, whole = half_shifted(result, (axis,), "fourier"), whole + 1
            result = np.roll(result, -whole, axis)
        return np.ascontiguousarray(result)


def half_shifted(array: Array, axes: Sequence[int], how: Interpolation) -> Array:
    """The array moved by half a pixel towards larger indices along the axes."""
    for axis in axes:
        if how == "linear":
            array = 0.5 * (array + np.roll(array, 1, axis))
            continue
        length = array.shape[axis]
        # Continued by its mirror image, so that the far edge does not ring on this one.
        mirrored = np.concatenate([array, np.flip(array, axis)], axis)
        phase = np.exp(-1j * np.pi * np.fft.fftfreq(2 * length))
        phase[length] = 0.0  # of the highest frequency only a cosine is known
        aligned = phase.reshape([-1 if k == axis else 1 for k in range(array.ndim)])
        moved = np.fft.ifft(np.fft.fft(mirrored, axis=axis) * aligned, axis=axis)
        moved = np.take(moved, np.arange(length), axis)
        array = moved if np.iscomplexobj(array) else moved.real
    return array


@cache
def frames(shape: tuple[int, ...], most: int = 2) -> tuple[Frame, ...]:
    """All changes of an array of this shape by up to ``most`` named steps, simplest first, without the identity."""
    turns, flips, shifts = _turns(shape), _flips(shape), _shifts(shape)
    found: dict[tuple[Any, ...], Frame] = {}
    for turn, flip, shift in product(turns, flips, shifts):
        steps = turn.steps + flip.steps + shift.steps
        if not 0 < len(steps) <= most:
            continue
        mirrored = tuple(a != b for a, b in zip(turn.flips, flip.flips, strict=True))
        frame = Frame(turn.permutation, mirrored, shift.shifts, steps)
        key = (frame.permutation, frame.flips, frame.shifts)
        if key not in found or len(steps) < len(found[key].steps):
            found[key] = frame
    return tuple(sorted(found.values(), key=lambda frame: len(frame.steps)))


def correlated(actual: Array, expected: Array) -> Frame | None:
    """The circular shift by whole pixels that brings two arrays of one shape closest; None if it is none."""
    shape = actual.shape
    spectra = [np.fft.fftn(side - side.mean()) for side in (actual, expected)]
    likeness = np.abs(np.fft.ifftn(spectra[0] * spectra[1].conj()))
    peak = np.unravel_index(int(np.argmax(likeness)), shape)
    moved = {
        axis: float(place if place <= length // 2 else place - length)
        for axis, (place, length) in enumerate(zip(peak, shape, strict=True))
        if place and length >= _LEAST_SHIFTED_LENGTH
    }
    if not moved:
        return None
    step = _shift_step(tuple(moved.values()), tuple(moved))
    return _frame(shape, step, shifts=tuple(moved.get(axis, 0.0) for axis in range(len(shape))))


def _frame(shape: tuple[int, ...], *steps: Step, **changes: Any) -> Frame:
    size = len(shape)
    whole = {"permutation": tuple(range(size)), "flips": (False,) * size, "shifts": (0.0,) * size}
    return Frame(**(whole | changes), steps=steps)


def _turns(shape: tuple[int, ...]) -> list[Frame]:
    """The identity, transposes and rotations."""
    axes = range(len(shape))
    found = [_frame(shape)]
    for permutation in permutations(axes) if len(shape) <= _ALL_COMBINATIONS_AXES else _swaps(len(shape)):
        moved = [axis for axis in axes if permutation[axis] != axis]
        if moved:
            words = "a transpose" if len(shape) == 2 else f"a transpose to axes {permutation}"
            step = Step("transpose", words, (("axes", permutation),))
            found.append(_frame(shape, step, permutation=permutation))
        if len(moved) == 2:
            for quarter, axis in ((1, moved[1]), (3, moved[0])):
                flips = tuple(k == axis for k in axes)
                where = "" if len(shape) == 2 else f" in the plane of {_axes(moved)}"
                words = f"a rotation by {90 * quarter}°{where}"
                step = Step("rotation", words, (("degrees", 90 * quarter), ("axes", tuple(moved))))
                found.append(_frame(shape, step, permutation=permutation, flips=flips))
    return found


def _swaps(size: int) -> Iterator[tuple[int, ...]]:
    for first, second in combinations(range(size), 2):
        order = list(range(size))
        order[first], order[second] = second, first
        yield tuple(order)


def _flips(shape: tuple[int, ...]) -> list[Frame]:
    found = [_frame(shape)]
    for chosen in _subsets(shape):
        step = Step("flip", f"a flip along {_axes(chosen)}", (("axes", chosen),))
        found.append(_frame(shape, step, flips=tuple(axis in chosen for axis in range(len(shape)))))
    return found


def _shifts(shape: tuple[int, ...]) -> list[Frame]:
    """No shift, one named shift, and two along different axes."""
    single: list[tuple[tuple[int, ...], Frame]] = []
    for chosen in _subsets(shape, _LEAST_SHIFTED_LENGTH):
        for name, amounts in _amounts(shape, chosen):
            shifts = [0.0] * len(shape)
            for axis, amount in zip(chosen, amounts, strict=True):
                shifts[axis] = amount
            step = Step(name, f"an {name} along {_axes(chosen)}", (("axes", chosen),))
            if name == "shift":
                step = _shift_step(amounts, chosen)
            single.append((chosen, _frame(shape, step, shifts=tuple(shifts))))
    found = [_frame(shape), *(frame for _, frame in single)]
    for (axes, one), (others, two) in combinations(single, 2):
        if len(axes) == len(others) == 1 and axes != others:
            both = tuple(a + b for a, b in zip(one.shifts, two.shifts, strict=True))
            found.append(_frame(shape, *one.steps, *two.steps, shifts=both))
    return found


def _shift_step(pixels: tuple[float, ...], axes: tuple[int, ...]) -> Step:
    amounts = " and ".join(f"{amount:g}" for amount in pixels)
    return Step("shift", f"a shift by {amounts} px along {_axes(axes)}", (("pixels", pixels), ("axes", axes)))


def _amounts(shape: tuple[int, ...], axes: tuple[int, ...]) -> Iterator[tuple[str, tuple[float, ...]]]:
    """Named shifts along the axes together."""
    yield "fftshift", tuple(float(shape[axis] // 2) for axis in axes)
    if any(shape[axis] % 2 for axis in axes):
        yield "ifftshift", tuple(float(-(shape[axis] // 2)) for axis in axes)
    for size in (0.5, 1.0):
        for signs in product((1, -1), repeat=len(axes)):
            yield "shift", tuple(sign * size for sign in signs)


def _subsets(shape: tuple[int, ...], least: int = 2) -> list[tuple[int, ...]]:
    """Sets of axes that are worth changing together; shorter ones than ``least`` are left alone."""
    axes = [axis for axis, length in enumerate(shape) if length >= least]
    sizes = range(1, len(axes) + 1) if len(axes) <= _ALL_COMBINATIONS_AXES else (1, len(axes))
    return [chosen for size in sizes for chosen in combinations(axes, size)]


def _axes(axes: Sequence[int]) -> str:
    return f"axis {axes[0]}" if len(axes) == 1 else f"axes {', '.join(map(str, axes))}"
