"""The SENSE task's operators and solution against SigPy, an independent MRI library."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

TASK = Path(__file__).resolve().parents[2] / "tasks" / "mri_sense"

sigpy = pytest.importorskip("sigpy", reason="SigPy is the independent MRI library of this cross-check")
mri = pytest.importorskip("sigpy.mri", reason="SigPy's MRI part is needed: pip install sigpy")


@pytest.fixture(scope="module")
def task() -> Iterator[dict[str, ModuleType]]:
    """The reference modules; every task names them `src`, so they are forgotten again afterwards."""

    def forget() -> None:
        for name in [name for name in sys.modules if name == "src" or name.startswith("src.")]:
            del sys.modules[name]

    forget()
    sys.path.insert(0, str(TASK))
    try:
        names = ("preprocessing", "physics_model", "solvers")
        yield {name: importlib.import_module(f"src.{name}") for name in names}
    finally:
        sys.path.remove(str(TASK))
        forget()


@pytest.fixture(scope="module")
def scan(task):
    """Data, maps on the pixel grid, covariance, and the sampling mask of the shipped scan."""
    loaded = task["preprocessing"].load_scan(str(TASK / "data"))
    maps = task["preprocessing"].interpolate_maps(loaded["coil_maps"], loaded["node_positions"], (120, 120))
    mask = np.zeros((120, 120))
    mask[loaded["rows"]] = 1
    psi = task["preprocessing"].noise_covariance(loaded["noise_prescan"])
    return loaded | {"maps": maps, "mask": mask, "psi": psi}


@pytest.mark.parametrize("shape", [(3, 12, 10), (2, 9, 7), (1, 8, 5)])
def test_fourier_transform_is_that_of_sigpy(task, shape):
    rng = np.random.default_rng(0)
    image = rng.normal(size=shape) + 1j * rng.normal(size=shape)
    expected = sigpy.fft(image, axes=(-2, -1), center=True, norm="ortho")
    np.testing.assert_allclose(task["physics_model"].fft2c(image), expected, atol=1e-12)
    np.testing.assert_allclose(task["physics_model"].ifft2c(expected), image, atol=1e-12)


def test_encoding_and_adjoint_are_those_of_sigpy(task, scan):
    rng = np.random.default_rng(1)
    image = rng.normal(size=(120, 120)) + 1j * rng.normal(size=(120, 120))
    operator = mri.linop.Sense(scan["maps"], weights=scan["mask"])
    rows = scan["rows"]
    expected = operator * image
    encoded = task["physics_model"].encode(image, scan["maps"], rows)
    np.testing.assert_allclose(encoded, expected[:, rows], atol=1e-9)
    back = task["physics_model"].encode_adjoint(encoded, scan["maps"], rows)
    np.testing.assert_allclose(back, operator.H * expected, atol=1e-9)


def test_whitened_scan_has_the_covariance_of_sigpy(task, scan):
    # SigPy removes the mean, in place, and does not divide by the number of samples
    noise = scan["noise_prescan"] - scan["noise_prescan"].mean(axis=1, keepdims=True)
    covariance = mri.get_cov(noise.copy()) / noise.shape[1]
    np.testing.assert_allclose(task["preprocessing"].noise_covariance(noise), covariance, atol=1e-14)
    white, _ = task["preprocessing"].prewhiten(scan["k_space"], scan["maps"], scan["psi"])
    expected = mri.whiten(scan["k_space"], scan["psi"])
    np.testing.assert_allclose(white, expected, atol=1e-8 * np.abs(expected).max())


def test_reconstruction_is_that_of_sigpy(task, scan):
    lam = 1 / 0.6**2
    white, maps = task["preprocessing"].prewhiten(scan["k_space"], scan["maps"], scan["psi"])
    full = np.zeros(maps.shape, dtype=complex)
    full[:, scan["rows"]] = white
    app = mri.app.SenseRecon(
        full, maps, lamda=lam, weights=scan["mask"], max_iter=400, tol=1e-9, show_pbar=False
    )
    expected = app.run()
    ours, _ = task["solvers"].iterative_sense(white, maps, scan["rows"], lam, 300, 1e-10)
    assert np.linalg.norm(ours - expected) <= 2e-3 * np.linalg.norm(expected)
    exact = task["solvers"].unfold_direct(white, maps, scan["rows"], lam)
    np.testing.assert_allclose(ours, exact, atol=1e-6)


def test_g_factor_predicts_the_noise_of_repeated_scans(task):
    rng = np.random.default_rng(2)
    coils, height, width, reduction = 4, 12, 5, 3
    maps = rng.normal(size=(coils, height, width)) + 1j * rng.normal(size=(coils, height, width))
    mixing = np.eye(coils) + 0.4 * (rng.normal(size=(coils, coils)) + 1j * rng.normal(size=(coils, coils)))
    psi = mixing @ mixing.conj().T

    def deviation(rows: np.ndarray) -> np.ndarray:
        squares = np.zeros((height, width))
        for _ in range(1500):
            white = rng.normal(size=(coils, rows.size * width)) + 1j * rng.normal(
                size=(coils, rows.size * width)
            )
            noise = (mixing @ white / np.sqrt(2)).reshape(coils, rows.size, width)
            data, virtual = task["preprocessing"].prewhiten(noise, maps, psi)
            squares += np.abs(task["solvers"].unfold_direct(data, virtual, rows, 0.0)) ** 2
        return np.sqrt(squares / 1500)

    ratio = deviation(np.arange(0, height, reduction)) / deviation(np.arange(height)) / np.sqrt(reduction)
    # 1500 complex samples determine a standard deviation to 1.3 %, a ratio of two to 1.8 %
    np.testing.assert_allclose(ratio, task["physics_model"].g_factor(maps, psi, reduction), rtol=0.1)
