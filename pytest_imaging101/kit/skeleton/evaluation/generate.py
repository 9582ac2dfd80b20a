"""What goes here: data, truth, fixtures and reference outputs again, from one seed.

{{canary}}

    python evaluation/generate.py [--out DIR]

The data come from a grid that is eight times finer than the pixels and from a blur in space, not from the
reference's forward model; expected values of fixtures come from dense matrices and loops.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

TASK = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(TASK))

from main import REGULARISATION  # noqa: E402

from src.physics_model import transfer_function  # noqa: E402
from src.preprocessing import counts_to_rate  # noqa: E402
from src.solvers import tikhonov_deconvolve  # noqa: E402

Array = NDArray[np.float64]
CANARY = "{{canary}}"
SEED = 1973
SHAPE, FINE = (64, 48), 8
META = {
    "pixel_mm": 0.05,
    "psf_sigma_mm": [0.08, 0.055],
    "displacement_mm": [0.06, -0.09],
    "exposure_s": 4.0,
    "dark_rate_per_s": 40.0,
}
# rate in photon/s, centre y, x and semi-axes in mm; values add up where ellipses overlap
ELLIPSES = np.array(
    [
        [300, 1.30, 1.05, 0.80, 0.55],
        [-200, 1.05, 0.90, 0.30, 0.18],
        [500, 0.95, 1.35, 0.10, 0.10],
        [600, 1.75, 1.25, 0.07, 0.20],
        [700, 2.45, 0.75, 0.15, 0.12],
        [900, 2.55, 1.60, 0.06, 0.06],
        [800, 0.60, 1.75, 0.12, 0.05],
    ]
)


def fine_scene() -> Array:
    """The scene in photon/s on the fine grid."""
    step = META["pixel_mm"] / FINE
    y, x = ((np.arange(length * FINE) + 0.5) * step for length in SHAPE)
    image = np.zeros((y.size, x.size))
    for value, y0, x0, a, b in ELLIPSES:
        image += value * (((y[:, None] - y0) / a) ** 2 + ((x[None, :] - x0) / b) ** 2 <= 1)
    return image


def blurred(image: Array) -> Array:
    """Convolution with the displaced Gaussian, in space, axis by axis (separable)."""
    step = META["pixel_mm"] / FINE
    for axis, (sigma, shift) in enumerate(zip(META["psf_sigma_mm"], META["displacement_mm"], strict=True)):
        distance = np.subtract.outer(np.arange(image.shape[axis]), np.arange(image.shape[axis])) * step
        kernel = np.exp(-((distance - shift) ** 2) / (2 * sigma**2)) * step / np.sqrt(2 * np.pi) / sigma
        image = np.moveaxis(np.tensordot(kernel, image, (1, axis)), 0, axis)
    return image


def binned(image: Array) -> Array:
    """Means over pixels."""
    return image.reshape(SHAPE[0], FINE, SHAPE[1], FINE).mean(axis=(1, 3))


def save(folder: Path, name: str, **arrays: object) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    np.savez_compressed(folder / f"{name}.npz", **arrays)


def figures(answer: Array, truth: Array) -> dict[str, float]:
    """The four built-in metrics."""
    error, a, b = np.linalg.norm(answer - truth), answer - answer.mean(), truth - truth.mean()
    return {
        "ncc": float(np.vdot(answer, truth) / np.linalg.norm(answer) / np.linalg.norm(truth)),
        "nrmse": float(error / np.sqrt(truth.size) / np.ptp(truth)),
        "cncc": float(np.vdot(a, b) / np.linalg.norm(a) / np.linalg.norm(b)),
        "rel_l2": float(error / np.linalg.norm(truth)),
    }


def blur_matrix(shape: tuple[int, int], sigma: Array, shift: Array, pixel: float) -> Array:
    """The periodic blur as a dense matrix, from sums over frequencies of one axis at a time."""
    factors = []
    for length, width, move in zip(shape, sigma, shift, strict=True):
        f = np.fft.fftfreq(length, pixel)
        distance = np.subtract.outer(np.arange(length), np.arange(length)) * pixel - move
        waves = np.exp(2j * np.pi * f * distance[..., None])
        # At the Nyquist frequency of an even length a real image keeps the mean of both signs, taken by .real.
        factors.append((np.exp(-2 * (np.pi * width * f) ** 2) * waves).sum(-1) / length)
    return np.kron(factors[0], factors[1]).real


def laplacian_matrix(shape: tuple[int, int]) -> Array:
    """Four times a pixel less its four neighbours, periodic."""
    rows, columns = (2 * np.eye(n) - np.roll(np.eye(n), 1, 0) - np.roll(np.eye(n), -1, 0) for n in shape)
    return np.kron(rows, np.eye(shape[1])) + np.kron(np.eye(shape[0]), columns)


def write_fixtures(folder: Path, shape: tuple[int, int], seed: int, counts: NDArray[np.int32]) -> None:
    """One npz per public function."""
    rng = np.random.default_rng(seed)
    pixel, lam = 0.1 * rng.uniform(0.5, 2), 0.02 * rng.uniform(0.5, 2)
    sigma, shift = pixel * rng.uniform(0.6, 1.4, 2), pixel * rng.uniform(-2, 2, 2)
    optics = {"sigma_mm": sigma, "displacement_mm": shift, "pixel_mm": pixel}
    image = rng.uniform(0, 9, shape)
    matrix, laplacian = blur_matrix(shape, sigma, shift, pixel), laplacian_matrix(shape)
    f_y, f_x = np.fft.fftfreq(shape[0], pixel), np.fft.fftfreq(shape[1], pixel)
    transfer = [
        [
            np.exp(-2 * np.pi**2 * ((sigma[0] * a) ** 2 + (sigma[1] * b) ** 2))
            * np.exp(-2j * np.pi * (a * shift[0] + b * shift[1]))
            for b in f_x
        ]
        for a in f_y
    ]
    rows, columns = rng.integers(0, SHAPE[0], 9 + seed), rng.integers(0, SHAPE[1], 9 + seed)

    module = folder / "preprocessing"
    save(module, "load_scan", rows=rows, columns=columns, values=counts[rows, columns], total=counts.sum())
    few = rng.integers(0, 50, shape)
    rate = [[value / 2.5 - 3.0 for value in line] for line in few.tolist()]
    save(module, "counts_to_rate", counts=few, exposure_s=2.5, dark_rate_per_s=3.0, rate=rate)
    module = folder / "physics_model"
    save(module, "transfer_function", **optics, shape=shape, transfer=transfer)
    save(module, "blur", image=image, transfer=transfer, blurred=(matrix @ image.ravel()).reshape(shape))
    back = (matrix.T @ image.ravel()).reshape(shape)
    save(module, "blur_adjoint", image=image, transfer=transfer, back=back)
    normal = matrix.T @ matrix + lam * laplacian.T @ laplacian
    solution = np.linalg.solve(normal, matrix.T @ image.ravel()).reshape(shape)
    save(folder / "solvers", "tikhonov_deconvolve", rate=image, transfer=transfer, lam=lam, solution=solution)
    save(folder / "visualization", "show_images", first=image, second=-image, pixel_mm=pixel)


def main(out: Path) -> None:
    scene = fine_scene()
    expected = META["exposure_s"] * (binned(blurred(scene)) + META["dark_rate_per_s"])
    counts = np.random.default_rng(SEED).poisson(expected).astype(np.int32)
    save(out / "data", "raw_data", counts=counts)
    (out / "data" / "meta_data.json").write_text(json.dumps(META, indent=2) + "\n", encoding="utf-8")
    # Odd and even sizes need different care at the Nyquist frequency, so the fixtures have odd ones.
    write_fixtures(out / "evaluation" / "fixtures", (9, 7), 1, counts)
    write_fixtures(out / "evaluation" / "fixtures_hidden", (7, 11), 2, counts)

    rate = counts_to_rate(counts, META["exposure_s"], META["dark_rate_per_s"])
    optics = transfer_function(SHAPE, META["psf_sigma_mm"], META["displacement_mm"], META["pixel_mm"])
    answer, truth = tikhonov_deconvolve(rate, optics, REGULARISATION), binned(scene)
    outputs = out / "evaluation" / "reference_outputs"
    outputs.mkdir(parents=True, exist_ok=True)
    np.save(outputs / "ground_truth.npy", truth)
    np.save(outputs / "reconstruction.npy", answer)
    text = json.dumps({"canary": CANARY, **figures(answer, truth)}, indent=2)
    (outputs / "metrics.json").write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=TASK)
    main(parser.parse_args().out)
