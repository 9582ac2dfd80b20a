"""Weighted least-squares thermometry: temperature library, fit of one spectrum, fit of the whole line."""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.interpolate import RectBivariateSpline
from scipy.optimize import least_squares

from src.physics_model import combine_terms, convolved_terms

FloatArray = NDArray[np.float64]
Library = dict[str, Any]

MAX_SHIFT = 0.3  # cm^-1, bound of the spectrometer's wavelength shift
MIN_FRACTION = 0.05  # bound of the mole fraction
SCAN_FRACTIONS = (0.5, 0.65, 0.8)


def build_library(
    temperatures_K: FloatArray, p_atm: float, nu_fine: FloatArray, widths: tuple[float, float]
) -> Library:
    """The two terms of `convolved_terms` on a grid of temperatures [nT] and Raman shifts [N], both ascending.

    Returns dict(temperatures_K [nT], nu [N], interference [nT, N] in cm, resonant [nT, N] in cm^2).
    Raises ValueError for grids that are not ascending or have fewer than four nodes (cubic interpolation).
    """
    temperatures_K, nu_fine = np.asarray(temperatures_K, dtype=float), np.asarray(nu_fine, dtype=float)
    for name, grid in (("temperatures_K", temperatures_K), ("nu_fine", nu_fine)):
        if grid.ndim != 1 or grid.size < 4 or not np.all(np.diff(grid) > 0):
            raise ValueError(f"{name} must ascend and have at least 4 nodes, got shape {grid.shape}")
    terms = np.array([convolved_terms(T, p_atm, nu_fine, widths) for T in temperatures_K])
    return {
        "temperatures_K": temperatures_K,
        "nu": nu_fine,
        "interference": terms[:, 0],
        "resonant": terms[:, 1],
    }


def model_spectrum(
    library: Library, T_K: float, x_n2: float, shift: float, nu_pixels: FloatArray, buffer_ratio: float
) -> FloatArray:
    """Convolved |chi|^2 [B] at nu_pixels + shift, by cubic splines in ln T and Raman shift.

    Raises ValueError when T_K or a shifted pixel lies outside the library.
    """
    _check_range("T_K", T_K, library["temperatures_K"])
    _check_range("nu_pixels + shift", nu_pixels + shift, library["nu"])
    return _evaluate(_splines(library), T_K, x_n2, shift, nu_pixels, buffer_ratio)


def fit_spectrum(
    signal: FloatArray,
    sigma: FloatArray,
    library: Library,
    nu_pixels: FloatArray,
    buffer_ratio: float,
    start: tuple[float, float, float],
) -> dict[str, Any]:
    """Minimise sum(((signal - gain I(nu + shift; T, x)) / sigma)^2) over T, x, shift and gain.

    signal, sigma, nu_pixels [B]; pixels with sigma = inf do not count; start = (T_K, x, shift in cm^-1).
    Bounds: the library's temperatures, 0.05 <= x <= 1, |shift| <= 0.3.
    Returns dict(T, x, shift, gain, chi2 (per degree of freedom: counted pixels - 4),
    covariance float64 [4, 4] of (T, x, shift, gain) = inverse of J^T J of the weighted model;
    all inf if the spectrum does not depend on one of them). Raises ValueError when the arrays differ in
    length, nu_pixels does not ascend, a sigma is not positive or the library ends within 0.3 cm^-1 of them.
    """
    _check_data(signal, sigma, nu_pixels, library)
    return _fit(signal, sigma, _splines(library), library, nu_pixels, buffer_ratio, start)


def fit_profile(
    signals: FloatArray, sigmas: FloatArray, library: Library, nu_pixels: FloatArray, buffer_ratio: float
) -> dict[str, FloatArray]:
    """Fit every row of signals [R, B], each started from the best node of the library.

    Returns dict(T, x, shift, gain, chi2, sigma_T, sigma_x), float64 [R] each.
    """
    splines = _splines(library)
    fits = []
    for signal, sigma in zip(signals, sigmas, strict=True):
        _check_data(signal, sigma, nu_pixels, library)
        start = _scan_start(signal, sigma, library, nu_pixels, buffer_ratio)
        fits.append(_fit(signal, sigma, splines, library, nu_pixels, buffer_ratio, start))
    profile = {key: np.array([fit[key] for fit in fits]) for key in ("T", "x", "shift", "gain", "chi2")}
    spread = np.sqrt([np.diag(fit["covariance"]) for fit in fits])
    return profile | {"sigma_T": spread[:, 0], "sigma_x": spread[:, 1]}


def _splines(library: Library) -> tuple[RectBivariateSpline, RectBivariateSpline]:
    # in ln T the populations vary evenly from the cold to the hot end
    nodes = np.log(library["temperatures_K"]), library["nu"]
    return RectBivariateSpline(*nodes, library["interference"]), RectBivariateSpline(
        *nodes, library["resonant"]
    )


def _evaluate(
    splines: tuple[RectBivariateSpline, RectBivariateSpline],
    T_K: float,
    x_n2: float,
    shift: float,
    nu_pixels: FloatArray,
    buffer_ratio: float,
) -> FloatArray:
    interference, resonant = (spline(np.log(T_K), nu_pixels + shift)[0] for spline in splines)
    return combine_terms(interference, resonant, x_n2, buffer_ratio)


def _fit(
    signal: FloatArray,
    sigma: FloatArray,
    splines: tuple[RectBivariateSpline, RectBivariateSpline],
    library: Library,
    nu_pixels: FloatArray,
    buffer_ratio: float,
    start: tuple[float, float, float],
) -> dict[str, Any]:
    weight = 1 / sigma  # zero where saturated

    def model(p: FloatArray) -> FloatArray:
        return np.exp(p[3]) * _evaluate(splines, p[0], p[1], p[2], nu_pixels, buffer_ratio)

    def residual(p: FloatArray) -> FloatArray:
        return weight * (model(p) - signal)

    T_range = library["temperatures_K"][[0, -1]]
    lower = np.array([T_range[0], MIN_FRACTION, -MAX_SHIFT, -np.inf])
    upper = np.array([T_range[1], 1.0, MAX_SHIFT, np.inf])
    shape = weight * model(np.array([*start, 0.0]))
    log_gain = np.log(max(shape @ (weight * signal), np.finfo(float).tiny) / (shape @ shape))
    first = np.clip([*start, log_gain], lower, upper)
    scale = [100.0, 0.1, 0.05, 0.1]
    result = least_squares(residual, first, bounds=(lower, upper), x_scale=scale, xtol=1e-11, ftol=1e-11)
    T, x, shift, log_gain = result.x
    jacobian = result.jac / [1.0, 1.0, 1.0, np.exp(log_gain)]
    return {
        "T": float(T),
        "x": float(x),
        "shift": float(shift),
        "gain": float(np.exp(log_gain)),
        "chi2": float(2 * result.cost / (np.count_nonzero(weight) - 4)),
        "covariance": _inverse_normal(jacobian),
    }


def _inverse_normal(jacobian: FloatArray) -> FloatArray:
    """(J^T J)^-1 with columns brought to unit length first: kelvin and mole fractions differ by 10^4."""
    length = np.linalg.norm(jacobian, axis=0)
    if not length.min() > 0:  # a parameter that the spectrum does not depend on
        return np.full((length.size, length.size), np.inf)
    unit = jacobian / length
    return np.linalg.pinv(unit.T @ unit) / np.outer(length, length)


def _scan_start(
    signal: FloatArray, sigma: FloatArray, library: Library, nu_pixels: FloatArray, buffer_ratio: float
) -> tuple[float, float, float]:
    """Library node and trial fraction with the smallest chi2, the gain eliminated, no shift."""
    weight = 1 / sigma
    nearest = np.abs(library["nu"][None, :] - nu_pixels[:, None]).argmin(axis=1)
    best = (np.inf, 0.0, 0.0)
    for x in SCAN_FRACTIONS:
        shapes = weight * combine_terms(
            library["interference"][:, nearest], library["resonant"][:, nearest], x, buffer_ratio
        )
        # minus the chi2 that the best gain removes
        gained = -((shapes @ (weight * signal)) ** 2) / (shapes**2).sum(axis=1)
        node = int(gained.argmin())
        best = min(best, (float(gained[node]), float(library["temperatures_K"][node]), x))
    return best[1], best[2], 0.0


def _check_data(signal: FloatArray, sigma: FloatArray, nu_pixels: FloatArray, library: Library) -> None:
    if not (np.shape(signal) == np.shape(sigma) == np.shape(nu_pixels)) or np.ndim(signal) != 1:
        raise ValueError(
            "signal, sigma and nu_pixels must have one common shape [B], "
            f"got {np.shape(signal)}, {np.shape(sigma)} and {np.shape(nu_pixels)}"
        )
    if not np.all(np.diff(nu_pixels) > 0):
        raise ValueError(f"nu_pixels must ascend, its smallest step is {np.min(np.diff(nu_pixels))}")
    if not np.min(sigma) > 0:
        raise ValueError(f"sigma must be positive, its smallest value is {np.min(sigma)}")
    for edge in (-MAX_SHIFT, MAX_SHIFT):
        _check_range("nu_pixels with the largest shift", nu_pixels + edge, library["nu"])


def _check_range(name: str, values: FloatArray | float, nodes: FloatArray) -> None:
    low, high = np.min(values), np.max(values)
    if not (nodes[0] <= low and high <= nodes[-1]):
        raise ValueError(f"{name} must lie within the library's {nodes[0]}..{nodes[-1]}, got {low}..{high}")
