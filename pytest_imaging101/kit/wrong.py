"""Wrong answers that need no physics: trivial ones, and the truth in another convention."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
Labelled = Iterator[tuple[str, Array]]

SHIFT_PIXELS = 3
_SEED = 101
# Fits are made on at most so many samples; an answer is then drawn on the whole grid.
_FIT_SAMPLES = 20_000


def trivial_answers(truth: Array, measured: dict[str, Array]) -> Labelled:
    """Answers that need no inversion: each is the best of its kind, for it is fitted to the truth."""
    yield "zeros", np.zeros_like(truth)
    yield "constant", np.full_like(truth, truth.mean())
    yield "noise", _noise(truth)
    for axis in range(truth.ndim if truth.ndim > 1 else 0):
        profile = truth.mean(axis=axis, keepdims=True)
        yield f"mean along axis {axis}", np.broadcast_to(profile, truth.shape).copy()
    if 1 <= truth.ndim <= 3 and truth.size > 1:
        yield "gaussian blob", _fitted(truth, _blob)
        yield "gaussian ring", _fitted(truth, _ring)
    for name, data in measured.items():
        if (resized := _resized(data, truth)) is not None:
            yield f"measured {name}, resized", resized


def drifted(truth: Array, name: str) -> list[tuple[str, Array]]:
    """The truth in the wrong conventions that one word of ``drift`` stands for. Raises KeyError for another word."""
    return list(_DRIFTS[name](truth))


def _noise(truth: Array) -> Array:
    rng = np.random.default_rng(_SEED)
    if truth.dtype.kind == "c":
        parts = rng.normal(size=(2, *truth.shape)) / np.sqrt(2)
        return np.asarray(truth.mean() + truth.std() * (parts[0] + 1j * parts[1]))
    return np.asarray(truth.mean() + truth.std() * rng.normal(size=truth.shape))


def _blob(radius2: Array, parameters: Array) -> Array:
    return np.asarray(np.exp(-radius2 / 2))


def _ring(radius2: Array, parameters: Array) -> Array:
    return np.asarray(np.exp(-((np.sqrt(radius2) - 1) ** 2) / (2 * np.exp(parameters[-1]) ** 2)))


def _fitted(truth: Array, shape_of: Callable[[Array, Array], Array]) -> Array:
    """The blob or ring a·g + c that is closest to the truth, centre and widths chosen by simplex search."""
    from scipy.optimize import minimize

    step = max(1, int(np.ceil((truth.size / _FIT_SAMPLES) ** (1 / truth.ndim))))
    coarse = truth[tuple(slice(None, None, step) for _ in truth.shape)]

    def drawn(parameters: Array, like: Array) -> Array:
        grids = np.meshgrid(*(np.linspace(-1, 1, n) for n in like.shape), indexing="ij")
        ndim = like.ndim
        scaled = [
            (g - m) / np.exp(w) for g, m, w in zip(grids, parameters[:ndim], parameters[ndim:], strict=False)
        ]
        radius2: Array = np.sum(np.square(scaled), axis=0)
        return _regressed(shape_of(radius2, parameters), like)

    def misfit(parameters: Array) -> float:
        return float(np.linalg.norm(drawn(parameters, coarse) - coarse))

    starts = [np.r_[np.zeros(truth.ndim), np.full(truth.ndim, np.log(w)), -1.0] for w in (0.3, 0.6)]
    with np.errstate(all="ignore"):
        fits = [minimize(misfit, start, method="Nelder-Mead", options={"maxiter": 300}) for start in starts]
        best = min(fits, key=lambda fit: float(fit.fun))
        return drawn(best.x, truth)


def _regressed(shape: Array, like: Array) -> Array:
    """a·shape + c with the a and c that bring it closest."""
    columns = np.stack([shape.ravel(), np.ones(shape.size)], axis=1)
    coefficients, *_ = np.linalg.lstsq(np.nan_to_num(columns), like.ravel(), rcond=None)
    return np.asarray((np.nan_to_num(columns) @ coefficients).reshape(like.shape))


def _resized(data: Array, truth: Array) -> Array | None:
    """A measured array brought to the truth's shape, with the best gain and offset; None if it makes no picture."""
    if data.dtype.kind not in "fiuc" or data.size < 16 or not 1 <= truth.ndim <= 3:
        return None
    picture = np.squeeze(data)
    if not (picture.dtype.kind == "c" and truth.dtype.kind == "c"):
        picture = np.abs(picture) if picture.dtype.kind == "c" else picture.astype(float)
    if picture.ndim > truth.ndim:
        picture = picture.reshape(-1, *picture.shape[picture.ndim - truth.ndim :]).mean(axis=0)
    if picture.ndim < truth.ndim or not np.isfinite(picture).all():
        return None
    if picture.dtype.kind == "c":
        parts = [_at_size(part, truth.shape) for part in (picture.real, picture.imag)]
        return _regressed(parts[0] + 1j * parts[1], truth)
    return _regressed(_at_size(picture, truth.shape), truth)


def _at_size(picture: Array, shape: tuple[int, ...]) -> Array:
    # As Any because its functions carry no types.
    import skimage.transform as transform

    resize: Any = transform.resize
    return np.asarray(resize(picture, shape, anti_aliasing=True))


def _flips(truth: Array) -> Labelled:
    for axis in range(truth.ndim):
        yield f"flipped along axis {axis}", np.flip(truth, axis)


def _transposes(truth: Array) -> Labelled:
    for a, b in combinations(range(truth.ndim), 2):
        if truth.shape[a] == truth.shape[b]:
            yield f"axes {a} and {b} exchanged", np.swapaxes(truth, a, b)


def _rotations(truth: Array) -> Labelled:
    for a, b in combinations(range(truth.ndim), 2):
        yield f"turned by 180 degrees in axes {a}, {b}", np.rot90(truth, 2, (a, b))
        if truth.shape[a] == truth.shape[b]:
            yield f"turned by 90 degrees in axes {a}, {b}", np.rot90(truth, 1, (a, b))


def _shifts(truth: Array) -> Labelled:
    for axis, length in enumerate(truth.shape):
        if length > 2 * SHIFT_PIXELS:
            yield f"shifted by {SHIFT_PIXELS} along axis {axis}", np.roll(truth, SHIFT_PIXELS, axis)


def _half_swaps(truth: Array) -> Labelled:
    yield "fftshifted", np.fft.fftshift(truth)


def _scales(truth: Array) -> Labelled:
    for factor in (0.5, 2.0):
        yield f"times {factor:g}", truth * factor


def _offsets(truth: Array) -> Labelled:
    yield "offset by half its range", truth + np.ptp(np.abs(truth)) / 2


def _negatives(truth: Array) -> Labelled:
    yield "negated", -truth


def _conjugates(truth: Array) -> Labelled:
    if truth.dtype.kind == "c":
        yield "conjugated", np.conj(truth)


def _powers(truth: Array) -> Labelled:
    yield "squared", truth * np.abs(truth)


_DRIFTS: dict[str, Callable[[Array], Labelled]] = {
    "transpose": _transposes,
    "flip": _flips,
    "rotation": _rotations,
    "shift": _shifts,
    "fftshift": _half_swaps,
    "scale": _scales,
    "offset": _offsets,
    "sign": _negatives,
    "conjugate": _conjugates,
    "square": _powers,
}
KNOWN_DRIFTS = tuple(_DRIFTS)
