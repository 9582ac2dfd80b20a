"""From photon counts to line integrals, and the fan angle of each detector cell."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike, NDArray

from src.physics_model import cell_centres, source_distances

Array = NDArray[np.float64]


def load_scan(data_dir: str) -> tuple[NDArray[np.int32], Array, float, dict[str, float]]:
    """The measured scan: counts (V, K) int32, betas (V,) rad, air-scan count per cell, geometry mapping.

    Reads ``raw_data.npz`` and ``meta_data.json``. Raises FileNotFoundError when one is absent and
    ValueError when counts is not (len(betas), n_cells).
    """
    folder = Path(data_dir)
    geom = json.loads((folder / "meta_data.json").read_text(encoding="utf-8"))
    with np.load(folder / "raw_data.npz", allow_pickle=False) as raw:
        counts, betas, air_counts = raw["counts"], raw["betas"], float(raw["air_counts"])
    expected = (betas.size, geom["n_cells"])
    if counts.shape != expected:
        raise ValueError(f"counts has shape {counts.shape}; (views, cells) = {expected} is expected.")
    return counts, betas, air_counts, geom


def counts_to_line_integrals(counts: ArrayLike, air_counts: float) -> Array:
    """Line integrals ``p = -ln(max(N, 1) / I0)`` (Beer-Lambert), dimensionless, same shape as counts.

    A cell without photons is given one count, so that p stays finite. Raises ValueError when air_counts
    is not positive or a count is negative.
    """
    counts = np.asarray(counts, dtype=float)
    if not air_counts > 0:
        raise ValueError(f"air_counts is {air_counts}; a positive number of photons is expected.")
    if counts.size and counts.min() < 0:
        raise ValueError(f"counts has the value {counts.min()}; numbers of photons >= 0 are expected.")
    return -np.log(np.maximum(counts, 1.0) / air_counts)


def fan_angles(geom: Mapping[str, float]) -> tuple[Array, float]:
    """Fan angle ``g_k = atan(u_k / D_sd)`` of every cell centre, (K,) rad, and the largest of them, g_m.

    The angle has the sign of u. u is measured on the physical detector, hence D_sd and not D_so.
    """
    _, d_sd = source_distances(geom)
    gamma = np.arctan(cell_centres(geom) / d_sd)
    return gamma, float(np.abs(gamma).max())
