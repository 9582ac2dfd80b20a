"""What goes here: figures; each function saves a PNG and returns what it drew, which is what its tests look at."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from numpy.typing import ArrayLike


def show_images(
    images: Sequence[ArrayLike], labels: Sequence[str], pixel_mm: float, path: str
) -> dict[str, Any]:
    """Draw images of one shape side by side on one colour scale, axes in mm, and save a PNG."""
    stack = np.stack([np.asarray(image, dtype=float) for image in images])
    if len(labels) != len(stack):
        raise ValueError(f"labels has {len(labels)} entries; it must have one per image, {len(stack)}")
    limits = (float(stack.min()), float(stack.max()))
    extent = (0.0, stack.shape[2] * pixel_mm, stack.shape[1] * pixel_mm, 0.0)
    figure = Figure(figsize=(4 * len(stack), 4.5), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots(1, len(stack), squeeze=False)[0]
    for ax, image, label in zip(axes, stack, labels, strict=True):
        shown = ax.imshow(image, vmin=limits[0], vmax=limits[1], extent=extent, cmap="inferno")
        ax.set(title=label, xlabel="x [mm]", ylabel="y [mm]")
    figure.colorbar(shown, ax=list(axes), label="photon/s")
    figure.savefig(path, dpi=100)
    return {"images": stack, "labels": list(labels), "limits": limits, "extent": extent}
