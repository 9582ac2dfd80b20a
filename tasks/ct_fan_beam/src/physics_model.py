"""Rays of a flat-detector fan-beam scanner, and the line integrals they measure.

World frame: x to the right, y up, isocentre at the origin, lengths in mm. The source stands at
``a(b) = D_so (cos b, sin b)``; the detector is perpendicular to the central ray, its cells are counted
along ``e_u(b) = (-sin b, cos b)`` (Kak & Slaney 1988, ch. 3, equispaced collinear detector).
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

Array = NDArray[np.float64]

VIEWS_PER_BLOCK = 16  # bounds the temporary arrays of `system_matrix` to a few tens of MB


def _positive(geom: Mapping[str, float], key: str) -> float:
    value = geom.get(key)
    if value is None or not np.isfinite(value) or value <= 0:
        raise ValueError(f"geom[{key!r}] is {value!r}; a positive number is expected.")
    return float(value)


def source_distances(geom: Mapping[str, float]) -> tuple[float, float]:
    """Distances source-isocentre ``D_so`` and source-detector ``D_sd`` in mm.

    Raises ValueError when one is missing or not positive, or when ``D_sd < D_so``.
    """
    d_so = _positive(geom, "source_to_isocentre_mm")
    d_sd = _positive(geom, "source_to_detector_mm")
    if d_sd < d_so:
        raise ValueError(f"geom['source_to_detector_mm'] is {d_sd}; at least D_so = {d_so} is expected.")
    return d_so, d_sd


def cell_centres(geom: Mapping[str, float]) -> Array:
    """Coordinates ``u_k = (k - (K-1)/2) du`` of the cell centres on the physical detector, (K,), mm.

    Raises ValueError when ``n_cells`` or ``cell_pitch_mm`` is missing or not positive.
    """
    n_cells = int(_positive(geom, "n_cells"))
    return (np.arange(n_cells) - (n_cells - 1) / 2) * _positive(geom, "cell_pitch_mm")


def ray_geometry(betas: ArrayLike, u: ArrayLike, geom: Mapping[str, float]) -> tuple[Array, Array]:
    """Origins (the source, mm) and unit directions of the rays to detector coordinates u.

    betas (V,) rad, u (K,) mm; both results are (V, K, 2) with (x, y) on the last axis. The direction is
    ``(-D_sd (cos b, sin b) + u e_u) / sqrt(D_sd^2 + u^2)``. Raises ValueError when betas or u is not 1-D.
    """
    betas, u = np.asarray(betas, dtype=float), np.asarray(u, dtype=float)
    for name, values in (("betas", betas), ("u", u)):
        if values.ndim != 1:
            raise ValueError(f"{name} has shape {values.shape}; a 1-D array is expected.")
    d_so, d_sd = source_distances(geom)
    radial = np.stack([np.cos(betas), np.sin(betas)], axis=-1)[:, None, :]
    along_detector = np.stack([-np.sin(betas), np.cos(betas)], axis=-1)[:, None, :]
    u = u[None, :, None]
    directions = (u * along_detector - d_sd * radial) / np.sqrt(d_sd**2 + u**2)
    return np.broadcast_to(d_so * radial, directions.shape).copy(), directions


def project_ellipses(ellipses: ArrayLike, origins: ArrayLike, directions: ArrayLike) -> Array:
    """Exact line integrals through a sum of uniform ellipses, dimensionless.

    ellipses (E, 6) = [value 1/mm, x0 mm, y0 mm, semi-axis a mm, semi-axis b mm, rotation rad
    counter-clockwise]; origins and unit directions (..., 2). Each ray counts as an infinite line. Mapping
    an ellipse to the unit disc turns its chord into the root of a quadratic; result (...,).
    Raises ValueError for another shape of ellipses or a semi-axis that is not positive.
    """
    ellipses = np.asarray(ellipses, dtype=float)
    if ellipses.ndim != 2 or ellipses.shape[1] != 6:
        raise ValueError(f"ellipses has shape {ellipses.shape}; (E, 6) is expected.")
    if np.any(ellipses[:, 3:5] <= 0):
        raise ValueError(
            f"ellipses has the semi-axis {ellipses[:, 3:5].min()} mm; positive ones are expected."
        )
    origins, directions = np.asarray(origins, dtype=float), np.asarray(directions, dtype=float)
    line_integrals = np.zeros(np.broadcast_shapes(origins.shape, directions.shape)[:-1])
    for value, x0, y0, semi_a, semi_b, rotation in ellipses:
        to_disc = np.array([[np.cos(rotation), np.sin(rotation)], [-np.sin(rotation), np.cos(rotation)]])
        to_disc /= np.array([[semi_a], [semi_b]])
        start = (origins - (x0, y0)) @ to_disc.T
        step = directions @ to_disc.T
        step_squared = np.sum(step**2, axis=-1)
        cross = start[..., 0] * step[..., 1] - start[..., 1] * step[..., 0]
        line_integrals += 2 * value * np.sqrt(np.maximum(step_squared - cross**2, 0)) / step_squared
    return line_integrals


def system_matrix(
    betas: ArrayLike, geom: Mapping[str, float], n_pixels: int, fov: float
) -> sparse.csr_matrix:
    """Joseph's matrix A (V*K, N*N) in mm: ``A @ mu.ravel()`` are the line integrals ``p.ravel()``.

    A ray samples the image once per column where ``|d_x| >= |d_y|``, once per row elsewhere, by linear
    interpolation between the two nearest pixels of that column (row); each sample stands for
    ``h / max(|d_x|, |d_y|)`` mm of path, h = fov / n_pixels. Neighbours outside the grid count as zero.
    Source: Joseph, IEEE Trans. Med. Imaging 1(3):192-196 (1982).
    Raises ValueError when n_pixels or fov is not positive.
    """
    if n_pixels < 1 or fov <= 0:
        raise ValueError(f"n_pixels = {n_pixels} and fov = {fov} mm: positive numbers are expected.")
    betas, u = np.asarray(betas, dtype=float), cell_centres(geom)
    blocks = []
    for first in range(0, betas.size, VIEWS_PER_BLOCK):
        origins, directions = ray_geometry(betas[first : first + VIEWS_PER_BLOCK], u, geom)
        blocks.append(
            _joseph_rows(origins.reshape(-1, 2), directions.reshape(-1, 2), n_pixels, fov / n_pixels)
        )
    return sparse.vstack(blocks, format="csr")


def _joseph_rows(origins: Array, directions: Array, n_pixels: int, pixel: float) -> sparse.csr_matrix:
    """Rows of Joseph's matrix for a list of rays, origins and directions (R, 2)."""
    steep = np.abs(directions[:, 1]) > np.abs(directions[:, 0])
    # Swapping x and y turns a ray that marches through rows into one that marches through columns.
    march = np.where(steep, 1, 0)
    ray = np.arange(march.size)
    o_main, d_main = origins[ray, march], directions[ray, march]
    o_side, d_side = origins[ray, 1 - march], directions[ray, 1 - march]
    centres = (np.arange(n_pixels) - (n_pixels - 1) / 2) * pixel
    side = o_side[:, None] + (centres[None, :] - o_main[:, None]) * (d_side / d_main)[:, None]
    position = side / pixel + (n_pixels - 1) / 2
    lower = np.floor(position).astype(np.int64)
    fraction = position - lower
    path = (pixel / np.abs(d_main))[:, None]

    neighbour = np.stack([lower, lower + 1], axis=-1)
    weight = np.stack([(1 - fraction) * path, fraction * path], axis=-1)
    main = np.broadcast_to(np.arange(n_pixels)[None, :, None], neighbour.shape)
    is_steep = steep[:, None, None]
    column = np.where(is_steep, neighbour, main)
    row = n_pixels - 1 - np.where(is_steep, main, neighbour)  # row 0 is the top, y grows upwards
    kept = (neighbour >= 0) & (neighbour < n_pixels) & (weight > 0)
    ray_index = np.broadcast_to(ray[:, None, None], neighbour.shape)[kept]
    entries = (weight[kept], (ray_index, (row * n_pixels + column)[kept]))
    return sparse.coo_matrix(entries, shape=(ray.size, n_pixels**2)).tocsr()
