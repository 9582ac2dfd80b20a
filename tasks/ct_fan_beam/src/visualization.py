"""Pictures of a CT slice: each function saves a PNG and returns what it drew."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from numpy.typing import ArrayLike, NDArray

Array = NDArray[np.float64]


def _slice(name: str, image: ArrayLike) -> Array:
    image = np.asarray(image, dtype=float)
    if image.ndim != 2 or image.shape[0] != image.shape[1]:
        raise ValueError(f"{name} has shape {image.shape}; a square image (N, N) is expected.")
    return image


def _extent(fov: float) -> tuple[float, float, float, float]:
    if not fov > 0:
        raise ValueError(f"fov is {fov} mm; a positive side length is expected.")
    return (-fov / 2, fov / 2, -fov / 2, fov / 2)


def _save_image(
    image: Array, fov: float, limits: tuple[float, float], cmap: str, label: str, path: str
) -> None:
    figure = Figure(figsize=(6, 5), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    drawn = axes.imshow(image, cmap=cmap, vmin=limits[0], vmax=limits[1], extent=_extent(fov), origin="upper")
    axes.set(xlabel="x [mm]", ylabel="y [mm]")
    figure.colorbar(drawn, ax=axes, label=label)
    figure.savefig(path, dpi=150)


def show_slice(
    mu: ArrayLike, fov: float, water: float, window: Sequence[float], path: str
) -> dict[str, object]:
    """Grey-scale picture in Hounsfield units, HU = 1000 (mu - water) / water.

    mu (N, N) 1/mm, fov mm, water 1/mm, window (centre, width) in HU. Returns "image" (N, N) in HU, not
    clipped, "extent" (left, right, bottom, top) in mm and "limits" (centre -/+ width / 2) in HU.
    Raises ValueError for an image that is not square, or fov, water or width <= 0.
    """
    mu, extent = _slice("mu", mu), _extent(fov)
    centre, width = (float(value) for value in window)
    if not (water > 0 and width > 0):
        raise ValueError(
            f"water = {water} 1/mm and window width = {width} HU: positive numbers are expected."
        )
    image = 1000 * (mu - water) / water
    limits = (centre - width / 2, centre + width / 2)
    _save_image(image, fov, limits, "gray", "HU", path)
    return {"image": image, "extent": extent, "limits": limits}


def profile_plot(
    images: Sequence[ArrayLike], labels: Sequence[str], row: int, fov: float, path: str
) -> dict[str, object]:
    """Curves along one row of several slices of the same size.

    images: M slices (N, N) 1/mm; labels: M names; row: 0 (top) to N - 1. Returns "positions" (N,) the x of
    the pixel centres in mm, "profiles" (M, N) in 1/mm, "labels" the names and "y" of the row in mm.
    Raises ValueError when the numbers of images and labels differ, the sizes differ or row is outside.
    """
    slices = [_slice("images", image) for image in images]
    if not slices or len(slices) != len(labels) or len({image.shape for image in slices}) != 1:
        raise ValueError(
            f"images: {len(slices)} and labels: {len(labels)}; one label per slice of one size is expected."
        )
    n_pixels, half_fov = slices[0].shape[0], _extent(fov)[1]
    if not 0 <= row < n_pixels:
        raise ValueError(f"row is {row}; 0 to {n_pixels - 1} is expected.")
    positions = (np.arange(n_pixels) + 0.5) * (fov / n_pixels) - half_fov
    profiles = np.stack([image[row] for image in slices])
    figure = Figure(figsize=(7, 4), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    for profile, label in zip(profiles, labels, strict=True):
        axes.plot(positions, profile, label=label, linewidth=1.2)
    axes.set(xlabel="x [mm]", ylabel="attenuation [1/mm]", title=f"y = {-positions[row]:.1f} mm")
    axes.legend(loc="lower center")
    figure.savefig(path, dpi=150)
    return {"positions": positions, "profiles": profiles, "labels": list(labels), "y": float(-positions[row])}


def error_map(mu: ArrayLike, reference: ArrayLike, fov: float, path: str) -> dict[str, object]:
    """Signed difference mu - reference on a colour scale that is symmetric about zero.

    mu, reference (N, N) 1/mm. Returns "image" (N, N) 1/mm, "extent" in mm and "limits" (-m, m) with m the
    largest modulus of the difference. Raises ValueError for images that are not square or differ in shape.
    """
    mu, reference = _slice("mu", mu), _slice("reference", reference)
    if mu.shape != reference.shape:
        raise ValueError(f"reference has shape {reference.shape}; that of mu, {mu.shape}, is expected.")
    difference = mu - reference
    largest = float(np.abs(difference).max())
    _save_image(difference, fov, (-largest, largest), "RdBu_r", "difference [1/mm]", path)
    return {"image": difference, "extent": _extent(fov), "limits": (-largest, largest)}
