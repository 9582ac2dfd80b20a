"""Make data, truth, mask, fixtures and reference outputs again from one seed.

imaging101-canary-be75757d-960d-4778-9cd4-aab06c7cb4e5

    python evaluation/generate.py [--out DIR]

The data are exact chord lengths of ellipses, so they know nothing of pixels. Expected values of fixtures
come from scalar loops and other formulas than the reference's wherever there are any.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

TASK = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(TASK))

from src.physics_model import cell_centres, project_ellipses, ray_geometry  # noqa: E402
from src.preprocessing import counts_to_line_integrals, fan_angles, load_scan  # noqa: E402
from src.solvers import fanbeam_fbp, parker_weights  # noqa: E402

Array = NDArray[np.float64]
CANARY = "imaging101-canary-be75757d-960d-4778-9cd4-aab06c7cb4e5"
SEED = 1982
WATER = 0.0195  # 1/mm, water at about 68 keV
AIR_COUNTS = 4.0e5
N_VIEWS, N_PIXELS, FOV = 230, 128, 240.0
SUB_RAYS, SUB_PIXELS = 5, 8
SCANNER = {
    "source_to_isocentre_mm": 541.0,
    "source_to_detector_mm": 949.0,
    "n_cells": 256,
    "cell_pitch_mm": 1.75,
    "scan_start_rad": 0.9,
}
# attenuation / water, x0, y0, semi-axes a, b [mm], rotation [deg]; values add up where ellipses overlap
HEAD = np.array(
    [
        [1.00, 4, -3, 80, 99, 8],  # scalp
        [0.90, 4, -3, 75, 94, 8],  # skull: 1.9
        [-0.87, 4, -4, 67.5, 85.5, 8],  # brain: 1.03
        [-0.05, -9, 12, 9, 27, -12],  # lateral ventricles
        [-0.05, 17, 9, 8, 23, 24],
        [0.06, -36, -22, 14, 14, 0],  # three discs of 60 HU
        [0.06, 33, -33, 6, 6, 0],
        [0.06, 40, 30, 4, 4, 0],
        [0.70, -37, -56, 17, 6.5, 38],  # petrous bones
        [0.70, 31, -64, 15, 5.5, -24],
        [-1.03, 15, 60, 11, 6.5, 20],  # air
        [0.55, -2, -14, 3.5, 3, 0],  # calcified pineal gland
        [0.04, -30, 45, 13, 9, 50],  # haematoma
    ]
)


def head_ellipses() -> Array:
    """The phantom in the units of `project_ellipses`."""
    return HEAD * [WATER, 1, 1, 1, 1, np.pi / 180]


def rasterise(ellipses: Array, n_pixels: int, fov: float, sub: int = SUB_PIXELS) -> Array:
    """Mean of the phantom over each pixel, from sub x sub samples."""
    fine = (np.arange(n_pixels * sub) + 0.5) * fov / (n_pixels * sub) - fov / 2
    x, y = np.meshgrid(fine, -fine)
    image = np.zeros_like(x)
    for value, x0, y0, semi_a, semi_b, rotation in ellipses:
        turned = (x - x0 + 1j * (y - y0)) * np.exp(-1j * rotation)
        image += value * ((turned.real / semi_a) ** 2 + (turned.imag / semi_b) ** 2 <= 1)
    return image.reshape(n_pixels, sub, n_pixels, sub).mean(axis=(1, 3))


def short_scan_angles(geom: dict, n_views: int) -> Array:
    """Source angles at the middle of n_views equal steps over pi + 2 gamma_max."""
    step = (np.pi + 2 * fan_angles(geom)[1]) / n_views
    return geom["scan_start_rad"] + (np.arange(n_views) + 0.5) * step


def transmission(ellipses: Array, betas: Array, geom: dict) -> Array:
    """Mean of exp(-p) over the width of each cell (V, K): the intensity averages, not its logarithm."""
    offsets = ((np.arange(SUB_RAYS) + 0.5) / SUB_RAYS - 0.5) * geom["cell_pitch_mm"]
    u = (cell_centres(geom)[:, None] + offsets).ravel()
    integrals = project_ellipses(ellipses, *ray_geometry(betas, u, geom))
    return np.exp(-integrals).reshape(betas.size, -1, SUB_RAYS).mean(axis=-1)


def save(folder: Path, name: str, **arrays: object) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    np.savez_compressed(folder / f"{name}.npz", **arrays)


def write_data(out: Path, seed: int = SEED) -> Array:
    """data/, mask and truth; returns the truth."""
    geom = {**SCANNER, "n_views": N_VIEWS, "n_pixels": N_PIXELS, "fov_mm": FOV, "water_per_mm": WATER}
    ellipses = head_ellipses()
    betas = short_scan_angles(geom, N_VIEWS)
    counts = np.random.default_rng(seed).poisson(AIR_COUNTS * transmission(ellipses, betas, geom))
    save(
        out / "data",
        "raw_data",
        counts=counts.astype(np.int32),
        betas=betas,
        air_counts=np.float64(AIR_COUNTS),
    )
    (out / "data" / "meta_data.json").write_text(json.dumps(geom, indent=2) + "\n", encoding="utf-8")
    truth = rasterise(ellipses, N_PIXELS, FOV)
    centres = (np.arange(N_PIXELS) + 0.5) * FOV / N_PIXELS - FOV / 2
    (out / "evaluation" / "reference_outputs").mkdir(parents=True, exist_ok=True)
    np.save(out / "evaluation" / "mask.npy", np.hypot(centres, centres[:, None]) < 0.48 * FOV)
    np.save(out / "evaluation" / "reference_outputs" / "ground_truth.npy", truth)
    return truth


def reconstruct(data_dir: Path) -> Array:
    """What main.py writes."""
    counts, betas, air_counts, geom = load_scan(str(data_dir))
    gamma, gamma_max = fan_angles(geom)
    weights = parker_weights(betas - geom["scan_start_rad"], gamma, gamma_max)
    integrals = counts_to_line_integrals(counts, air_counts)
    return fanbeam_fbp(integrals, betas, geom, geom["n_pixels"], geom["fov_mm"], weights, "hann")


def figures(image: Array, truth: Array, mask: NDArray[np.bool_]) -> dict[str, float]:
    """The four built-in metrics over the mask, and `soft_cncc`."""
    from score import score

    a, b = image[mask], truth[mask]
    error, a0, b0 = np.linalg.norm(a - b), a - a.mean(), b - b.mean()
    return {
        "ncc": float(a @ b / np.linalg.norm(a) / np.linalg.norm(b)),
        "nrmse": float(error / math.sqrt(a.size) / np.ptp(b)),
        "cncc": float(a0 @ b0 / np.linalg.norm(a0) / np.linalg.norm(b0)),
        "rel_l2": float(error / np.linalg.norm(b)),
        **score(image, truth, {}),
    }


def parker_by_hand(b: float, g: float, g_max: float) -> float:
    """Parker's weight of one ray, by cases."""
    if b < 0 or b > math.pi + 2 * g_max:
        return 0.0
    if b < 2 * (g_max + g):
        return math.sin(math.pi / 4 * b / (g_max + g)) ** 2
    if b > math.pi + 2 * g:
        return math.sin(math.pi / 4 * (math.pi + 2 * g_max - b) / (g_max - g)) ** 2
    return 1.0


def ramp_by_hand(n_fft: int, ds: float, window: str) -> Array:
    """The response as an explicit cosine sum over the taps."""
    response = []
    for f in np.fft.fftfreq(n_fft):
        total = 1 / (4 * ds)
        for n in range(1 - n_fft // 2, n_fft // 2 + 1):
            total -= math.cos(2 * math.pi * f * n) / (math.pi * n) ** 2 / ds if n % 2 else 0.0
        gain = {"ram-lak": 1.0, "shepp-logan": float(np.sinc(f)), "hann": math.cos(math.pi * f) ** 2}[window]
        response.append(total * gain)
    return np.array(response)


def fbp_by_hand(p: Array, betas: Array, geom: dict, n_pixels: int, fov: float, weights: Array) -> Array:
    """Hann-apodised fan-beam FBP by convolution in space, pixel by pixel."""
    d_so, n_cells = geom["source_to_isocentre_mm"], geom["n_cells"]
    ds = geom["cell_pitch_mm"] * d_so / geom["source_to_detector_mm"]

    def ramp(n: int) -> float:
        return 1 / (4 * ds**2) if n == 0 else (-1 / (math.pi * n * ds) ** 2 if n % 2 else 0.0)

    taps = [ds * (ramp(n - 1) + 2 * ramp(n) + ramp(n + 1)) / 4 for n in range(n_cells)]
    convolution = np.array([[taps[abs(i - k)] for k in range(n_cells)] for i in range(n_cells)])
    s = [(k - (n_cells - 1) / 2) * ds for k in range(n_cells)]
    cosine = np.array([d_so / math.hypot(d_so, value) for value in s])
    image = np.zeros((n_pixels, n_pixels))
    for v, beta in enumerate(betas):
        view = convolution @ (p[v] * weights[v] * cosine)
        for i in range(n_pixels):
            for j in range(n_pixels):
                x = (j - (n_pixels - 1) / 2) * fov / n_pixels
                y = ((n_pixels - 1) / 2 - i) * fov / n_pixels
                if math.hypot(x, y) > d_so * math.sin(math.atan2(s[-1], d_so)):
                    continue
                depth = 1 - (x * math.cos(beta) + y * math.sin(beta)) / d_so
                position = (y * math.cos(beta) - x * math.sin(beta)) / depth / ds + (n_cells - 1) / 2
                k = math.floor(position)
                if 0 <= k < n_cells - 1:
                    part = position - k
                    image[i, j] += ((1 - part) * view[k] + part * view[k + 1]) / depth**2
    return image * (betas[-1] - betas[0]) / (len(betas) - 1)


def joseph_by_hand(betas: Array, geom: dict, n_pixels: int, fov: float) -> Array:
    """Joseph's matrix, one ray and one sample at a time (dense)."""
    pixel, half = fov / n_pixels, (n_pixels - 1) / 2
    matrix = np.zeros((len(betas) * geom["n_cells"], n_pixels, n_pixels))
    origins, directions = ray_geometry(betas, cell_centres(geom), geom)
    for entry, (ox, oy), (dx, dy) in zip(
        matrix, origins.reshape(-1, 2), directions.reshape(-1, 2), strict=True
    ):
        for m in range(n_pixels):
            if abs(dx) >= abs(dy):  # m is a column
                position = half - (oy + ((m - half) * pixel - ox) / dx * dy) / pixel
            else:  # m is a row
                position = half + (ox + ((half - m) * pixel - oy) / dy * dx) / pixel
            lower = math.floor(position)
            for near, share in ((lower, lower + 1 - position), (lower + 1, position - lower)):
                if 0 <= near < n_pixels:
                    entry[(near, m) if abs(dx) >= abs(dy) else (m, near)] += (
                        share * pixel / max(abs(dx), abs(dy))
                    )
    return matrix.reshape(len(matrix), -1)


def chords_by_hand(ellipses: Array, origins: Array, directions: Array) -> Array:
    """Projection of ellipses from the line's normal angle and offset (Kak & Slaney, sec. 3.1)."""
    total = np.zeros(origins.shape[:-1])
    for index in np.ndindex(total.shape):
        (ox, oy), (dx, dy) = origins[index], directions[index]
        for value, x0, y0, semi_a, semi_b, rotation in ellipses:
            normal = math.atan2(dx, -dy)
            offset = (ox - x0) * math.cos(normal) + (oy - y0) * math.sin(normal)
            width = (semi_a * math.cos(normal - rotation)) ** 2 + (semi_b * math.sin(normal - rotation)) ** 2
            total[index] += 2 * value * semi_a * semi_b * math.sqrt(max(width - offset**2, 0)) / width
    return total


# Two scanners for the fixtures: even and odd numbers of cells, other distances, starts and grids.
FIXTURE_SCANNERS = {
    "fixtures": (
        {
            "source_to_isocentre_mm": 500.0,
            "source_to_detector_mm": 900.0,
            "n_cells": 48,
            "cell_pitch_mm": 8.0,
            "scan_start_rad": 0.4,
        },
        {"n_views": 90, "n_pixels": 32, "fov": 160.0, "row": 9, "seed": 11},
    ),
    "fixtures_hidden": (
        {
            "source_to_isocentre_mm": 620.0,
            "source_to_detector_mm": 1040.0,
            "n_cells": 57,
            "cell_pitch_mm": 6.5,
            "scan_start_rad": -1.1,
        },
        {"n_views": 101, "n_pixels": 37, "fov": 170.0, "row": 30, "seed": 12},
    ),
}


def write_fixtures(folder: Path, geom: dict, case: dict, data_dir: Path) -> None:
    """One npz per public function."""
    rng = np.random.default_rng(case["seed"])
    n_pixels, fov = case["n_pixels"], case["fov"]
    u = np.array([(k - (geom["n_cells"] - 1) / 2) * geom["cell_pitch_mm"] for k in range(geom["n_cells"])])
    gamma = np.array([math.atan2(value, geom["source_to_detector_mm"]) for value in u])
    betas = short_scan_angles(geom, case["n_views"])

    module = folder / "preprocessing"
    counts, all_betas, air_counts, meta = load_scan(str(data_dir))
    views, cells = rng.integers(0, N_VIEWS, 20), rng.integers(0, SCANNER["n_cells"], 20)
    sample = {"views": views, "cells": cells, "counts": counts[views, cells], "betas": all_betas[views]}
    save(
        module,
        "load_scan",
        **sample,
        shape=counts.shape,
        total=counts.sum(),
        air_counts=air_counts,
        keys=np.array(list(meta)),
        values=np.array(list(meta.values()), dtype=float),
    )
    some = rng.integers(0, 5000, (5 + case["seed"] % 2, 7))
    some[0, :2] = 0, 1
    expected = [[-math.log(max(value, 1) / 3210.0) for value in line] for line in some.tolist()]
    save(module, "counts_to_line_integrals", counts=some, air_counts=3210.0, line_integrals=expected)
    save(module, "fan_angles", **geom, gamma=gamma, gamma_max=gamma[-1])

    module = folder / "physics_model"
    save(module, "source_distances", **geom)
    save(module, "cell_centres", **geom, u=u)
    few = betas[:: case["n_views"] // 5]
    source = geom["source_to_isocentre_mm"] * np.stack([np.cos(few), np.sin(few)], axis=-1)
    beyond = geom["source_to_detector_mm"] - geom["source_to_isocentre_mm"]
    cell = [
        [[-beyond * math.cos(b) - v * math.sin(b), -beyond * math.sin(b) + v * math.cos(b)] for v in u]
        for b in few
    ]
    ray = np.array(cell) - source[:, None, :]
    directions = ray / np.hypot(ray[..., :1], ray[..., 1:])
    origins = np.broadcast_to(source[:, None, :], ray.shape)
    save(module, "ray_geometry", **geom, betas=few, u=u, origins=origins, directions=directions)
    ellipses = np.column_stack(
        [
            rng.uniform(0.005, 0.02, 4),
            rng.uniform(-30, 30, (4, 2)),
            rng.uniform(8, 40, (4, 2)),
            rng.uniform(0, 3, 4),
        ]
    )
    save(
        module,
        "project_ellipses",
        ellipses=ellipses,
        origins=origins,
        directions=directions,
        line_integrals=chords_by_hand(ellipses, origins, directions),
    )
    tiny = {**geom, "n_cells": 7 + case["seed"] % 2, "cell_pitch_mm": 50.0}
    matrix = joseph_by_hand(few, tiny, n_pixels // 3, fov)
    save(module, "system_matrix", **tiny, betas=few, n_pixels=n_pixels // 3, fov=fov, matrix=matrix)

    module = folder / "solvers"
    scan_angles = betas - geom["scan_start_rad"]
    weights = np.array(
        [[parker_by_hand(b, g, gamma[-1]) for g in gamma.tolist()] for b in scan_angles.tolist()]
    )
    save(module, "parker_weights", scan_angles=scan_angles, gamma=gamma, gamma_max=gamma[-1], weights=weights)
    n_fft, ds = 2 * geom["n_cells"], geom["cell_pitch_mm"] / 2
    responses = {
        name.replace("-", "_"): ramp_by_hand(n_fft, ds, name) for name in ("ram-lak", "shepp-logan", "hann")
    }
    save(module, "ramp_response", n_fft=n_fft, ds=ds, **responses)
    p = chords_by_hand(ellipses, *ray_geometry(betas, u, geom))
    mu = fbp_by_hand(p, betas, geom, n_pixels, fov, weights)
    truth = rasterise(ellipses, n_pixels, fov)
    save(
        module,
        "fanbeam_fbp",
        **geom,
        line_integrals=p,
        betas=betas,
        n_pixels=n_pixels,
        fov=fov,
        weights=weights,
        mu=mu,
        truth=truth,
    )

    module = folder / "visualization"
    other = truth + rng.normal(0, 1e-3, truth.shape)
    hounsfield = [[1000 * (value / WATER - 1) for value in line] for line in truth.tolist()]
    save(
        module,
        "show_slice",
        mu=truth,
        fov=fov,
        water=WATER,
        window=(20.0 + case["seed"], 400.0),
        image=hounsfield,
    )
    save(
        module,
        "profile_plot",
        first=truth,
        second=other,
        row=case["row"],
        fov=fov,
        positions=[(j - (n_pixels - 1) / 2) * fov / n_pixels for j in range(n_pixels)],
        y=((n_pixels - 1) / 2 - case["row"]) * fov / n_pixels,
    )
    save(module, "error_map", mu=other, reference=truth, fov=fov)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=TASK)
    out = parser.parse_args().out
    truth = write_data(out)
    reconstruction = reconstruct(out / "data")
    outputs = out / "evaluation" / "reference_outputs"
    np.save(outputs / "reconstruction.npy", reconstruction)
    result = {"canary": CANARY, **figures(reconstruction, truth, np.load(out / "evaluation" / "mask.npy"))}
    (outputs / "metrics.json").write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")
    for name, (geom, case) in FIXTURE_SCANNERS.items():
        write_fixtures(out / "evaluation" / name, geom, case, out / "data")


if __name__ == "__main__":
    main()
