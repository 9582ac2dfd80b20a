"""Fan-beam FBP as for a full turn: no redundancy weights, one constant for the mean overlap.

imaging101-canary-be75757d-960d-4778-9cd4-aab06c7cb4e5
Everything else is right (logarithm, cosine weight, ramp, magnification): the rays of the doubly measured
wedge simply count twice. The constant pi / scan range is the best one can choose. Stands alone.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np


def main() -> None:
    geom = json.loads(Path("data/meta_data.json").read_text(encoding="utf-8"))
    with np.load("data/raw_data.npz") as raw:
        p, betas = -np.log(np.maximum(raw["counts"], 1) / raw["air_counts"]), raw["betas"]
    d_so, n_cells, n_pixels = geom["source_to_isocentre_mm"], geom["n_cells"], geom["n_pixels"]
    ds = geom["cell_pitch_mm"] * d_so / geom["source_to_detector_mm"]
    s = (np.arange(n_cells) - (n_cells - 1) / 2) * ds

    lag = np.arange(-n_cells, n_cells + 1)
    ramp = np.where(lag % 2 == 0, 0.0, -1 / (np.pi * np.where(lag == 0, 1, lag) * ds) ** 2)
    ramp[n_cells] = 1 / (4 * ds**2)
    kernel = ds * np.convolve(ramp, [0.25, 0.5, 0.25], mode="same")
    p = p * d_so / np.hypot(d_so, s)

    pixel = geom["fov_mm"] / n_pixels
    x, y = np.meshgrid(
        (np.arange(n_pixels) - (n_pixels - 1) / 2) * pixel, ((n_pixels - 1) / 2 - np.arange(n_pixels)) * pixel
    )
    mu = np.zeros((n_pixels, n_pixels))
    for beta, view in zip(betas, p, strict=True):
        filtered = np.convolve(view, kernel, mode="full")[n_cells : 2 * n_cells]
        u = 1 - (x * np.cos(beta) + y * np.sin(beta)) / d_so
        mu += np.interp((y * np.cos(beta) - x * np.sin(beta)) / u, s, filtered, left=0, right=0) / u**2
    Path("output").mkdir(exist_ok=True)
    np.save("output/reconstruction.npy", mu * np.pi / len(betas))


if __name__ == "__main__":
    main()
