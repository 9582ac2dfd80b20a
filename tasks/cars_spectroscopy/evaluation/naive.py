"""Naive method: read the CARS spectrum as if it were spontaneous Raman scattering.

Isolated Lorentzian lines add up as intensities (Im chi), no interference, no line mixing; a constant offset
stands for the background, and the fraction is that of air.
imaging101-canary-c298691b-347e-435e-a629-f4711a084686
"""

import json
from pathlib import Path

import numpy as np
from scipy.special import voigt_profile


def raman_shapes(nu: np.ndarray, temperatures: np.ndarray, meta: dict[str, float]) -> np.ndarray:
    """Q-branch intensities [nT, B] with one collisional width for all lines."""
    v, J = np.arange(6)[:, None], np.arange(61)[None, :]
    u = v + 0.5
    energy = 2358.57 * u - 14.324 * u**2 + (1.99824 - 0.017318 * u) * J * (J + 1)
    position = np.diff(energy, axis=0).ravel()
    sigma = meta["instrument_fwhm_gauss_cm1"] / 2.3548
    shapes = []
    for T in temperatures:
        rho = np.where(J % 2 == 0, 6, 3) * (2 * J + 1) * np.exp(-1.4388 * (energy - energy[0, 0]) / T)
        strength = ((v[:-1] + 1) * rho[:-1]).ravel()
        width = 0.044 * meta["pressure_atm"] * (295 / T) ** 0.7 + meta["instrument_fwhm_lorentz_cm1"] / 2
        shapes.append(voigt_profile(nu[:, None] - position, sigma, width) @ strength)
    return np.array(shapes)


def main() -> None:
    with np.load("data/raw_data.npz") as stored:
        raw, reference, nu = (
            stored["raw"].astype(float),
            stored["reference"].astype(float),
            stored["nu_pixels"],
        )
    meta = json.loads(Path("data/meta_data.json").read_text(encoding="utf-8"))
    signal = (raw - meta["dark_counts"]) / (reference - meta["dark_counts"])
    temperatures = np.arange(280.0, 2600.0, 5.0)
    shapes = raman_shapes(nu, temperatures, meta)
    misfit = []
    for shape in shapes:
        design = np.stack([shape / shape.max(), np.ones(nu.size)], axis=1)
        projector = design @ np.linalg.pinv(design)
        misfit.append(((signal - signal @ projector.T) ** 2).sum(axis=1))
    T = temperatures[np.argmin(misfit, axis=0)]
    Path("output").mkdir(exist_ok=True)
    np.save("output/reconstruction.npy", np.stack([T, np.full(T.size, 0.78)]))


if __name__ == "__main__":
    main()
