"""A run names why an attempt missed: in its record, its message, its properties and its summary."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.plugin.runs import junit_cases, outcomes

FLIPPED = """
from pathlib import Path

import numpy as np

Path("output").mkdir(exist_ok=True)
np.save("output/reconstruction.npy", np.flip((np.load("data/raw_data.npz")["y"] - 1) / 2, 0))
"""


def test_a_flipped_reconstruction_is_called_so_everywhere(pytester: pytest.Pytester, toy_tasks: Path) -> None:
    (toy_tasks / "toy/evaluation/naive.py").write_text(FLIPPED)
    result = pytester.runpytest_subprocess(
        f"--tasks={toy_tasks}",
        "--output=out",
        "--junitxml=j.xml",
        "--model=naive",
        "--model=nop",
        "--level=L1",
    )
    result.assert_outcomes(failed=2)
    found = outcomes(pytester.path / "out")
    (naive,) = [one for one in found.values() if one["model"] == "naive"]
    (nop,) = [one for one in found.values() if one["model"] == "nop"]
    assert naive["failure_mode"] == "convention_drift"
    assert naive["drift"]["name"] == "flip"
    assert naive["drift"]["parameters"] == {"axes": [0]}
    assert naive["reason"].endswith("; right up to a flip along axis 0")
    assert nop["failure_mode"] == "no_deliverable"
    assert nop["missing"].keys() == {"output/reconstruction.npy"}
    assert nop["drift"] is None
    modes = {case["model"]: case["failure_mode"] for _, case in junit_cases(pytester.path / "j.xml").values()}
    assert modes == {"naive": "convention_drift", "nop": "no_deliverable"}
    summary = json.loads((pytester.path / "out/summary.json").read_text())
    assert [one["mode"] for one in summary["misses"]] == ["convention_drift", "no_deliverable"]
    result.stdout.fnmatch_lines(["*right up to a flip along axis 0*", "misses by failure mode"])
