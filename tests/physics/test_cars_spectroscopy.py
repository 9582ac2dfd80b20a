"""Analytic checks of the N2 CARS model: thermochemistry, Kramers-Kronig, time domain, pressure limits.

No Python library computes N2 CARS with line mixing; tabulated heat capacities and other numerics check it.
"""

import importlib.util
from itertools import pairwise
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.linalg import expm
from scipy.special import voigt_profile

TASK = Path(__file__).resolve().parents[2] / "tasks" / "cars_spectroscopy"
C2_CM_K = 1.438777


@pytest.fixture(scope="module")
def model() -> ModuleType:
    # by file: every task has a package called src
    spec = importlib.util.spec_from_file_location("cars_physics_model", TASK / "src" / "physics_model.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _band(model, T_K, p_atm, v):
    """Line matrix K_v (both parities) and strengths of one vibrational level."""
    shift, strength = model.q_branch_lines(T_K)
    rates = model.meg_rates(T_K, p_atm)
    return np.diag(shift[v]) - 1j * (np.diag(rates.sum(axis=0)) - rates), strength[v]


@pytest.mark.parametrize(("T_K", "cp"), [(300.0, 29.125), (1000.0, 32.697), (2000.0, 35.971)])
def test_populations_give_the_tabulated_heat_capacity(model, T_K, cp):
    """NIST-JANAF C_p of N2 in J/(mol K): translation and p V give 5/2 R, the levels their energy variance."""
    v_max, j_max = 15, 120
    energy = model.term_energies(np.arange(v_max + 1)[:, None], np.arange(j_max + 1)[None, :]) * C2_CM_K / T_K
    rho = model.populations(T_K, v_max, j_max)
    variance = (rho * energy**2).sum() - (rho * energy).sum() ** 2
    assert 8.314463 * (2.5 + variance) == pytest.approx(cp, abs=0.03)


def test_partition_sum_approaches_the_classical_rotor(model):
    """rho(0, 0) = 6 / Z with Z ~ 9/2 (T / (c2 B) + 1/3) / (1 - exp(-c2 w / T))."""
    T_K, band, B_0 = 600.0, 2329.91, 1.98958
    rotor = 4.5 * (T_K / (C2_CM_K * B_0) + 1 / 3) / (1 - np.exp(-C2_CM_K * band / T_K))
    assert model.populations(T_K, 6, 100)[0, 0] == pytest.approx(6 / rotor, rel=2e-3)


def test_equilibrium_is_stationary_under_the_rates(model):
    rates, J = model.meg_rates(1500.0, 5.0, 60), np.arange(61)
    rho = (2 * J + 1) * np.exp(-C2_CM_K * model.term_energies(0, J) / 1500.0)
    net = rates @ rho - rates.sum(axis=0) * rho
    assert np.abs(net).max() < 1e-12 * (rates.sum(axis=0) * rho).max()


def test_half_widths_fall_with_temperature_and_rotation(model):
    room, flame = (model.meg_rates(T_K, 1.0).sum(axis=0) for T_K in (295.0, 1730.0))
    assert 2 * room[8] == pytest.approx(0.0886, abs=5e-4)
    assert np.all(flame[:30] < room[:30])
    assert np.all(np.diff(room[2:30]) < 0)


def test_raman_sum_obeys_kramers_kronig(model):
    """Re Sigma(nu) = (1/pi) P int Im Sigma(n) / (n - nu) dn."""
    step = 0.01
    grid = np.arange(2130.0, 2470.0, step)
    sigma = model.raman_sum(1200.0, 5.0, grid)
    for index in (15000, 18000, 19750, 20300):
        # nodes half a step off the pole on both sides make the principal value a plain sum
        odd = np.arange(1 - index % 2, grid.size, 2)
        real = 2 * step * (sigma.imag[odd] / (grid[odd] - grid[index])).sum() / np.pi
        assert real == pytest.approx(sigma.real[index], abs=2e-3 * np.abs(sigma).max())


def test_raman_sum_is_the_transform_of_the_relaxing_coherence(model):
    """Sigma(nu) = sum_v i int_0^inf 1^T exp(-i (K_v - nu) t) s_v dt, in steps of the matrix exponential."""
    T_K, p_atm, nu, dt, steps = 500.0, 5.0, 2326.4, 0.002, 60000
    total = 0j
    for v in range(3):
        K, s = _band(model, T_K, p_atm, v)
        step = expm(-1j * dt * (K - nu * np.eye(s.size)))
        state, samples = s.astype(complex), np.empty(steps, dtype=complex)
        for n in range(steps):
            samples[n] = state.sum()
            state = step @ state
        total += 1j * dt * (samples.sum() - 0.5 * samples[0])
    expected = model.raman_sum(T_K, p_atm, np.array([nu]))[0]
    assert abs(total - expected) < 1e-3 * abs(expected)


def test_lines_are_isolated_at_low_pressure(model):
    T_K, p_atm = 300.0, 0.001
    shift, strength = model.q_branch_lines(T_K)
    half_width = model.meg_rates(T_K, p_atm).sum(axis=0)
    nu = shift[0, 16:22] + 0.7 * half_width[16:22]
    lines = strength / (shift - nu[:, None, None] - 1j * half_width)
    np.testing.assert_allclose(model.raman_sum(T_K, p_atm, nu), lines.sum(axis=(1, 2)), rtol=2e-3)


def test_band_collapses_at_high_pressure(model):
    """Motional narrowing: in the limit one line is left at the mean shift, its width falls as 1 / p."""
    nu = np.arange(2325.0, 2331.0, 0.0005)
    widths = []
    for p_atm in (4000.0, 8000.0):
        band = model.raman_sum(300.0, p_atm, nu).imag
        widths.append(0.0005 * np.count_nonzero(band > band.max() / 2))
    assert widths[1] == pytest.approx(0.5 * widths[0], rel=0.05)
    shift, strength = model.q_branch_lines(300.0)
    mean = (shift[0] * strength[0]).sum() / strength[0].sum()
    assert nu[band.argmax()] == pytest.approx(mean, abs=0.05)


def test_convolved_terms_match_adaptive_quadrature(model):
    T_K, p_atm, widths, nu = 1800.0, 5.0, (0.9, 0.25), 2327.0
    found = model.convolved_terms(T_K, p_atm, np.array([nu]), widths)
    s = widths[0] / np.sqrt(8 * np.log(2))
    poles, residues = model._poles(T_K, p_atm)

    def integrand(offset, squared):
        sigma = (residues / (poles - nu + offset)).sum()
        return voigt_profile(offset, s, widths[1] / 2) * (abs(sigma) ** 2 if squared else 2 * sigma.real)

    edges = [-3000.0, -300.0, *np.arange(-100.0, 100.5, 0.5), 300.0, 3000.0]
    for squared in (False, True):
        total = sum(
            quad(integrand, a, b, args=(squared,), limit=200, epsabs=1e-8, epsrel=1e-7)[0]
            for a, b in pairwise(edges)
        )
        assert float(found[int(squared)][0]) == pytest.approx(total, rel=1e-4, abs=1e-6)


def test_interference_is_constructive_below_and_destructive_above_the_band(model):
    """Far from the lines Sigma = sum of strengths / (mean shift - nu)."""
    nu = np.array([2150.0, 2500.0])
    sigma = model.raman_sum(300.0, 5.0, nu)
    np.testing.assert_allclose(sigma.real * (2328.1 - nu), 1.0, rtol=2e-3)
    chi = 53.4 * sigma + 1.0
    exact = model.cars_spectrum(300.0, 1.0, 5.0, nu, (0.05, 0.0), 1.25)
    np.testing.assert_allclose(exact, np.abs(chi) ** 2, rtol=1e-4)
    assert exact[0] > 1 > exact[1]
