"""Read the scan, bring the coil maps to the pixel grid, and whiten the receiver noise."""

from __future__ import annotations

import os

import numpy as np
from numpy.typing import NDArray
from scipy.interpolate import make_interp_spline
from scipy.linalg import solve_triangular

ComplexArray = NDArray[np.complex128]


def load_scan(data_dir: str) -> dict[str, NDArray]:
    """Read `raw_data.npz` and check that its arrays belong together.

    Parameters
    ----------
    data_dir : folder that holds `raw_data.npz`.

    Returns
    -------
    mapping with
        k_space        (C, A, X) complex128, a.u.: coil, acquired row, readout sample
        rows           (A,) int64: index of each acquired row in the full centred k-space
        noise_prescan  (C, L) complex128, a.u.
        coil_maps      (C, P, P) complex128, dimensionless, at the nodes
        node_positions (P,) float64, pixels, ascending: both axes of `coil_maps`

    Raises
    ------
    FileNotFoundError when the file is not there; ValueError when shapes contradict each other.
    """
    path = os.path.join(data_dir, "raw_data.npz")
    with np.load(path, allow_pickle=False) as stored:
        scan = {
            "k_space": stored["k_space"].astype(np.complex128),
            "rows": stored["rows"].astype(np.int64),
            "noise_prescan": stored["noise_prescan"].astype(np.complex128),
            "coil_maps": stored["coil_maps"].astype(np.complex128),
            "node_positions": stored["node_positions"].astype(np.float64),
        }
    coils, acquired, _ = scan["k_space"].shape
    nodes = scan["node_positions"].size
    for key, expected in (
        ("rows", (acquired,)),
        ("noise_prescan", (coils, scan["noise_prescan"].shape[-1])),
        ("coil_maps", (coils, nodes, nodes)),
    ):
        if scan[key].shape != expected:
            raise ValueError(f"{key} in {path} has shape {scan[key].shape}, expected {expected}")
    return scan


def interpolate_maps(coil_maps: NDArray, node_positions: NDArray, shape: tuple[int, int]) -> ComplexArray:
    """Evaluate the coil maps at the pixel centres 0, 1, ..., n-1 of both axes.

    Tensor-product cubic spline through the nodes with not-a-knot ends, so any bicubic polynomial is exact.

    Parameters
    ----------
    coil_maps : (C, P, Q) complex, dimensionless; axis -2 is y (rows), axis -1 is x (columns).
    node_positions : (P,) float, pixels, strictly ascending; serves both axes, so Q = P >= 4.
    shape : (Y, X), the pixel grid.

    Returns
    -------
    (C, Y, X) complex128.

    Raises
    ------
    ValueError when node and map counts differ, when there are fewer than 4 nodes or they do not ascend, or
    when a pixel centre lies outside the nodes.
    """
    coil_maps = np.asarray(coil_maps, dtype=np.complex128)
    nodes = np.asarray(node_positions, dtype=np.float64)
    if coil_maps.ndim != 3 or coil_maps.shape[1:] != (nodes.size, nodes.size):
        raise ValueError(f"coil_maps has shape {coil_maps.shape}, expected (C, {nodes.size}, {nodes.size})")
    if nodes.size < 4 or np.any(np.diff(nodes) <= 0):
        raise ValueError(
            f"node_positions is {nodes.tolist()}, expected at least 4 strictly ascending positions"
        )
    if nodes[0] > 0 or nodes[-1] < max(shape) - 1:
        raise ValueError(
            f"node_positions span [{nodes[0]:g}, {nodes[-1]:g}], expected to contain [0, {max(shape) - 1}]"
        )
    along_y = make_interp_spline(nodes, coil_maps, k=3, axis=1)(np.arange(shape[0]))
    return make_interp_spline(nodes, along_y, k=3, axis=2)(np.arange(shape[1]))


def noise_covariance(noise_prescan: NDArray) -> ComplexArray:
    """Sample covariance Psi = N N^H / L of zero-mean receiver noise.

    Psi[a, b] estimates E[n_a conj(n_b)]; the whole complex variance counts (real plus imaginary part).

    Parameters
    ----------
    noise_prescan : (C, L) complex, a.u., with L >= C.

    Returns
    -------
    (C, C) complex128, Hermitian, a.u.^2.

    Raises
    ------
    ValueError unless the prescan is two-dimensional with at least as many samples as coils.
    """
    noise = np.asarray(noise_prescan, dtype=np.complex128)
    if noise.ndim != 2 or noise.shape[1] < noise.shape[0]:
        raise ValueError(f"noise_prescan has shape {noise.shape}, expected (C, L) with L >= C")
    return noise @ noise.conj().T / noise.shape[1]


def prewhiten(k_space: NDArray, maps: NDArray, psi: NDArray) -> tuple[ComplexArray, ComplexArray]:
    """Replace the coils by virtual ones whose noise is uncorrelated and of unit variance.

    With the Cholesky factor Psi = L L^H (L lower triangular, positive diagonal) both data and maps are
    multiplied by W = L^-1 along the coil axis: W Psi W^H = I, and the image that explains them is the same.
    Source: Pruessmann et al., MRM 46:638-651 (2001).

    Parameters
    ----------
    k_space : (C, ...) complex, a.u.
    maps : (C, ...) complex, dimensionless.
    psi : (C, C) complex Hermitian positive definite, a.u.^2.

    Returns
    -------
    whitened k-space (unit noise variance, dimensionless) and maps (1/a.u.), complex128, of the input shapes.

    Raises
    ------
    ValueError when the coil counts differ or when psi is not positive definite.
    """
    k_space = np.asarray(k_space, dtype=np.complex128)
    maps = np.asarray(maps, dtype=np.complex128)
    psi = np.asarray(psi, dtype=np.complex128)
    coils = k_space.shape[0]
    if maps.shape[0] != coils:
        raise ValueError(f"maps has {maps.shape[0]} coils, expected {coils} as in k_space")
    if psi.shape != (coils, coils):
        raise ValueError(f"psi has shape {psi.shape}, expected ({coils}, {coils})")
    try:
        factor = np.linalg.cholesky(psi)
    except np.linalg.LinAlgError:
        smallest = np.linalg.eigvalsh(psi)[0]
        raise ValueError(f"psi has smallest eigenvalue {smallest:.3g}, expected a positive one") from None
    return _solve_coils(factor, k_space), _solve_coils(factor, maps)


def _solve_coils(factor: ComplexArray, stack: ComplexArray) -> ComplexArray:
    flat = solve_triangular(factor, stack.reshape(stack.shape[0], -1), lower=True)
    return flat.reshape(stack.shape)
