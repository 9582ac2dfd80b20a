"""What goes here: tests of src/physics_model.py: stored values, and properties that hold whatever the code."""

import os
from pathlib import Path

import numpy as np
import pytest

from src.physics_model import blur, blur_adjoint, transfer_function

FIXTURES = Path(os.environ.get("IMAGING101_FIXTURES", "evaluation/fixtures")) / "physics_model"


def load(name):
    with np.load(FIXTURES / f"{name}.npz", allow_pickle=False) as stored:
        return {key: stored[key] if stored[key].ndim else stored[key].item() for key in stored.files}


def test_transfer_function():
    stored = load("transfer_function")
    found = transfer_function(
        stored["shape"].tolist(), stored["sigma_mm"], stored["displacement_mm"], stored["pixel_mm"]
    )
    np.testing.assert_allclose(found, stored["transfer"], rtol=1e-9, atol=1e-12)


def test_transfer_function_refuses_a_pixel_that_is_not_positive():
    with pytest.raises(ValueError):
        transfer_function((4, 5), (1.0, 1.0), (0.0, 0.0), 0.0)


def test_blur():
    stored = load("blur")
    found = blur(stored["image"], stored["transfer"])
    np.testing.assert_allclose(found, stored["blurred"], rtol=1e-9, atol=1e-9)


def test_blur_by_whole_pixels_is_a_roll():
    image = load("blur")["image"]
    transfer = transfer_function(image.shape, (0.0, 0.0), (0.4, -0.2), 0.2)
    np.testing.assert_allclose(blur(image, transfer), np.roll(image, (2, -1), (0, 1)), atol=1e-9)


def test_blur_keeps_the_sum():
    stored = load("blur")
    assert blur(stored["image"], stored["transfer"]).sum() == pytest.approx(stored["image"].sum(), rel=1e-9)


def test_blur_adjoint():
    stored = load("blur_adjoint")
    found = blur_adjoint(stored["image"], stored["transfer"])
    np.testing.assert_allclose(found, stored["back"], rtol=1e-9, atol=1e-9)


def test_blur_adjoint_passes_the_dot_test():
    stored = load("blur")
    x, y = stored["image"], np.cos(stored["image"])
    left = np.vdot(blur(x, stored["transfer"]), y)
    assert left == pytest.approx(np.vdot(x, blur_adjoint(y, stored["transfer"])), rel=1e-9)


@pytest.mark.parametrize("function", [blur, blur_adjoint])
def test_shapes_that_differ_are_refused(function):
    with pytest.raises(ValueError):
        function(np.ones((3, 4)), np.ones((4, 3)))
