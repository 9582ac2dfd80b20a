"""What goes here: the whole reference pipeline, data/ -> output/reconstruction.npy; prints what needs no truth."""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np

from src.physics_model import blur, transfer_function
from src.preprocessing import counts_to_rate, load_scan
from src.solvers import tikhonov_deconvolve
from src.visualization import show_images

OUTPUT = Path("output")
REGULARISATION = 1e-3


def main() -> None:
    start = time.perf_counter()
    OUTPUT.mkdir(exist_ok=True)
    scan = load_scan("data")
    rate = counts_to_rate(scan["counts"], scan["exposure_s"], scan["dark_rate_per_s"])
    transfer = transfer_function(rate.shape, scan["psf_sigma_mm"], scan["displacement_mm"], scan["pixel_mm"])
    scene = tikhonov_deconvolve(rate, transfer, REGULARISATION)
    np.save(OUTPUT / "reconstruction.npy", scene)
    show_images([rate, scene], ["measured", "reconstructed"], scan["pixel_mm"], str(OUTPUT / "scene.png"))

    deviation = np.sqrt(np.maximum(scan["counts"], 1)) / scan["exposure_s"]
    chi2 = np.mean(((blur(scene, transfer) - rate) / deviation) ** 2)
    print(f"chi2 per pixel   {chi2:.3f}")
    print(f"runtime          {time.perf_counter() - start:.2f} s")


if __name__ == "__main__":
    main()
