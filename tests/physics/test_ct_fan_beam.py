"""Fan-beam physics against independent libraries: scikit-image (parallel beam) and ASTRA (fan beam)."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.ndimage import map_coordinates
from skimage.transform import iradon, radon

TASK = Path(__file__).parents[2] / "tasks" / "ct_fan_beam"
GEOM = {
    "source_to_isocentre_mm": 541.0,
    "source_to_detector_mm": 949.0,
    "n_cells": 256,
    "cell_pitch_mm": 1.75,
}
N_PIXELS, FOV = 128, 240.0
PIXEL = FOV / N_PIXELS
ELLIPSES = np.array(
    [
        [0.020, 6.0, -9.0, 72.0, 88.0, 0.2],
        [-0.006, 25.0, 20.0, 22.0, 12.0, 0.7],
        [0.010, -30.0, -25.0, 14.0, 9.0, -0.4],
        [0.008, 12.0, -62.0, 9.0, 9.0, 0.0],
    ]
)


@pytest.fixture(scope="module")
def task() -> Iterator[SimpleNamespace]:
    """The task's modules, imported as `src` and taken out of `sys.modules` again: every task has a `src`."""
    stale = [name for name in sys.modules if name == "src" or name.startswith("src.")]
    kept = {name: sys.modules.pop(name) for name in stale}
    sys.path.insert(0, str(TASK))
    try:
        names = ("preprocessing", "physics_model", "solvers")
        yield SimpleNamespace(**{name: importlib.import_module(f"src.{name}") for name in names})
    finally:
        sys.path.remove(str(TASK))
        for name in [name for name in sys.modules if name == "src" or name.startswith("src.")]:
            del sys.modules[name]
        sys.modules.update(kept)


@pytest.fixture(scope="module")
def truth() -> NDArray[np.float64]:
    """The phantom on the pixel grid, each pixel the mean of 8 x 8 samples."""
    fine = (np.arange(8 * N_PIXELS) + 0.5) * PIXEL / 8 - FOV / 2
    image = np.zeros((fine.size, fine.size))
    for value, x0, y0, a, b, rotation in ELLIPSES:
        turned = ((fine - x0)[None, :] + 1j * (-fine - y0)[:, None]) * np.exp(-1j * rotation)
        image += value * ((turned.real / a) ** 2 + (turned.imag / b) ** 2 <= 1)
    return image.reshape(N_PIXELS, 8, N_PIXELS, 8).mean(axis=(1, 3))


@pytest.fixture(scope="module")
def disc() -> NDArray[np.bool_]:
    centres = (np.arange(N_PIXELS) + 0.5) * PIXEL - FOV / 2
    return np.hypot(centres, centres[:, None]) < 0.46 * FOV


def short_scan(task: SimpleNamespace, start: float, n_views: int) -> tuple[NDArray[np.float64], ...]:
    """Source angles, line integrals and Parker weights of a noise-free short scan."""
    gamma, gamma_max = task.preprocessing.fan_angles(GEOM)
    scan_angles = (np.arange(n_views) + 0.5) * (np.pi + 2 * gamma_max) / n_views
    rays = task.physics_model.ray_geometry(start + scan_angles, task.physics_model.cell_centres(GEOM), GEOM)
    p = task.physics_model.project_ellipses(ELLIPSES, *rays)
    return start + scan_angles, p, task.solvers.parker_weights(scan_angles, gamma, gamma_max)


def rebinned(betas: NDArray, p: NDArray, theta: NDArray, t: NDArray) -> NDArray[np.float64]:
    """Parallel sinogram (t, theta) of a fan-beam one: theta = beta + pi/2 - gamma, t = D_so sin gamma.

    theta is the angle of the line's normal and t its offset along it, as in scikit-image.
    """
    gamma = np.arcsin(t / GEOM["source_to_isocentre_mm"])[:, None]
    beta = theta[None, :] - np.pi / 2 + gamma
    view = (beta - betas[0]) / (betas[1] - betas[0])
    u = GEOM["source_to_detector_mm"] * np.tan(gamma) + 0 * beta
    cell = u / GEOM["cell_pitch_mm"] + (GEOM["n_cells"] - 1) / 2
    return map_coordinates(p, [view, cell], order=1, mode="nearest")


@pytest.fixture(scope="module")
def parallel(task: SimpleNamespace) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """A short scan rebinned to scikit-image's parallel sinogram, and its angles in degrees."""
    gamma_max = task.preprocessing.fan_angles(GEOM)[1]
    # Started so that the wanted theta in [0, pi) need source angles inside the scan for every gamma.
    betas, p, _ = short_scan(task, -np.pi / 2 - gamma_max - 0.005, 460)
    degrees = np.arange(0, 180, 1.0)
    # scikit-image turns about pixel N // 2, which is half a pixel right of and below the isocentre.
    t = (np.arange(N_PIXELS) - N_PIXELS // 2) * PIXEL
    theta = np.deg2rad(degrees)
    half = PIXEL / 2
    shift = half * (np.cos(theta) - np.sin(theta))
    columns = [rebinned(betas, p, theta[k : k + 1], t + shift[k])[:, 0] for k in range(theta.size)]
    return np.stack(columns, axis=1), degrees


def test_rebinned_fan_sinogram_is_scikit_images_parallel_one(
    parallel: tuple[NDArray[np.float64], NDArray[np.float64]], truth: NDArray[np.float64]
) -> None:
    sinogram, degrees = parallel
    expected = radon(truth, theta=degrees, circle=True) * PIXEL
    assert np.linalg.norm(sinogram - expected) < 0.01 * np.linalg.norm(expected)


def test_fan_beam_fbp_agrees_with_scikit_images_parallel_fbp(
    task: SimpleNamespace,
    parallel: tuple[NDArray[np.float64], NDArray[np.float64]],
    disc: NDArray[np.bool_],
    truth: NDArray[np.float64],
) -> None:
    sinogram, degrees = parallel
    expected = iradon(sinogram, theta=degrees, filter_name="ramp", circle=True) / PIXEL
    betas, p, weights = short_scan(task, 0.3, 360)
    mu = task.solvers.fanbeam_fbp(p, betas, GEOM, N_PIXELS, FOV, weights, "ram-lak")
    norm = np.linalg.norm(truth[disc])
    # Both are about as near to the truth: pixels of 1.9 mm leave some edge error to either.
    assert np.linalg.norm((mu - expected)[disc]) < 0.06 * norm
    assert np.linalg.norm((mu - truth)[disc]) < 0.06 * norm
    assert mu[disc].mean() == pytest.approx(expected[disc].mean(), rel=0.002)


def test_short_scan_equals_full_turn(task: SimpleNamespace, disc: NDArray[np.bool_]) -> None:
    full_turn = np.arange(480) * 2 * np.pi / 480
    rays = task.physics_model.ray_geometry(full_turn, task.physics_model.cell_centres(GEOM), GEOM)
    whole = task.solvers.fanbeam_fbp(
        task.physics_model.project_ellipses(ELLIPSES, *rays), full_turn, GEOM, N_PIXELS, FOV, 0.5
    )
    betas, p, weights = short_scan(task, 1.1, 300)
    short = task.solvers.fanbeam_fbp(p, betas, GEOM, N_PIXELS, FOV, weights)
    assert np.linalg.norm((short - whole)[disc]) < 0.01 * np.linalg.norm(whole[disc])


def test_system_matrix_and_fbp_agree_with_astra(
    task: SimpleNamespace, truth: NDArray[np.float64], disc: NDArray[np.bool_]
) -> None:
    astra = pytest.importorskip(
        "astra", reason="astra-toolbox, an independent fan-beam code, is not installed"
    )
    betas = np.arange(300) * 2 * np.pi / 300 + 0.2
    d_so, d_sd = GEOM["source_to_isocentre_mm"], GEOM["source_to_detector_mm"]
    # ASTRA's vector form takes our frame as it is: source, detector centre, step from cell to cell.
    radial = np.stack([np.cos(betas), np.sin(betas)], axis=1)
    step = GEOM["cell_pitch_mm"] * np.stack([-np.sin(betas), np.cos(betas)], axis=1)
    vectors = np.hstack([d_so * radial, -(d_sd - d_so) * radial, step])
    detector = astra.create_proj_geom("fanflat_vec", GEOM["n_cells"], vectors)
    grid = astra.create_vol_geom(N_PIXELS, N_PIXELS, -FOV / 2, FOV / 2, -FOV / 2, FOV / 2)
    projector = astra.create_projector("line_fanflat", detector, grid)
    try:
        sinogram_id, expected = astra.create_sino(truth, projector)
        astra.data2d.delete(sinogram_id)
    finally:
        astra.projector.delete(projector)
    projected = task.physics_model.system_matrix(betas, GEOM, N_PIXELS, FOV) @ truth.ravel()
    projected = projected.reshape(expected.shape)
    # Path lengths through square pixels there, Joseph's interpolation here: two quadratures of one integral.
    assert np.linalg.norm(projected - expected) < 0.01 * np.linalg.norm(expected)
    assert projected.sum() == pytest.approx(expected.sum(), rel=1e-3)
    mu = task.solvers.fanbeam_fbp(expected, betas, GEOM, N_PIXELS, FOV, 0.5, "ram-lak")
    assert np.linalg.norm((mu - truth)[disc]) < 0.06 * np.linalg.norm(truth[disc])
