"""Short-scan fan-beam filtered back-projection with Parker's redundancy weights.

Sources: Parker, Med. Phys. 9(2):254-257 (1982); Kak & Slaney, Principles of Computerized Tomographic
Imaging (1988), ch. 3, equispaced collinear detector.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import ArrayLike, NDArray

from src.physics_model import cell_centres, source_distances

Array = NDArray[np.float64]


def parker_weights(scan_angles: ArrayLike, gamma: ArrayLike, gamma_max: float) -> Array:
    """Parker's weights w (V, K) in [0, 1] of a short scan over ``pi + 2 gamma_max``.

    scan_angles (V,) rad: source angle counted from the START of the scan; gamma (K,) rad: fan angles;
    gamma_max rad. The rays (b, g) and (b + pi - 2g, -g) are one line, and their weights add to one:
    sin^2 ramps up over 0 <= b < 2(g_m + g) and down over pi + 2g < b <= pi + 2g_m, 1 between, 0 outside
    the scan. Raises ValueError when gamma_max is not in (0, pi/2) or some |gamma| exceeds it.
    """
    b = np.asarray(scan_angles, dtype=float)[:, None]
    g = np.asarray(gamma, dtype=float)[None, :]
    if not 0 < gamma_max < np.pi / 2:
        raise ValueError(f"gamma_max is {gamma_max} rad; a value in (0, pi/2) is expected.")
    if np.abs(g).max() > gamma_max * (1 + 1e-9):
        raise ValueError(f"gamma reaches {np.abs(g).max()} rad; at most gamma_max = {gamma_max} is expected.")
    end = np.pi + 2 * gamma_max
    # An edge ray has a ramp of zero width, which no b lies in: its divisor may be any positive number.
    tiny = np.finfo(float).tiny
    rising = np.sin(np.pi / 4 * b / np.maximum(gamma_max + g, tiny)) ** 2
    falling = np.sin(np.pi / 4 * (end - b) / np.maximum(gamma_max - g, tiny)) ** 2
    weights = np.where(b < 2 * (gamma_max + g), rising, np.where(b > np.pi + 2 * g, falling, 1.0))
    return np.where((b >= 0) & (b <= end), weights, 0.0)


def ramp_response(n_fft: int, ds: float, window: str) -> Array:
    """Frequency response H (n_fft,) in 1/mm of the band-limited ramp, in the order of ``numpy.fft.fftfreq``.

    H is ds times the DFT of the taps h(0) = 1/(4 ds^2), h(odd n) = -1/(pi n ds)^2, h(even n) = 0 for
    -n_fft/2 < n <= n_fft/2, so that its mean is right (sampling |f| would set the DC to zero). window:
    "ram-lak" (1), "shepp-logan" (sinc(f ds)) or "hann" ((1 + cos(2 pi f ds)) / 2), f in 1/mm.
    Raises ValueError for an odd n_fft or one below 2, ds <= 0 or another window.
    """
    if n_fft < 2 or n_fft % 2:
        raise ValueError(f"n_fft is {n_fft}; an even number of at least 2 is expected.")
    if not ds > 0:
        raise ValueError(f"ds is {ds} mm; a positive spacing is expected.")
    lag = np.abs(np.fft.fftfreq(n_fft, 1 / n_fft))
    taps = np.zeros(n_fft)
    odd = lag % 2 == 1
    taps[odd] = -1 / (np.pi * lag[odd] * ds) ** 2
    taps[0] = 1 / (4 * ds**2)
    response = ds * np.fft.fft(taps).real
    cycles_per_sample = np.fft.fftfreq(n_fft)
    if window == "ram-lak":
        return response
    if window == "shepp-logan":
        return response * np.sinc(cycles_per_sample)
    if window == "hann":
        return response * (1 + np.cos(2 * np.pi * cycles_per_sample)) / 2
    raise ValueError(f"window is {window!r}; 'ram-lak', 'shepp-logan' or 'hann' is expected.")


def fanbeam_fbp(
    line_integrals: ArrayLike,
    betas: ArrayLike,
    geom: Mapping[str, float],
    n_pixels: int,
    fov: float,
    weights: ArrayLike,
    window: str = "hann",
) -> Array:
    """Attenuation mu (N, N) in 1/mm by weighted fan-beam filtered back-projection.

    line_integrals (V, K) dimensionless; betas (V,) rad, evenly spaced; weights broadcast to (V, K) (Parker's
    for a short scan, 1/2 for a full turn); fov: side of the image in mm. Row 0 is the top (+y), column 0
    is the left (-x). With s = u D_so/D_sd on the virtual detector through the isocentre,

        mu(x, y) = sum_b db U^-2 q_b(s'),  q_b = ramp * (w p D_so / sqrt(D_so^2 + s^2)),
        U = (D_so - x cos b - y sin b) / D_so,  s' = (-x sin b + y cos b) / U,

    linear convolution, linear interpolation in s, zero beyond the outermost cell centres. Pixels outside the
    circle of radius D_so sin(gamma_max), which some views miss, are zero.
    Raises ValueError when shapes disagree or betas are not evenly spaced and rising.
    """
    p, betas = np.asarray(line_integrals, dtype=float), np.asarray(betas, dtype=float)
    d_so, d_sd = source_distances(geom)
    s = cell_centres(geom) * d_so / d_sd
    if p.shape != (betas.size, s.size):
        raise ValueError(f"line_integrals has shape {p.shape}; ({betas.size}, {s.size}) is expected.")
    steps = np.diff(betas)
    if betas.size < 2 or steps[0] <= 0 or not np.allclose(steps, steps[0], rtol=1e-6, atol=0):
        raise ValueError(
            f"betas has steps from {steps.min(initial=0)} to {steps.max(initial=0)} rad; equal ones expected."
        )

    weighted = p * weights * (d_so / np.sqrt(d_so**2 + s**2))
    filtered = _filter_views(weighted, s[1] - s[0], window)

    centres = (np.arange(n_pixels) - (n_pixels - 1) / 2) * (fov / n_pixels)
    x, y = centres[None, :], -centres[:, None]
    mu = np.zeros((n_pixels, n_pixels))
    for beta, view in zip(betas, filtered, strict=True):
        magnification = (d_so - x * np.cos(beta) - y * np.sin(beta)) / d_so
        s_hit = (y * np.cos(beta) - x * np.sin(beta)) / magnification
        mu += np.interp(s_hit, s, view, left=0.0, right=0.0) / magnification**2
    covered = np.hypot(x, y) <= d_so * np.sin(np.arctan(s.max() / d_so))  # seen by every view
    return np.where(covered, mu * steps.mean(), 0.0)


def _filter_views(views: Array, ds: float, window: str) -> Array:
    """Ramp-filter each row; padding to at least twice its length makes the convolution a linear one."""
    n_cells = views.shape[1]
    n_fft = 2 ** int(np.ceil(np.log2(2 * n_cells)))
    spectrum = np.fft.fft(views, n_fft, axis=1) * ramp_response(n_fft, ds, window)
    return np.fft.ifft(spectrum, axis=1).real[:, :n_cells]
