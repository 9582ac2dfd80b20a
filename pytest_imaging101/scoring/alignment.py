"""Removes from a reconstruction what the physics leaves open, before it is compared with the truth."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

DEFAULT_SHIFT_PIXELS = 5


@dataclass(frozen=True)
class Pair:
    """A reconstruction and the truth in one frame, and the pixels that count (same shape as both)."""

    reconstruction: NDArray[np.inexact]
    reference: NDArray[np.inexact]
    mask: NDArray[np.bool_]

    @property
    def inside(self) -> tuple[NDArray[np.inexact], NDArray[np.inexact]]:
        """Both arrays' values inside the mask."""
        return self.reconstruction[self.mask], self.reference[self.mask]


def align(pair: Pair, steps: Sequence[str]) -> Pair:
    """Apply the steps of ``align`` in order. Raises ValueError for one that is unknown or makes no sense."""
    for step in steps:
        name, argument = parse_step(step)
        pair = _STEPS[name](pair, argument)
    return pair


def parse_step(step: object) -> tuple[str, float | None]:
    """Name and argument of one step: ``"scale"``, ``"crop:0.8"``, ``"shift:3"``. Raises ValueError."""
    name, _, text = str(step).partition(":")
    if not isinstance(step, str) or name not in _STEPS:
        raise ValueError(f"unknown align step {step!r}; known are {', '.join(_STEPS)}")
    if name not in ("crop", "shift"):
        if text:
            raise ValueError(f"align step {step!r}: {name} takes no argument")
        return name, None
    if name == "shift" and not text:
        return name, float(DEFAULT_SHIFT_PIXELS)
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if name == "crop" and not 0 < value <= 1:
        raise ValueError(f"align step {step!r}: crop:f takes the fraction of each axis to keep, 0 < f <= 1")
    if name == "shift" and not (value >= 1 and value.is_integer()):
        raise ValueError(f"align step {step!r}: shift:n takes the largest shift in whole pixels, n >= 1")
    return name, value


def _global_phase(pair: Pair, _: float | None) -> Pair:
    """Multiply by the unit complex number that brings the reconstruction closest to the truth."""
    if not (np.iscomplexobj(pair.reconstruction) or np.iscomplexobj(pair.reference)):
        raise ValueError(
            "align step 'global_phase' needs complex arrays: of real ones it would drop the sign"
        )
    a, b = pair.inside
    product = np.vdot(a, b)
    phase = product / abs(product) if product else 1.0
    return replace(pair, reconstruction=pair.reconstruction * phase)


def _scale(pair: Pair, _: float | None) -> Pair:
    """Multiply by the factor that minimises ‖c a − b‖ (complex for complex arrays)."""
    a, b = pair.inside
    return _multiplied(pair, complex(np.vdot(a, b)), float(np.vdot(a, a).real))


def _flux(pair: Pair, _: float | None) -> Pair:
    """Multiply by the factor that makes both sums equal."""
    a, b = pair.inside
    return _multiplied(pair, b.sum(), a.sum())


def _multiplied(pair: Pair, numerator: complex, denominator: complex) -> Pair:
    # Nothing can be scaled to fit when it is zero: it stays as it is, and misses.
    if denominator == 0:
        return pair
    factor = numerator / denominator
    real = not isinstance(factor, complex) or factor.imag == 0
    return replace(pair, reconstruction=pair.reconstruction * (factor.real if real else factor))


def _offset_mean(pair: Pair, _: float | None) -> Pair:
    """Subtract the mean difference."""
    a, b = pair.inside
    return replace(pair, reconstruction=pair.reconstruction - (a - b).mean())


def _offset_median(pair: Pair, _: float | None) -> Pair:
    """Subtract the median difference (of real and imaginary part for complex arrays)."""
    a, b = pair.inside
    difference = a - b
    offset = np.median(difference.real)
    if np.iscomplexobj(difference):
        offset = offset + 1j * np.median(difference.imag)
    return replace(pair, reconstruction=pair.reconstruction - offset)


def _crop(pair: Pair, fraction: float | None) -> Pair:
    """Keep the central fraction of every axis."""
    window = []
    for length in pair.reference.shape:
        keep = max(1, round(length * (fraction or 1.0)))
        start = (length - keep) // 2
        window.append(slice(start, start + keep))
    index = tuple(window)
    return Pair(pair.reconstruction[index], pair.reference[index], pair.mask[index])


def _shift(pair: Pair, pixels: float | None) -> Pair:
    """Move circularly by the whole pixels, at most so many an axis, that give the largest NCC."""
    bound = int(pixels or 0)
    weight = pair.mask.astype(float)
    overlap = _correlate(pair.reconstruction, pair.reference * weight)
    energy = _correlate(np.abs(pair.reconstruction) ** 2, weight).real
    is_complex = np.iscomplexobj(pair.reconstruction) or np.iscomplexobj(pair.reference)
    likeness: NDArray[np.floating] = np.abs(overlap) if is_complex else overlap.real
    floor = 1e-12 * max(float(energy.max()), np.finfo(float).tiny)
    similarity = likeness / np.sqrt(np.maximum(energy, floor))
    axes = [[s for s in range(-bound, bound + 1) if abs(s) < length] for length in similarity.shape]
    window = similarity[np.ix_(*axes)]  # negative shifts are the far end of the circular correlation
    best = np.unravel_index(int(np.argmax(window)), window.shape)
    shift = tuple(axis[int(index)] for axis, index in zip(axes, best, strict=True))
    moved = np.roll(pair.reconstruction, shift, axis=tuple(range(len(shift))))
    return replace(pair, reconstruction=moved)


def _correlate(moved: NDArray[np.inexact], fixed: NDArray[np.inexact]) -> NDArray[np.complexfloating]:
    """At index s: the sum over x of moved(x − s) · conj(fixed(x)), circular."""
    spectrum = np.conj(np.fft.fftn(moved)) * np.fft.fftn(fixed)
    return np.conj(np.fft.ifftn(spectrum))


def _magnitude(pair: Pair, _: float | None) -> Pair:
    """Compare magnitudes."""
    return replace(pair, reconstruction=np.abs(pair.reconstruction), reference=np.abs(pair.reference))


_STEPS: dict[str, Callable[[Pair, float | None], Pair]] = {
    "global_phase": _global_phase,
    "scale": _scale,
    "flux": _flux,
    "offset_mean": _offset_mean,
    "offset_median": _offset_median,
    "crop": _crop,
    "shift": _shift,
    "magnitude": _magnitude,
}
