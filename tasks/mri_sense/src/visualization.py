"""Figures of a SENSE reconstruction; each function saves a PNG and returns what it drew."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from numpy.typing import NDArray


def show_gmap(g: NDArray, path: str) -> dict[str, object]:
    """Draw a g-factor map on a colour scale from 1 to its maximum, row 0 at the top.

    Parameters
    ----------
    g : (Y, X) float, dimensionless.
    path : PNG file to write.

    Returns
    -------
    {"image": (Y, X) float64, "limits": (1.0, largest value of g)}

    Raises
    ------
    ValueError when g is not two-dimensional.
    """
    g = np.asarray(g, dtype=np.float64)
    if g.ndim != 2:
        raise ValueError(f"g has shape {g.shape}, expected (Y, X)")
    limits = (1.0, float(g.max()))
    figure = _figure(4.6, 3.8)
    axes = figure.add_subplot()
    drawn = axes.imshow(g, cmap="inferno", vmin=limits[0], vmax=limits[1], origin="upper")
    axes.set(title="g-factor", xlabel="x (readout) / pixel", ylabel="y (phase encode) / pixel")
    figure.colorbar(drawn, ax=axes)
    figure.savefig(path, dpi=110)
    return {"image": g, "limits": limits}


def show_recon(images: NDArray, labels: Sequence[str], path: str) -> dict[str, object]:
    """Draw complex images side by side: magnitude above on one grey scale, phase below, row 0 at the top.

    Parameters
    ----------
    images : (K, Y, X) complex, a.u.
    labels : K titles.
    path : PNG file to write.

    Returns
    -------
    {"magnitude": (K, Y, X) float64 a.u., "phase": (K, Y, X) float64 rad in [-pi, pi], "labels": list of str,
    "limits": (0.0, largest magnitude of the first image)}

    Raises
    ------
    ValueError when images is not a stack or labels does not have K entries.
    """
    images = np.asarray(images)
    if images.ndim != 3 or len(labels) != images.shape[0]:
        raise ValueError(f"images has shape {images.shape}, expected (K, Y, X) with K = {len(labels)} labels")
    magnitude, phase = np.abs(images).astype(np.float64), np.angle(images).astype(np.float64)
    limits = (0.0, float(magnitude[0].max()))
    figure = _figure(3.6 * len(labels) + 0.6, 6.4)
    grid = figure.subplots(2, len(labels), squeeze=False)
    for column, label in enumerate(labels):
        grey = grid[0, column].imshow(magnitude[column], cmap="gray", vmin=limits[0], vmax=limits[1])
        hue = grid[1, column].imshow(phase[column], cmap="twilight", vmin=-np.pi, vmax=np.pi)
        grid[0, column].set_title(label)
        for axes in grid[:, column]:
            axes.set(xticks=[], yticks=[])
    figure.colorbar(grey, ax=grid[0, :].tolist(), label="magnitude / a.u.")
    figure.colorbar(hue, ax=grid[1, :].tolist(), label="phase / rad")
    figure.savefig(path, dpi=110)
    return {"magnitude": magnitude, "phase": phase, "labels": list(labels), "limits": limits}


def residual_plot(residuals: NDArray, path: str) -> dict[str, NDArray]:
    """Draw relative residuals against the iteration number on a logarithmic axis.

    Parameters
    ----------
    residuals : (N,) float, positive, dimensionless; entry 0 belongs to the starting point.
    path : PNG file to write.

    Returns
    -------
    {"iterations": (N,) int64 0 ... N-1, "residuals": (N,) float64}

    Raises
    ------
    ValueError when residuals is not a non-empty one-dimensional array.
    """
    residuals = np.asarray(residuals, dtype=np.float64)
    if residuals.ndim != 1 or residuals.size == 0:
        raise ValueError(f"residuals has shape {residuals.shape}, expected (N,) with N >= 1")
    iterations = np.arange(residuals.size, dtype=np.int64)
    figure = _figure(4.8, 3.4)
    axes = figure.add_subplot()
    axes.semilogy(iterations, residuals, marker=".")
    axes.set(xlabel="iteration", ylabel="relative residual")
    axes.grid(alpha=0.3)
    figure.savefig(path, dpi=110)
    return {"iterations": iterations, "residuals": residuals}


def _figure(width: float, height: float) -> Figure:
    figure = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(figure)
    return figure
