"""Redundancy weights, ramp filter and the filtered back-projection."""

import os
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose

from src import solvers

FIXTURES = Path(os.environ.get("IMAGING101_FIXTURES", Path(__file__).parents[1] / "fixtures")) / "solvers"
GEOMETRY = ("source_to_isocentre_mm", "source_to_detector_mm", "n_cells", "cell_pitch_mm", "scan_start_rad")


def fixture(name):
    with np.load(FIXTURES / f"{name}.npz", allow_pickle=False) as stored:
        return {key: stored[key] for key in stored.files}


def fbp_arguments(stored):
    geom = {key: stored[key].item() for key in GEOMETRY}
    grid = stored["n_pixels"].item(), stored["fov"].item()
    return stored["line_integrals"], stored["betas"], geom, *grid, stored["weights"]


def disc_scan(geom, betas, x0, y0, radius):
    """Chords through a disc of 1 / mm from the distance of each ray to its centre."""
    d_so, d_sd = geom["source_to_isocentre_mm"], geom["source_to_detector_mm"]
    u = (np.arange(geom["n_cells"]) - (geom["n_cells"] - 1) / 2) * geom["cell_pitch_mm"]
    gamma, beta = np.arctan(u / d_sd)[None, :], betas[:, None]
    normal = beta + np.pi / 2 - gamma
    distance = d_so * np.sin(gamma) - x0 * np.cos(normal) - y0 * np.sin(normal)
    return 2 * np.sqrt(np.maximum(radius**2 - distance**2, 0))


SCANNER = {
    "source_to_isocentre_mm": 400.0,
    "source_to_detector_mm": 800.0,
    "n_cells": 129,
    "cell_pitch_mm": 2.0,
}


def full_turn(n_views=240):
    return np.arange(n_views) * 2 * np.pi / n_views


def test_parker_weights_match_the_fixture():
    stored = fixture("parker_weights")
    w = solvers.parker_weights(stored["scan_angles"], stored["gamma"], stored["gamma_max"].item())
    assert w.shape == stored["weights"].shape
    assert_allclose(w, stored["weights"], rtol=1e-8, atol=1e-10)


def test_parker_weights_of_a_redundant_pair_add_to_one():
    gamma_max = fixture("parker_weights")["gamma_max"].item()
    for gamma in np.linspace(-0.95, 0.95, 7) * gamma_max:
        first = np.linspace(0.02, 0.98, 11) * 2 * (gamma_max + gamma)
        w = solvers.parker_weights(first, np.array([gamma]), gamma_max)
        partner = solvers.parker_weights(first + np.pi - 2 * gamma, np.array([-gamma]), gamma_max)
        assert_allclose(w + partner, 1.0, atol=1e-10)


def test_parker_weights_are_one_in_the_middle_and_zero_outside_the_scan():
    gamma_max = 0.2
    gamma = np.linspace(-1, 1, 9) * gamma_max
    assert_allclose(solvers.parker_weights(np.array([np.pi / 2 + gamma_max]), gamma, gamma_max), 1.0)
    outside = solvers.parker_weights(np.array([-0.01, np.pi + 2 * gamma_max + 0.01]), gamma, gamma_max)
    assert_allclose(outside, 0.0, atol=1e-15)


def test_parker_weights_are_finite_at_the_edges_of_the_fan():
    w = solvers.parker_weights(np.linspace(0, np.pi + 0.4, 50), np.array([-0.2, 0.2]), 0.2)
    assert np.all(np.isfinite(w))
    assert w.min() >= 0
    assert w.max() <= 1


@pytest.mark.parametrize("gamma_max", [0.0, 1.6, 0.05])
def test_parker_weights_refuse_a_wrong_largest_angle(gamma_max):
    with pytest.raises(ValueError):
        solvers.parker_weights(np.array([0.1]), np.array([-0.1, 0.1]), gamma_max)


@pytest.mark.parametrize("window", ["ram-lak", "shepp-logan", "hann"])
def test_ramp_response_matches_the_cosine_sum(window):
    stored = fixture("ramp_response")
    response = solvers.ramp_response(stored["n_fft"].item(), stored["ds"].item(), window)
    assert response.dtype == np.float64
    scale = stored["ram_lak"].max()
    assert_allclose(response, stored[window.replace("-", "_")], rtol=1e-8, atol=1e-10 * scale)


def test_ramp_response_is_the_modulus_of_frequency_with_a_small_positive_mean():
    n_fft, ds = 512, 0.8
    response = solvers.ramp_response(n_fft, ds, "ram-lak")
    frequency = np.abs(np.fft.fftfreq(n_fft, ds))
    assert_allclose(response[20:256], frequency[20:256], rtol=0.01)
    assert 0 < response[0] < frequency[1]


def test_ramp_response_scales_inversely_with_the_spacing():
    assert_allclose(
        solvers.ramp_response(64, 0.5, "hann"), 4 * solvers.ramp_response(64, 2.0, "hann"), rtol=1e-9
    )


@pytest.mark.parametrize(
    ("n_fft", "ds", "window"), [(63, 1.0, "hann"), (0, 1.0, "hann"), (64, 0.0, "hann"), (64, 1.0, "boxcar")]
)
def test_ramp_response_refuses_bad_arguments(n_fft, ds, window):
    with pytest.raises(ValueError):
        solvers.ramp_response(n_fft, ds, window)


def test_fbp_matches_convolution_in_space():
    stored = fixture("fanbeam_fbp")
    mu = solvers.fanbeam_fbp(*fbp_arguments(stored), "hann")
    assert mu.dtype == np.float64
    assert_allclose(mu, stored["mu"], rtol=1e-7, atol=1e-9 * np.abs(stored["mu"]).max())


def test_fbp_uses_the_hann_window_unless_told():
    arguments = fbp_arguments(fixture("fanbeam_fbp"))
    assert_allclose(solvers.fanbeam_fbp(*arguments), solvers.fanbeam_fbp(*arguments, "hann"), rtol=1e-12)


def test_fbp_of_a_short_scan_shows_the_phantom_upright():
    stored = fixture("fanbeam_fbp")
    mu = solvers.fanbeam_fbp(*fbp_arguments(stored), "hann")
    right = np.corrcoef(mu.ravel(), stored["truth"].ravel())[0, 1]
    assert right > 0.95
    for wrong in (mu.T, mu[::-1], mu[:, ::-1]):
        assert np.corrcoef(wrong.ravel(), stored["truth"].ravel())[0, 1] < right - 0.03


@pytest.mark.parametrize("window", ["ram-lak", "shepp-logan", "hann"])
def test_fbp_of_a_full_turn_recovers_the_attenuation_of_a_disc(window):
    betas = full_turn()
    p = 0.02 * disc_scan(SCANNER, betas, 12.0, -7.0, 25.0)
    mu = solvers.fanbeam_fbp(p, betas, SCANNER, 61, 122.0, 0.5, window)
    x = np.arange(61) * 2.0 - 60.0
    distance = np.hypot(x[None, :] - 12.0, -x[:, None] + 7.0)
    assert_allclose(mu[distance < 18].mean(), 0.02, rtol=0.003)
    assert np.abs(mu[distance < 18] - 0.02).max() < 6e-4
    assert abs(mu[(distance > 32) & (distance < 45)].mean()) < 1e-4


@pytest.mark.parametrize(("x0", "y0"), [(30.0, 0.0), (0.0, 24.0), (-18.0, -30.0)])
def test_fbp_puts_a_small_disc_where_it_is(x0, y0):
    betas = full_turn(120)
    p = disc_scan(SCANNER, betas, x0, y0, 4.0)
    mu = solvers.fanbeam_fbp(p, betas, SCANNER, 61, 122.0, 0.5, "hann")
    x = (np.arange(61) * 2.0 - 60.0)[None, :]
    near = mu * (np.hypot(x - x0, -x.T - y0) < 10)
    assert (near * x).sum() / near.sum() == pytest.approx(x0, abs=0.05)
    assert (near * -x.T).sum() / near.sum() == pytest.approx(y0, abs=0.05)


def test_fbp_is_linear_in_the_line_integrals():
    p, *rest = fbp_arguments(fixture("fanbeam_fbp"))
    other = p[::-1, ::-1] ** 2
    combined = solvers.fanbeam_fbp(2 * p - 3 * other, *rest, "hann")
    separate = 2 * solvers.fanbeam_fbp(p, *rest, "hann") - 3 * solvers.fanbeam_fbp(other, *rest, "hann")
    assert_allclose(combined, separate, atol=1e-9 * np.abs(separate).max())


def test_fbp_turns_the_image_when_the_scan_turns():
    stored = fixture("fanbeam_fbp")
    p, betas, *rest = fbp_arguments(stored)
    turned = solvers.fanbeam_fbp(p, betas + np.pi / 2, *rest, "hann")
    mu = solvers.fanbeam_fbp(p, betas, *rest, "hann")
    assert_allclose(turned, np.rot90(mu), atol=1e-9 * np.abs(mu).max())


def test_fbp_refuses_arrays_that_disagree_and_uneven_views():
    p, betas, *rest = fbp_arguments(fixture("fanbeam_fbp"))
    with pytest.raises(ValueError):
        solvers.fanbeam_fbp(p[:, 1:], betas, *rest, "hann")
    with pytest.raises(ValueError):
        solvers.fanbeam_fbp(p, betas**2, *rest, "hann")
    with pytest.raises(ValueError):
        solvers.fanbeam_fbp(p, betas[::-1], *rest, "hann")
