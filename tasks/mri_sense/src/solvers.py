"""SENSE reconstruction: conjugate gradients on the normal equations, and direct unfolding."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from src.physics_model import encode, encode_adjoint, ifft2c

ComplexArray = NDArray[np.complex128]


def cg_hermitian(
    matrix: NDArray | sparse.sparray, rhs: NDArray, iterations: int, tol: float
) -> tuple[ComplexArray, NDArray[np.float64]]:
    """Conjugate gradients for H x = b from x = 0, with the complex inner product <a, b> = sum conj(a) b.

    Stops after `iterations` steps, or as soon as ||b - H x|| <= tol ||b||. Source: Hestenes & Stiefel,
    J. Res. NBS 49:409-436 (1952).

    Parameters
    ----------
    matrix : (m, m) Hermitian positive definite, dense or scipy sparse.
    rhs : (m,) complex.
    iterations : greatest number of steps, >= 0.
    tol : relative residual to stop at, >= 0.

    Returns
    -------
    x (m,) complex128, and the relative residuals (steps + 1,) float64, the first of them 1.
    For b = 0: x = 0 and the single residual 0.

    Raises
    ------
    ValueError when matrix is not square, not Hermitian (to 1e-10 of its largest entry), or does not fit rhs.
    """
    rhs = np.asarray(rhs, dtype=np.complex128)
    if matrix.ndim != 2 or matrix.shape != (rhs.size, rhs.size) or rhs.ndim != 1:
        raise ValueError(
            f"matrix has shape {matrix.shape}, expected ({rhs.size}, {rhs.size}) to fit rhs {rhs.shape}"
        )
    asymmetry = abs(matrix - matrix.conj().T).max()
    if asymmetry > 1e-10 * abs(matrix).max():
        raise ValueError(
            f"matrix differs from its conjugate transpose by {asymmetry:.3g}, expected Hermitian"
        )
    return _conjugate_gradients(lambda x: matrix @ x, rhs, iterations, tol)


def iterative_sense(
    k_space: NDArray, maps: NDArray, rows: NDArray, lam: float, iterations: int, tol: float
) -> tuple[ComplexArray, NDArray[np.float64]]:
    """Solve (E^H E + lam I) x = E^H y by intensity-corrected conjugate gradients from x = 0.

    With d_p = ((A/Y) sum_c |S_c,p|^2 + lam)^(-1/2), the inverse root of the diagonal, CG runs on
    D (E^H E + lam I) D z = D E^H y and x = D z. Optimal only when the noise of `k_space` is white over the
    coils: whiten data and maps first; then lam = 1 / (prior variance of a pixel).
    Source: Pruessmann et al., MRM 46:638-651 (2001), whose intensity correction this is for lam = 0.

    Parameters
    ----------
    k_space : (C, A, X) complex.
    maps : (C, Y, X) complex.
    rows : (A,) int, acquired rows of the centred k-space.
    lam : >= 0, in the unit of |maps|^2.
    iterations : greatest number of steps, >= 0.
    tol : relative residual to stop at, >= 0.

    Returns
    -------
    x (Y, X) complex128, in the unit of k_space / maps, and the relative residuals of the corrected system
    ||D (E^H y - (E^H E + lam I) x)|| / ||D E^H y||, (steps + 1,) float64.

    Raises
    ------
    ValueError when lam is negative, the arrays do not fit, or lam = 0 and all maps vanish at a pixel.
    """
    if lam < 0:
        raise ValueError(f"lam is {lam}, expected a non-negative number")
    rhs = encode_adjoint(k_space, maps, rows)
    diagonal = np.size(rows) / rhs.shape[0] * np.sum(np.abs(maps) ** 2, axis=0) + lam
    if diagonal.min() <= 0:
        raise ValueError("lam is 0 where all maps vanish, expected lam > 0 or maps that cover every pixel")
    correction = 1 / np.sqrt(diagonal)

    def corrected_normal(flat: ComplexArray) -> ComplexArray:
        image = correction * flat.reshape(rhs.shape)
        normal = encode_adjoint(encode(image, maps, rows), maps, rows) + lam * image
        return (correction * normal).ravel()

    solution, residuals = _conjugate_gradients(corrected_normal, (correction * rhs).ravel(), iterations, tol)
    return correction * solution.reshape(rhs.shape), residuals


def unfold_direct(k_space: NDArray, maps: NDArray, rows: NDArray, lam: float) -> ComplexArray:
    """Exact solution of (E^H E + lam I) x = E^H y for rows r0, r0+R, ...: one R x R system per alias set.

    The zero-filled coil image is a_c(j) = (1/R) sum_q exp(-2 pi i (r0 - Y//2) q/R) (S_c x)(j + q Y/R), rows
    cyclic, so only R pixels interact. Source: Pruessmann et al., MRM 42:952-962 (1999).

    Parameters
    ----------
    k_space, maps, rows, lam : as in `iterative_sense`; lam = 0 needs R <= C.

    Returns
    -------
    x (Y, X) complex128.

    Raises
    ------
    ValueError unless the rows are uniform, in ascending order, with a spacing R that divides Y, and A = Y/R.
    """
    maps, rows = np.asarray(maps, dtype=np.complex128), np.asarray(rows)
    coils, height, width = maps.shape
    reduction = height // rows.size
    if height % rows.size or not np.array_equal(rows, rows[0] + reduction * np.arange(rows.size)):
        raise ValueError(f"rows is {rows.tolist()[:4]}..., expected a uniform spacing that divides {height}")
    phase = np.exp(-2j * np.pi * (rows[0] - height // 2) * np.arange(reduction) / reduction)
    folded_maps = maps.reshape(coils, reduction, height // reduction, width) * phase[:, None, None]

    full = np.zeros(maps.shape, dtype=np.complex128)
    full[:, rows, :] = k_space
    aliased = ifft2c(full)[:, : height // reduction, :]

    gram = np.einsum("cqyx,csyx->yxqs", folded_maps.conj(), folded_maps) / reduction
    gram += lam * np.eye(reduction)
    rhs = np.einsum("cqyx,cyx->yxq", folded_maps.conj(), aliased)
    unfolded = np.linalg.solve(gram, rhs[..., None])[..., 0]
    return np.moveaxis(unfolded, -1, 0).reshape(height, width)


def _conjugate_gradients(
    apply: Callable[[ComplexArray], ComplexArray], rhs: ComplexArray, iterations: int, tol: float
) -> tuple[ComplexArray, NDArray[np.float64]]:
    solution = np.zeros_like(rhs)
    residual = rhs.copy()
    direction = residual.copy()
    energy = np.vdot(residual, residual).real
    scale = np.sqrt(energy)
    if scale == 0:
        return solution, np.zeros(1)
    history = [1.0]
    for _ in range(iterations):
        if history[-1] <= tol:
            break
        image_of_direction = apply(direction)
        step = energy / np.vdot(direction, image_of_direction).real
        solution += step * direction
        residual -= step * image_of_direction
        previous, energy = energy, np.vdot(residual, residual).real
        direction = residual + (energy / previous) * direction
        history.append(float(np.sqrt(energy) / scale))
    return solution, np.array(history)
