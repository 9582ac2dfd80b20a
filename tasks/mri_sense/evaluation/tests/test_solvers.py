"""Tests of src/solvers.py: what README and design.md state."""

import os
from pathlib import Path

import numpy as np
import pytest
from scipy import sparse

from src.solvers import cg_hermitian, iterative_sense, unfold_direct

FIXTURES = Path(os.environ.get("IMAGING101_FIXTURES", Path(__file__).parents[1] / "fixtures")) / "solvers"


def read(name):
    with np.load(FIXTURES / f"{name}.npz", allow_pickle=False) as stored:
        return dict(stored)


def scan(name):
    f = read(name)
    return f, (f["k_space"], f["maps"], f["rows"])


class TestCgHermitian:
    def test_solution(self):
        f = read("cg_hermitian")
        x, residuals = cg_hermitian(f["matrix"], f["rhs"], 200, 1e-12)
        np.testing.assert_allclose(x, f["expected"], rtol=1e-7, atol=1e-9)
        assert residuals[-1] <= 1e-12
        assert np.all(np.asarray(residuals[:-1]) > 1e-12)

    def test_each_step_minimises_the_energy_over_the_krylov_space(self):
        f = read("cg_hermitian")
        for steps, expected in enumerate(f["steps"], start=1):
            x, residuals = cg_hermitian(f["matrix"], f["rhs"], steps, 0.0)
            assert np.shape(residuals) == (steps + 1,)
            np.testing.assert_allclose(x, expected, rtol=1e-6, atol=1e-9)
            np.testing.assert_allclose(residuals, np.append(1.0, f["residuals"][:steps]), rtol=1e-6)

    def test_sparse_matrix(self):
        f = read("cg_hermitian")
        x, _ = cg_hermitian(sparse.csr_array(f["matrix"]), f["rhs"], 200, 1e-12)
        np.testing.assert_allclose(x, f["expected"], rtol=1e-7, atol=1e-9)

    def test_zero_steps_and_zero_right_hand_side(self):
        f = read("cg_hermitian")
        x, residuals = cg_hermitian(f["matrix"], f["rhs"], 0, 0.0)
        assert not np.any(x)
        assert list(residuals) == [1.0]
        x, residuals = cg_hermitian(f["matrix"], 0 * f["rhs"], 10, 0.0)
        assert not np.any(x)
        assert list(residuals) == [0.0]

    def test_matrix_that_is_not_hermitian(self):
        f = read("cg_hermitian")
        matrix = f["matrix"].copy()
        matrix[0, 1] += 1
        with pytest.raises(ValueError):
            cg_hermitian(matrix, f["rhs"], 5, 0.0)

    def test_matrix_that_does_not_fit(self):
        f = read("cg_hermitian")
        with pytest.raises(ValueError):
            cg_hermitian(f["matrix"], f["rhs"][1:], 5, 0.0)


class TestIterativeSense:
    def test_converges_to_the_dense_solution(self):
        f, arrays = scan("iterative_sense")
        x, residuals = iterative_sense(*arrays, float(f["lam"]), 1000, 1e-11)
        np.testing.assert_allclose(x, f["expected"], rtol=1e-6, atol=1e-8)
        assert residuals[0] == 1
        assert residuals[-1] <= 1e-11

    def test_first_steps_are_those_of_the_intensity_corrected_system(self):
        f, arrays = scan("iterative_sense")
        for steps, expected in enumerate(f["steps"], start=1):
            x, residuals = iterative_sense(*arrays, float(f["lam"]), steps, 0.0)
            np.testing.assert_allclose(x, expected, rtol=1e-6, atol=1e-9)
            np.testing.assert_allclose(residuals, np.append(1.0, f["residuals"][:steps]), rtol=1e-6)

    def test_homogeneous_in_the_data(self):
        k_space, maps, rows = scan("iterative_sense")[1]
        once, _ = iterative_sense(k_space, maps, rows, 0.5, 6, 0.0)
        turned, _ = iterative_sense((3 - 1j) * k_space, maps, rows, 0.5, 6, 0.0)
        np.testing.assert_allclose(turned, (3 - 1j) * once, rtol=1e-8, atol=1e-10)

    def test_stops_at_the_tolerance(self):
        f, arrays = scan("iterative_sense")
        _, residuals = iterative_sense(*arrays, float(f["lam"]), 1000, 1e-3)
        assert residuals[-1] <= 1e-3
        assert np.all(np.asarray(residuals[:-1]) > 1e-3)

    def test_full_sampling_by_one_uniform_coil_is_one_step(self):
        k_space, _, _ = scan("iterative_sense")[1]
        full = k_space[:1]
        maps = np.full(full.shape, 2j)
        x, residuals = iterative_sense(full, maps, np.arange(full.shape[1]), 1.0, 1, 0.0)
        assert residuals[-1] < 1e-12
        # |S|^2 / (|S|^2 + lam) = 4/5 of the true image, whose norm is that of the data over |S|
        assert np.linalg.norm(x) == pytest.approx(0.8 * np.linalg.norm(full) / 2, rel=1e-10)

    def test_negative_lam(self):
        with pytest.raises(ValueError):
            iterative_sense(*scan("iterative_sense")[1], -1.0, 5, 0.0)

    def test_data_that_do_not_fit(self):
        k_space, maps, rows = scan("iterative_sense")[1]
        with pytest.raises(ValueError):
            iterative_sense(k_space[:, 1:], maps, rows, 1.0, 5, 0.0)

    def test_unseen_pixel_needs_lam(self):
        k_space, maps, rows = scan("iterative_sense")[1]
        maps = maps.copy()
        maps[:, 0, 0] = 0
        with pytest.raises(ValueError):
            iterative_sense(k_space, maps, rows, 0.0, 5, 0.0)


class TestUnfoldDirect:
    def test_dense_solution(self):
        f, arrays = scan("unfold_direct")
        np.testing.assert_allclose(
            unfold_direct(*arrays, float(f["lam"])), f["expected"], rtol=1e-7, atol=1e-9
        )

    def test_dense_solution_without_lam(self):
        f, arrays = scan("unfold_direct")
        np.testing.assert_allclose(
            unfold_direct(*arrays, 0.0), f["expected_unregularised"], rtol=1e-5, atol=1e-7
        )

    def test_is_the_limit_of_the_iteration(self):
        arrays = scan("unfold_direct")[1]
        limit, _ = iterative_sense(*arrays, 0.7, 1000, 1e-12)
        np.testing.assert_allclose(unfold_direct(*arrays, 0.7), limit, rtol=1e-6, atol=1e-8)

    def test_rows_that_are_not_uniform(self):
        k_space, maps, rows = scan("unfold_direct")[1]
        rows = rows.copy()
        rows[-1] = rows[-2] + 1
        with pytest.raises(ValueError):
            unfold_direct(k_space, maps, rows, 0.1)

    def test_spacing_that_does_not_divide(self):
        k_space, maps, rows = scan("unfold_direct")[1]
        with pytest.raises(ValueError):
            unfold_direct(k_space, maps[:, :-1], rows, 0.1)
