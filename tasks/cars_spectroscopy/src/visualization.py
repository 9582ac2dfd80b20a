"""Figures of a fitted CARS spectrum and of the temperature profile."""

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]


def figure_fit(
    nu: FloatArray, signal: FloatArray, sigma: FloatArray, model: FloatArray, path: str
) -> dict[str, FloatArray]:
    """Square roots of signal and model over the Raman shift (cm^-1), residuals in sigma below; saved as PNG.

    All arrays [B]. Returns what was drawn: dict(nu, sqrt_signal, sqrt_model (negative values drawn as 0),
    weighted_residual = (signal - model) / sigma), which is 0 where sigma is inf.
    Raises ValueError unless the arrays are one-dimensional and equally long.
    """
    nu, signal, sigma, model = _same_length(nu=nu, signal=signal, sigma=sigma, model=model)
    drawn = {
        "nu": nu,
        "sqrt_signal": np.sqrt(np.maximum(signal, 0.0)),
        "sqrt_model": np.sqrt(np.maximum(model, 0.0)),
        "weighted_residual": (signal - model) / sigma,
    }
    figure = Figure(figsize=(8, 5), layout="constrained")
    FigureCanvasAgg(figure)
    upper, lower = figure.subplots(2, 1, sharex=True, height_ratios=[3, 1])
    upper.plot(nu, drawn["sqrt_signal"], ".", ms=4, label="measured")
    upper.plot(nu, drawn["sqrt_model"], lw=1, label="fit")
    upper.set_ylabel("square root of intensity")
    upper.legend(frameon=False, loc="upper left")
    lower.plot(nu, drawn["weighted_residual"], lw=0.8, color="0.3")
    lower.axhline(0, lw=0.5, color="k")
    lower.set(xlabel="Raman shift (cm$^{-1}$)", ylabel="residual / $\\sigma$")
    figure.savefig(path, dpi=120)
    return drawn


def figure_profile(
    y_mm: FloatArray, T_K: FloatArray, sigma_T: FloatArray, path: str
) -> dict[str, FloatArray]:
    """Temperature (K) over position (mm) with error bars of one standard deviation; saved as PNG.

    All arrays [R]. Returns what was drawn: dict(y, T, sigma_T, low = T - sigma_T, high = T + sigma_T).
    Raises ValueError unless the arrays are one-dimensional and equally long.
    """
    y_mm, T_K, sigma_T = _same_length(y_mm=y_mm, T_K=T_K, sigma_T=sigma_T)
    figure = Figure(figsize=(7, 4), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots()
    axes.errorbar(y_mm, T_K, yerr=sigma_T, fmt=".-", lw=0.8, ms=5, capsize=2)
    axes.set(xlabel="y (mm)", ylabel="temperature (K)")
    axes.grid(alpha=0.3)
    figure.savefig(path, dpi=120)
    return {"y": y_mm, "T": T_K, "sigma_T": sigma_T, "low": T_K - sigma_T, "high": T_K + sigma_T}


def _same_length(**arrays: FloatArray) -> list[FloatArray]:
    converted = {name: np.asarray(values, dtype=float) for name, values in arrays.items()}
    shapes = {name: values.shape for name, values in converted.items()}
    if len(set(shapes.values())) != 1 or len(next(iter(shapes.values()))) != 1:
        raise ValueError(f"the arrays must be one-dimensional and equally long, got {shapes}")
    return list(converted.values())
