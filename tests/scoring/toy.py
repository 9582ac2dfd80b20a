"""A small task folder, written where a test wants it: three functions, their tests, fixtures, a truth, a rubric."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

from pytest_imaging101.task import Task

NAME = "toy_blur"

TASK_TOML = """\
title = "A toy"
domain = "physics"
keywords = ["toy"]
difficulty = "easy"
tier = 1
modules = ["preprocessing", "physics_model"]

[publication]
authors = ["N. N."]
year = 2000
title = "A toy"
venue = "Nowhere"

[output]
file = "output/reconstruction.npy"
shape = [6, 8]
dtype = "float64"
unit = "1"

[limits]
command_seconds = 60
"""

REFERENCE = '''\
"""Forward model of the toy."""

import numpy as np
from scipy import sparse

from src.preprocessing import as_float

GAIN = 2.5


def forward(image, gain=GAIN):
    """gain * image; ValueError for a negative gain."""
    if gain < 0:
        raise ValueError(f"gain is {gain}; it must not be negative")
    return gain * as_float(image)


def adjoint(data):
    """The adjoint of forward with the standard gain."""
    return GAIN * np.asarray(data, dtype=float)


def matrix(size):
    """forward as a sparse array, and its size."""
    return {"matrix": sparse.csr_array(GAIN * sparse.eye_array(size, format="csr")), "size": size}
'''

PREPROCESSING = '''\
"""Reads what is measured."""

import numpy as np


def as_float(values):
    """The values as floats."""
    return np.asarray(values, dtype=float)
'''

TESTS = '''\
"""Tests of the toy's forward model."""

import os
from pathlib import Path

import numpy as np
import pytest

from src.physics_model import GAIN, adjoint, forward, matrix

FIXTURES = Path(os.environ.get("IMAGING101_FIXTURES", "evaluation/fixtures")) / "physics_model"


def load(name):
    with np.load(FIXTURES / f"{name}.npz") as stored:
        return dict(stored)


def test_gain():
    assert GAIN == 2.5


def test_forward():
    stored = load("forward")
    np.testing.assert_allclose(forward(stored["image"]), stored["expected"], rtol=1e-9)


def test_forward_with_a_gain():
    assert forward(np.array([1.0, 2.0]), gain=3.0).tolist() == [3.0, 6.0]


def test_forward_refuses_a_negative_gain():
    with pytest.raises(ValueError, match="negative"):
        forward(np.ones(3), gain=-1.0)


@pytest.mark.parametrize("size", [2, 3])
def test_matrix(size):
    found = matrix(size)
    assert found["size"] == size
    np.testing.assert_allclose(found["matrix"].toarray(), 2.5 * np.eye(size))


class TestAdjoint:
    def test_dot(self):
        stored = load("forward")
        x, y = stored["image"], stored["other"]
        assert np.vdot(forward(x), y) == pytest.approx(np.vdot(x, adjoint(y)), rel=1e-12)
'''

TEST_IDS = (
    "test_gain",
    "test_forward",
    "test_forward_with_a_gain",
    "test_forward_refuses_a_negative_gain",
    "test_matrix[2]",
    "test_matrix[3]",
    "TestAdjoint::test_dot",
)

RUBRIC = """\
[[item]]
part = "preprocessing"
id = "floats"
text = "Turns counts into floats."
all_of = ['counts?', 'float']

[[item]]
part = "forward_model"
id = "gain"
text = "Multiplies by the gain."
all_of = ['gain', 'multipl|times|\\*']
none_of = ['logarithm']

[[item]]
part = "inverse_solver"
id = "least_squares"
text = "Solves by least squares."
all_of = ['least[- ]squares']

[[item]]
part = "inverse_solver"
id = "stop"
text = "States when it stops."
all_of = ['stop|converge']

[[item]]
part = "visualization"
id = "units"
text = "Shows the image with a colour bar in its unit."
all_of = ['colou?r ?bar', 'unit']
"""

APPROACH = """\
# Approach

The counts become float values.

The image is multiplied by the gain.

Solved by least squares; iterations stop when the residual no longer falls.
"""

DESIGN = """\
# Design

## `src/physics_model.py`

Draw the image with a colour bar that names the unit.
"""


def make_task(folder: Path) -> Task:
    """Write the toy below ``folder`` and read it."""
    root = folder / NAME
    rng = np.random.default_rng(7)
    truth = rng.random((6, 8)) + np.arange(8) / 4
    texts = {
        "task.toml": TASK_TOML,
        "README.md": "# A toy\n\nCounts of an image times a gain.\n",
        "requirements.txt": "numpy>=1.26\nscipy>=1.11\n",
        "data/meta_data.json": json.dumps({"gain": 2.5}),
        "plan/approach.md": APPROACH,
        "plan/design.md": DESIGN,
        "plan/rubric.toml": RUBRIC,
        "src/preprocessing.py": PREPROCESSING,
        "src/physics_model.py": REFERENCE,
        "evaluation/tests/test_physics_model.py": TESTS,
        "evaluation/metrics.json": json.dumps(
            {"ncc_boundary": 0.9, "nrmse_boundary": 0.1, "cncc_boundary": 0.9, "rel_l2_boundary": 0.2}
        ),
    }
    for name, text in texts.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    for label, shape in (("fixtures", (3, 4)), ("fixtures_hidden", (5, 2))):
        path = root / "evaluation" / label / "physics_model" / "forward.npz"
        path.parent.mkdir(parents=True)
        image = rng.random(shape)
        np.savez(path, image=image, other=rng.random(shape), expected=2.5 * image)
    outputs = root / "evaluation/reference_outputs"
    outputs.mkdir()
    np.save(outputs / "ground_truth.npy", truth)
    np.save(outputs / "reconstruction.npy", truth + 0.02)
    return Task.read(root)
