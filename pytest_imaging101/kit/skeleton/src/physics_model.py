"""What goes here: the forward model and its adjoint, with units, signs and axis order as README states them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray


def transfer_function(
    shape: Sequence[int], sigma_mm: Sequence[float], displacement_mm: Sequence[float], pixel_mm: float
) -> NDArray[np.complex128]:
    """H(f) = exp(-2 pi^2 sum s^2 f^2) exp(-2 pi i f.d), f in cycles/mm in the order of numpy.fft.fftfreq."""
    if pixel_mm <= 0:
        raise ValueError(f"pixel_mm is {pixel_mm}; it must be positive")
    f_y = np.fft.fftfreq(shape[0], pixel_mm)[:, None]
    f_x = np.fft.fftfreq(shape[1], pixel_mm)[None, :]
    width = (sigma_mm[0] * f_y) ** 2 + (sigma_mm[1] * f_x) ** 2
    phase = displacement_mm[0] * f_y + displacement_mm[1] * f_x
    return np.exp(-2 * np.pi**2 * width) * np.exp(-2j * np.pi * phase)


def blur(image: ArrayLike, transfer: ArrayLike) -> NDArray[np.float64]:
    """A x = Re IFFT(H FFT x): what the camera would see of a scene, without dark counts and noise."""
    scene, response = _fitting(image, transfer)
    return np.fft.ifft2(response * np.fft.fft2(scene)).real


def blur_adjoint(image: ArrayLike, transfer: ArrayLike) -> NDArray[np.float64]:
    """A* y = Re IFFT(conj(H) FFT y)."""
    measured, response = _fitting(image, transfer)
    return np.fft.ifft2(response.conj() * np.fft.fft2(measured)).real


def _fitting(image: ArrayLike, transfer: ArrayLike) -> tuple[NDArray[np.float64], NDArray[np.complex128]]:
    values, response = np.asarray(image, dtype=float), np.asarray(transfer, dtype=complex)
    if values.shape != response.shape:
        raise ValueError(f"image has shape {values.shape}; it must be transfer's, {response.shape}")
    return values, response
