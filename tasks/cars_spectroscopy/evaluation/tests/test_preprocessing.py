"""Tests of src/preprocessing.py against README.md and design.md."""

import os
from pathlib import Path

import numpy as np
import pytest

from src import preprocessing

FIXTURES = Path(os.environ.get("IMAGING101_FIXTURES", "evaluation/fixtures")) / "preprocessing"


def load(name):
    with np.load(FIXTURES / f"{name}.npz") as stored:
        return {key: stored[key] if stored[key].ndim else stored[key].item() for key in stored.files}


def normalise(f, **changed):
    f = f | changed
    names = ("raw", "reference", "dark", "read_noise", "reference_frames", "full_scale")
    return preprocessing.normalise_spectra(*(f[name] for name in names))


def test_load_scan_returns_the_stored_arrays_and_meta_data():
    f, scan = load("load_scan"), preprocessing.load_scan("data")
    assert tuple(scan["raw"].shape) == tuple(f["shape"])
    assert scan["raw"].dtype == np.uint16
    assert int(scan["raw"].sum(dtype=np.int64)) == f["raw_sum"]
    np.testing.assert_array_equal(scan["raw"][f["row"], f["pixel"]], f["raw"])
    np.testing.assert_allclose(scan["reference"][f["pixel"]], f["reference"], rtol=1e-6)
    np.testing.assert_allclose(scan["nu_pixels"][f["pixel"]], f["nu_pixels"], rtol=1e-12)
    np.testing.assert_allclose(scan["y_mm"][f["row"]], f["y_mm"], rtol=1e-12)
    for name, value in zip(f["meta_names"], f["meta_values"], strict=True):
        assert scan[str(name)] == value


def test_load_scan_reports_a_missing_folder():
    with pytest.raises(FileNotFoundError):
        preprocessing.load_scan("no_such_folder")


def test_check_saturation_marks_full_scale_only():
    f = load("check_saturation")
    found = preprocessing.check_saturation(f["raw"], f["full_scale"])
    assert found.dtype == bool
    np.testing.assert_array_equal(found, f["expected"])


def test_check_saturation_of_16_bit_counts():
    raw = np.array([[65534, 65535, 0]], dtype=np.uint16)
    np.testing.assert_array_equal(preprocessing.check_saturation(raw, 65535), [[False, True, False]])


@pytest.mark.parametrize(("raw", "full_scale"), [(np.zeros(4), 255), (np.zeros((2, 4)), 0)])
def test_check_saturation_refuses_bad_input(raw, full_scale):
    with pytest.raises(ValueError):
        preprocessing.check_saturation(raw, full_scale)


def test_normalise_spectra_signal():
    f = load("normalise_spectra")
    np.testing.assert_allclose(normalise(f)[0], f["signal"], rtol=1e-10, atol=1e-12)


def test_normalise_spectra_sigma():
    f = load("normalise_spectra")
    np.testing.assert_allclose(normalise(f)[1], f["sigma"], rtol=1e-10)


def test_normalise_spectra_gives_saturated_pixels_no_weight():
    f = load("normalise_spectra")
    np.testing.assert_array_equal(np.isinf(normalise(f)[1]), f["raw"] >= f["full_scale"])


def test_normalise_spectra_below_the_dark_level_is_negative():
    f = load("normalise_spectra")
    signal, sigma = normalise(f, raw=np.full((2, f["reference"].size), int(f["dark"]) - 20, dtype=np.uint16))
    assert np.all(signal < 0)
    assert np.all(np.isfinite(sigma))


def test_normalise_spectra_sigma_is_the_scatter_of_poisson_counts():
    rng = np.random.default_rng(5)
    level, dark, noise = 400.0, 50.0, 6.0
    raw = rng.poisson(level, (400, 40)) + dark + rng.normal(0, noise, (400, 40))
    raw = np.rint(raw).astype(np.uint16)
    signal, sigma = preprocessing.normalise_spectra(raw, np.full(40, 1050.0), dark, noise, 10**9, 65535)
    assert abs(signal.std() / sigma.mean() - 1) < 0.03


def test_normalise_spectra_refuses_a_reference_of_another_length():
    f = load("normalise_spectra")
    with pytest.raises(ValueError):
        normalise(f, reference=f["reference"][:-1])


def test_normalise_spectra_refuses_a_reference_at_the_dark_level():
    f = load("normalise_spectra")
    reference = f["reference"].copy()
    reference[2] = f["dark"]
    with pytest.raises(ValueError):
        normalise(f, reference=reference)
