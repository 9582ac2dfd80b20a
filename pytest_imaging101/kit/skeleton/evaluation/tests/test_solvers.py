"""What goes here: tests of src/solvers.py."""

import os
from pathlib import Path

import numpy as np
import pytest

from src.solvers import tikhonov_deconvolve

FIXTURES = Path(os.environ.get("IMAGING101_FIXTURES", "evaluation/fixtures")) / "solvers"


def load(name):
    with np.load(FIXTURES / f"{name}.npz", allow_pickle=False) as stored:
        return {key: stored[key] if stored[key].ndim else stored[key].item() for key in stored.files}


def test_tikhonov_deconvolve():
    stored = load("tikhonov_deconvolve")
    found = tikhonov_deconvolve(stored["rate"], stored["transfer"], stored["lam"])
    np.testing.assert_allclose(found, stored["solution"], rtol=1e-7, atol=1e-7)


def test_tikhonov_deconvolve_inverts_a_blur_without_noise():
    stored = load("tikhonov_deconvolve")
    image, transfer = stored["rate"], np.asarray(stored["transfer"])
    measured = np.fft.ifft2(transfer * np.fft.fft2(image)).real
    np.testing.assert_allclose(tikhonov_deconvolve(measured, transfer, 1e-14), image, rtol=1e-4)


def test_tikhonov_deconvolve_leaves_a_flat_image_as_it_is():
    transfer = load("tikhonov_deconvolve")["transfer"]
    flat = np.full(transfer.shape, 3.0)
    np.testing.assert_allclose(tikhonov_deconvolve(flat, transfer, 0.1), flat, rtol=1e-9)


def test_tikhonov_deconvolve_refuses_bad_arguments():
    with pytest.raises(ValueError):
        tikhonov_deconvolve(np.ones((3, 4)), np.ones((4, 3)), 1.0)
    with pytest.raises(ValueError):
        tikhonov_deconvolve(np.ones((3, 4)), np.ones((3, 4)), 0.0)
