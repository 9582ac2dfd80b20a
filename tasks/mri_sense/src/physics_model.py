"""Sensitivity encoding: centred unitary Fourier transform, coil maps, acquired rows, and the g-factor."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

ComplexArray = NDArray[np.complex128]


def fft2c(image: NDArray) -> ComplexArray:
    """Unitary centred 2-D Fourier transform F of the last two axes.

    (F x)[k, l] = (Y X)^-1/2 sum_jm x[j, m] exp(-2 pi i ((k-Y//2)(j-Y//2)/Y + (l-X//2)(m-X//2)/X)), so that
    zero frequency lies at index (Y//2, X//2) and ||F x|| = ||x||, for even and odd sizes.

    Parameters
    ----------
    image : (..., Y, X) complex.

    Returns
    -------
    (..., Y, X) complex128, in the unit of `image`.
    """
    axes = (-2, -1)
    image = np.asarray(image, dtype=np.complex128)
    return np.fft.fftshift(np.fft.fft2(np.fft.ifftshift(image, axes=axes), norm="ortho"), axes=axes)


def ifft2c(k_space: NDArray) -> ComplexArray:
    """Inverse, and adjoint, of `fft2c`.

    Parameters
    ----------
    k_space : (..., Y, X) complex.

    Returns
    -------
    (..., Y, X) complex128, in the unit of `k_space`.
    """
    axes = (-2, -1)
    k_space = np.asarray(k_space, dtype=np.complex128)
    return np.fft.fftshift(np.fft.ifft2(np.fft.ifftshift(k_space, axes=axes), norm="ortho"), axes=axes)


def encode(image: NDArray, maps: NDArray, rows: NDArray) -> ComplexArray:
    """Forward model E: y_c = (F (S_c x))[rows, :].

    Parameters
    ----------
    image : (Y, X) complex, a.u.
    maps : (C, Y, X) complex.
    rows : (A,) int, distinct indices in 0 ... Y-1 of the acquired rows of the centred k-space.

    Returns
    -------
    (C, A, X) complex128, in the unit of `image` times `maps`.

    Raises
    ------
    ValueError when image and maps disagree, or when rows repeat or leave the grid.
    """
    image, maps = np.asarray(image, dtype=np.complex128), np.asarray(maps, dtype=np.complex128)
    if image.shape != maps.shape[1:]:
        raise ValueError(f"image has shape {image.shape}, expected {maps.shape[1:]} as in maps")
    rows = _checked_rows(rows, maps.shape[-2])
    return fft2c(maps * image)[:, rows, :]


def encode_adjoint(k_space: NDArray, maps: NDArray, rows: NDArray) -> ComplexArray:
    """Adjoint E^H: x = sum_c conj(S_c) F^H (y_c put back on its rows, zero elsewhere).

    Parameters
    ----------
    k_space : (C, A, X) complex.
    maps : (C, Y, X) complex.
    rows : (A,) int, distinct indices in 0 ... Y-1.

    Returns
    -------
    (Y, X) complex128, in the unit of `k_space` times `maps`.

    Raises
    ------
    ValueError when the shapes disagree, or when rows repeat or leave the grid.
    """
    k_space, maps = np.asarray(k_space, dtype=np.complex128), np.asarray(maps, dtype=np.complex128)
    rows = _checked_rows(rows, maps.shape[-2])
    expected = (maps.shape[0], rows.size, maps.shape[-1])
    if k_space.shape != expected:
        raise ValueError(f"k_space has shape {k_space.shape}, expected {expected}")
    full = np.zeros(maps.shape, dtype=np.complex128)
    full[:, rows, :] = k_space
    return np.sum(maps.conj() * ifft2c(full), axis=0)


def g_factor(maps: NDArray, psi: NDArray, reduction: int) -> NDArray[np.float64]:
    """Noise amplification of optimal SENSE with every `reduction`-th row acquired, beside the loss sqrt(R).

    For pixel p, S is the (C, R) matrix of the sensitivities of p and of the R-1 pixels of its column that
    fold onto it (distance Y/R, cyclic); g_p = sqrt([(S^H Psi^-1 S)^-1]_pp [S^H Psi^-1 S]_pp).
    Source: Pruessmann et al., MRM 42:952-962 (1999).

    Parameters
    ----------
    maps : (C, Y, X) complex.
    psi : (C, C) complex Hermitian positive definite.
    reduction : R >= 1.

    Returns
    -------
    (Y, X) float64, >= 1, dimensionless.

    Raises
    ------
    ValueError unless reduction divides Y and is at most C.
    """
    maps, psi = np.asarray(maps, dtype=np.complex128), np.asarray(psi, dtype=np.complex128)
    coils, height, width = maps.shape
    if reduction < 1 or height % reduction or reduction > coils:
        raise ValueError(
            f"reduction is {reduction}, expected a divisor of {height} rows and at most {coils} coils"
        )
    # (C, R, Y/R, X): axis 1 runs over the pixels that fold onto each other
    folded = maps.reshape(coils, reduction, height // reduction, width)
    inverse_times_maps = np.linalg.solve(psi, maps.reshape(coils, -1)).reshape(folded.shape)
    fisher = np.einsum("cqyx,csyx->yxqs", folded.conj(), inverse_times_maps)
    variance = np.linalg.inv(fisher)
    product = np.einsum("yxqq->qyx", variance).real * np.einsum("yxqq->qyx", fisher).real
    # rounding can leave 1 - 1e-16 where nothing folds
    return np.sqrt(np.maximum(product, 1.0)).reshape(height, width)


def _checked_rows(rows: NDArray, height: int) -> NDArray[np.int64]:
    rows = np.asarray(rows)
    if rows.ndim != 1 or rows.dtype.kind not in "iu" or np.unique(rows).size != rows.size:
        raise ValueError(
            f"rows has shape {rows.shape} and dtype {rows.dtype}, expected distinct integers (A,)"
        )
    if rows.size == 0 or rows.min() < 0 or rows.max() >= height:
        raise ValueError(f"rows is {rows.tolist()[:4]}..., expected a non-empty subset of 0 ... {height - 1}")
    return rows.astype(np.int64)
