"""Comparison figures: the right views of every kind of array, one scale, and honesty about what is wrong."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib.figure import Figure
from matplotlib.image import imread
from matplotlib.text import Text

from pytest_imaging101.faults import StorageFault
from pytest_imaging101.reporting.figure import comparison, save_comparison
from pytest_imaging101.reporting.views import error_of, numeric, views
from tests.reporting.records import HOSTILE

pytestmark = pytest.mark.filterwarnings("error")

RNG = np.random.default_rng(7)
IMAGE = RNG.random((24, 32))
LINE = np.sin(np.linspace(0, 6, 200))
NOT_FINITE = np.array([0xFF, 0x00, 0xC8]) / 255


def labels(array: Any, as_complex: bool = False) -> list[str]:
    found = numeric(array)
    assert not isinstance(found, str)
    return [view.label for view in views(found, as_complex=as_complex)]


def words(figure: Figure) -> str:
    return "\n".join(text.get_text() for text in figure.findobj(Text))


def images(figure: Figure) -> list[Any]:
    """Reconstruction, reference and error of each row."""
    return [axes.images[0] for axes in figure.axes if axes.images]


@pytest.mark.parametrize(
    ("shape", "expected"),
    [
        ((200,), [""]),
        ((1, 200, 1), [""]),
        ((), [""]),
        ((2, 50), ["row 0", "row 1"]),
        ((50, 3), ["column 0", "column 1", "column 2"]),
        ((24, 32), [""]),
        ((1, 24, 32), [""]),
        ((2, 24, 32), ["index 0 of axis 0", "index 1 of axis 0"]),
        ((24, 32, 3), [f"index {index} of axis 2" for index in range(3)]),
        (
            (10, 24, 32),
            ["slice 5 of 10 along axis 0", "slice 12 of 24 along axis 1", "slice 16 of 32 along axis 2"],
        ),
        ((7, 2, 24, 32), ["[3] index 0 of axis 0", "[3] index 1 of axis 0"]),
    ],
)
def test_each_kind_of_array_has_its_views(shape: tuple[int, ...], expected: list[str]) -> None:
    assert labels(np.zeros(shape)) == expected


def test_volumes_are_cut_through_their_middle() -> None:
    volume = RNG.random((11, 12, 13))
    found = views(volume, as_complex=False)
    np.testing.assert_array_equal(found[0].values, volume[5])
    np.testing.assert_array_equal(found[1].values, volume[:, 6])
    np.testing.assert_array_equal(found[2].values, volume[:, :, 6])


def test_complex_arrays_are_shown_as_magnitude_and_phase() -> None:
    field = IMAGE * np.exp(1j * 2.0)
    magnitude, phase = views(field, as_complex=True)
    np.testing.assert_allclose(magnitude.values, IMAGE)
    np.testing.assert_allclose(phase.values, 2.0)
    assert magnitude.label == "magnitude"
    assert phase.is_phase


def test_a_phase_error_is_the_angle_between() -> None:
    truth, found = (views(np.exp(1j * np.full(8, angle)), as_complex=True)[1] for angle in (3.1, -3.1))
    np.testing.assert_allclose(error_of(found, truth).values, 2 * np.pi - 6.2)


def test_both_images_have_the_reference_s_scale_and_errors_a_symmetric_one() -> None:
    figure = comparison(IMAGE * 3 + 1, IMAGE, "t", "1/mm")
    reconstruction, reference, error = images(figure)
    scale = (IMAGE.min(), IMAGE.max())
    assert reconstruction.get_clim() == reference.get_clim() == pytest.approx(scale)
    low, high = error.get_clim()
    assert low == -high == pytest.approx(-(scale[1] - scale[0]))
    assert words(figure).count("1/mm") == 2


def test_small_errors_fill_their_own_scale_but_rounding_is_not_blown_up() -> None:
    error = images(comparison(IMAGE + 0.1, IMAGE, "t", ""))[2]
    assert error.get_clim()[1] == pytest.approx(0.1)
    rounding = images(comparison(IMAGE + 1e-15, IMAGE, "t", ""))[2]
    assert rounding.get_clim()[1] == pytest.approx(1e-3 * np.ptp(IMAGE))


def test_a_phase_is_shown_over_the_full_turn_in_radians() -> None:
    field = IMAGE * np.exp(1j)
    figure = comparison(field, field, "t", "a.u.")
    assert images(figure)[3].get_clim() == pytest.approx((-np.pi, np.pi))
    assert "rad" in words(figure)


def test_values_that_are_not_finite_are_counted_and_marked(tmp_path: Path) -> None:
    broken = IMAGE.copy()
    broken[3:9, 4:9] = np.nan
    broken[20, 20] = np.inf
    assert "31 of 768 not finite" in words(comparison(broken, IMAGE, "t", ""))
    save_comparison(tmp_path / "broken.png", broken, IMAGE, "t", "")
    save_comparison(tmp_path / "whole.png", IMAGE, IMAGE, "t", "")

    def marked(name: str) -> int:
        pixels = imread(tmp_path / name)[..., :3]
        return int(np.all(np.abs(pixels - NOT_FINITE) < 0.01, axis=-1).sum())

    assert marked("broken.png") > 1000
    assert marked("whole.png") == 0


def test_lines_that_are_not_finite_are_counted() -> None:
    broken = LINE.copy()
    broken[:20] = -np.inf
    assert "20 of 200 not finite" in words(comparison(broken, LINE, "t", ""))


@pytest.mark.parametrize(
    ("reconstruction", "reference", "sentence"),
    [
        (IMAGE[:12], IMAGE, "no error:\nshape (12, 32)\nis not (24, 32)"),
        (IMAGE.ravel(), IMAGE, "no error:\nshape (768,)\nis not (24, 32)"),
        (LINE[:50], LINE, "no error:\nshape (50,)\nis not (200,)"),
        (IMAGE, LINE, "shape (24, 32) is not (200,)"),
        (RNG.random((5, 6, 7)), IMAGE, "shape (5, 6, 7)\nis not (24, 32)"),
        (None, IMAGE, "the reconstruction is\nmissing"),
        (np.zeros((0, 4)), IMAGE, "empty, of shape (0, 4)"),
        (np.array([{}, None]), IMAGE, "an array of object, not of numbers"),
        (np.array(["a"]), LINE, "not of numbers"),
    ],
)
def test_what_cannot_be_compared_is_said(
    tmp_path: Path, reconstruction: Any, reference: Any, sentence: str
) -> None:
    assert sentence in words(comparison(reconstruction, reference, "t", ""))
    save_comparison(tmp_path / "figure.png", reconstruction, reference, "t", "")
    assert imread(tmp_path / "figure.png").shape[0] > 200


@pytest.mark.parametrize(
    ("reconstruction", "reference"),
    [
        (IMAGE * 1e308, IMAGE),
        (IMAGE * np.nan, IMAGE),
        (LINE * np.nan, LINE),
        (np.ones((8, 8)), np.ones((8, 8))),
        (np.zeros((8, 8)), np.zeros((8, 8)) * np.nan),
        (IMAGE, IMAGE > 0.5),
        (IMAGE * 1j, IMAGE),
        (IMAGE, IMAGE * 1j),
        (np.zeros((8, 8), complex), np.zeros((8, 8), complex)),
        (np.full(IMAGE.shape, complex(np.nan, np.inf)), IMAGE * 1j),
        (LINE * 100, LINE),
        (3.0, np.float32(2)),
        (np.arange(10.0).reshape(2, 5), np.arange(10).reshape(2, 5)),
        (np.tile(LINE, (12, 1)), np.tile(LINE, (12, 1))),
        (LINE * 1j, LINE * 1j),
        (IMAGE.astype(np.float16), IMAGE.astype(np.int8)),
        (RNG.random((6, 7, 8)) * 1j, RNG.random((6, 7, 8)) * 1j),
    ],
)
def test_extreme_arrays_are_drawn_without_a_warning(
    tmp_path: Path, reconstruction: Any, reference: Any
) -> None:
    save_comparison(tmp_path / "figure.png", reconstruction, reference, "t", "m")
    assert imread(tmp_path / "figure.png").ndim == 3


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE.keys())
def test_hostile_titles_and_units_are_drawn_as_text(tmp_path: Path, text: str) -> None:
    save_comparison(tmp_path / "image.png", IMAGE, IMAGE, text, text)
    save_comparison(tmp_path / "line.png", LINE, LINE, text, text)
    assert len(list(tmp_path.iterdir())) == 2


def test_a_reference_that_is_no_array_of_numbers_is_the_caller_s_error() -> None:
    with pytest.raises(ValueError, match="the reference cannot be drawn: it is missing"):
        comparison(IMAGE, None, "t", "")


def test_a_figure_that_cannot_be_written_is_a_storage_fault(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StorageFault):
        save_comparison(tmp_path / "file" / "figure.png", LINE, LINE, "t", "")


def test_rows_of_different_quantities_have_units_of_their_own() -> None:
    rows = np.array([[300.0, 900.0, 2000.0], [0.7, 0.6, 0.5]])
    drawn = comparison(rows, rows, "title", "K; mole fraction")
    labels = [axes.get_ylabel() for axes in drawn.axes]
    assert [label for label in labels if "(K)" in label and "mole" not in label]
    assert [label for label in labels if "(mole fraction)" in label]
