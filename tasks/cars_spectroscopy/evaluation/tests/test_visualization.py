"""Tests of src/visualization.py against design.md: what was drawn, not the file."""

import os
from pathlib import Path

import numpy as np
import pytest

from src import visualization

FIXTURES = Path(os.environ.get("IMAGING101_FIXTURES", "evaluation/fixtures")) / "visualization"


def load(name):
    with np.load(FIXTURES / f"{name}.npz") as stored:
        return {key: stored[key] if stored[key].ndim else stored[key].item() for key in stored.files}


def test_figure_fit():
    f = load("figure_fit")
    drawn = visualization.figure_fit(f["nu"], f["signal"], f["sigma"], f["model"], "fit.png")
    assert set(drawn) >= {"nu", "sqrt_signal", "sqrt_model", "weighted_residual"}
    for key in ("nu", "sqrt_signal", "sqrt_model", "weighted_residual"):
        np.testing.assert_allclose(drawn[key], f[key], rtol=1e-10, atol=1e-12)


def test_figure_fit_refuses_arrays_of_different_length():
    f = load("figure_fit")
    with pytest.raises(ValueError):
        visualization.figure_fit(f["nu"], f["signal"][:-1], f["sigma"], f["model"], "fit.png")


def test_figure_profile():
    f = load("figure_profile")
    drawn = visualization.figure_profile(f["y_mm"], f["T_K"], f["sigma_T"], "profile.png")
    for key, expected in {
        "y": "y_mm",
        "T": "T_K",
        "sigma_T": "sigma_T",
        "low": "low",
        "high": "high",
    }.items():
        np.testing.assert_allclose(drawn[key], f[expected], rtol=1e-12)


def test_figure_profile_refuses_two_dimensional_input():
    f = load("figure_profile")
    with pytest.raises(ValueError):
        visualization.figure_profile(f["y_mm"][None], f["T_K"][None], f["sigma_T"][None], "profile.png")
