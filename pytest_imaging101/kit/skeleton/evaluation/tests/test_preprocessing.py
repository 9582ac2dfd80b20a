"""What goes here: tests of src/preprocessing.py, of what README and design.md state and of nothing else."""

import os
from pathlib import Path

import numpy as np
import pytest

from src.preprocessing import counts_to_rate, load_scan

FIXTURES = Path(os.environ.get("IMAGING101_FIXTURES", "evaluation/fixtures")) / "preprocessing"


def load(name):
    with np.load(FIXTURES / f"{name}.npz", allow_pickle=False) as stored:
        return {key: stored[key] if stored[key].ndim else stored[key].item() for key in stored.files}


def test_load_scan_reads_counts_and_parameters():
    stored = load("load_scan")
    scan = load_scan("data")
    assert scan["counts"].shape == (64, 48)
    np.testing.assert_array_equal(scan["counts"][stored["rows"], stored["columns"]], stored["values"])
    assert scan["counts"].sum() == stored["total"]
    assert scan["pixel_mm"] == 0.05
    assert list(scan["displacement_mm"]) == [0.06, -0.09]


def test_counts_to_rate():
    stored = load("counts_to_rate")
    rate = counts_to_rate(stored["counts"], stored["exposure_s"], stored["dark_rate_per_s"])
    np.testing.assert_allclose(rate, stored["rate"], rtol=1e-12, atol=1e-12)


def test_counts_to_rate_keeps_negative_values():
    assert counts_to_rate(np.array([0, 4]), 2.0, 1.5).tolist() == [-1.5, 0.5]


def test_counts_to_rate_refuses_an_exposure_that_is_not_positive():
    with pytest.raises(ValueError):
        counts_to_rate(np.ones(3), 0.0, 1.0)
