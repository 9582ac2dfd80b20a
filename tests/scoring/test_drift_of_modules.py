"""A module's failing unit tests are diagnosed where they ran, and nothing of that decides a test."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from pytest_imaging101.outcome import Assessment
from pytest_imaging101.sandboxes.base import NotDelivered, Resources
from pytest_imaging101.sandboxes.bubblewrap import BubblewrapSandbox
from pytest_imaging101.sandboxes.choose import open_sandbox
from pytest_imaging101.sandboxes.environment import Environment
from pytest_imaging101.scoring.unit_tests import grade_module
from tests.scoring.toy import make_task

ENVIRONMENT = Environment(python=Path(sys.executable), root=Path(sys.prefix), key="tests")

MODULE = '''\
"""Forward model of the toy."""

import numpy as np


def forward(image):
    return image + 1.0


def scaled(image):
    return np.asarray({scaled})


def turned(image):
    return np.asarray({turned})


def total(image):
    return {total}


def odd(number, image):
    place = np.arange(image.size).reshape(image.shape)
    answers = [{odd}]
    return answers[number] if number < len(answers) else 2 * image
'''

TESTS = """\
import os
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from src.physics_model import odd, scaled, total, turned

FIXTURES = Path(os.environ.get("IMAGING101_FIXTURES", "evaluation/fixtures")) / "physics_model"
IMAGE = np.load(FIXTURES / "forward.npz")["image"]


def test_scaled():
    assert_allclose(scaled(IMAGE), 2 * IMAGE, rtol=1e-9)


def test_scaled_again():
    np.testing.assert_allclose(scaled(IMAGE[::-1]), 2 * IMAGE[::-1], rtol=1e-9)


def test_turned():
    assert_array_equal(turned(IMAGE), np.fliplr(IMAGE))


def test_turned_approximately():
    assert turned(IMAGE) == pytest.approx(np.fliplr(IMAGE))


def test_turned_closely():
    assert np.allclose(turned(IMAGE), np.fliplr(IMAGE))


@pytest.mark.parametrize("number", range(7))
def test_odd(number):
    assert_allclose(odd(number, IMAGE), 2 * IMAGE, rtol=1e-9)


def test_total():
    assert_allclose(total(IMAGE), IMAGE.sum())
"""

RIGHT = {"scaled": "2 * image", "turned": "image[:, ::-1]", "total": "float(np.sum(image))", "odd": ""}

Grade = Callable[..., Assessment]


@pytest.fixture
def grade(tmp_path: Path) -> Grade:
    """Grades the module with some of its functions changed, on the visible fixtures alone."""
    task = make_task(tmp_path)
    task.path("evaluation/fixtures_hidden/physics_model/forward.npz").unlink()
    task.path("evaluation/tests/test_physics_model.py").write_text(TESTS)
    task.path("src/physics_model.py").write_text(MODULE.format(**RIGHT))

    def run(**changed: str) -> Assessment:
        return grade_module(
            task,
            "physics_model",
            MODULE.format(**(RIGHT | changed)).encode(),
            lambda: open_sandbox("bubblewrap", ENVIRONMENT, Resources()),
            timeout=60.0,
        )

    return run


def details(found: Assessment) -> dict[str, str]:
    return {check.name: check.detail for check in found.checks if not check.passed}


def test_a_right_module_passes_and_has_no_drift(grade: Grade) -> None:
    found = grade()
    assert found.passed
    assert found.drift is None


def test_a_forgotten_constant_is_named_in_reason_check_and_drift(grade: Grade) -> None:
    found = grade(scaled="image / np.pi")
    assert found.drift is not None
    assert found.drift.name == "scale"
    assert found.drift.parameters["constant"] == "1/(2π)"
    seen = ["visible::test_scaled", "visible::test_scaled_again"]
    assert found.drift.checks == seen
    assert found.reason.endswith("; right up to a factor 1/(2π) = 0.1592 (seen in 2 of them)")
    failed = details(found)
    assert set(failed) == set(seen)
    assert all("right up to a factor 1/(2π)" in detail for detail in failed.values())
    assert "Not equal to tolerance" in failed["visible::test_scaled"]


def test_a_diagnosis_that_did_not_end_is_noted_and_costs_no_verdict(
    grade: Grade, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = BubblewrapSandbox.get

    def lost(self: BubblewrapSandbox, path: str, max_bytes: int) -> bytes:
        if path == "drift.json":
            raise NotDelivered("it is not there")
        return read(self, path, max_bytes)

    monkeypatch.setattr(BubblewrapSandbox, "get", lost)
    found = grade(scaled="image / np.pi")
    assert set(details(found)) == {"visible::test_scaled", "visible::test_scaled_again"}
    assert found.drift is None
    assert "visible: the search for a drifted convention did not end" in found.notes


def test_every_way_to_compare_arrays_is_seen(grade: Grade) -> None:
    found = grade(turned="image")
    assert found.drift is not None
    assert found.drift.name == "flip"
    assert found.drift.parameters == {"axes": [1]}
    assert len(found.drift.checks) == 3


def test_an_error_that_is_no_convention_has_no_drift(grade: Grade) -> None:
    found = grade(scaled="2 * image + 0.3 * np.random.default_rng(1).random(image.shape)", total="0.0")
    assert not found.passed
    assert found.drift is None
    assert len(details(found)) == 3


ODD = (
    "np.full(image.shape, np.nan)",
    "np.array([['a']])",
    "1e308 * image * (1 + place)",
    "np.zeros((0, 3))",
    "'text'",
    "np.zeros(2 * 10**6)",
    "np.full(image.shape, 5e-324) * (place > 3)",
)


def test_odd_answers_fail_their_own_tests_and_no_other(grade: Grade) -> None:
    found = grade(odd=", ".join(ODD))
    assert set(details(found)) == {f"visible::test_odd[{number}]" for number in range(len(ODD))}
    assert found.drift is None
    assert found.notes == ("the task has no hidden fixtures for this module",)


def test_a_drift_among_exceptions_and_wrong_shapes_is_an_accident(grade: Grade) -> None:
    found = grade(turned="image", scaled="image[:1]", odd="None, None, None")
    assert len(details(found)) == 8
    assert found.drift is None


def test_a_shape_that_is_only_transposed_is_recognised(grade: Grade) -> None:
    found = grade(turned="np.transpose(image[:, ::-1])")
    assert found.drift is not None
    assert found.drift.name == "transpose"
