"""Figures of merit of a reconstruction against the truth, real or complex, inside a mask."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
Mask = NDArray[np.bool_]

JUDGED = ("ncc", "nrmse", "cncc", "rel_l2")
REPORTED = ("psnr", "ssim")

# Whether a boundary of a built-in figure is the least or the greatest value that still passes.
DIRECTION = {"ncc": "min", "nrmse": "max", "cncc": "min", "rel_l2": "max", "psnr": "min", "ssim": "min"}


def ncc(reconstruction: Array, reference: Array, mask: Mask | None = None) -> float:
    """Cosine similarity ⟨a, b⟩ / (‖a‖‖b‖); the modulus of the Hermitian inner product for complex arrays.

    0 where one of the two is zero everywhere.
    """
    a, b = _inside(reconstruction, mask), _inside(reference, mask)
    return _cosine(a, b, float(np.linalg.norm(a)), float(np.linalg.norm(b)))


def cncc(reconstruction: Array, reference: Array, mask: Mask | None = None) -> float:
    """Pearson correlation: `ncc` once each mean inside the mask is removed; 0 where either is flat."""
    a, b = _inside(reconstruction, mask), _inside(reference, mask)
    centred_a, centred_b = a - a.mean(), b - b.mean()
    return _cosine(centred_a, centred_b, _spread(a, centred_a), _spread(b, centred_b))


def nrmse(reconstruction: Array, reference: Array, mask: Mask | None = None) -> float:
    """RMS(a − b) / (max b − min b); for complex arrays over the range of |b|. NaN for a flat reference."""
    a, b = _inside(reconstruction, mask), _inside(reference, mask)
    return _ratio(float(np.sqrt(np.mean(np.abs(a - b) ** 2))), value_range(b))


def rel_l2(reconstruction: Array, reference: Array, mask: Mask | None = None) -> float:
    """‖a − b‖ / ‖b‖: absolute, so that a gain error counts. NaN for a reference of zeros."""
    a, b = _inside(reconstruction, mask), _inside(reference, mask)
    return _ratio(float(np.linalg.norm(a - b)), float(np.linalg.norm(b)))


def psnr(reconstruction: Array, reference: Array, mask: Mask | None = None) -> float:
    """Peak signal-to-noise ratio of magnitudes in dB (scikit-image); the peak is the reference's range."""
    a, b = _real(_inside(reconstruction, mask)), _real(_inside(reference, mask))
    with np.errstate(divide="ignore"):
        return float(_scikit_image().peak_signal_noise_ratio(b, a, data_range=value_range(b)))


def ssim(reconstruction: Array, reference: Array, mask: Mask | None = None) -> float:
    """Structural similarity (scikit-image) of images or volumes, of magnitudes if complex; mean in the mask.

    Raises ValueError where it is undefined: not 2-D or 3-D, an axis shorter than 3, a flat reference.
    """
    a, b = _real(np.asarray(reconstruction)), _real(np.asarray(reference))
    if b.ndim not in (2, 3) or min(b.shape) < 3:
        raise ValueError(
            f"SSIM needs an image or a volume of at least 3 samples an axis, not shape {b.shape}"
        )
    span = value_range(_inside(b, mask))
    if span == 0:
        raise ValueError("SSIM needs a reference that is not flat")
    window = min(7, min(b.shape))
    window -= 1 - window % 2
    _, similarity = _scikit_image().structural_similarity(b, a, data_range=span, win_size=window, full=True)
    return float(_inside(similarity, mask).mean())


def value_range(values: Array) -> float:
    """Largest minus smallest value; of the magnitude for complex arrays."""
    real = _real(values)
    return float(real.max() - real.min())


def _scikit_image() -> Any:
    # Imported late because it is slow to import, and as Any because its functions carry no types.
    import skimage.metrics

    return skimage.metrics


def _real(values: Array) -> NDArray[np.floating]:
    return np.abs(values) if np.iscomplexobj(values) else np.asarray(values, dtype=float)


def _inside(values: Array, mask: Mask | None) -> NDArray[np.inexact]:
    array = np.asarray(values)
    array = array if np.iscomplexobj(array) else array.astype(float)
    return array.ravel() if mask is None else array[mask]


def _spread(values: Array, centred: Array) -> float:
    # A constant leaves rounding noise once its mean is removed, and noise has no structure to correlate.
    norm = float(np.linalg.norm(centred))
    return norm if norm > 1e-12 * float(np.linalg.norm(values)) else 0.0


def _cosine(a: Array, b: Array, norm_a: float, norm_b: float) -> float:
    if norm_a == 0 or norm_b == 0:
        return 0.0
    # Normalised one by one: the product of two large norms may overflow.
    product = np.vdot(b / norm_b, a / norm_a)
    return float(abs(product) if np.iscomplexobj(product) else product)


def _ratio(numerator: float, denominator: float) -> float:
    return numerator / denominator if denominator else float("nan")
