"""The diagnosis names the convention that drifted, simplest first, and stays silent over every other kind of error."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import ndimage

from pytest_imaging101.outcome import Assessment, Check, Drift, Outcome
from pytest_imaging101.scoring.drift import (
    diagnose_array,
    diagnose_reconstruction,
    diagnose_submission,
    drift_of_tests,
    explained,
    with_drift,
)
from pytest_imaging101.scoring.reconstruction import score_reconstruction
from pytest_imaging101.task import Task
from tests.reporting.records import make_item
from tests.scoring.toy import make_task

Array = np.ndarray
SHAPE = (48, 64)


def npy(array: Array) -> bytes:
    stream = io.BytesIO()
    np.save(stream, array)
    return stream.getvalue()


def phantom(shape: tuple[int, ...] = SHAPE, seed: int = 3) -> Array:
    """Positive, rough, without symmetry."""
    rng = np.random.default_rng(seed)
    smooth = ndimage.gaussian_filter(rng.normal(size=shape), 1.5)
    image: Array = 1.0 + 4 * (smooth - smooth.min()) / np.ptp(smooth)
    image[tuple(slice(n // 8, n // 3) for n in shape)] += 3.0
    return image


def complex_phantom(shape: tuple[int, ...] = SHAPE) -> Array:
    return phantom(shape) * np.exp(1j * phantom(shape, seed=4))


def noisy(image: Array, share: float = 0.03, seed: int = 7) -> Array:
    """What a good reconstruction of an image looks like."""
    rng = np.random.default_rng(seed)
    noise = rng.normal(size=image.shape)
    if np.iscomplexobj(image):
        noise = (noise + 1j * rng.normal(size=image.shape)) / np.sqrt(2)
    return image + share * image.std() * noise


@pytest.fixture
def make(tmp_path: Path) -> Callable[..., Task]:
    """Makes the toy with a truth of one's own, and changes of its metrics; each time another one."""
    numbers = count()

    def build(truth: Array, **metrics: Any) -> Task:
        task = make_task(tmp_path / str(next(numbers)))
        text = task.path("task.toml").read_text()
        text = text.replace("shape = [6, 8]", f"shape = {list(truth.shape)}")
        text = text.replace('"float64"', f'"{truth.dtype}"')
        task.path("task.toml").write_text(text)
        np.save(task.path("evaluation/reference_outputs/ground_truth.npy"), truth)
        judged = {"ncc_boundary": 0.98, "nrmse_boundary": 0.03, "rel_l2_boundary": 0.05}
        task.path("evaluation/metrics.json").write_text(json.dumps(judged | metrics))
        return Task.read(task.folder)

    return build


def half_a_pixel(image: Array) -> Array:
    moved: Array = ndimage.shift(image, (0.5, 0), order=1, mode="nearest")
    return moved


def band_limited_half_pixel(image: Array) -> Array:
    moved: Array = np.fft.ifft2(ndimage.fourier_shift(np.fft.fft2(image), (0, 0.5))).real
    return moved


REAL_DRIFTS: dict[str, tuple[Callable[[Array], Array], str, str]] = {
    "2pi": (lambda a: 2 * np.pi * a, "scale", "right up to a factor 2π = 6.283"),
    "pi": (lambda a: a / np.pi, "scale", "right up to a factor 1/π = 0.3183"),
    "degrees": (lambda a: np.radians(a), "scale", "π/180 (radians for degrees)"),
    "radians": (lambda a: np.degrees(a), "scale", "180/π (degrees for radians)"),
    "milli": (lambda a: 1e-3 * a, "scale", "10^-3 (SI prefix)"),
    "mega": (lambda a: 1e6 * a, "scale", "10^6 (SI prefix)"),
    "centi": (lambda a: 1e-2 * a, "scale", "10^-2"),
    "sqrt2": (lambda a: np.sqrt(2) * a, "scale", "√2"),
    "half": (lambda a: a / 2, "scale", "1/2"),
    "unnormalised fft": (lambda a: a.size * a, "scale", "a factor 3072 (FFT norm: all samples)"),
    "one axis": (lambda a: a / 48, "scale", "1/48 (FFT norm: samples of axis 0)"),
    "unitary fft": (lambda a: 8 * a, "scale", "√64 (unitary FFT norm: samples of axis 1) = 8"),
    "maximum": (lambda a: a / a.max(), "scale", "normalised to a maximum of 1"),
    "range": (lambda a: (a - a.min()) / np.ptp(a), "normalisation", "normalised to the range 0 to 1"),
    "sign": (np.negative, "sign", "right up to a sign"),
    "mean lost": (lambda a: a - a.mean(), "offset", "right up to the mean subtracted"),
    "kelvin": (lambda a: a + 273.15, "offset", "an offset of 273.15 (kelvin for degrees Celsius)"),
    "flip rows": (np.flipud, "flip", "right up to a flip along axis 0"),
    "flip columns": (np.fliplr, "flip", "right up to a flip along axis 1"),
    "half turn": (lambda a: np.rot90(a, 2), "flip", "a flip along axes 0, 1"),
    "transpose": (np.transpose, "transpose", "right up to a transpose"),
    "rotation": (np.rot90, "rotation", "right up to a rotation by 90°"),
    "other rotation": (lambda a: np.rot90(a, 3), "rotation", "right up to a rotation by 270°"),
    "fftshift": (np.fft.fftshift, "fftshift", "right up to an fftshift along axes 0, 1"),
    "fftshift of rows": (lambda a: np.fft.fftshift(a, 0), "fftshift", "an fftshift along axis 0"),
    "one pixel": (lambda a: np.roll(a, 1, 1), "shift", "right up to a shift by 1 px along axis 1"),
    "three pixels": (lambda a: np.roll(a, -3, 0), "shift", "right up to a shift by -3 px along axis 0"),
    "half a pixel": (half_a_pixel, "shift", "a shift by 0.5 px along axis 0"),
    "half a pixel, sharp": (band_limited_half_pixel, "shift", "right up to a shift by 0.5 px along axis 1"),
    "square": (np.square, "square", "right up to a square"),
    "root": (np.sqrt, "root", "right up to a square root"),
    "reciprocal": (np.reciprocal, "reciprocal", "right up to a reciprocal"),
    "log": (np.log, "log", "right up to a logarithm"),
    "exp": (np.exp, "exp", "an exponential"),
    "decibel": (lambda a: 10 * np.log10(a), "log+scale", "10/ln 10 (decibel)"),
    "flip and sign": (lambda a: -np.flipud(a), "flip+sign", "a flip along axis 0 and a sign"),
    "transpose and scale": (lambda a: 1e3 * a.T, "transpose+scale", "a transpose and a factor 10^3"),
    "flip and shift": (
        lambda a: np.roll(np.fliplr(a), 1, 0),
        "flip+shift",
        "a flip along axis 1 and a shift by 1 px along axis 0",
    ),
    "negative milli": (lambda a: -1e-3 * a, "sign+scale", "a sign and a factor 10^-3 (SI prefix)"),
}


@pytest.mark.parametrize("change", REAL_DRIFTS)
def test_the_convention_that_drifted_is_named_with_its_parameter(
    make: Callable[..., Task], change: str
) -> None:
    apply, name, words = REAL_DRIFTS[change]
    truth = phantom()
    found = diagnose_reconstruction(make(truth), apply(noisy(truth)))
    assert found is not None
    assert found.name == name
    assert words in found.sentence
    assert found.explained > 0.9


COMPLEX_DRIFTS: dict[str, tuple[Callable[[Array], Array], str, str]] = {
    "conjugate": (np.conj, "conjugate", "right up to complex conjugation"),
    "swapped": (lambda a: a.imag + 1j * a.real, "swap_real_imaginary", "real and imaginary part swapped"),
    "i": (lambda a: 1j * a, "phase", "right up to a factor i"),
    "phase": (lambda a: np.exp(0.7j) * a, "phase", "a constant phase of 0.7"),
    "scale": (lambda a: 2 * np.pi * a, "scale", "a factor 2π"),
    "magnitude": (lambda a: np.abs(a) + 0j, "magnitude", "the phase, which is lost"),
    "intensity": (lambda a: np.abs(a) ** 2 + 0j, "square", "it is the intensity"),
    "real kind": (np.abs, "magnitude", "the phase, which is lost"),
    "real part": (np.real, "real_part", "the imaginary part, which is lost"),
    "alternating": (
        lambda a: a * (1 - 2 * (np.indices(a.shape).sum(axis=0) % 2)),
        "alternating_sign",
        "an fftshift in the other domain",
    ),
    "linear phase": (
        lambda a: a * np.exp(2j * np.pi * (np.arange(a.shape[0])[:, None] - a.shape[0] // 2) / a.shape[0]),
        "linear_phase",
        "a phase of one turn along axis 0",
    ),
    "conjugate and flip": (lambda a: np.flipud(a.conj()), "flip+conjugate", "axis 0 and complex conjugation"),
}


@pytest.mark.parametrize("change", COMPLEX_DRIFTS)
def test_drifts_of_complex_arrays_are_named(make: Callable[..., Task], change: str) -> None:
    apply, name, words = COMPLEX_DRIFTS[change]
    truth = complex_phantom()
    found = diagnose_reconstruction(make(truth), apply(noisy(truth)))
    assert found is not None
    assert found.name == name
    assert words in found.sentence


def test_a_complex_answer_to_a_real_question_is_read_by_its_parts(make: Callable[..., Task]) -> None:
    truth = phantom()
    found = diagnose_reconstruction(make(truth), noisy(truth) * np.exp(1j * phantom(seed=5)))
    assert found is not None
    assert found.sentence == "right up to taking the magnitude of a complex array"


def compressed(image: Array) -> Array:
    return image**0.7 * image.max() ** 0.3


MUTANTS: dict[str, Callable[[Array], Array]] = {
    "noise": lambda a: noisy(a, 0.5),
    "much noise": lambda a: noisy(a, 3.0),
    "noise alone": lambda a: a.mean() + a.std() * np.random.default_rng(1).normal(size=a.shape),
    "little blur": lambda a: ndimage.gaussian_filter(a, 0.9),
    "blur": lambda a: ndimage.gaussian_filter(a, 2.0),
    "blur along rows": lambda a: ndimage.uniform_filter1d(a, 4, axis=1),
    "blur and noise": lambda a: noisy(ndimage.gaussian_filter(a, 1.0), 0.1),
    "median": lambda a: ndimage.median_filter(a, 7),
    "high pass": lambda a: a - ndimage.gaussian_filter(a, 3),
    "compressed": compressed,
    "clipped": lambda a: np.minimum(a, 0.6 * a.max()),
    "shading": lambda a: a * np.linspace(0.5, 1.5, a.shape[1]),
    "gain of 1.1": lambda a: 1.1 * a,
    "zeros": np.zeros_like,
    "constant": lambda a: np.full_like(a, a.mean()),
    "mean profile": lambda a: np.broadcast_to(a.mean(axis=1, keepdims=True), a.shape).copy(),
    "another image": lambda a: phantom(seed=11),
    "half of it": lambda a: a * (np.arange(a.shape[1]) > a.shape[1] // 2),
}


@pytest.mark.parametrize("mutant", MUTANTS)
def test_other_errors_are_given_no_name(make: Callable[..., Task], mutant: str) -> None:
    truth = phantom()
    task = make(truth)
    answer = MUTANTS[mutant](truth)
    assert not score_reconstruction(task, npy(answer)).passed
    assert diagnose_reconstruction(task, answer) is None


@pytest.mark.parametrize("seed", range(12))
def test_small_arrays_of_chance_are_given_no_name(seed: int) -> None:
    rng = np.random.default_rng(seed)
    for shape in ((4,), (8,), (3, 3), (5, 6), (4, 4, 4)):
        assert diagnose_array(rng.normal(size=shape), rng.normal(size=shape), 1e-6) is None


def test_a_fitted_factor_needs_a_name_unless_the_task_declares_it(make: Callable[..., Task]) -> None:
    truth = phantom()
    answer = 1.7 * noisy(truth, 0.01)
    assert diagnose_reconstruction(make(truth), answer) is None
    found = diagnose_reconstruction(make(truth, drift=["scale"]), answer)
    assert found is not None
    assert found.sentence == "right up to a factor 1.7"
    assert found.parameters["factor"] == pytest.approx(1.7, rel=1e-3)


def test_what_the_task_aligns_away_is_no_part_of_the_drift(make: Callable[..., Task]) -> None:
    truth = phantom()
    found = diagnose_reconstruction(make(truth, align=["scale"]), 5.1 * np.flipud(noisy(truth)))
    assert found is not None
    assert found.sentence == "right up to a flip along axis 0"


def test_pixels_outside_mask_and_crop_decide_nothing(make: Callable[..., Task]) -> None:
    truth = phantom()
    inside = np.zeros(SHAPE, dtype=bool)
    inside[6:-6, 8:-8] = True
    answer = np.where(inside, 2 * np.pi * noisy(truth), 1e4)
    assert diagnose_reconstruction(make(truth), answer) is None
    for metrics in ({"align": ["crop:0.7"]}, {"mask": "mask.npy"}):
        task = make(truth, **metrics)
        np.save(task.path("evaluation/mask.npy"), inside)
        found = diagnose_reconstruction(task, answer)
        assert found is not None
        assert found.name == "scale"


def test_what_explains_the_error_without_a_pass_says_how_much(make: Callable[..., Task]) -> None:
    truth = phantom()
    task = make(truth, rel_l2_boundary=1e-3)
    found = diagnose_reconstruction(task, np.fliplr(noisy(truth, 0.02)))
    assert found is not None
    assert found.sentence == f"{100 * found.explained:.4g} % of its error is explained by a flip along axis 1"


def test_quantities_of_different_units_count_alike(make: Callable[..., Task]) -> None:
    """A temperature of 2000 K must not outweigh a fraction of 0.7."""
    rows = np.stack([1500 + 300 * phantom((1, 64))[0], 0.1 * phantom((1, 64), seed=9)[0]])
    task = make(rows)
    flipped = diagnose_reconstruction(task, np.flip(rows, 1))
    assert flipped is not None
    assert flipped.name == "flip"
    wrong_fraction = np.stack([rows[0][::-1], rows[1]])
    assert diagnose_reconstruction(task, wrong_fraction) is None


def test_volumes_are_diagnosed_from_a_sample_of_their_points() -> None:
    volume = phantom((40, 44, 90))
    found = diagnose_array(volume, np.transpose(volume, (0, 2, 1)) * 1e-3, 1e-7)
    assert found is not None
    assert found.sentence == "right up to a transpose to axes (0, 2, 1) and a factor 10^-3 (SI prefix)"


def test_the_norm_of_a_stack_of_images_is_recognised() -> None:
    stack = complex_phantom((3, 12, 9))
    found = diagnose_array(stack, np.sqrt(12 * 9) * stack, 1e-9)
    assert found is not None
    assert found.parameters["constant"] == "√108 (unitary FFT norm: samples of the last two axes)"


def test_arrays_of_a_unit_test_need_fitted_changes_to_be_exact() -> None:
    expected = phantom()
    exact = diagnose_array(expected, 1.618 * expected, 1e-7)
    assert exact is not None
    assert exact.sentence == "right up to a factor 1.618"
    assert diagnose_array(expected, 2 * np.pi * noisy(expected, 0.05), 1e-7) is None
    assert diagnose_array(expected, expected, 1e-7) is None


@pytest.mark.parametrize(
    ("expected", "actual"),
    [
        (np.ones(9), 2 * np.ones(9)),
        (np.arange(3.0), np.arange(3.0)[::-1]),
        (np.arange(9.0), np.arange(8.0)),
        (np.arange(9.0), np.full(9, np.nan)),
        (np.array(["a"] * 9), np.arange(9.0)),
        (np.arange(9.0), np.array([{}] * 9)),
    ],
)
def test_arrays_that_hold_too_little_are_left_alone(expected: Array, actual: Array) -> None:
    assert diagnose_array(expected, actual, 1e-7) is None


@pytest.mark.parametrize("submitted", [b"", b"no array", npy(np.full((6, 8), np.inf)), npy(np.zeros(0))])
def test_a_file_without_finite_numbers_has_no_drift(tmp_path: Path, submitted: bytes) -> None:
    task = make_task(tmp_path)
    assert diagnose_submission(task, submitted) is None
    assert explained(task, submitted, Assessment(False, "unreadable")).reason == "unreadable"


def test_a_diagnosis_that_fails_is_noted_and_takes_nothing_from_the_verdict(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(case: object) -> None:
        raise ZeroDivisionError("by zero")

    monkeypatch.setattr("pytest_imaging101.scoring.grader.conventions.search", broken)
    found = explained(make_task(tmp_path), npy(phantom((6, 8))), Assessment(False, "ncc misses"))
    assert found.reason == "ncc misses"
    assert found.notes == ("the search for a drifted convention failed (ZeroDivisionError: by zero)",)


def test_an_answer_of_transposed_shape_is_recognised_though_it_cannot_be_compared(tmp_path: Path) -> None:
    task = make_task(tmp_path)
    truth = np.load(task.path("evaluation/reference_outputs/ground_truth.npy"))
    missed = score_reconstruction(task, npy(truth.T))
    assert missed.scores == {}
    found = explained(task, npy(truth.T), missed)
    assert found.reason == "the array's shape is (8, 6) instead of (6, 8); right up to a transpose"
    assert found.drift is not None


def drift(name: str = "flip", **changes: Any) -> dict[str, Any]:
    return {"name": name, "sentence": f"right up to a {name}", "parameters": {}, "explained": 1.0} | changes


def test_a_module_has_the_drift_of_at_least_half_of_its_comparable_failures() -> None:
    assert drift_of_tests({}) is None
    assert drift_of_tests({"a": None}) is None
    assert drift_of_tests({"a": drift(), "b": None, "c": None}) is None
    assert drift_of_tests({"a": drift(), "b": drift("sign"), "c": None}) is None
    found = drift_of_tests({"a": drift(), "b": None, "c": drift(), "d": drift("sign")})
    assert found is not None
    assert (found.name, found.checks) == ("flip", ["a", "c"])


def test_a_drift_stands_in_reason_checks_and_record_and_never_in_a_pass() -> None:
    checks = (Check("t1", False, "visible", "off"), Check("t2", True, "visible"))
    missed = Assessment(False, "1 of 2 tests failed: t1", checks=checks)
    found = with_drift(missed, Drift(**drift(), checks=["t1"]))
    assert found.reason == "1 of 2 tests failed: t1; right up to a flip (seen in 1 of them)"
    assert [check.detail for check in found.checks] == ["off; right up to a flip", ""]
    assert with_drift(missed, None) is missed
    passed = Assessment(True, "all tests passed")
    assert with_drift(passed, Drift(**drift())) is passed
    item = make_item().model_dump()
    record = Outcome(**item, grader="g", verdict="failed", drift=found.drift)
    assert Outcome.model_validate_json(record.to_json()) == record
