"""Tests of src/physics_model.py: what README and design.md state."""

import os
from pathlib import Path

import numpy as np
import pytest

from src.physics_model import encode, encode_adjoint, fft2c, g_factor, ifft2c

FIXTURES = (
    Path(os.environ.get("IMAGING101_FIXTURES", Path(__file__).parents[1] / "fixtures")) / "physics_model"
)


def read(name):
    with np.load(FIXTURES / f"{name}.npz", allow_pickle=False) as stored:
        return dict(stored)


class TestFft2c:
    def test_explicit_sum(self):
        f = read("fft2c")
        np.testing.assert_allclose(fft2c(f["image"]), f["expected"], rtol=1e-9, atol=1e-11)

    def test_unitary(self):
        image = read("fft2c")["image"]
        assert np.linalg.norm(fft2c(image)) == pytest.approx(np.linalg.norm(image), rel=1e-12)

    @pytest.mark.parametrize("shape", [(6, 5), (5, 8), (7, 7)])
    def test_constant_lands_on_the_centre(self, shape):
        expected = np.zeros(shape)
        expected[shape[0] // 2, shape[1] // 2] = np.sqrt(shape[0] * shape[1])
        np.testing.assert_allclose(fft2c(np.ones(shape)), expected, atol=1e-12)

    def test_shift_by_one_row_turns_the_phase_negatively(self):
        height = 10
        image = np.zeros((height, 4))
        image[height // 2 + 1] = 1
        line = fft2c(image)[:, 2]
        expected = np.exp(-2j * np.pi * (np.arange(height) - height // 2) / height)
        np.testing.assert_allclose(line / line[height // 2], expected, atol=1e-12)


class TestIfft2c:
    def test_explicit_sum(self):
        f = read("ifft2c")
        np.testing.assert_allclose(ifft2c(f["k_space"]), f["expected"], rtol=1e-9, atol=1e-11)

    def test_adjoint_of_fft2c(self):
        image, k_space = read("fft2c")["image"], read("ifft2c")["k_space"][::-1]
        left, right = np.vdot(k_space, fft2c(image)), np.vdot(ifft2c(k_space), image)
        assert abs(left - right) <= 1e-10 * np.linalg.norm(image) * np.linalg.norm(k_space)


class TestEncode:
    def test_dense_matrix(self):
        f = read("encode")
        np.testing.assert_allclose(
            encode(f["image"], f["maps"], f["rows"]), f["expected"], rtol=1e-8, atol=1e-10
        )

    def test_rows_come_in_the_order_asked_for(self):
        f = read("encode")
        result = encode(f["image"], f["maps"], f["rows"][::-1])
        np.testing.assert_allclose(result, f["expected"][:, ::-1], rtol=1e-8, atol=1e-10)

    def test_linear(self):
        f = read("encode")
        once = encode(f["image"], f["maps"], f["rows"])
        turned = encode((1 + 2j) * f["image"], f["maps"], f["rows"])
        np.testing.assert_allclose(turned, (1 + 2j) * once, rtol=1e-9, atol=1e-11)

    def test_image_that_does_not_fit_the_maps(self):
        f = read("encode")
        with pytest.raises(ValueError):
            encode(f["image"][1:], f["maps"], f["rows"])

    @pytest.mark.parametrize("rows", [[0, 0], [-1, 0], [0, 1000], []])
    def test_bad_rows(self, rows):
        f = read("encode")
        with pytest.raises(ValueError):
            encode(f["image"], f["maps"], np.array(rows, dtype=np.int64))


class TestEncodeAdjoint:
    def test_dense_matrix(self):
        f = read("encode_adjoint")
        result = encode_adjoint(f["k_space"], f["maps"], f["rows"])
        np.testing.assert_allclose(result, f["expected"], rtol=1e-8, atol=1e-10)

    def test_dot_test(self):
        f, g = read("encode"), read("encode_adjoint")
        left = np.vdot(g["k_space"], encode(f["image"], f["maps"], f["rows"]))
        right = np.vdot(encode_adjoint(g["k_space"], f["maps"], f["rows"]), f["image"])
        assert left == pytest.approx(right, rel=1e-10)

    def test_full_sampling_inverts_up_to_the_sum_of_squares(self):
        f = read("encode")
        rows = np.arange(f["image"].shape[0])
        result = encode_adjoint(encode(f["image"], f["maps"], rows), f["maps"], rows)
        np.testing.assert_allclose(result, np.sum(np.abs(f["maps"]) ** 2, axis=0) * f["image"], rtol=1e-9)

    def test_k_space_that_does_not_fit(self):
        f = read("encode_adjoint")
        with pytest.raises(ValueError):
            encode_adjoint(f["k_space"][:, 1:], f["maps"], f["rows"])

    def test_repeated_rows(self):
        f = read("encode_adjoint")
        rows = f["rows"].copy()
        rows[1] = rows[0]
        with pytest.raises(ValueError):
            encode_adjoint(f["k_space"], f["maps"], rows)


class TestGFactor:
    def test_ratio_of_noise_from_whole_columns(self):
        f = read("g_factor")
        g = g_factor(f["maps"], f["psi"], int(f["reduction"]))
        np.testing.assert_allclose(g, f["expected"], rtol=1e-6)

    def test_full_sampling_amplifies_nothing(self):
        f = read("g_factor")
        np.testing.assert_allclose(g_factor(f["maps"], f["psi"], 1), 1, rtol=1e-9)

    def test_orthogonal_sensitivities_amplify_nothing(self):
        height = 8
        maps = np.zeros((2, height, 3))
        maps[0, : height // 2] = 2
        maps[1, height // 2 :] = 3
        np.testing.assert_allclose(g_factor(maps, np.eye(2), 2), 1, rtol=1e-9)

    def test_scale_of_noise_and_maps_does_not_matter(self):
        f = read("g_factor")
        reduction = int(f["reduction"])
        scaled = g_factor(5j * f["maps"], 9 * f["psi"], reduction)
        np.testing.assert_allclose(scaled, g_factor(f["maps"], f["psi"], reduction), rtol=1e-7)
        assert np.min(scaled) >= 1

    def test_reduction_that_does_not_divide_the_rows(self):
        f = read("g_factor")
        with pytest.raises(ValueError):
            g_factor(f["maps"][:, 1:], f["psi"], int(f["reduction"]))
