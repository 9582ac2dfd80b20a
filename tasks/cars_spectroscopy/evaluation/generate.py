"""Makes data/, fixtures and reference outputs of the task again, from one seed.

    python evaluation/generate.py [--out DIR]

The line image comes from a simulator of its own (the functions below): molecule and rates are written out
once more, with more levels (J <= 90, v <= 6) than the reference uses, the susceptibility is sampled every
0.006 cm^-1 and convolved numerically, where the reference expands in poles.
imaging101-canary-c298691b-347e-435e-a629-f4711a084686
"""

import argparse
import json
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
from scipy.interpolate import CubicSpline
from scipy.signal import fftconvolve
from scipy.special import expit, voigt_profile

TASK = Path(__file__).resolve().parent.parent
SEED = 19860803
STEP = 0.006  # cm^-1, a tenth of the smallest half width
MARGIN = 60.0  # cm^-1 beyond the window, where the instrument's wings end
META = {
    "pressure_atm": 5.0,
    "buffer_ratio": 1.25,
    "instrument_fwhm_gauss_cm1": 0.90,
    "instrument_fwhm_lorentz_cm1": 0.25,
    "dark_counts": 300.0,
    "read_noise_e": 6.0,
    "full_scale_counts": 65535,
    "reference_frames": 100,
}
WIDTHS = (META["instrument_fwhm_gauss_cm1"], META["instrument_fwhm_lorentz_cm1"])


# --- the flame ---------------------------------------------------------------------------------------


def flame(y_mm: np.ndarray) -> np.ndarray:
    """Temperature (K) and N2 mole fraction [2, R] from cold air to the products of an enriched flame."""
    T = 300 + 1750 * expit((y_mm - 3.0) / 0.45) - 120 * np.exp(-((y_mm - 6.5) ** 2))
    T += 70 * np.exp(-(((y_mm - 1.6) / 0.35) ** 2))
    x = 0.78 - 0.19 * expit((y_mm - 3.3) / 0.5) - 0.05 * np.exp(-(((y_mm - 4.9) / 0.6) ** 2))
    x += 0.05 * expit((y_mm - 6.6) / 0.4)
    return np.stack([T, x])


# --- the spectrum, by brute force --------------------------------------------------------------------


def energy(v: Any, J: Any) -> Any:
    """N2 term energy above (0, 0) in cm^-1."""
    u, jj = v + 0.5, J * (J + 1.0)
    vibration = 2358.57 * v - 14.324 * (u**2 - 0.25) - 0.00226 * (u**3 - 0.125)
    return vibration + (1.99824 - 0.017318 * u) * jj - 5.76e-6 * jj**2


def relaxation_matrix(T: float, p: float, J: np.ndarray) -> np.ndarray:
    """Half widths on the diagonal, minus the transfer rates elsewhere; J of one parity, [final, initial]."""
    e = 1.438777 * energy(0, J) / T
    common = p * 0.0231 * np.sqrt(295 / T) * (-np.expm1(-0.1487)) / (-np.expm1(-0.1487 * T / 295))
    matrix = np.zeros((J.size, J.size))
    for i in range(J.size):
        for j in range(i + 1, J.size):
            gap = e[j] - e[i]
            shape = ((1 + 1.5 * e[i] / 1.21) / (1 + 1.5 * e[i])) ** 2
            matrix[j, i] = -common * shape * np.exp(-1.67 * gap)
            matrix[i, j] = -common * shape * np.exp(-0.67 * gap) * (2 * J[i] + 1) / (2 * J[j] + 1)
    return matrix - np.diag(matrix.sum(axis=0))


def brute_sigma(T: float, p: float, nu: np.ndarray, v_max: int, j_max: int) -> np.ndarray:
    """Sum over the lines in cm, with the complex symmetric form that detailed balance allows."""
    J_all = np.arange(j_max + 1)
    v_all = np.arange(v_max + 2)[:, None]
    rho = np.where(J_all % 2 == 0, 6, 3) * (2 * J_all + 1) * np.exp(-1.438777 * energy(v_all, J_all) / T)
    rho /= rho.sum()
    sigma = np.zeros(nu.size, dtype=complex)
    for parity in (0, 1):
        J = J_all[parity::2]
        root = np.sqrt((2 * J + 1) * np.exp(-1.438777 * energy(0, J) / T))
        gamma = relaxation_matrix(T, p, J) * root[None, :] / root[:, None]
        gamma = 0.5 * (gamma + gamma.T)
        for v in range(v_max + 1):
            strength = (v + 1) * (rho[v, parity::2] - rho[v + 1, parity::2])
            values, vectors = np.linalg.eig(np.diag(energy(v + 1, J) - energy(v, J)) - 1j * gamma)
            residues = (root @ vectors) * np.linalg.solve(vectors, strength / root)
            for value, residue in zip(values, residues, strict=True):
                if abs(residue) > 1e-9:
                    sigma += residue / (value - nu)
    return sigma


def brute_terms(
    T: float, p: float, nu: np.ndarray, widths: tuple[float, float], v_max: int, j_max: int, step: float
) -> tuple[np.ndarray, np.ndarray]:
    """2 Re Sigma and |Sigma|^2 convolved on a fine grid, at nu."""
    half = round(MARGIN / step)
    grid = np.arange(nu.min() - MARGIN - 1, nu.max() + MARGIN + 1, step)
    sigma = brute_sigma(T, p, grid, v_max, j_max)
    kernel = voigt_profile(
        np.arange(-half, half + 1) * step, widths[0] / np.sqrt(8 * np.log(2)), widths[1] / 2
    )
    kernel /= kernel.sum()
    inner = grid[half:-half]
    pair = [fftconvolve(term, kernel, mode="valid") for term in (2 * sigma.real, np.abs(sigma) ** 2)]
    return CubicSpline(inner, pair[0])(nu), CubicSpline(inner, pair[1])(nu)


def brute_intensity(
    T: float, x: float, nu: np.ndarray, v_max: int = 6, j_max: int = 90, step: float = STEP
) -> np.ndarray:
    """Convolved |chi|^2 at nu, in units of the non-resonant signal of pure N2, at the task's pressure."""
    interference, resonant = brute_terms(T, META["pressure_atm"], nu, WIDTHS, v_max, j_max, step)
    c, a = x + (1 - x) * META["buffer_ratio"], 53.4 * x
    return c**2 + c * a * interference + a**2 * resonant


# --- the camera --------------------------------------------------------------------------------------


def dye_profile(nu: np.ndarray) -> np.ndarray:
    """Broad-band Stokes laser seen through the spectrometer, relative units."""
    z = (nu - 2309.0) / 55.0
    return np.exp(-0.5 * z**2) * (1 + 0.06 * np.sin(nu / 4.3) + 0.03 * np.cos(nu / 1.9))


def expose(spectra: np.ndarray, nu: np.ndarray, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """uint16 line image [R, B] and the mean of the reference frames [B], both with dark level and noise."""
    rows = np.arange(spectra.shape[0])
    clean = spectra * dye_profile(nu)
    # density squared, beam overlap and a graded filter that dims the cold side; a few rows saturate
    peak = (2800 + 74000 * expit((9.5 - rows) / 2)) * (1 + 0.2 * np.sin(1.7 * rows))
    mean = clean * (peak / clean.max(axis=1))[:, None]
    counts = rng.poisson(mean) + META["dark_counts"] + rng.normal(0, META["read_noise_e"], mean.shape)
    raw = np.clip(np.rint(counts), 0, META["full_scale_counts"]).astype(np.uint16)
    frames, level = META["reference_frames"], 12000 * dye_profile(nu)
    reference = rng.poisson(frames * level) / frames + META["dark_counts"]
    reference += rng.normal(0, META["read_noise_e"] / np.sqrt(frames), nu.size)
    return raw, reference.astype(np.float32)


def make_scan(seed: int) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """Arrays of raw_data.npz and the truth [2, R] (K and mole fraction)."""
    rng = np.random.default_rng(seed)
    nu = np.linspace(2270.0, 2342.0, 240)
    y_mm = 0.125 + 0.25 * np.arange(32)
    truth = flame(y_mm)
    shifts = rng.normal(0, 0.05, y_mm.size)
    spectra = np.array([brute_intensity(T, x, nu + s) for (T, x), s in zip(truth.T, shifts, strict=True)])
    raw, reference = expose(spectra, nu, rng)
    return {"raw": raw, "reference": reference, "nu_pixels": nu, "y_mm": y_mm}, truth


# --- fixtures ----------------------------------------------------------------------------------------


def normalise_by_loops(raw: np.ndarray, reference: np.ndarray, values: dict[str, float]) -> list[np.ndarray]:
    """Signal and sigma of normalise_spectra, pixel by pixel."""
    dark, noise = values["dark"], values["read_noise"]
    signal, sigma = np.zeros(raw.shape), np.zeros(raw.shape)
    for r, b in np.ndindex(raw.shape):
        near = raw[r, max(b - 2, 0) : b + 3].astype(float)
        mean = max(float(np.mean(near - dark)), 0.0)
        dye = float(reference[b]) - dark
        signal[r, b] = (float(raw[r, b]) - dark) / dye
        of_dye = signal[r, b] ** 2 * (dye + noise**2) / values["reference_frames"]
        sigma[r, b] = np.sqrt(mean + noise**2 + of_dye) / dye
        if raw[r, b] >= values["full_scale"]:
            sigma[r, b] = np.inf
    return [signal, sigma]


def preprocessing_fixtures(rng: np.random.Generator, hidden: bool, scan: dict[str, Any]) -> dict[str, Any]:
    """Inputs and expected outputs for src/preprocessing.py."""
    rows, pixels, full_scale = (5, 31, 60000) if hidden else (4, 23, 65535)
    raw = rng.integers(80, full_scale - 50, (rows, pixels)).astype(np.uint16)
    raw[:, ::3] = rng.integers(85, 130, raw[:, ::3].shape)
    raw[rng.random(raw.shape) < 0.12] = full_scale
    values = {"dark": 107.0 if hidden else 95.5, "read_noise": 4.5 if hidden else 7.0}
    values |= {"reference_frames": 40 if hidden else 25, "full_scale": full_scale}
    reference = rng.uniform(600, 3000, pixels)
    signal, sigma = normalise_by_loops(raw, reference, values)
    at = rng.integers(0, scan["raw"].size, 40)
    pixel, row = at % scan["raw"].shape[1], at // scan["raw"].shape[1]
    return {
        "load_scan": {
            "row": row,
            "pixel": pixel,
            "raw": scan["raw"][row, pixel],
            "raw_sum": scan["raw"].sum(dtype=np.int64),
            "shape": scan["raw"].shape,
            "reference": scan["reference"][pixel],
            "nu_pixels": scan["nu_pixels"][pixel],
            "y_mm": scan["y_mm"][row],
            "meta_names": list(META),
            "meta_values": [float(value) for value in META.values()],
        },
        "check_saturation": {"raw": raw, "full_scale": full_scale, "expected": raw == full_scale},
        "normalise_spectra": {
            "raw": raw,
            "reference": reference,
            "signal": signal,
            "sigma": sigma,
            **values,
        },
    }


def direct_sigma(T: float, p: float, nu: np.ndarray, v_max: int = 4, j_max: int = 70) -> np.ndarray:
    """Sigma(nu) by one linear solve per Raman shift."""
    J, v = np.arange(j_max + 1), np.arange(v_max + 2)[:, None]
    rho = np.where(J % 2 == 0, 6, 3) * (2 * J + 1) * np.exp(-1.438777 * energy(v, J) / T)
    strength = (v[:-1] + 1) * -np.diff(rho / rho.sum(), axis=0)
    gamma = full_relaxation(T, p, j_max)
    total = np.zeros(nu.size, dtype=complex)
    for lower in range(v_max + 1):
        lines = np.diag(energy(lower + 1, J) - energy(lower, J)) - 1j * gamma
        for n, shift in enumerate(nu):
            total[n] += np.linalg.solve(lines - shift * np.eye(J.size), strength[lower]).sum()
    return total


def full_relaxation(T: float, p: float, j_max: int) -> np.ndarray:
    """Relaxation matrix of both parities."""
    matrix = np.zeros((j_max + 1, j_max + 1))
    for parity in (0, 1):
        J = np.arange(parity, j_max + 1, 2)
        matrix[np.ix_(J, J)] = relaxation_matrix(T, p, J)
    return matrix


def gaussian_terms(T: float, p: float, nu: np.ndarray, fwhm: float) -> np.ndarray:
    """2 Re Sigma and |Sigma|^2 [2, N] convolved with a Gaussian by an exact trapezoidal rule."""
    s = fwhm / np.sqrt(8 * np.log(2))
    step = 0.005
    offset = np.arange(-8 * s, 8 * s, step)
    weight = np.exp(-0.5 * (offset / s) ** 2)
    weight /= weight.sum()
    sigma = brute_sigma(T, p, (nu[:, None] - offset).ravel(), 4, 70).reshape(nu.size, -1)
    return np.array([2 * sigma.real @ weight, np.abs(sigma) ** 2 @ weight])


def physics_fixtures(rng: np.random.Generator, hidden: bool) -> dict[str, Any]:
    """Inputs and expected outputs for src/physics_model.py; only the Voigt values come from the reference."""
    from src.physics_model import cars_spectrum, convolved_terms

    T, p, v_max, j_max = (1730.0, 3.2, 3, 41) if hidden else (640.0, 5.0, 2, 28)
    widths, x, b = ((0.72, 0.31), 0.61, 1.4) if hidden else ((0.95, 0.22), 0.74, 1.2)
    nu = np.sort(rng.uniform(2275, 2336, 17 if hidden else 12))
    v, J = rng.integers(0, 6, 20), rng.integers(0, 60, 20)
    levels = np.arange(v_max + 1)[:, None], np.arange(j_max + 1)
    weight = np.where(levels[1] % 2 == 0, 6, 3) * (2 * levels[1] + 1)
    rho = weight * np.exp(-1.438777 * energy(*levels) / T)
    rho /= rho.sum()
    sums = rng.normal(size=9) + 1j * rng.normal(size=9)
    gauss = gaussian_terms(T, p, nu, widths[0])
    background = x + (1 - x) * b
    rates = -full_relaxation(T, p, j_max)
    np.fill_diagonal(rates, 0.0)
    terms = convolved_terms(T, p, nu, widths)
    scene = {"T_K": T, "p_atm": p, "nu": nu}
    return {
        "term_energies": {"v": v, "J": J, "expected": energy(v, J)},
        "populations": {"T_K": T, "v_max": v_max, "j_max": j_max, "expected": rho},
        "q_branch_lines": {
            "T_K": T,
            "v_max": v_max - 1,
            "j_max": j_max,
            "shift": energy(levels[0] + 1, levels[1])[:-1] - energy(*levels)[:-1],
            "strength": (levels[0][:-1] + 1) * (rho[:-1] - rho[1:]),
        },
        "meg_rates": {"T_K": T, "p_atm": p, "j_max": j_max, "expected": rates},
        "raman_sum": {**scene, "expected": direct_sigma(T, p, nu)},
        "convolved_terms": {
            **scene,
            "widths": widths,
            "interference": terms[0],
            "resonant": terms[1],
            "gauss_interference": gauss[0],
            "gauss_resonant": gauss[1],
        },
        "combine_terms": {
            "interference": 2 * sums.real,
            "resonant": np.abs(sums) ** 2,
            "x_n2": x,
            "buffer_ratio": b,
            "expected": np.abs(x * 53.4 * sums + background) ** 2,
        },
        "cars_spectrum": {
            **scene,
            "x_n2": x,
            "buffer_ratio": b,
            "widths": widths,
            "expected": cars_spectrum(T, x, p, nu, widths, b),
            "gauss_expected": (53.4 * x) ** 2 * gauss[1] + 53.4 * x * background * gauss[0] + background**2,
        },
    }


def solver_fixtures(rng: np.random.Generator, hidden: bool) -> dict[str, Any]:
    """Inputs and expected outputs for src/solvers.py; spectra to fit come from the simulator."""
    from src.physics_model import cars_spectrum, convolved_terms
    from src.solvers import build_library, fit_profile, fit_spectrum

    pixels, T, x, shift, gain = (
        (130, 1460.0, 0.58, -0.07, 0.0031) if hidden else (110, 1210.0, 0.71, 0.06, 0.02)
    )
    nu = np.linspace(2284.0, 2338.0, pixels)
    fine = np.arange(2283.0, 2339.0, 0.1)
    b, p = META["buffer_ratio"], META["pressure_atm"]
    nodes = np.geomspace(900.0, 2100.0, 20) if hidden else np.geomspace(800.0, 1900.0, 20)
    library = build_library(nodes, p, fine, WIDTHS)
    grid = {"temperatures_K": nodes, "p_atm": p, "nu_fine": fine, "widths": WIDTHS}
    clean = gain * brute_intensity(T, x, nu + shift, v_max=4, j_max=70, step=0.012)
    sigma = np.sqrt(clean * clean.max() / 900 + (clean.max() / 300) ** 2)
    noisy = clean + sigma * rng.standard_normal(pixels)
    dead = rng.choice(pixels, 4, replace=False)
    noisy[dead], sigma[dead] = clean.max() * 3, np.inf
    start = (T - 240, 0.8, 0.0)
    one = fit_spectrum(noisy, sigma, library, nu, b, start)
    rows = [(T - 300, x, 0.04), (T, x + 0.06, -0.05), (T + 330, x - 0.05, 0.02)][: 3 if hidden else 2]
    signals = gain * np.array([brute_intensity(t, f, nu + s, 4, 70, 0.012) for t, f, s in rows])
    sigmas = np.sqrt(
        signals * signals.max(axis=1)[:, None] / 2500 + (signals.max(axis=1)[:, None] / 500) ** 2
    )
    signals = signals + sigmas * rng.standard_normal(signals.shape)
    profile = fit_profile(signals, sigmas, library, nu, b)
    small = {"temperatures_K": nodes[::5], "p_atm": 0.8 * p, "nu_fine": fine[::40], "widths": (0.8, 0.3)}
    terms = [convolved_terms(t, 0.8 * p, small["nu_fine"], small["widths"]) for t in small["temperatures_K"]]
    at = {"T_K": T, "x_n2": x, "shift": shift, "nu_pixels": nu, "buffer_ratio": b}
    return {
        "build_library": {
            **small,
            "interference": [term[0] for term in terms],
            "resonant": [term[1] for term in terms],
        },
        "model_spectrum": {**grid, **at, "expected": cars_spectrum(T, x, p, nu + shift, WIDTHS, b)},
        "fit_spectrum": {
            **grid,
            **at,
            "gain": gain,
            "clean": clean,
            "signal": noisy,
            "sigma": sigma,
            "start": start,
            **{"fit_" + key: one[key] for key in ("T", "x", "shift", "gain", "chi2", "covariance")},
        },
        "fit_profile": {
            **grid,
            "nu_pixels": nu,
            "buffer_ratio": b,
            "signals": signals,
            "sigmas": sigmas,
            "simulated": np.array(rows).T,
            **{"fit_" + key: value for key, value in profile.items()},
        },
    }


def visualization_fixtures(rng: np.random.Generator, hidden: bool) -> dict[str, Any]:
    """Inputs and expected outputs for src/visualization.py."""
    n = 37 if hidden else 25
    nu, y = np.linspace(2280, 2335, n), np.linspace(0.5, 7.0, n - 9)
    signal, model = rng.normal(2.0, 1.5, n), rng.uniform(0.1, 4.0, n)
    sigma = rng.uniform(0.05, 0.3, n)
    sigma[[3, 11]] = np.inf
    T, spread = rng.uniform(300, 2000, y.size), rng.uniform(2, 30, y.size)
    residual = [(s - m) / e if np.isfinite(e) else 0.0 for s, m, e in zip(signal, model, sigma, strict=True)]
    return {
        "figure_fit": {
            "nu": nu,
            "signal": signal,
            "sigma": sigma,
            "model": model,
            "sqrt_signal": [max(value, 0.0) ** 0.5 for value in signal],
            "sqrt_model": [value**0.5 for value in model],
            "weighted_residual": residual,
        },
        "figure_profile": {"y_mm": y, "T_K": T, "sigma_T": spread, "low": T - spread, "high": T + spread},
    }


# --- writing -----------------------------------------------------------------------------------------


def run_reference(scan: dict[str, np.ndarray], truth: np.ndarray, out: Path) -> None:
    """The steps of main.py; writes reference_outputs/."""
    from src.preprocessing import normalise_spectra
    from src.solvers import MAX_SHIFT, build_library, fit_profile

    sys.path.insert(0, str(TASK / "evaluation"))
    from main import NU_STEP, TEMPERATURES_K
    from score import score

    started = time.perf_counter()
    names = ("dark_counts", "read_noise_e", "reference_frames", "full_scale_counts")
    signal, sigma = normalise_spectra(
        scan["raw"], scan["reference"].astype(float), *(META[name] for name in names)
    )
    nu = scan["nu_pixels"]
    fine = np.arange(nu[0] - MAX_SHIFT - 2 * NU_STEP, nu[-1] + MAX_SHIFT + 3 * NU_STEP, NU_STEP)
    library = build_library(TEMPERATURES_K, META["pressure_atm"], fine, WIDTHS)
    profile = fit_profile(signal, sigma, library, nu, META["buffer_ratio"])
    print(f"reference fit in {time.perf_counter() - started:.1f} s, chi2 {profile['chi2'].mean():.3f}")
    reconstruction = np.stack([profile["T"], profile["x"]])
    out.mkdir(parents=True, exist_ok=True)
    np.save(out / "ground_truth.npy", truth)
    np.save(out / "reconstruction.npy", reconstruction)
    figures = {name: float(f"{value:.6g}") for name, value in score(reconstruction, truth, META).items()}
    canary = next(line for line in (__doc__ or "").splitlines() if line.startswith("imaging101-canary"))
    write_json(out / "metrics.json", {"canary": canary, "method": "CARS library least squares", **figures})


def write_json(path: Path, content: dict[str, Any]) -> None:
    path.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(
        description="Make the task's data, fixtures and reference outputs again."
    )
    parser.add_argument("--out", type=Path, default=TASK, help="folder to write to (default: the task's own)")
    out = parser.parse_args().out
    sys.path.insert(0, str(TASK))
    scan, truth = make_scan(SEED)
    (out / "data").mkdir(parents=True, exist_ok=True)
    np.savez_compressed(out / "data" / "raw_data.npz", **scan)
    write_json(out / "data" / "meta_data.json", META)
    run_reference(scan, truth, out / "evaluation" / "reference_outputs")
    for hidden, folder in ((False, "fixtures"), (True, "fixtures_hidden")):
        rng = np.random.default_rng(SEED + 1 + hidden)
        modules = {
            "preprocessing": preprocessing_fixtures(rng, hidden, scan),
            "physics_model": physics_fixtures(rng, hidden),
            "solvers": solver_fixtures(rng, hidden),
            "visualization": visualization_fixtures(rng, hidden),
        }
        for module, functions in modules.items():
            target = out / "evaluation" / folder / module
            target.mkdir(parents=True, exist_ok=True)
            for function, arrays in functions.items():
                np.savez_compressed(target / f"{function}.npz", **arrays)


if __name__ == "__main__":
    main()
