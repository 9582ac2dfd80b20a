"""A module is graded by its tests from another sandbox, and nothing that it does can make it pass but being right."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from pytest_imaging101.faults import GraderFault, SandboxFault, TaskFault
from pytest_imaging101.outcome import Assessment
from pytest_imaging101.sandboxes.base import Completed, Entry, Resources, Sandbox
from pytest_imaging101.sandboxes.choose import open_sandbox
from pytest_imaging101.sandboxes.environment import Environment
from pytest_imaging101.scoring import unit_tests
from pytest_imaging101.scoring.unit_tests import check_module_inputs, grade_module
from pytest_imaging101.task import Task
from tests.scoring.toy import REFERENCE, TEST_IDS, make_task

MODULE = "physics_model"
# The interpreter that runs these tests has all that the toy needs; building another would prove nothing here.
ENVIRONMENT = Environment(python=Path(sys.executable), root=Path(sys.prefix), key="tests")

Open = Callable[[], Sandbox]
Grade = Callable[..., Assessment]


def opener(backend: str) -> Open:
    return lambda: open_sandbox(backend, ENVIRONMENT, Resources())


@pytest.fixture
def task(tmp_path: Path) -> Task:
    return make_task(tmp_path)


@pytest.fixture(params=["bubblewrap", "local"])
def grade(request: pytest.FixtureRequest, task: Task) -> Grade:
    """Grades a source of the toy's physics_model on each backend."""

    def run(source: str) -> Assessment:
        return grade_module(task, MODULE, source.encode(), opener(request.param), timeout=60.0)

    return run


@pytest.fixture
def grade_once(task: Task) -> Grade:
    """Grades on bubblewrap and the visible fixtures alone, where more would show nothing else."""
    task.path("evaluation/fixtures_hidden/physics_model/forward.npz").unlink()

    def run(source: str, module: str = MODULE, **limits: float) -> Assessment:
        return grade_module(
            task, module, source.encode(), opener("bubblewrap"), **{"timeout": 60.0, **limits}
        )

    return run


def changed(*pairs: tuple[str, str]) -> str:
    """The reference with pieces of text replaced, each of which must be there."""
    source = REFERENCE
    for old, new in pairs:
        assert old in source, old
        source = source.replace(old, new)
    return source


def failures(found: Assessment) -> dict[str, str]:
    return {check.name: check.detail for check in found.checks if not check.passed}


def both(*tests: str) -> set[str]:
    return {f"{group}::{test}" for group in ("visible", "hidden") for test in tests}


def visible(*tests: str) -> set[str]:
    return {f"visible::{test}" for test in tests}


def test_the_reference_passes_every_test_on_both_fixtures(grade: Grade) -> None:
    found = grade(REFERENCE)
    assert failures(found) == {}
    assert found.passed
    assert found.reason == "all 14 tests passed"
    assert [check.name for check in found.checks] == [
        *(f"visible::{test}" for test in TEST_IDS),
        *(f"hidden::{test}" for test in TEST_IDS),
    ]
    assert found.scores == {"tests_passed_fraction": 1.0, "visible_fraction": 1.0, "hidden_fraction": 1.0}
    assert found.grading == "out_of_process"


def test_a_wrong_function_fails_its_own_tests_only(grade: Grade) -> None:
    found = grade(changed(("    return {", "    size += 1\n    return {")))
    assert set(failures(found)) == both("test_matrix[2]", "test_matrix[3]")
    assert "assert 3 == 2" in failures(found)["visible::test_matrix[2]"]
    assert found.reason.startswith("4 of 14 tests failed: visible::test_matrix[2], ")
    assert found.scores["tests_passed_fraction"] == pytest.approx(10 / 14)


def test_a_missing_function_fails_its_own_tests_only(grade_once: Grade) -> None:
    found = grade_once(changed(("def matrix(", "def matriks(")))
    assert set(failures(found)) == visible("test_matrix[2]", "test_matrix[3]")
    assert "no function 'matrix'" in failures(found)["visible::test_matrix[3]"]


def test_a_missing_constant_fails_its_own_test_only(grade_once: Grade) -> None:
    found = grade_once(changed(("GAIN", "FACTOR")))
    assert set(failures(found)) == visible("test_gain")


def test_hard_coded_visible_answers_fail_on_the_hidden_fixtures(grade: Grade, task: Task) -> None:
    import numpy as np

    with np.load(task.path("evaluation/fixtures/physics_model/forward.npz")) as stored:
        expected = stored["expected"].tolist()
    found = grade(
        changed(("    return gain *", f"    return np.array({expected}) if gain == GAIN else gain *"))
    )
    assert set(failures(found)) >= {"hidden::test_forward"}
    assert not any(name.startswith("visible::") for name in failures(found))
    assert re.fullmatch(r"passes every visible test, fails \d of the 7 hidden ones", found.reason)


def test_nothing_delivered_is_a_miss(task: Task) -> None:
    def never() -> Sandbox:
        raise AssertionError("no sandbox is needed")

    found = grade_module(task, MODULE, None, never, timeout=1)
    assert (found.passed, found.reason) == (False, "src/physics_model.py was not delivered")
    assert found.grading == "out_of_process"


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        ("def forward(:\n", "src/physics_model.py does not import: SyntaxError: invalid syntax"),
        ("raise SystemExit(0)\n", "src/physics_model.py does not import: SystemExit: 0"),
        ("import os\nos._exit(0)\n", "src/physics_model.py did not import: the submission's process ended"),
    ],
)
def test_what_does_not_import_fails_every_test_with_that_sentence(
    grade_once: Grade, source: str, reason: str
) -> None:
    found = grade_once(source)
    assert not found.passed
    assert found.reason.startswith(reason)
    assert set(failures(found)) == visible(*TEST_IDS)
    assert set(failures(found).values()) == {found.reason}
    assert found.scores["tests_passed_fraction"] == 0.0


def test_an_import_that_never_ends_is_a_miss(grade_once: Grade, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unit_tests, "_IMPORT_SECONDS", 1.0)
    found = grade_once("while True: pass\n")
    assert not found.passed
    assert found.reason == "src/physics_model.py did not import within 1 s"


# What a function does instead of its work, and how its test says so; "honest" does its work.
TRICKS = {
    "honest": ("return x", ""),
    "ends_with_success": (
        "os._exit(0)",
        "no answer: the submission's process ended with exit code 0",
    ),
    "is_killed": ("os.kill(os.getpid(), 9)", "no answer: the submission's process was ended by signal 9"),
    "exits": ("sys.exit(0)", "RuntimeError: SystemExit: 0"),
    "interrupts": ("raise KeyboardInterrupt", "RuntimeError: KeyboardInterrupt"),
    "skips": ("raise unittest.SkipTest('no')", "RuntimeError: SkipTest: no"),
    "equals_all": ("return Always()", "the submission returned what cannot be sent: a Always cannot be sent"),
    "returns_code": (
        "return lambda: x",
        "the submission returned what cannot be sent: a function cannot be sent",
    ),
    "returns_nan": ("return x * np.nan", "AssertionError"),
    "returns_too_much": ("return np.broadcast_to(x[0], 40_000_000)", "is too large to be sent"),
    "never_returns": ("while True: pass", "no answer within 3 s"),
    "answers_early": ("write(b'i101' + b'\\0' * 28); return x", "an answer to nothing that was asked"),
    "makes_noise": (
        "write(b'HTTP/1.1 200 OK, all passed'); return x",
        "wrote into the grader's pipe: not a frame",
    ),
    "also_honest": ("return x", ""),
    "ends_its_supervisor": ("os.kill(os.getppid(), 9)", "the connection to the submission broke"),
    "comes_after": ("return x", "the connection to the submission broke"),
}

TRICKSTER = """
import os
import socket
import sys
import unittest

import numpy as np


class Always:
    def __eq__(self, other):
        return True


def write(data):
    for number in range(3, 64):
        try:
            socket.socket(fileno=os.dup(number)).sendall(data)
        except OSError:
            pass

"""


def test_a_trick_in_a_function_fails_its_own_test_only(task: Task, grade_once: Grade) -> None:
    task.path("src/tricks.py").write_text("def honest(x):\n    return x\n")
    tests = [
        f"def test_{name}():\n    np.testing.assert_array_equal(tricks.{name}(np.ones(3)), np.ones(3))\n\n"
        for name in TRICKS
    ]
    header = "import numpy as np\nfrom src import tricks\n\n"
    task.path("evaluation/tests/test_tricks.py").write_text(header + "\n".join(tests))
    functions = [f"def {name}(x):\n    {body}\n" for name, (body, _) in TRICKS.items()]
    found = grade_once(TRICKSTER + "\n".join(functions), "tricks", call_seconds=3.0)
    details = {check.name.removeprefix("visible::test_"): check.detail for check in found.checks}
    for name, (_, sentence) in TRICKS.items():
        assert sentence in details[name]
        assert bool(details[name]) == bool(sentence), name
    assert not found.passed


def test_a_function_that_never_returns_leaves_the_other_tests_their_time(task: Task) -> None:
    loop = changed(("    return GAIN * np.asarray", "    while True: pass\n    return GAIN * np.asarray"))
    found = grade_module(task, MODULE, loop.encode(), opener("local"), timeout=60, call_seconds=2)
    assert failures(found) == dict.fromkeys(both("TestAdjoint::test_dot"), "no answer within 2 s")


def test_the_time_of_all_calls_together_is_bounded(grade_once: Grade) -> None:
    loop = changed(("    if gain < 0:", "    while True: pass\n    if gain < 0:"))
    found = grade_once(loop, timeout=2.0, call_seconds=1.5)
    assert set(failures(found)) >= visible(
        "test_forward", "test_forward_with_a_gain", "TestAdjoint::test_dot"
    )
    assert failures(found)["visible::TestAdjoint::test_dot"] == "the time for all calls together is used up"


def test_an_object_equal_to_everything_is_compared_as_a_plain_array(grade: Grade) -> None:
    found = grade(
        REFERENCE
        + """

class Always(np.ndarray):
    def __eq__(self, other):
        return True

    def __array_function__(self, function, types, args, kwargs):
        return True

    def tolist(self):
        return [3.0, 6.0]


def forward(image, gain=GAIN):
    if gain < 0:
        raise ValueError("negative")
    return np.zeros(np.shape(image)).view(Always)
"""
    )
    assert set(failures(found)) == both("test_forward", "test_forward_with_a_gain", "TestAdjoint::test_dot")


SABOTAGE = """

import glob
import os
import sys

import numpy.testing
import pytest


def forward(image, gain=GAIN):
    return np.zeros(np.shape(image))


numpy.testing.assert_allclose = lambda *args, **kwargs: None
numpy.allclose = lambda *args, **kwargs: True
pytest.approx = lambda *args, **kwargs: 0.0
os.environ["PYTEST_ADDOPTS"] = "--collect-only -p conftest"
HOOK = '''
import pytest


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    outcome = yield
    report = outcome.get_result()
    report.outcome = "passed"
    report.longrepr = None
'''
FORGED = '{"nonce": "", "import_error": "", "collected": [], "tests": {}, "errors": []}'
for folder in {os.getcwd(), os.path.dirname(os.getcwd()), os.path.dirname(__file__), "evaluation/tests", "/tmp"}:
    for name, text in {
        "conftest.py": HOOK,
        "pytest.ini": "[pytest]\\naddopts = -p conftest",
        "sitecustomize.py": HOOK,
        "result.json": FORGED,
    }.items():
        try:
            os.makedirs(folder, exist_ok=True)
            with open(os.path.join(folder, name), "w") as file:
                file.write(text)
        except OSError:
            pass
print("14 passed")
"""


def test_patched_libraries_planted_conftests_and_forged_results_change_nothing(grade_once: Grade) -> None:
    found = grade_once(REFERENCE + SABOTAGE)
    assert visible("test_forward", "test_forward_with_a_gain", "TestAdjoint::test_dot") <= set(
        failures(found)
    )
    assert "Not equal to tolerance" in failures(found)["visible::test_forward"]


def test_changes_to_the_arguments_do_not_reach_the_test(grade_once: Grade) -> None:
    # Were it written back, <forward(x), y> = <0, y> would equal <x, adjoint(y)> = <0, ...>.
    found = grade_once(changed(("    if gain < 0:", "    np.asarray(image)[...] = 0\n    if gain < 0:")))
    assert set(failures(found)) == visible(
        "test_forward", "test_forward_with_a_gain", "TestAdjoint::test_dot"
    )


def test_endless_output_is_no_reason_to_pass_and_none_to_fail(grade_once: Grade) -> None:
    found = grade_once(changed(("    if gain < 0:", "    print('x' * 5_000_000)\n    if gain < 0:")))
    assert found.passed


LOOK = """

import os

PRIVATE = ("test_physics_model.py", "forward.npz")


def adjoint(data):
    seen = [os.path.join(folder, name) for folder, _, names in os.walk("/") for name in names
            if name in PRIVATE or (folder.startswith("/workspace") and "/grader" not in folder)]
    raise RuntimeError(" ".join(sorted(name for name in seen if not name.startswith("/opt/environment"))))
"""


def test_the_submission_sees_no_test_no_fixture_and_no_reference_of_its_own(grade_once: Grade) -> None:
    found = grade_once(REFERENCE + LOOK)
    assert failures(found)["visible::TestAdjoint::test_dot"].split() == [
        "RuntimeError:",
        "/workspace/data/meta_data.json",
        "/workspace/src/physics_model.py",
        "/workspace/src/preprocessing.py",
    ]


def test_the_tests_are_those_of_the_reference_whatever_the_submission_exports(
    task: Task, grade_once: Grade
) -> None:
    tests = task.path("evaluation/tests/test_physics_model.py")
    tests.write_text(tests.read_text().replace("[2, 3]", "range(2, int(GAIN) + 2)"))
    fewer = grade_once(changed(("GAIN = 2.5", "GAIN = 0.0")))
    assert "visible::test_matrix[2]" in failures(fewer)
    assert failures(fewer)["visible::test_matrix[2]"] == "the test did not run"
    none = grade_once(changed(("GAIN = 2.5", "GAIN = 'many'")))
    assert set(failures(none)) == visible(*TEST_IDS)
    assert "invalid literal" in failures(none)["visible::test_gain"]


def test_foreign_exceptions_arrive_as_their_nearest_built_in(grade_once: Grade) -> None:
    custom = changed(
        ("        raise ValueError(", "        raise Unphysical("),
        ("def forward", "class Unphysical(ValueError):\n    pass\n\n\ndef forward"),
    )
    assert grade_once(custom).passed
    wrong = changed(("        raise ValueError(", "        raise Exception("))
    assert set(failures(grade_once(wrong))) == visible("test_forward_refuses_a_negative_gain")


def test_without_hidden_fixtures_the_visible_ones_decide_and_a_note_says_so(grade_once: Grade) -> None:
    found = grade_once(REFERENCE)
    assert found.reason == "all 7 tests passed"
    assert found.notes == ("the task has no hidden fixtures for this module",)
    assert "hidden_fraction" not in found.scores


def test_fixtures_that_differ_in_their_files_are_the_tasks_fault(task: Task) -> None:
    check_module_inputs(task, MODULE)
    folder = task.path("evaluation/fixtures_hidden/physics_model")
    (folder / "forward.npz").rename(folder / "backward.npz")
    with pytest.raises(TaskFault, match=r"differ in their files: backward\.npz, forward\.npz"):
        check_module_inputs(task, MODULE)


@pytest.mark.parametrize("name", ["evaluation/tests/test_physics_model.py", "src/physics_model.py"])
def test_missing_tests_or_reference_are_the_tasks_fault(task: Task, name: str) -> None:
    task.path(name).unlink()
    with pytest.raises(TaskFault, match=f"task toy_blur: {name} is missing"):
        check_module_inputs(task, MODULE)


@pytest.mark.parametrize(
    "text", ["import nowhere\n", "def check_nothing():\n    pass\n", "raise SystemExit(3)\n"]
)
def test_a_test_file_without_tests_is_the_graders_fault(task: Task, grade_once: Grade, text: str) -> None:
    task.path("evaluation/tests/test_physics_model.py").write_text(text)
    with pytest.raises(GraderFault, match=r"no tests could be collected|ended without a result"):
        grade_once(REFERENCE)


def test_a_trusted_side_that_dies_is_the_graders_fault_with_its_output(task: Task, grade_once: Grade) -> None:
    tests = task.path("evaluation/tests/test_physics_model.py")
    tests.write_text(
        tests.read_text() + "\n\ndef test_z():\n    print('last words', flush=True)\n    os._exit(5)\n"
    )
    with pytest.raises(GraderFault, match=r"ended without a result \(exit code 5\)"):
        grade_once(REFERENCE)


def test_a_test_that_an_answer_keeps_busy_for_ever_fails(
    task: Task, grade_once: Grade, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(unit_tests, "_OWN_SECONDS", 0.1)
    tests = task.path("evaluation/tests/test_physics_model.py")
    tests.write_text(tests.read_text() + "\n\ndef test_a_loop():\n    while True:\n        pass\n")
    found = grade_once(REFERENCE, timeout=1.0)
    sentence = "comparing what the submission returned took too long"
    assert failures(found) == {"visible::test_a_loop": sentence}


class WithoutSubmission:
    """Real sandboxes, of which the one that would run the submission does not start."""

    def __init__(self, sandbox: Sandbox) -> None:
        self._sandbox = sandbox
        self.backend = sandbox.backend
        self.warnings = sandbox.warnings

    def put(self, files: Mapping[str, bytes | Path]) -> None:
        self._sandbox.put(files)

    def run(self, command: Any, **options: Any) -> Completed:
        if "grader.serve_submission" in command:
            raise SandboxFault("no memory for another process")
        return self._sandbox.run(command, **options)

    def get(self, path: str, max_bytes: int) -> bytes:
        return self._sandbox.get(path, max_bytes)

    def list(self, folder: str = "") -> list[Entry]:
        return self._sandbox.list(folder)

    def close(self) -> None:
        self._sandbox.close()


def test_a_submissions_sandbox_that_does_not_start_is_a_fault_and_no_score(task: Task) -> None:
    def open_one() -> Sandbox:
        return WithoutSubmission(opener("bubblewrap")())

    with pytest.raises(SandboxFault, match="no memory for another process"):
        grade_module(task, MODULE, REFERENCE.encode(), open_one, timeout=60)


def test_a_submission_that_outlives_the_tests_is_ended_with_its_sandbox(grade_once: Grade) -> None:
    stay = """

import os
import time

if os.fork() == 0:
    os.setsid()
    time.sleep(3600)
"""
    assert grade_once(REFERENCE + stay).passed
