"""Tests of src/visualization.py: what README and design.md state."""

import os
from pathlib import Path

import numpy as np
import pytest

from src.visualization import residual_plot, show_gmap, show_recon

FIXTURES = (
    Path(os.environ.get("IMAGING101_FIXTURES", Path(__file__).parents[1] / "fixtures")) / "visualization"
)


def read(name):
    with np.load(FIXTURES / f"{name}.npz", allow_pickle=False) as stored:
        return dict(stored)


class TestShowGmap:
    def test_draws_the_map_from_one_upwards(self):
        g = read("show_gmap")["g"]
        drawn = show_gmap(g, "figure.png")
        np.testing.assert_array_equal(drawn["image"], g)
        assert tuple(drawn["limits"]) == pytest.approx((1.0, g.max()))

    def test_needs_an_image(self):
        with pytest.raises(ValueError):
            show_gmap(read("show_gmap")["g"][0], "figure.png")


class TestShowRecon:
    def test_draws_magnitude_and_phase(self):
        images = read("show_recon")["images"]
        labels = [f"image {number}" for number in range(len(images))]
        drawn = show_recon(images, labels, "figure.png")
        magnitude = np.sqrt(images.real**2 + images.imag**2)
        np.testing.assert_allclose(drawn["magnitude"], magnitude, rtol=1e-12)
        np.testing.assert_allclose(drawn["phase"], np.arctan2(images.imag, images.real), rtol=1e-12)
        assert list(drawn["labels"]) == labels
        assert tuple(drawn["limits"]) == pytest.approx((0.0, magnitude[0].max()))

    def test_one_label_for_each_image(self):
        with pytest.raises(ValueError):
            show_recon(read("show_recon")["images"], ["only one"], "figure.png")

    def test_needs_a_stack(self):
        with pytest.raises(ValueError):
            show_recon(read("show_recon")["images"][0], ["one"], "figure.png")


class TestResidualPlot:
    def test_counts_from_the_starting_point(self):
        residuals = read("residual_plot")["residuals"]
        drawn = residual_plot(residuals, "figure.png")
        np.testing.assert_array_equal(drawn["iterations"], np.arange(len(residuals)))
        np.testing.assert_array_equal(drawn["residuals"], residuals)

    @pytest.mark.parametrize("residuals", [np.zeros(0), np.ones((2, 3))])
    def test_needs_a_curve(self, residuals):
        with pytest.raises(ValueError):
            residual_plot(residuals, "figure.png")
