"""What each align step removes, and that it removes nothing else."""

from __future__ import annotations

import numpy as np
import pytest

from pytest_imaging101.scoring.alignment import Pair, align, parse_step

RNG = np.random.default_rng(11)
TRUTH = RNG.random((8, 10)) + np.arange(10) / 5
COMPLEX = TRUTH * np.exp(1j * RNG.random((8, 10)))
MASK = RNG.random((8, 10)) > 0.3


def aligned(answer: np.ndarray, truth: np.ndarray, *steps: str, mask: np.ndarray | None = None) -> Pair:
    return align(Pair(answer, truth, np.ones(truth.shape, dtype=bool) if mask is None else mask), steps)


def spoilt(answer: np.ndarray) -> np.ndarray:
    """The answer with nonsense where the mask is off."""
    return np.where(MASK, answer, 1e3)


def test_global_phase() -> None:
    pair = aligned(spoilt(2 * COMPLEX * np.exp(1.3j)), COMPLEX, "global_phase", mask=MASK)
    np.testing.assert_allclose(pair.inside[0], 2 * pair.inside[1])


def test_global_phase_of_real_arrays_is_refused_because_it_would_drop_the_sign() -> None:
    with pytest.raises(ValueError, match="needs complex arrays"):
        aligned(-TRUTH, TRUTH, "global_phase")


def test_scale_is_the_least_squares_factor() -> None:
    answer = TRUTH + RNG.normal(size=TRUTH.shape)
    pair = aligned(answer, TRUTH, "scale")
    best = np.sum((pair.reconstruction - TRUTH) ** 2)
    for factor in (0.999, 1.001):
        assert np.sum((factor * pair.reconstruction - TRUTH) ** 2) > best


def test_scale_is_complex_for_complex_arrays_and_fitted_in_the_mask() -> None:
    pair = aligned(spoilt((2 - 1j) * COMPLEX), COMPLEX, "scale", mask=MASK)
    np.testing.assert_allclose(*pair.inside)


def test_flux_makes_the_sums_equal() -> None:
    pair = aligned(spoilt(TRUTH**2), TRUTH, "flux", mask=MASK)
    assert pair.inside[0].sum() == pytest.approx(pair.inside[1].sum())


@pytest.mark.parametrize("step", ["scale", "flux"])
def test_zeros_stay_zeros(step: str) -> None:
    assert not aligned(np.zeros_like(TRUTH), TRUTH, step).reconstruction.any()


def test_offset_mean() -> None:
    pair = aligned(spoilt(TRUTH + 5), TRUTH, "offset_mean", mask=MASK)
    np.testing.assert_allclose(*pair.inside)


def test_offset_median_is_not_moved_by_outliers() -> None:
    answer = TRUTH + 5
    answer[0, :3] = 900
    pair = aligned(answer, TRUTH, "offset_median")
    np.testing.assert_allclose(pair.reconstruction[1:], TRUTH[1:])


def test_offset_median_of_complex_arrays() -> None:
    pair = aligned(COMPLEX + (2 - 3j), COMPLEX, "offset_median")
    np.testing.assert_allclose(pair.reconstruction, COMPLEX)


def test_crop_keeps_the_centre_of_answer_truth_and_mask() -> None:
    pair = aligned(2 * TRUTH, TRUTH, "crop:0.5", mask=MASK)
    np.testing.assert_array_equal(pair.reference, TRUTH[2:6, 2:7])
    np.testing.assert_array_equal(pair.reconstruction, 2 * TRUTH[2:6, 2:7])
    np.testing.assert_array_equal(pair.mask, MASK[2:6, 2:7])


@pytest.mark.parametrize("shift", [(0, 0), (2, -3), (-3, 3)])
def test_shift_undoes_whole_pixels_within_its_bound(shift: tuple[int, int]) -> None:
    pair = aligned(7 * np.roll(TRUTH, shift, (0, 1)), TRUTH, "shift:3", mask=MASK)
    np.testing.assert_allclose(pair.reconstruction, 7 * TRUTH)


def test_shift_goes_no_further_than_its_bound() -> None:
    impulse = np.zeros((20, 20))
    impulse[10, 10] = 1
    pair = aligned(np.roll(impulse, (4, 0), (0, 1)), impulse, "shift:3")
    assert not np.array_equal(pair.reconstruction, impulse)


def test_shift_of_complex_arrays_does_not_need_their_phase() -> None:
    moved = np.roll(COMPLEX, (1, 2), (0, 1)) * np.exp(2j)
    pair = aligned(moved, COMPLEX, "shift", "global_phase")
    np.testing.assert_allclose(pair.reconstruction, COMPLEX)


def test_shift_keeps_the_sign_of_real_arrays() -> None:
    pair = aligned(-TRUTH, TRUTH, "shift:2", "scale")
    assert (
        np.vdot(pair.reconstruction, TRUTH) > 0
    )  # the factor is negative: `scale` took the sign, not `shift`
    assert np.vdot(aligned(-TRUTH, TRUTH, "shift:2").reconstruction, TRUTH) < 0


def test_magnitude() -> None:
    pair = aligned(np.conj(COMPLEX), COMPLEX, "magnitude")
    np.testing.assert_allclose(pair.reconstruction, pair.reference)
    assert not np.iscomplexobj(pair.reference)


def test_steps_are_taken_in_order() -> None:
    answer = 2 * (TRUTH + 1)
    np.testing.assert_allclose(
        aligned(answer, TRUTH + 1, "scale", "offset_mean").reconstruction, TRUTH + 1, rtol=1e-12
    )
    assert not np.allclose(aligned(answer, TRUTH, "offset_mean", "scale").reconstruction, TRUTH)


@pytest.mark.parametrize(
    ("step", "sentence"),
    [
        ("rotate", "unknown align step 'rotate'"),
        ("scale:2", "takes no argument"),
        ("crop", "0 < f <= 1"),
        ("crop:1.5", "0 < f <= 1"),
        ("crop:x", "0 < f <= 1"),
        ("shift:0.5", "whole pixels"),
        ("shift:nan", "whole pixels"),
        ("shift:inf", "whole pixels"),
        (3, "unknown align step 3"),
    ],
)
def test_a_step_that_is_none_is_refused(step: object, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        parse_step(step)
