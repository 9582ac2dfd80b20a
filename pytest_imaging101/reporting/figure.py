"""A picture of a reconstruction beside the reference and the error, honest about what does not fit."""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_imaging101.reporting.atomic import write_atomic
from pytest_imaging101.reporting.text import one_line
from pytest_imaging101.reporting.views import View, error_of, numeric, views

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from numpy.typing import NDArray

DPI = 160
_REFERENCE, _RECONSTRUCTION, _ERROR, _NOT_FINITE = "#222222", "#d1495b", "#30638e", "#ff00c8"
_WIDTH_INCHES = 9.6
_LONGEST_SIDE = 4.0  # an image longer than this many times its width is stretched to be seen


@dataclass(frozen=True)
class Row:
    """One line of the picture. ``problem`` says in words why there is no reconstruction or error in it."""

    truth: View
    found: View | None
    error: View | None
    problem: str
    unit: str


def save_comparison(path: Path, reconstruction: Any, reference: Any, title: str, unit: str) -> None:
    """Draw ``comparison`` into a PNG file, atomically. Raises ValueError as it does, and StorageFault."""
    buffer = io.BytesIO()
    comparison(reconstruction, reference, title, unit).savefig(buffer, format="png", dpi=DPI)
    write_atomic(path, buffer.getvalue())


def comparison(reconstruction: Any, reference: Any, title: str, unit: str) -> Figure:
    """Reconstruction, reference and error in one figure.

    Lines for one axis and for a few rows of parameters, images for two axes, central slices for volumes,
    magnitude and phase for complex arrays. Both arrays have the reference's colour scale, errors one that is
    symmetric about zero and at most as wide as the reference's range. What cannot be drawn or compared (a
    wrong shape, no numbers, nothing at all) is said in its place, values that are not finite are marked.

    Raises ValueError if the reference itself is no array of numbers.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    rows = _rows(reconstruction, reference, _drawable(unit, 24))
    figure = Figure(layout="constrained")
    FigureCanvasAgg(figure)
    if rows[0].truth.values.ndim == 1:
        _draw_lines(figure, rows)
    else:
        _draw_images(figure, rows)
    figure.suptitle(_drawable(title, 110), fontsize=11, parse_math=False)
    return figure


def _rows(reconstruction: Any, reference: Any, unit: str) -> list[Row]:
    import numpy as np

    truth, found = numeric(reference), numeric(reconstruction)
    if isinstance(truth, str):
        raise ValueError(f"the reference cannot be drawn: it is {truth}")
    as_complex = np.iscomplexobj(truth) or np.iscomplexobj(found)
    wanted = views(truth, as_complex=as_complex)
    got = [] if isinstance(found, str) else views(found, as_complex=as_complex)
    problem = ""
    if isinstance(found, str):
        problem = f"the reconstruction is\n{found}"
    elif found.shape != truth.shape:
        problem = f"shape {found.shape}\nis not {truth.shape}"
    units = [part.strip() for part in unit.split(";")]  # one for each row of parameters: "K; mole fraction"
    rows = []
    for index, view in enumerate(wanted):
        same = got[index] if index < len(got) and got[index].values.ndim == view.values.ndim else None
        error = error_of(same, view) if same is not None and not problem else None
        own_unit = units[index] if len(units) == len(wanted) else unit
        rows.append(Row(view, same, error, problem, "rad" if view.is_phase else own_unit))
    return rows


def _draw_images(figure: Figure, rows: Sequence[Row]) -> None:
    heights = [min(max(row.truth.values.shape[0] / row.truth.values.shape[1], 0.25), 1.5) for row in rows]
    figure.set_size_inches(_WIDTH_INCHES, 0.6 + sum(0.45 + 2.5 * height for height in heights))
    axes = figure.subplots(len(rows), 3, squeeze=False, height_ratios=heights)
    for row, (left, middle, right) in zip(rows, axes, strict=True):
        low, high = _limits(row.truth)
        colours = "twilight" if row.truth.is_phase else "gray"
        shown = [view for view in (row.truth, row.found) if view is not None]
        image = _draw_image(middle, row.truth, "reference", (low, high), colours)
        if row.found is None:
            _say(left, "reconstruction", row.problem)
        else:
            _draw_image(left, row.found, "reconstruction", (low, high), colours)
        _add_bar(figure, middle, image, row.unit, _extend(shown, low, high))
        if row.error is None:
            _say(right, "error", f"no error:\n{row.problem}")
        else:
            limit = _error_limit(row, row.error)
            image = _draw_image(right, row.error, "error", (-limit, limit), "RdBu_r")
            _add_bar(figure, right, image, row.unit, _extend([row.error], -limit, limit))
        if row.truth.label:
            left.set_title(f"{row.truth.label}\n{left.get_title()}", fontsize=9)


def _draw_image(axes: Axes, view: View, name: str, limits: tuple[float, float], colours: str) -> Any:
    import matplotlib
    import numpy as np

    low, high = limits
    values = np.where(np.isfinite(view.values), view.values, np.nan)
    rows, columns = values.shape
    stretched = max(rows, columns) > _LONGEST_SIDE * min(rows, columns)
    image = axes.imshow(
        values.clip(low - (high - low), high + (high - low)),
        vmin=low,
        vmax=high,
        alpha=view.weight,
        cmap=matplotlib.colormaps[colours].with_extremes(bad=_NOT_FINITE),
        aspect="auto" if stretched else "equal",
    )
    axes.set_xticks([])
    axes.set_yticks([])
    axes.set_title(_heading(name, view.values), fontsize=9)
    # A phase fades where there is little of it; its colour bar must not.
    return matplotlib.cm.ScalarMappable(image.norm, image.cmap) if view.is_phase else image


def _draw_lines(figure: Figure, rows: Sequence[Row]) -> None:
    figure.set_size_inches(_WIDTH_INCHES, 0.7 + 2.3 * len(rows))
    axes = figure.subplots(len(rows), 2, squeeze=False, width_ratios=[1.7, 1])
    for row, (left, right) in zip(rows, axes, strict=True):
        _draw_line(left, row.truth, _REFERENCE, "reference", width=2.2)
        if row.found is not None:
            _draw_line(
                left, row.found, _RECONSTRUCTION, _heading("reconstruction", row.found.values), width=1.1
            )
        low, high = _limits(row.truth)
        frame, cut = _frame([view for view in (row.truth, row.found) if view is not None], low, high)
        left.set_ylim(frame)
        left.set_title("reconstruction leaves the frame" if cut else "", fontsize=9, color=_RECONSTRUCTION)
        left.legend(fontsize=8, frameon=False, loc="best")
        if row.found is None:
            left.set_title(row.problem.replace("\n", " "), fontsize=9, color=_RECONSTRUCTION)
        left.set_ylabel(_with_unit(row.truth.label or "value", row.unit), fontsize=9, parse_math=False)
        if row.error is None:
            _say(right, "error", f"no error:\n{row.problem}")
            continue
        limit = _error_limit(row, row.error) * 1.08
        right.axhline(0.0, color="#999999", linewidth=0.8)
        _draw_line(right, row.error, _ERROR, "error", width=1.2)
        right.set_ylim(-limit, limit)
        beyond = ", beyond the frame in part" if _extend([row.error], -limit, limit) != "neither" else ""
        right.set_title(_heading("error", row.error.values) + beyond, fontsize=9)
        right.set_ylabel(_with_unit("error", row.unit), fontsize=9, parse_math=False)
    for each in axes.flat:
        each.tick_params(labelsize=8)
        each.spines[["top", "right"]].set_visible(False)


def _draw_line(axes: Axes, view: View, colour: str, label: str, width: float) -> None:
    import numpy as np
    from matplotlib.ticker import MaxNLocator

    values = np.where(np.isfinite(view.values), view.values, np.nan)
    marker = "o" if values.size <= 40 else ""
    axes.plot(values, color=colour, linewidth=width, marker=marker, markersize=3.5, label=label)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.set_xlabel("index", fontsize=9)


def _limits(view: View) -> tuple[float, float]:
    """The scale of a reference: its range, widened where it is flat; the full turn for a phase."""
    import numpy as np

    if view.is_phase:
        return -np.pi, np.pi
    finite = view.values[np.isfinite(view.values)]
    low, high = (float(finite.min()), float(finite.max())) if finite.size else (0.0, 1.0)
    if low == high:
        half = abs(low) * 0.5 or 0.5
        return low - half, high + half
    return low, high


def _error_limit(row: Row, error: View) -> float:
    """The largest error, but at most the reference's range and at least a thousandth of it."""
    import numpy as np

    low, high = _limits(row.truth)
    span = high - low
    size = np.abs(error.values[np.isfinite(error.values)])
    return max(min(float(size.max(initial=0.0)), span), span * 1e-3)


def _frame(shown: Sequence[View], low: float, high: float) -> tuple[tuple[float, float], bool]:
    """Vertical limits that hold all lines, but no more than the reference's range on each side."""
    import numpy as np

    span = high - low
    values = np.concatenate([view.values[np.isfinite(view.values)] for view in shown])
    least = float(values.min(initial=low))
    most = float(values.max(initial=high))
    cut = least < low - span or most > high + span
    least, most = max(least, low - span), min(most, high + span)
    margin = 0.06 * (most - least)
    return (least - margin, most + margin), cut


def _extend(shown: Sequence[View], low: float, high: float) -> str:
    """Which ends of a colour bar have values beyond them."""
    import numpy as np

    tolerance = 1e-9 * (high - low)
    with np.errstate(invalid="ignore"):
        below = any(bool((view.values < low - tolerance).any()) for view in shown)
        above = any(bool((view.values > high + tolerance).any()) for view in shown)
    return {(False, False): "neither", (True, False): "min", (False, True): "max"}.get((below, above), "both")


def _heading(name: str, values: NDArray[Any]) -> str:
    import numpy as np

    missing = int(np.count_nonzero(~np.isfinite(values)))
    return f"{name} ({missing} of {values.size} not finite)" if missing else name


def _say(axes: Axes, name: str, sentence: str) -> None:
    """Words where a picture would be."""
    axes.set_xticks([])
    axes.set_yticks([])
    axes.set_title(name, fontsize=9)
    axes.text(
        0.5,
        0.5,
        sentence,
        ha="center",
        va="center",
        fontsize=9,
        color=_RECONSTRUCTION,
        transform=axes.transAxes,
        parse_math=False,
    )


def _add_bar(figure: Figure, axes: Axes, image: Any, unit: str, extend: str) -> None:
    """A colour bar as high as the image it stands beside."""
    bar = figure.colorbar(image, cax=axes.inset_axes((1.04, 0.0, 0.05, 1.0)), extend=extend)
    bar.ax.set_ylabel(unit, fontsize=8, parse_math=False)
    bar.ax.tick_params(labelsize=8)


def _with_unit(name: str, unit: str) -> str:
    return f"{name} ({unit})" if unit else name


def _drawable(text: str, limit: int) -> str:
    """Text that fits and that the font has glyphs for: what is not European or a symbol becomes ``?``."""
    letters = [letter if ord(letter) < 0x2E80 else "?" for letter in one_line(text)]
    return "".join(letters) if len(letters) <= limit else "".join(letters[: limit - 1]) + "…"
