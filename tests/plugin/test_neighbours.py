"""Beside plugins that own our short names pytest still starts, and the prefixed names work.

They are not part of the test extra, since they would take those names from every run in its environment;
``.ci/run`` installs them for this file alone and sets IMAGING101_NEIGHBOURS, so that it cannot be skipped there.
"""

from __future__ import annotations

import importlib.util
import os
from pathlib import Path

import pytest

WANTED = ("pytest_base_url", "pytest_playwright")
MISSING = [name for name in WANTED if importlib.util.find_spec(name) is None]

pytestmark = pytest.mark.skipif(
    bool(MISSING) and "IMAGING101_NEIGHBOURS" not in os.environ, reason=f"not installed: {', '.join(MISSING)}"
)


def test_pytest_starts_and_the_run_says_which_names_are_taken(
    pytester: pytest.Pytester, toy_tasks: Path
) -> None:
    result = pytester.runpytest_subprocess(
        f"--tasks={toy_tasks}",
        "--model=oracle",
        "--level=L1",
        "--base-url=http://127.0.0.1",
        "--imaging101-output=out",
        "--timeout=600",
    )
    result.stdout.fnmatch_lines(
        ["imaging101: *--base-url*--output* belong to another plugin*--imaging101-base-url*"]
    )
    result.assert_outcomes(passed=1)
    assert (pytester.path / "out/results.jsonl").is_file()


def test_their_own_options_still_work(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(test_own="def test_own(base_url): assert base_url == 'http://127.0.0.1'")
    pytester.runpytest_subprocess("--base-url=http://127.0.0.1").assert_outcomes(passed=1)
