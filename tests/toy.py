"""A complete task of a few lines: an image seen through a gain and an offset that are known."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

SHAPE = (16, 12)
GAIN, OFFSET = 2.0, 1.0

TASK_TOML = """
title = "Gain and offset"
domain = "physics"
difficulty = "easy"
tier = 1
modules = ["physics_model", "solvers"]

[publication]
authors = ["A. Nonymous"]
year = 2026
title = "On gain and offset"
venue = "Toy Letters"

[output]
file = "output/reconstruction.npy"
shape = [16, 12]
dtype = "float64"
unit = "counts"

[limits]
command_seconds = 30
memory_gib = 1
"""

README = """# Gain and offset

The detector reads y = 2 x + 1 for a scene x (16, 12) in counts. `data/raw_data.npz` holds `y`.

Leave x as `output/reconstruction.npy`.
"""

APPROACH = """# Approach

Preprocessing: the readings are taken as they are, float64.

The forward model is y = gain * x + offset with gain 2 and offset 1.

Invert the model in closed form: subtract the offset, then divide by the gain.

Show the scene and its histogram.
"""

DESIGN = """# Design

## `src/physics_model.py`

```python
def forward(x) -> y:
    \"\"\"Readings of a scene: 2 x + 1.\"\"\"

def adjoint(y) -> x:
    \"\"\"Adjoint of the linear part: 2 y.\"\"\"
```

## `src/solvers.py`

```python
def invert(y) -> x:
    \"\"\"The scene: (y - 1) / 2.\"\"\"
```
"""

RUBRIC = r"""
[[item]]
part = "preprocessing"
id = "readings"
text = "Takes the readings as they are."
all_of = ['readings', 'as they are|unchanged']

[[item]]
part = "forward_model"
id = "affine"
text = "States gain and offset."
all_of = ['forward', 'gain', 'offset']

[[item]]
part = "inverse_solver"
id = "closed_form"
text = "Subtracts the offset, then divides by the gain."
all_of = ['subtract', 'divide']

[[item]]
part = "visualization"
id = "shown"
text = "Shows the scene."
all_of = ['show|plot', 'scene']
"""

PHYSICS = '''"""The detector."""


def forward(x):
    return 2.0 * x + 1.0


def adjoint(y):
    return 2.0 * y
'''

SOLVERS = '''"""The inversion."""


def invert(y):
    return (y - 1.0) / 2.0
'''

MAIN = '''"""Data to reconstruction."""

from pathlib import Path

import numpy as np

from src.solvers import invert

y = np.load("data/raw_data.npz")["y"]
Path("output").mkdir(exist_ok=True)
np.save("output/reconstruction.npy", invert(y))
'''

NAIVE = '''"""The readings themselves."""

from pathlib import Path

import numpy as np

Path("output").mkdir(exist_ok=True)
np.save("output/reconstruction.npy", np.load("data/raw_data.npz")["y"])
'''

TEST = '''"""Tests of {module}."""

import os
from pathlib import Path

import numpy as np

from src.{module} import {functions}

FIXTURES = Path(os.environ.get("IMAGING101_FIXTURES", "evaluation/fixtures"))
'''

TEST_PHYSICS = (
    TEST.format(module="physics_model", functions="adjoint, forward")
    + """

def load(name):
    return np.load(FIXTURES / "physics_model" / f"{name}.npz")


def test_forward():
    case = load("forward")
    np.testing.assert_allclose(forward(case["x"]), case["y"], rtol=1e-12)


def test_adjoint_matches_the_linear_part():
    x = load("forward")["x"]
    y = np.cos(x)
    np.testing.assert_allclose(np.sum((forward(x) - 1.0) * y), np.sum(x * adjoint(y)), rtol=1e-12)
"""
)

TEST_SOLVERS = (
    TEST.format(module="solvers", functions="invert")
    + """

def test_invert():
    case = np.load(FIXTURES / "solvers" / "invert.npz")
    np.testing.assert_allclose(invert(case["y"]), case["x"], rtol=1e-12)
"""
)


def scene(seed: int, shape: tuple[int, int]) -> np.ndarray:
    """A smooth scene without symmetry, between 0 and about 10 counts."""
    rows, columns = np.indices(shape) / 5.0
    noise = np.random.default_rng(seed).normal(size=shape)
    return 5.0 + 4.0 * np.sin(rows + 0.3) * np.cos(1.7 * columns + 0.1) + 0.1 * noise


def make_toy_task(folder: Path) -> Path:
    """Write the task into a folder and return it."""
    truth = scene(1, SHAPE)
    reading = GAIN * truth + OFFSET + np.random.default_rng(2).normal(scale=0.02, size=SHAPE)
    texts = {
        "task.toml": TASK_TOML,
        "README.md": README,
        "requirements.txt": "numpy>=1.26\n",
        "main.py": MAIN,
        "plan/approach.md": APPROACH,
        "plan/design.md": DESIGN,
        "plan/rubric.toml": RUBRIC,
        "src/physics_model.py": PHYSICS,
        "src/solvers.py": SOLVERS,
        "evaluation/naive.py": NAIVE,
        "evaluation/tests/test_physics_model.py": TEST_PHYSICS,
        "evaluation/tests/test_solvers.py": TEST_SOLVERS,
        "evaluation/metrics.json": json.dumps(
            {
                "baseline": [],
                "ncc_boundary": 0.99,
                "rel_l2_boundary": 0.05,
                "align": [],
                "mask": None,
                "drift": [],
            }
        ),
        "data/meta_data.json": json.dumps({"gain": GAIN, "offset": OFFSET}),
    }
    for name, text in texts.items():
        _parent(folder / name).write_text(text, encoding="utf-8")
    np.savez(_parent(folder / "data/raw_data.npz"), y=reading)
    np.save(_parent(folder / "evaluation/reference_outputs/ground_truth.npy"), truth)
    for place, seed, shape in (("fixtures", 3, (4, 5)), ("fixtures_hidden", 4, (3, 7))):
        x = scene(seed, shape)
        y = GAIN * x + OFFSET
        np.savez(_parent(folder / f"evaluation/{place}/physics_model/forward.npz"), x=x, y=y)
        np.savez(_parent(folder / f"evaluation/{place}/solvers/invert.npz"), x=x, y=y)
    return folder


def _parent(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    return path
