"""What the pictures hold."""

import os
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose

from src import visualization

FIXTURES = (
    Path(os.environ.get("IMAGING101_FIXTURES", Path(__file__).parents[1] / "fixtures")) / "visualization"
)


def fixture(name):
    with np.load(FIXTURES / f"{name}.npz", allow_pickle=False) as stored:
        return {key: stored[key] for key in stored.files}


def test_show_slice_draws_hounsfield_units_in_the_window():
    stored = fixture("show_slice")
    centre, width = stored["window"].tolist()
    fov, water = stored["fov"].item(), stored["water"].item()
    drawn = visualization.show_slice(stored["mu"], fov, water, (centre, width), "slice.png")
    assert_allclose(drawn["image"], stored["image"], rtol=1e-9, atol=1e-7)
    assert_allclose(drawn["extent"], [-fov / 2, fov / 2, -fov / 2, fov / 2])
    assert_allclose(drawn["limits"], [centre - width / 2, centre + width / 2])


def test_show_slice_puts_water_at_zero_and_air_at_minus_1000():
    image = np.array([[0.0, 0.0195], [0.039, 0.0195]])
    drawn = visualization.show_slice(image, 10.0, 0.0195, (0.0, 100.0), "slice.png")
    assert_allclose(drawn["image"], [[-1000.0, 0.0], [1000.0, 0.0]], atol=1e-9)


@pytest.mark.parametrize(
    ("shape", "fov", "water", "width"),
    [
        ((4, 5), 10.0, 0.02, 1.0),
        ((4, 4), 0.0, 0.02, 1.0),
        ((4, 4), 10.0, 0.0, 1.0),
        ((4, 4), 10.0, 0.02, 0.0),
    ],
)
def test_show_slice_refuses_bad_arguments(shape, fov, water, width):
    with pytest.raises(ValueError):
        visualization.show_slice(np.zeros(shape), fov, water, (0.0, width), "slice.png")


def test_profile_plot_draws_the_row_of_every_image():
    stored = fixture("profile_plot")
    row, images = stored["row"].item(), [stored["first"], stored["second"]]
    drawn = visualization.profile_plot(images, ["first", "second"], row, stored["fov"].item(), "profile.png")
    assert_allclose(drawn["positions"], stored["positions"], rtol=1e-9, atol=1e-9)
    assert_allclose(drawn["profiles"], [stored["first"][row], stored["second"][row]], rtol=1e-12)
    assert list(drawn["labels"]) == ["first", "second"]
    assert drawn["y"] == pytest.approx(stored["y"].item(), rel=1e-9)


def test_profile_plot_refuses_bad_arguments():
    image = np.zeros((6, 6))
    with pytest.raises(ValueError):
        visualization.profile_plot([image], ["one", "two"], 0, 10.0, "profile.png")
    with pytest.raises(ValueError):
        visualization.profile_plot([image], ["one"], 6, 10.0, "profile.png")
    with pytest.raises(ValueError):
        visualization.profile_plot([image, np.zeros((5, 5))], ["one", "two"], 0, 10.0, "profile.png")


def test_error_map_draws_the_signed_difference_on_symmetric_limits():
    stored = fixture("error_map")
    fov = stored["fov"].item()
    drawn = visualization.error_map(stored["mu"], stored["reference"], fov, "error.png")
    difference = stored["mu"] - stored["reference"]
    assert_allclose(drawn["image"], difference, atol=1e-15)
    assert_allclose(drawn["extent"], [-fov / 2, fov / 2, -fov / 2, fov / 2])
    assert_allclose(drawn["limits"], [-np.abs(difference).max(), np.abs(difference).max()], rtol=1e-9)


def test_error_map_refuses_images_of_two_sizes():
    with pytest.raises(ValueError):
        visualization.error_map(np.zeros((4, 4)), np.zeros((5, 5)), 10.0, "error.png")
