"""Figures of merit against values worked out by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest
from skimage.metrics import peak_signal_noise_ratio, structural_similarity

from pytest_imaging101.scoring.metrics import cncc, ncc, nrmse, psnr, rel_l2, ssim

A = np.array([1.0, 2.0, 2.0])
B = np.array([2.0, 2.0, 4.0])


def test_ncc_is_the_cosine() -> None:
    assert ncc(A, B) == pytest.approx(14 / (3 * math.sqrt(24)))


def test_ncc_keeps_the_sign_of_real_arrays() -> None:
    assert ncc(-B, B) == pytest.approx(-1)


def test_ncc_of_complex_arrays_ignores_a_global_phase_and_nothing_else() -> None:
    c = np.array([1.0, 1j])
    assert ncc(c * np.exp(0.7j), c) == pytest.approx(1)
    # <c, conj c> = 1 * 1 + conj(1j) * (-1j) = 1 - 1 = 0
    assert ncc(np.conj(c), c) == pytest.approx(0, abs=1e-15)


def test_cncc_removes_both_means() -> None:
    # centred: (-2, 1, 1) / 3 and (-2, -2, 4) / 3 -> 6 / sqrt(6 * 24)
    assert cncc(A, B) == pytest.approx(0.5)
    assert cncc(7 * A + 3, A) == pytest.approx(1)


def test_nrmse_is_over_the_range_of_the_reference() -> None:
    assert nrmse(A, B) == pytest.approx(math.sqrt(5 / 3) / 2)


def test_nrmse_of_complex_arrays_is_over_the_range_of_the_magnitude() -> None:
    b = np.array([3.0 + 4.0j, 1.0])
    assert nrmse(b + 1j, b) == pytest.approx(1 / 4)


def test_rel_l2_sees_a_gain() -> None:
    assert rel_l2(1.1 * B, B) == pytest.approx(0.1)
    assert rel_l2(1j * B, B.astype(complex)) == pytest.approx(math.sqrt(2))


@pytest.mark.parametrize("figure", [ncc, cncc, nrmse, rel_l2, psnr])
def test_only_the_mask_counts(figure: object) -> None:
    assert callable(figure)
    mask = np.array([True, True, True, False])
    assert figure(np.append(A, 1e3), np.append(B, -1e3), mask) == pytest.approx(figure(A, B))


@pytest.mark.parametrize("flat", [np.zeros(5), np.full(5, 0.1), np.full(5, 1e9 / 3)])
def test_a_flat_answer_has_no_correlation(flat: np.ndarray) -> None:
    assert cncc(flat, np.array([0.3, 0.1, 0.9, 0.2, 0.5])) == 0.0


def test_zeros_have_no_cosine() -> None:
    assert ncc(np.zeros(3), B) == 0.0


def test_ncc_survives_values_whose_squares_overflow_together() -> None:
    assert ncc(1e150 * A, 1e150 * B) == pytest.approx(ncc(A, B))


def test_a_reference_without_range_or_energy_gives_nan() -> None:
    assert math.isnan(nrmse(A, np.ones(3)))
    assert math.isnan(rel_l2(A, np.zeros(3)))


def test_psnr_and_ssim_are_those_of_scikit_image() -> None:
    rng = np.random.default_rng(3)
    b = rng.random((9, 12))
    a = b + 0.1 * rng.random((9, 12))
    span = np.ptp(b)
    assert psnr(a, b) == pytest.approx(peak_signal_noise_ratio(b, a, data_range=span))
    # scikit-image leaves out a border; the mask says here which pixels count
    inner = np.zeros(b.shape, dtype=bool)
    inner[3:-3, 3:-3] = True
    expected = structural_similarity(b, a, data_range=np.ptp(b[inner]))
    assert ssim(a, b, inner) == pytest.approx(expected)


def test_ssim_of_small_and_complex_volumes_uses_magnitudes_and_a_small_window() -> None:
    volume = np.random.default_rng(3).random((4, 9, 9)) + 0.5
    assert ssim(volume * 1j, volume.astype(complex)) == pytest.approx(1)


@pytest.mark.parametrize("shape", [(8,), (2, 9), (3, 3, 3, 3)])
def test_ssim_is_undefined_for_other_shapes(shape: tuple[int, ...]) -> None:
    b = np.random.default_rng(3).random(shape)
    with pytest.raises(ValueError, match="SSIM needs"):
        ssim(b, b)


def test_ssim_is_undefined_for_a_flat_reference() -> None:
    with pytest.raises(ValueError, match="flat"):
        ssim(np.eye(9), np.ones((9, 9)))
