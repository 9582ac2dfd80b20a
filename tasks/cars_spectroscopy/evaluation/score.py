"""Temperature and mole-fraction errors along the line; no alignment.

imaging101-canary-c298691b-347e-435e-a629-f4711a084686
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

SHAPE = (2, 32)


def score(
    reconstruction: NDArray[np.float64], reference: NDArray[np.float64], meta: Mapping[str, Any]
) -> dict[str, float]:
    """Errors of reconstruction [2, 32] = (temperature in K, N2 mole fraction) against the truth.

    temperature_rms_K, temperature_max_K and mole_fraction_rms are judged; ncc (cosine) and nrmse (over the
    range of the truth) are the published pair, of the temperature row alone: the two rows differ in unit.
    """
    difference = np.asarray(reconstruction, dtype=float) - reference
    T, T_true = np.asarray(reconstruction[0], dtype=float), reference[0]
    rms = np.sqrt((difference**2).mean(axis=1))
    length = np.linalg.norm(T) * np.linalg.norm(T_true)
    return {
        "temperature_rms_K": float(rms[0]),
        "temperature_max_K": float(np.abs(difference[0]).max()),
        "mole_fraction_rms": float(rms[1]),
        "ncc": float(T @ T_true / length) if length > 0 else 0.0,
        "nrmse": float(rms[0] / np.ptp(T_true)),
    }
