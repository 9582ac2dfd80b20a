"""Tests of src/preprocessing.py: what README and design.md state."""

import os
from pathlib import Path

import numpy as np
import pytest

from src.preprocessing import interpolate_maps, load_scan, noise_covariance, prewhiten

FIXTURES = (
    Path(os.environ.get("IMAGING101_FIXTURES", Path(__file__).parents[1] / "fixtures")) / "preprocessing"
)


def read(name):
    with np.load(FIXTURES / f"{name}.npz", allow_pickle=False) as stored:
        return dict(stored)


class TestLoadScan:
    def test_shapes_and_values(self):
        expected, scan = read("load_scan"), load_scan("data")
        for key in ("k_space", "noise_prescan", "coil_maps"):
            assert np.shape(scan[key]) == tuple(expected[f"{key}_shape"])
            picked = np.asarray(scan[key]).ravel()[expected[f"{key}_index"]]
            np.testing.assert_allclose(picked, expected[f"{key}_value"], rtol=1e-6)

    def test_rows_and_nodes_are_untouched(self):
        expected, scan = read("load_scan"), load_scan("data")
        np.testing.assert_array_equal(scan["rows"], expected["rows"])
        np.testing.assert_allclose(scan["node_positions"], expected["node_positions"], rtol=1e-12)

    def test_dtypes(self):
        scan = load_scan("data")
        assert {scan[key].dtype for key in ("k_space", "noise_prescan", "coil_maps")} == {
            np.dtype("complex128")
        }
        assert scan["rows"].dtype == np.int64
        assert scan["node_positions"].dtype == np.float64

    def test_missing_folder(self):
        with pytest.raises(FileNotFoundError):
            load_scan("no_such_folder")


class TestInterpolateMaps:
    def test_bicubic_polynomial_is_exact(self):
        f = read("interpolate_maps")
        result = interpolate_maps(f["coil_maps"], f["node_positions"], tuple(int(n) for n in f["shape"]))
        assert result.shape == f["expected"].shape
        np.testing.assert_allclose(result, f["expected"], rtol=1e-8, atol=1e-9 * np.abs(f["expected"]).max())

    def test_values_at_nodes_are_kept(self):
        f = read("interpolate_maps")
        nodes = np.arange(f["node_positions"].size, dtype=float) * 2 - 2
        last = int(nodes[-1])
        rng = np.random.default_rng(3)
        values = rng.normal(size=f["coil_maps"].shape) + 1j * rng.normal(size=f["coil_maps"].shape)
        result = interpolate_maps(values, nodes, (last + 1, last + 1))
        np.testing.assert_allclose(result[:, ::2, ::2], values[:, 1:, 1:], rtol=1e-9, atol=1e-10)

    def test_linear_in_the_maps(self):
        f = read("interpolate_maps")
        shape = tuple(int(n) for n in f["shape"])
        once = interpolate_maps(f["coil_maps"], f["node_positions"], shape)
        turned = interpolate_maps((2 - 3j) * f["coil_maps"], f["node_positions"], shape)
        np.testing.assert_allclose(turned, (2 - 3j) * once, rtol=1e-10, atol=1e-10 * np.abs(once).max())

    def test_grid_beyond_the_nodes(self):
        f = read("interpolate_maps")
        beyond = int(np.ceil(f["node_positions"][-1])) + 2
        with pytest.raises(ValueError):
            interpolate_maps(f["coil_maps"], f["node_positions"], (beyond, 4))

    def test_nodes_that_do_not_ascend(self):
        f = read("interpolate_maps")
        nodes = f["node_positions"].copy()
        nodes[1] = nodes[2] + 0.1
        with pytest.raises(ValueError):
            interpolate_maps(f["coil_maps"], nodes, (4, 4))

    def test_wrong_node_count(self):
        f = read("interpolate_maps")
        with pytest.raises(ValueError):
            interpolate_maps(f["coil_maps"], f["node_positions"][:-1], (4, 4))


class TestNoiseCovariance:
    def test_mean_outer_product(self):
        f = read("noise_covariance")
        np.testing.assert_allclose(
            noise_covariance(f["noise_prescan"]), f["expected"], rtol=1e-10, atol=1e-14
        )

    def test_hermitian_with_total_complex_variance(self):
        noise = read("noise_covariance")["noise_prescan"]
        psi = noise_covariance(noise)
        np.testing.assert_allclose(psi, psi.conj().T, rtol=1e-12, atol=1e-15)
        np.testing.assert_allclose(
            np.diag(psi).real, np.mean(noise.real**2 + noise.imag**2, axis=1), rtol=1e-10
        )

    def test_phase_turn_of_one_coil(self):
        noise = read("noise_covariance")["noise_prescan"]
        turned = noise.copy()
        turned[0] *= 1j
        np.testing.assert_allclose(
            noise_covariance(turned)[0, 1], 1j * noise_covariance(noise)[0, 1], rtol=1e-10
        )

    def test_too_few_samples(self):
        noise = read("noise_covariance")["noise_prescan"]
        with pytest.raises(ValueError):
            noise_covariance(noise[:, : noise.shape[0] - 1])


class TestPrewhiten:
    def test_inverse_cholesky_factor_on_data_and_maps(self):
        f = read("prewhiten")
        data, maps = prewhiten(f["k_space"], f["maps"], f["psi"])
        np.testing.assert_allclose(data, f["expected_k_space"], rtol=1e-8, atol=1e-10)
        np.testing.assert_allclose(maps, f["expected_maps"], rtol=1e-8, atol=1e-10)

    def test_noise_becomes_white_with_unit_variance(self):
        f = read("prewhiten")
        white = prewhiten(np.eye(len(f["psi"])), f["maps"], f["psi"])[0]
        np.testing.assert_allclose(white @ f["psi"] @ white.conj().T, np.eye(len(white)), atol=1e-9)

    def test_diagonal_covariance_divides_by_standard_deviations(self):
        f = read("prewhiten")
        deviations = np.arange(1.0, 1 + len(f["psi"]))
        data, maps = prewhiten(f["k_space"], f["maps"], np.diag(deviations**2))
        np.testing.assert_allclose(data, f["k_space"] / deviations[:, None, None], rtol=1e-10)
        np.testing.assert_allclose(maps, f["maps"] / deviations[:, None, None], rtol=1e-10)

    def test_unequal_coil_counts(self):
        f = read("prewhiten")
        with pytest.raises(ValueError):
            prewhiten(f["k_space"], f["maps"][:-1], f["psi"])

    def test_indefinite_covariance(self):
        f = read("prewhiten")
        with pytest.raises(ValueError):
            prewhiten(f["k_space"], f["maps"], -f["psi"])
