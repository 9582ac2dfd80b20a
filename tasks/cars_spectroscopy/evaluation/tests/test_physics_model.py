"""Tests of src/physics_model.py against README.md and design.md."""

import os
from pathlib import Path

import numpy as np
import pytest

from src import physics_model as pm

FIXTURES = Path(os.environ.get("IMAGING101_FIXTURES", "evaluation/fixtures")) / "physics_model"
C2 = 1.438777


def load(name):
    with np.load(FIXTURES / f"{name}.npz") as stored:
        return {key: stored[key] if stored[key].ndim else stored[key].item() for key in stored.files}


def assert_close_to_peak(found, expected, tolerance):
    np.testing.assert_allclose(found, expected, rtol=0, atol=tolerance * np.abs(expected).max())


def test_term_energies():
    f = load("term_energies")
    np.testing.assert_allclose(pm.term_energies(f["v"], f["J"]), f["expected"], rtol=1e-10, atol=1e-9)


def test_term_energies_start_at_zero_and_place_the_band_head():
    assert abs(float(pm.term_energies(0, 0))) < 1e-12
    assert abs(float(pm.term_energies(1, 0)) - 2329.91) < 0.01
    assert abs(float(pm.term_energies(0, 1)) - 2 * 1.98958) < 1e-3


def test_term_energies_broadcast():
    grid = pm.term_energies(np.arange(3)[:, None], np.arange(5)[None, :])
    assert grid.shape == (3, 5)


@pytest.mark.parametrize(("v", "J"), [(-1, 0), (0, np.array([3, -2]))])
def test_term_energies_refuse_negative_quantum_numbers(v, J):
    with pytest.raises(ValueError):
        pm.term_energies(v, J)


def test_populations():
    f = load("populations")
    found = pm.populations(f["T_K"], f["v_max"], f["j_max"])
    np.testing.assert_allclose(found, f["expected"], rtol=1e-8)
    assert abs(found.sum() - 1) < 1e-12


def test_populations_have_twice_as_many_even_as_odd_molecules():
    rho = pm.populations(1500.0, 5, 90)
    assert abs(rho[:, ::2].sum() / rho[:, 1::2].sum() - 2) < 1e-3


def test_populations_refuse_a_temperature_of_zero():
    with pytest.raises(ValueError):
        pm.populations(0.0, 2, 20)


def test_q_branch_lines():
    f = load("q_branch_lines")
    shift, strength = pm.q_branch_lines(f["T_K"], f["v_max"], f["j_max"])
    np.testing.assert_allclose(shift, f["shift"], rtol=1e-10)
    np.testing.assert_allclose(strength, f["strength"], rtol=1e-8)


def test_q_branch_lines_default_levels():
    shift, strength = pm.q_branch_lines(2000.0)
    assert shift.shape == strength.shape == (5, 71)


def test_meg_rates():
    f = load("meg_rates")
    found = pm.meg_rates(f["T_K"], f["p_atm"], f["j_max"])
    np.testing.assert_allclose(found, f["expected"], rtol=1e-8, atol=1e-15)


def test_meg_rates_give_the_known_half_width_at_room_temperature():
    half_width = pm.meg_rates(295.0, 1.0, 60)[:, 8].sum()
    assert abs(half_width - 0.0443) < 1e-4


def test_meg_rates_obey_detailed_balance():
    T, J = 900.0, np.arange(31)
    rates = pm.meg_rates(T, 2.0, 30)
    energy = 1.989581 * J * (J + 1) - 5.76e-6 * (J * (J + 1.0)) ** 2
    flow = rates * ((2 * J + 1) * np.exp(-C2 * energy / T))[None, :]
    np.testing.assert_allclose(flow, flow.T, rtol=1e-6, atol=1e-18)


def test_meg_rates_are_proportional_to_pressure_and_change_j_by_even_steps():
    rates = pm.meg_rates(700.0, 1.0, 25)
    np.testing.assert_allclose(pm.meg_rates(700.0, 5.0, 25), 5 * rates, rtol=1e-12)
    J = np.arange(26)
    forbidden = (J[:, None] - J[None, :]) % 2 == 1
    assert np.all(rates[forbidden] == 0)
    assert np.all(np.diag(rates) == 0)
    assert np.all(rates[~forbidden & ~np.eye(26, dtype=bool)] > 0)


@pytest.mark.parametrize(("T_K", "p_atm"), [(-5.0, 1.0), (300.0, 0.0), (np.nan, 1.0)])
def test_meg_rates_refuse_bad_conditions(T_K, p_atm):
    with pytest.raises(ValueError):
        pm.meg_rates(T_K, p_atm, 20)


def test_raman_sum_is_the_resolvent():
    f = load("raman_sum")
    assert_close_to_peak(pm.raman_sum(f["T_K"], f["p_atm"], f["nu"]), f["expected"], 1e-7)


def test_raman_sum_is_absorptive_and_keeps_the_sum_rule():
    nu = np.arange(1300.0, 3300.0, 0.04)
    sigma = pm.raman_sum(300.0, 5.0, nu)
    assert sigma.imag.min() > 0
    # strengths of all lines at 300 K: (v+1)(rho_v - rho_v+1) telescopes to 1; the wings beyond carry 1e-4
    assert abs(sigma.imag.sum() * 0.04 / np.pi - 1) < 5e-4


def test_raman_sum_falls_as_one_over_detuning():
    sigma = pm.raman_sum(300.0, 5.0, np.array([-1.0e6, 1.0e6]))
    np.testing.assert_allclose(sigma.real * np.array([1.0e6, -1.0e6]), 1.0, rtol=5e-3)


def test_raman_sum_narrows_with_pressure():
    """Mixed lines collapse into a band that grows higher and narrower; isolated ones only broaden."""
    nu = np.arange(2315.0, 2335.0, 0.01)
    thin, dense = (pm.raman_sum(300.0, p, nu).imag for p in (10.0, 40.0))
    assert dense.max() > 1.05 * thin.max()
    assert np.sum(dense > dense.max() / 2) < 0.95 * np.sum(thin > thin.max() / 2)


def test_raman_sum_at_low_pressure_shows_isolated_lines():
    """The peak of Q(20), far from its neighbours, is strength / half width."""
    shift, strength = pm.q_branch_lines(300.0)
    p = 1e-4
    half_width = pm.meg_rates(300.0, p)[:, 20].sum()
    peak = pm.raman_sum(300.0, p, shift[0, 20:21])[0]
    assert abs(peak.imag * half_width / strength[0, 20] - 1) < 1e-3


def test_convolved_terms():
    f = load("convolved_terms")
    interference, resonant = pm.convolved_terms(f["T_K"], f["p_atm"], f["nu"], tuple(f["widths"].tolist()))
    assert_close_to_peak(interference, f["interference"], 1e-6)
    assert_close_to_peak(resonant, f["resonant"], 1e-6)


def test_convolved_terms_of_a_gaussian_instrument_match_quadrature():
    f = load("convolved_terms")
    interference, resonant = pm.convolved_terms(f["T_K"], f["p_atm"], f["nu"], (float(f["widths"][0]), 0.0))
    assert_close_to_peak(interference, f["gauss_interference"], 1e-6)
    assert_close_to_peak(resonant, f["gauss_resonant"], 1e-6)


def test_convolved_terms_conserve_area():
    nu = np.arange(2100.0, 2550.0, 0.1)
    narrow = pm.convolved_terms(1200.0, 5.0, nu, (0.5, 0.0))[1].sum()
    wide = pm.convolved_terms(1200.0, 5.0, nu, (1.4, 0.0))[1].sum()
    assert abs(wide / narrow - 1) < 1e-5


@pytest.mark.parametrize("widths", [(0.0, 0.2), (0.9, -0.1)])
def test_convolved_terms_refuse_bad_widths(widths):
    with pytest.raises(ValueError):
        pm.convolved_terms(300.0, 1.0, np.linspace(2320, 2330, 5), widths)


def test_convolved_terms_refuse_an_axis_that_is_not_one_dimensional():
    with pytest.raises(ValueError):
        pm.convolved_terms(300.0, 1.0, np.full((2, 2), 2320.0), (0.9, 0.2))


def test_combine_terms_is_the_squared_modulus():
    f = load("combine_terms")
    found = pm.combine_terms(f["interference"], f["resonant"], f["x_n2"], f["buffer_ratio"])
    np.testing.assert_allclose(found, f["expected"], rtol=1e-10)


def test_combine_terms_without_resonance_is_the_background():
    zero = np.zeros(3)
    np.testing.assert_allclose(pm.combine_terms(zero, zero, 0.6, 1.25), 1.1**2, rtol=1e-12)


@pytest.mark.parametrize("x_n2", [0.0, 1.2, -0.3])
def test_combine_terms_refuse_an_impossible_fraction(x_n2):
    with pytest.raises(ValueError):
        pm.combine_terms(np.ones(2), np.ones(2), x_n2, 1.25)


def test_cars_spectrum():
    f = load("cars_spectrum")
    scene = f["T_K"], f["x_n2"], f["p_atm"], f["nu"]
    widths = tuple(f["widths"].tolist())
    assert_close_to_peak(pm.cars_spectrum(*scene, widths, f["buffer_ratio"]), f["expected"], 1e-6)
    narrow = pm.cars_spectrum(*scene, (widths[0], 0.0), f["buffer_ratio"])
    assert_close_to_peak(narrow, f["gauss_expected"], 1e-6)


def test_cars_spectrum_interferes_constructively_below_the_band():
    """Far from all lines Sigma is 1 / (2329 - nu): it adds to the background below and cancels it above."""
    below, above = pm.cars_spectrum(300.0, 1.0, 5.0, np.array([2230.0, 2375.0]), (0.9, 0.0), 1.25)
    assert abs(below - (1 + 53.4 / 98) ** 2) < 0.03
    assert above < 0.05
