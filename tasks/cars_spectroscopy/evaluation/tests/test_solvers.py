"""Tests of src/solvers.py against README.md and design.md."""

import os
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from src import solvers

FIXTURES = Path(os.environ.get("IMAGING101_FIXTURES", "evaluation/fixtures")) / "solvers"


@cache
def load(name):
    with np.load(FIXTURES / f"{name}.npz") as stored:
        return {key: stored[key] if stored[key].ndim else stored[key].item() for key in stored.files}


@cache
def library():
    f = load("model_spectrum")
    return solvers.build_library(f["temperatures_K"], f["p_atm"], f["nu_fine"], tuple(f["widths"].tolist()))


def fit(signal, sigma, start=None):
    f = load("fit_spectrum")
    start = tuple(f["start"].tolist()) if start is None else start
    return solvers.fit_spectrum(signal, sigma, library(), f["nu_pixels"], f["buffer_ratio"], start)


def test_build_library():
    f = load("build_library")
    found = solvers.build_library(f["temperatures_K"], f["p_atm"], f["nu_fine"], tuple(f["widths"].tolist()))
    np.testing.assert_array_equal(found["temperatures_K"], f["temperatures_K"])
    np.testing.assert_array_equal(found["nu"], f["nu_fine"])
    for term in ("interference", "resonant"):
        assert found[term].shape == (f["temperatures_K"].size, f["nu_fine"].size)
        np.testing.assert_allclose(found[term], f[term], rtol=0, atol=1e-6 * np.abs(f[term]).max())


@pytest.mark.parametrize(
    ("temperatures", "nu"),
    [
        (np.array([500.0, 400.0, 600.0, 700.0]), np.arange(2320.0, 2330.0)),
        (np.array([500.0, 600.0, 700.0]), np.arange(2320.0, 2330.0)),
        (np.array([500.0, 600.0, 700.0, 800.0]), np.arange(2330.0, 2320.0, -1.0)),
    ],
)
def test_build_library_refuses_bad_grids(temperatures, nu):
    with pytest.raises(ValueError):
        solvers.build_library(temperatures, 5.0, nu, (0.9, 0.25))


def test_model_spectrum_interpolates_the_exact_spectrum():
    f = load("model_spectrum")
    found = solvers.model_spectrum(
        library(), f["T_K"], f["x_n2"], f["shift"], f["nu_pixels"], f["buffer_ratio"]
    )
    np.testing.assert_allclose(found, f["expected"], rtol=0, atol=2e-4 * f["expected"].max())


def test_model_spectrum_with_a_shift_is_the_spectrum_at_larger_raman_shift():
    f = load("model_spectrum")
    moved = solvers.model_spectrum(library(), 1300.0, 0.7, 0.1, f["nu_pixels"], 1.25)
    direct = solvers.model_spectrum(library(), 1300.0, 0.7, 0.0, f["nu_pixels"] + 0.1, 1.25)
    np.testing.assert_allclose(moved, direct, rtol=1e-10)


@pytest.mark.parametrize(("T_K", "shift"), [(5000.0, 0.0), (1300.0, 40.0)])
def test_model_spectrum_refuses_to_extrapolate(T_K, shift):
    f = load("model_spectrum")
    with pytest.raises(ValueError):
        solvers.model_spectrum(library(), T_K, 0.7, shift, f["nu_pixels"], 1.25)


def test_fit_spectrum_recovers_the_parameters_of_a_simulated_spectrum():
    """The clean spectrum was convolved numerically with an instrument cut at 60 cm^-1."""
    f = load("fit_spectrum")
    found = fit(f["clean"], np.sqrt(f["clean"] * f["clean"].max()) / 100)
    assert abs(found["T"] - f["T_K"]) < 1.5
    assert abs(found["x"] - f["x_n2"]) < 3e-3
    assert abs(found["shift"] - f["shift"]) < 1e-3
    assert abs(found["gain"] / f["gain"] - 1) < 0.01


def test_fit_spectrum_finds_the_least_squares_minimum():
    f = load("fit_spectrum")
    found = fit(f["signal"], f["sigma"])
    assert abs(found["T"] - f["fit_T"]) < 0.2
    assert abs(found["x"] - f["fit_x"]) < 3e-4
    assert abs(found["shift"] - f["fit_shift"]) < 2e-4
    assert abs(found["gain"] / f["fit_gain"] - 1) < 2e-3
    assert abs(found["chi2"] / f["fit_chi2"] - 1) < 1e-3


def test_fit_spectrum_lies_within_its_own_error_of_the_truth():
    f = load("fit_spectrum")
    found = fit(f["signal"], f["sigma"])
    spread = np.sqrt(np.diag(found["covariance"]))
    assert abs(found["T"] - f["T_K"]) < 4 * spread[0]
    assert abs(found["x"] - f["x_n2"]) < 4 * spread[1]
    assert 0.6 < found["chi2"] < 1.5


def test_fit_spectrum_covariance():
    f = load("fit_spectrum")
    covariance = fit(f["signal"], f["sigma"])["covariance"]
    assert covariance.shape == (4, 4)
    np.testing.assert_allclose(covariance, covariance.T, rtol=1e-6)
    scale = np.sqrt(np.diag(f["fit_covariance"]))
    np.testing.assert_allclose(
        covariance / np.outer(scale, scale), f["fit_covariance"] / np.outer(scale, scale), atol=0.03
    )


def test_fit_spectrum_ignores_pixels_of_infinite_sigma():
    f = load("fit_spectrum")
    changed = f["signal"].copy()
    changed[np.isinf(f["sigma"])] *= -7
    first, second = fit(f["signal"], f["sigma"]), fit(changed, f["sigma"])
    assert abs(first["T"] - second["T"]) < 1e-2
    assert abs(first["chi2"] - second["chi2"]) < 1e-5


def test_fit_spectrum_does_not_depend_on_the_start():
    f = load("fit_spectrum")
    far = fit(f["signal"], f["sigma"], (f["T_K"] + 200, 0.5, 0.05))
    assert abs(far["T"] - f["fit_T"]) < 0.2


def test_fit_spectrum_gain_scales_with_the_signal():
    f = load("fit_spectrum")
    found = fit(3 * f["signal"], 3 * f["sigma"])
    assert abs(found["gain"] / (3 * f["fit_gain"]) - 1) < 2e-3
    assert abs(found["T"] - f["fit_T"]) < 0.2


def test_fit_spectrum_refuses_arrays_of_different_length():
    f = load("fit_spectrum")
    with pytest.raises(ValueError):
        fit(f["signal"][:-1], f["sigma"])


def test_fit_spectrum_refuses_a_sigma_of_zero():
    f = load("fit_spectrum")
    with pytest.raises(ValueError):
        fit(f["signal"], np.zeros_like(f["sigma"]))


def test_fit_profile():
    f = load("fit_profile")
    found = solvers.fit_profile(f["signals"], f["sigmas"], library(), f["nu_pixels"], f["buffer_ratio"])
    for key, tolerance in {"T": 0.2, "x": 3e-4, "shift": 2e-4}.items():
        assert found[key].shape == (f["signals"].shape[0],)
        np.testing.assert_allclose(found[key], f["fit_" + key], rtol=0, atol=tolerance)
    np.testing.assert_allclose(found["gain"], f["fit_gain"], rtol=2e-3)
    for key, tolerance in {"chi2": 1e-3, "sigma_T": 0.03, "sigma_x": 0.03}.items():
        np.testing.assert_allclose(found[key], f["fit_" + key], rtol=tolerance)
    assert np.all(np.abs(found["T"] - f["simulated"][0]) < 4 * found["sigma_T"])
    assert np.all(np.abs(found["x"] - f["simulated"][1]) < 4 * found["sigma_x"])
