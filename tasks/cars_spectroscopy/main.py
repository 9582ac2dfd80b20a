"""Reference pipeline: camera counts -> temperature and N2 mole fraction along the laser line."""

import time
from pathlib import Path

import numpy as np

from src.preprocessing import load_scan, normalise_spectra
from src.solvers import MAX_SHIFT, build_library, fit_profile, model_spectrum
from src.visualization import figure_fit, figure_profile

TEMPERATURES_K = np.geomspace(250.0, 2700.0, 50)
NU_STEP = 0.1  # cm^-1, a quarter of the instrument's standard deviation


def main() -> None:
    started = time.perf_counter()
    scan = load_scan("data")
    signal, sigma = normalise_spectra(
        scan["raw"],
        scan["reference"],
        scan["dark_counts"],
        scan["read_noise_e"],
        scan["reference_frames"],
        scan["full_scale_counts"],
    )
    nu, buffer_ratio = scan["nu_pixels"], scan["buffer_ratio"]
    widths = (scan["instrument_fwhm_gauss_cm1"], scan["instrument_fwhm_lorentz_cm1"])
    nu_fine = np.arange(nu[0] - MAX_SHIFT - 2 * NU_STEP, nu[-1] + MAX_SHIFT + 3 * NU_STEP, NU_STEP)
    library = build_library(TEMPERATURES_K, scan["pressure_atm"], nu_fine, widths)
    profile = fit_profile(signal, sigma, library, nu, buffer_ratio)

    out = Path("output")
    out.mkdir(exist_ok=True)
    np.save(out / "reconstruction.npy", np.stack([profile["T"], profile["x"]]))
    row = int(profile["T"].argmax())
    model = profile["gain"][row] * model_spectrum(
        library, profile["T"][row], profile["x"][row], profile["shift"][row], nu, buffer_ratio
    )
    figure_fit(nu, signal[row], sigma[row], model, str(out / "hottest_spectrum.png"))
    figure_profile(scan["y_mm"], profile["T"], profile["sigma_T"], str(out / "temperature.png"))

    print(f"saturated pixels       {np.isinf(sigma).sum()}")
    print(f"temperature            {profile['T'].min():.0f} .. {profile['T'].max():.0f} K")
    print(f"N2 mole fraction       {profile['x'].min():.3f} .. {profile['x'].max():.3f}")
    print(f"median sigma(T)        {np.median(profile['sigma_T']):.1f} K")
    print(f"median sigma(x)        {np.median(profile['sigma_x']):.4f}")
    print(
        f"chi2 per freedom       {profile['chi2'].mean():.3f} (rows {profile['chi2'].min():.2f} .. ", end=""
    )
    print(f"{profile['chi2'].max():.2f})")
    print(f"runtime                {time.perf_counter() - started:.1f} s")


if __name__ == "__main__":
    main()
