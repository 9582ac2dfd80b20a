"""From camera counts to CARS spectra in units of the dye profile, with their standard deviations."""

import json
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]
BoolArray = NDArray[np.bool_]


def load_scan(data_dir: str) -> dict[str, Any]:
    """Arrays of raw_data.npz and entries of meta_data.json of a data folder in one dictionary.

    Arrays: raw uint16 [R, B], reference float64 [B] (counts), nu_pixels float64 [B] (cm^-1),
    y_mm float64 [R]; the names of the meta data are kept. Raises FileNotFoundError when a file is missing.
    """
    folder = Path(data_dir)
    scan: dict[str, Any] = json.loads((folder / "meta_data.json").read_text(encoding="utf-8"))
    with np.load(folder / "raw_data.npz", allow_pickle=False) as stored:
        scan |= {key: stored[key].astype(float) for key in ("reference", "nu_pixels", "y_mm")}
        scan["raw"] = stored["raw"]
    return scan


def check_saturation(raw: NDArray[Any], full_scale: float) -> BoolArray:
    """True where the counts raw[R, B] have reached full_scale and therefore are only a lower limit.

    Raises ValueError unless raw has two axes and full_scale is positive.
    """
    raw = np.asarray(raw)
    if raw.ndim != 2:
        raise ValueError(f"raw must be a [R, B] array of counts, got shape {raw.shape}")
    if not full_scale > 0:
        raise ValueError(f"full_scale must be positive, got {full_scale}")
    return raw >= full_scale


def normalise_spectra(
    raw: NDArray[Any],
    reference: FloatArray,
    dark: float,
    read_noise: float,
    reference_frames: int,
    full_scale: float,
) -> tuple[FloatArray, FloatArray]:
    """Dark-free counts divided by the dark-free non-resonant reference, and their standard deviation.

    raw [R, B] and reference [B] in counts (= photoelectrons), both with the dark level; reference is the mean
    of reference_frames exposures. With c = raw - dark, e = reference - dark and the expected counts
    m = max(mean of c over pixels b-2..b+2 inside the row, 0):
        signal = c / e
        sigma^2 = [m + read_noise^2 + signal^2 (e + read_noise^2) / reference_frames] / e^2
    sigma is inf where raw is saturated. Returns (signal, sigma), float64 [R, B]. Raises ValueError when
    reference has another length than the rows of raw or does not exceed dark everywhere.
    """
    saturated = check_saturation(raw, full_scale)
    counts = np.asarray(raw, dtype=float) - dark  # float first: unsigned integers would wrap
    dye = np.asarray(reference, dtype=float) - dark
    if dye.shape != counts.shape[1:]:
        raise ValueError(f"reference must have one value per pixel {counts.shape[1:]}, got shape {dye.shape}")
    if not dye.min() > 0:
        raise ValueError(f"reference must exceed dark everywhere, the smallest difference is {dye.min()}")
    signal = counts / dye
    # A pixel's own count is a biased estimate of its variance: low ones would weigh too much.
    expected = np.maximum(_running_mean(counts), 0.0)
    variance = (expected + read_noise**2) / dye**2
    variance += signal**2 * (dye + read_noise**2) / (reference_frames * dye**2)
    return signal, np.where(saturated, np.inf, np.sqrt(variance))


def _running_mean(counts: FloatArray, half: int = 2) -> FloatArray:
    """Mean over pixels b-half..b+half of each row, over those that exist at its ends."""
    padded = np.pad(counts, ((0, 0), (half, half)))
    inside = np.pad(np.ones(counts.shape[1]), half)
    kernel = np.ones(2 * half + 1)
    total = np.apply_along_axis(np.convolve, 1, padded, kernel, mode="valid")
    return total / np.convolve(inside, kernel, mode="valid")
