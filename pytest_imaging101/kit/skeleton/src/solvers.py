"""What goes here: the inverse solver, a real method of the cited paper in clear vectorised numpy."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray


def tikhonov_deconvolve(rate: ArrayLike, transfer: ArrayLike, regularisation: float) -> NDArray[np.float64]:
    """argmin |A x - rate|^2 + regularisation |L x|^2 with the five-point Laplacian L (Hunt 1973), photon/s."""
    measured, response = np.asarray(rate, dtype=float), np.asarray(transfer, dtype=complex)
    if measured.shape != response.shape:
        raise ValueError(f"rate has shape {measured.shape}; it must be transfer's, {response.shape}")
    if regularisation <= 0:
        raise ValueError(f"regularisation is {regularisation}; it must be positive")
    f_y, f_x = (np.fft.fftfreq(length) for length in measured.shape)
    laplacian = 4 - 2 * np.cos(2 * np.pi * f_y)[:, None] - 2 * np.cos(2 * np.pi * f_x)[None, :]
    filtered = response.conj() * np.fft.fft2(measured)
    return np.fft.ifft2(filtered / (np.abs(response) ** 2 + regularisation * laplacian**2)).real
