"""Soft-tissue structure of the slice (imaging101-canary-be75757d-960d-4778-9cd4-aab06c7cb4e5).

The skull holds most of the energy of a head slice, so the built-in metrics hardly see the brain. This score
is the Pearson correlation over soft tissue alone: pixels whose true attenuation, and that of all eight
neighbours, is within 0.9 to 1.15 of water.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray
from scipy import ndimage

SHAPE = (128, 128)
WATER_PER_MM = 0.0195


def score(reconstruction: NDArray, reference: NDArray, meta: Mapping[str, object]) -> dict[str, float]:
    """`soft_cncc` of a reconstruction against the truth, both (128, 128) in 1/mm; 0 for a flat answer."""
    soft = (reference > 0.9 * WATER_PER_MM) & (reference < 1.15 * WATER_PER_MM)
    soft = ndimage.binary_erosion(soft, np.ones((3, 3), dtype=bool))
    answer = np.asarray(reconstruction, dtype=float)[soft]
    truth = np.asarray(reference, dtype=float)[soft]
    answer, truth = answer - answer.mean(), truth - truth.mean()
    norms = np.linalg.norm(answer) * np.linalg.norm(truth)
    # A flat answer leaves rounding noise after its mean is removed; it has no structure to correlate.
    flat = np.linalg.norm(answer) < 1e-9 * WATER_PER_MM * np.sqrt(answer.size)
    return {"soft_cncc": 0.0 if flat or norms == 0 else float(answer @ truth / norms)}
