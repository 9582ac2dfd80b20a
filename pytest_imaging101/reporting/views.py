"""What of an array can be seen: its lines, or its planes, a complex one as magnitude and phase."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Real = NDArray[np.float64]

MAX_LINES = 4  # an axis this short, of two, holds parameters and not pixels
MAX_PLANES = 4  # an axis this short, of three, is shown plane by plane
_FAINT = 0.1  # a phase counts in full from this share of the largest magnitude


@dataclass(frozen=True)
class View:
    """One real array of one axis or two. A phase is in radians and has a weight from 0 to 1."""

    label: str
    values: Real
    weight: Real | None = None

    @property
    def is_phase(self) -> bool:
        return self.weight is not None


def numeric(array: Any) -> NDArray[Any] | str:
    """An array as float64 or complex128 without axes of length one; in words, what it is instead."""
    import numpy as np

    if array is None:
        return "missing"
    values = np.asarray(array)
    if values.dtype.kind not in "biufc":
        return f"an array of {values.dtype}, not of numbers"
    if values.size == 0:
        return f"empty, of shape {values.shape}"
    return np.atleast_1d(values.squeeze()).astype(complex if values.dtype.kind == "c" else float)


def views(array: NDArray[Any], *, as_complex: bool) -> list[View]:
    """Every plane or line of an array that is shown, in order."""
    found: list[View] = []
    for label, values in _planes(array):
        if as_complex:
            found += _magnitude_and_phase(label, values)
        else:
            found.append(View(label, values))
    return found


def error_of(found: View, truth: View) -> View:
    """The difference; of phases the angle between them, weighted as the truth is."""
    import numpy as np

    with np.errstate(invalid="ignore", over="ignore"):
        difference = found.values - truth.values
        if truth.is_phase:
            difference = np.angle(np.exp(1j * difference))
    return View(truth.label, difference, truth.weight)


def _magnitude_and_phase(label: str, values: NDArray[Any]) -> list[View]:
    import numpy as np

    with np.errstate(invalid="ignore", over="ignore"):
        magnitude = np.abs(values)
    largest = magnitude[np.isfinite(magnitude)].max(initial=0.0)
    weight = np.nan_to_num(magnitude / (_FAINT * largest or 1.0), nan=1.0, posinf=1.0).clip(0.0, 1.0)
    phase = np.where(np.isfinite(values), np.angle(values), np.nan)
    words = f"{label}, " if label else ""
    return [View(f"{words}magnitude", magnitude), View(f"{words}phase", phase, weight)]


def _planes(array: NDArray[Any]) -> Iterator[tuple[str, NDArray[Any]]]:
    import numpy as np

    short = int(np.argmin(array.shape))
    if array.ndim == 1:
        yield "", array
    elif array.ndim == 2 and array.shape[short] <= MAX_LINES:
        for index, line in enumerate(np.moveaxis(array, short, 0)):
            yield f"{'row' if short == 0 else 'column'} {index}", line
    elif array.ndim == 2:
        yield "", array
    elif array.ndim == 3 and array.shape[short] <= MAX_PLANES:
        for index, plane in enumerate(np.moveaxis(array, short, 0)):
            yield f"index {index} of axis {short}", plane
    elif array.ndim == 3:
        for axis, length in enumerate(array.shape):
            yield f"slice {length // 2} of {length} along axis {axis}", array.take(length // 2, axis)
    else:
        middle = array.shape[0] // 2
        for label, plane in _planes(array[middle]):
            yield f"[{middle}] {label}".strip(), plane
