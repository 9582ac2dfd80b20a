"""Forward model of the N2 Q-branch CARS spectrum: levels, line mixing, susceptibility, intensity.

Raman shifts, energies and half widths in cm^-1, temperatures in K, pressures in atm. The time convention is
exp(-i w t): a resonance is 1 / (w_j - nu - i Gamma_j), so its imaginary part is positive.
"""

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import wofz

FloatArray = NDArray[np.float64]
ComplexArray = NDArray[np.complex128]

C2_CM_K = 1.438777  # second radiation constant h c / k
V_MAX = 4  # last lower vibrational level
J_MAX = 70  # last rotational level

# N2 X 1Sigma_g+, K. P. Huber and G. Herzberg, Constants of Diatomic Molecules (1979), cm^-1
OMEGA_E, OMEGA_E_X_E, OMEGA_E_Y_E = 2358.57, 14.324, -0.00226
B_E, ALPHA_E, D_E = 1.99824, 0.017318, 5.76e-6

# Modified exponential gap law for N2-N2, L. A. Rahn and R. E. Palmer, JOSA B 3, 1164 (1986)
MEG_ALPHA, MEG_BETA, MEG_DELTA, MEG_M, MEG_T0_K = 0.0231, 1.67, 1.21, 0.1487, 295.0

RESONANT_SCALE = 53.4  # R, cm^-1: resonant susceptibility in units of the non-resonant one of N2


def term_energies(v: ArrayLike, J: ArrayLike) -> FloatArray:
    """Energy of the levels (v, J) above (0, 0), in cm^-1; v and J broadcast against each other.

    E = G(v) - G(0) + B_v J(J+1) - D_e J^2 (J+1)^2, G(v) = we u - wexe u^2 + weye u^3, u = v + 1/2,
    B_v = B_e - alpha_e u. Raises ValueError for negative quantum numbers.
    """
    v, J = np.asarray(v, dtype=float), np.asarray(J, dtype=float)
    for name, numbers in (("v", v), ("J", J)):
        if numbers.size and not numbers.min() >= 0:
            raise ValueError(f"{name} must hold quantum numbers >= 0, got {numbers.min()}")

    def vibrational(u: ArrayLike) -> FloatArray:
        return np.polyval([OMEGA_E_Y_E, -OMEGA_E_X_E, OMEGA_E, 0.0], u)

    u, jj = v + 0.5, J * (J + 1.0)
    return vibrational(u) - vibrational(0.5) + (B_E - ALPHA_E * u) * jj - D_E * jj**2


def populations(T_K: float, v_max: int, j_max: int) -> FloatArray:
    """Boltzmann fractions rho[v, J] for v = 0..v_max and J = 0..j_max; they sum to 1.

    rho ~ g_J (2J+1) exp(-c2 E(v, J) / T) with the nuclear weights g_J = 6 (even J) and 3 (odd J).
    Raises ValueError unless T_K is positive and finite.
    """
    _require_positive("T_K", T_K)
    v, J = np.arange(v_max + 1)[:, None], np.arange(j_max + 1)[None, :]
    weight = np.where(J % 2 == 0, 6.0, 3.0) * (2 * J + 1)
    rho = weight * np.exp(-C2_CM_K * term_energies(v, J) / T_K)
    return rho / rho.sum()


def q_branch_lines(T_K: float, v_max: int = V_MAX, j_max: int = J_MAX) -> tuple[FloatArray, FloatArray]:
    """Raman shifts (cm^-1) and strengths of the lines (v, J) -> (v+1, J), each [v_max+1, j_max+1].

    The strength is (v+1) (rho[v, J] - rho[v+1, J]); populations are normalised over v = 0..v_max+1.
    """
    rho = populations(T_K, v_max + 1, j_max)
    v, J = np.arange(v_max + 2)[:, None], np.arange(j_max + 1)[None, :]
    shift = np.diff(term_energies(v, J), axis=0)
    return shift, (v[:-1] + 1) * (rho[:-1] - rho[1:])


def meg_rates(T_K: float, p_atm: float, j_max: int = J_MAX) -> FloatArray:
    """Rotational transfer rates g[J_final, J_initial] in cm^-1 (half width), diagonal zero.

    Modified exponential gap law upward, detailed balance downward, even changes of J only. The sum over
    a column is the half width at half maximum of that line, gamma_J.
    Raises ValueError unless T_K and p_atm are positive and finite.
    """
    _require_positive("T_K", T_K)
    _require_positive("p_atm", p_atm)
    J = np.arange(j_max + 1)
    energy = C2_CM_K * term_energies(0, J) / T_K  # in units of kT
    thermal = (1 - np.exp(-MEG_M)) / (1 - np.exp(-MEG_M * T_K / MEG_T0_K)) * np.sqrt(MEG_T0_K / T_K)
    by_initial = ((1 + 1.5 * energy / MEG_DELTA) / (1 + 1.5 * energy)) ** 2
    gap = energy[:, None] - energy[None, :]
    final, initial = J[:, None], J[None, :]
    same_parity = (final - initial) % 2 == 0
    up = np.where(same_parity & (final > initial), np.exp(-MEG_BETA * np.abs(gap)), 0.0) * by_initial
    # rho_i g_ji = rho_j g_ij; the exponentials are merged so that large gaps cannot overflow
    down_gap = np.where(same_parity & (final < initial), np.exp(-(MEG_BETA - 1) * np.abs(gap)), 0.0)
    down = down_gap * by_initial[:, None] * (2 * final + 1) / (2 * initial + 1)
    return p_atm * MEG_ALPHA * thermal * (up + down)


def raman_sum(T_K: float, p_atm: float, nu: FloatArray) -> ComplexArray:
    """Sigma(nu) = sum_v 1^T (K_v - nu)^-1 s_v in cm, complex128 of the shape of nu (cm^-1)."""
    nu = np.asarray(nu, dtype=float)
    sigma = np.zeros(nu.shape, dtype=complex)
    for pole, residue in zip(*_poles(T_K, p_atm), strict=True):  # one pole at a time: nu may be long
        sigma += residue / (pole - nu)
    return sigma


def convolved_terms(
    T_K: float, p_atm: float, nu: FloatArray, widths: tuple[float, float]
) -> tuple[FloatArray, FloatArray]:
    """Interference 2 Re Sigma (cm) and resonant |Sigma|^2 (cm^2), convolved with the instrument, at nu[N].

    widths = (Gaussian FWHM, Lorentzian FWHM) in cm^-1; the instrument is the unit-area convolution of both.
    Partial fractions turn |Sigma|^2 into simple poles below the real axis, and a simple pole convolved with
    a Voigt profile is a Faddeeva function, so no spectral grid enters.
    Raises ValueError unless nu has one axis, the Gaussian width is positive, the Lorentzian one not negative.
    """
    gauss, lorentz = widths
    _require_positive("widths[0]", gauss)
    if not lorentz >= 0:
        raise ValueError(f"widths[1], the Lorentzian FWHM, must be >= 0, got {lorentz}")
    nu = _shift_axis(nu)
    poles, residues = _poles(T_K, p_atm)
    squared = residues * (residues.conj() / (poles.conj() - poles[:, None])).sum(axis=1)
    scale = gauss / (2 * np.sqrt(np.log(2)))  # sqrt(2) times the Gaussian's standard deviation
    voigt = wofz((nu + 0.5j * lorentz - poles[:, None]) / scale) * (1j * np.sqrt(np.pi) / scale)
    interference, resonant = 2 * (np.stack([residues, squared]) @ voigt).real
    return interference, resonant


def combine_terms(
    interference: FloatArray, resonant: FloatArray, x_n2: float, buffer_ratio: float
) -> FloatArray:
    """|chi|^2 of chi = x R Sigma + c with c = x + (1 - x) b, from the two terms of `convolved_terms`.

    x_n2 is the N2 mole fraction in (0, 1], buffer_ratio = b the non-resonant susceptibility of the other
    gases relative to N2. Dimensionless: 1 is the non-resonant signal of pure N2. Raises ValueError for x_n2
    outside (0, 1].
    """
    if not 0 < x_n2 <= 1:
        raise ValueError(f"x_n2 must be a mole fraction in (0, 1], got {x_n2}")
    background = x_n2 + (1 - x_n2) * buffer_ratio
    amplitude = x_n2 * RESONANT_SCALE
    return amplitude**2 * resonant + amplitude * background * interference + background**2


def cars_spectrum(
    T_K: float,
    x_n2: float,
    p_atm: float,
    nu: FloatArray,
    widths: tuple[float, float],
    buffer_ratio: float,
) -> FloatArray:
    """CARS intensity |chi|^2 convolved with the instrument, float64 [N] at the Raman shifts nu[N]."""
    interference, resonant = convolved_terms(T_K, p_atm, nu, widths)
    return combine_terms(interference, resonant, x_n2, buffer_ratio)


def _poles(T_K: float, p_atm: float) -> tuple[ComplexArray, ComplexArray]:
    """Poles and residues of Sigma(nu) = sum_k residue_k / (pole_k - nu), all poles below the real axis."""
    shift, strength = q_branch_lines(T_K)
    rates = meg_rates(T_K, p_atm)
    relaxation = np.diag(rates.sum(axis=0)) - rates
    poles, residues = [], []
    for parity in (0, 1):  # even and odd J do not mix
        block = slice(parity, None, 2)
        lines = np.eye(shift[0, block].size) * shift[:, None, block]
        values, vectors = np.linalg.eig(lines - 1j * relaxation[block, block])
        weights = np.linalg.solve(vectors, strength[:, block, None].astype(complex))[..., 0]
        poles.append(values.ravel())
        residues.append((vectors.sum(axis=1) * weights).ravel())
    return np.concatenate(poles), np.concatenate(residues)


def _require_positive(name: str, value: float) -> None:
    if not (np.isfinite(value) and value > 0):
        raise ValueError(f"{name} must be a positive finite number, got {value}")


def _shift_axis(nu: FloatArray) -> FloatArray:
    nu = np.asarray(nu, dtype=float)
    if nu.ndim != 1:
        raise ValueError(f"nu must be a one-dimensional array of Raman shifts, got shape {nu.shape}")
    return nu
