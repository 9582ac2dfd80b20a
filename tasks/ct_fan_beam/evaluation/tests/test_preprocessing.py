"""Loading, the logarithm and the fan angles."""

import os
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from src import preprocessing

FIXTURES = (
    Path(os.environ.get("IMAGING101_FIXTURES", Path(__file__).parents[1] / "fixtures")) / "preprocessing"
)
GEOMETRY = ("source_to_isocentre_mm", "source_to_detector_mm", "n_cells", "cell_pitch_mm", "scan_start_rad")


def fixture(name):
    with np.load(FIXTURES / f"{name}.npz", allow_pickle=False) as stored:
        return {key: stored[key] for key in stored.files}


def geometry(stored):
    return {key: stored[key].item() for key in GEOMETRY}


def test_load_scan_returns_the_stored_counts_and_angles():
    stored = fixture("load_scan")
    counts, betas, air_counts, _ = preprocessing.load_scan("data")
    assert counts.shape == tuple(stored["shape"])
    assert np.issubdtype(counts.dtype, np.integer)
    assert betas.shape == counts.shape[:1]
    assert_array_equal(counts[stored["views"], stored["cells"]], stored["counts"])
    assert counts.sum(dtype=np.int64) == stored["total"]
    assert_allclose(betas[stored["views"]], stored["betas"], rtol=1e-12)
    assert air_counts == stored["air_counts"]


def test_load_scan_returns_the_whole_geometry():
    stored = fixture("load_scan")
    geom = preprocessing.load_scan("data")[3]
    assert set(geom) == set(stored["keys"].tolist())
    assert_allclose([geom[key] for key in stored["keys"].tolist()], stored["values"], rtol=1e-12)


def test_load_scan_of_a_missing_folder_is_file_not_found():
    with pytest.raises(FileNotFoundError):
        preprocessing.load_scan("no_such_folder")


def test_line_integrals_match_the_fixture():
    stored = fixture("counts_to_line_integrals")
    p = preprocessing.counts_to_line_integrals(stored["counts"], stored["air_counts"].item())
    assert p.dtype == np.float64
    assert_allclose(p, stored["line_integrals"], rtol=1e-12)


def test_line_integrals_of_air_are_zero_and_of_an_empty_cell_finite():
    p = preprocessing.counts_to_line_integrals(np.array([[1000, 0, 1]]), 1000.0)
    assert_allclose(p, [[0.0, np.log(1000.0), np.log(1000.0)]], atol=1e-12)


def test_line_integrals_add_when_transmissions_multiply():
    p = preprocessing.counts_to_line_integrals(np.array([200.0, 50.0, 10.0]), 1000.0)
    assert_allclose(
        p[0] + p[1], preprocessing.counts_to_line_integrals(np.array([10.0]), 1000.0)[0], rtol=1e-12
    )


@pytest.mark.parametrize(("counts", "air_counts"), [([[5.0]], 0.0), ([[5.0]], -3.0), ([[-1.0, 4.0]], 10.0)])
def test_line_integrals_refuse_impossible_counts(counts, air_counts):
    with pytest.raises(ValueError):
        preprocessing.counts_to_line_integrals(np.array(counts), air_counts)


def test_fan_angles_match_the_fixture():
    stored = fixture("fan_angles")
    gamma, gamma_max = preprocessing.fan_angles(geometry(stored))
    assert_allclose(gamma, stored["gamma"], rtol=1e-12, atol=1e-15)
    assert gamma_max == pytest.approx(stored["gamma_max"].item(), rel=1e-12)


def test_fan_angles_are_odd_and_rise_with_the_cell():
    gamma, gamma_max = preprocessing.fan_angles(geometry(fixture("fan_angles")))
    assert_allclose(gamma, -gamma[::-1], atol=1e-14)
    assert np.all(np.diff(gamma) > 0)
    assert gamma_max == pytest.approx(gamma.max(), rel=1e-12)


def test_fan_angle_does_not_depend_on_the_isocentre():
    geom = geometry(fixture("fan_angles"))
    moved = {**geom, "source_to_isocentre_mm": 0.9 * geom["source_to_isocentre_mm"]}
    assert_allclose(preprocessing.fan_angles(moved)[0], preprocessing.fan_angles(geom)[0], rtol=1e-12)


def test_fan_angles_refuse_an_incomplete_geometry():
    geom = geometry(fixture("fan_angles"))
    del geom["source_to_detector_mm"]
    with pytest.raises(ValueError):
        preprocessing.fan_angles(geom)
