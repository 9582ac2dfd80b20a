"""What goes here: tests of src/visualization.py, of what was drawn and not of the file."""

import os
from pathlib import Path

import numpy as np
import pytest

from src.visualization import show_images

FIXTURES = Path(os.environ.get("IMAGING101_FIXTURES", "evaluation/fixtures")) / "visualization"


def test_show_images_draws_all_on_one_scale_in_mm():
    with np.load(FIXTURES / "show_images.npz", allow_pickle=False) as stored:
        first, second, pixel = stored["first"], stored["second"], stored["pixel_mm"].item()
    drawn = show_images([first, second], ["first", "second"], pixel, "figure.png")
    np.testing.assert_allclose(drawn["images"], [first, second], rtol=1e-12)
    np.testing.assert_allclose(drawn["limits"], [second.min(), first.max()], rtol=1e-12)
    rows, columns = first.shape
    np.testing.assert_allclose(drawn["extent"], [0, columns * pixel, rows * pixel, 0], rtol=1e-12)
    assert list(drawn["labels"]) == ["first", "second"]


def test_show_images_refuses_a_label_too_few():
    with pytest.raises(ValueError):
        show_images([np.ones((2, 2)), np.ones((2, 2))], ["one"], 1.0, "figure.png")
