"""Grades one module by its unit tests, out of process: the submission in one sandbox, the tests in another.

The files under ``grader/`` run inside those sandboxes. The submission never shares a process, a file system or a
pytest with an assertion; what it returns arrives at the tests as plain values.
"""

from __future__ import annotations

import json
import secrets
import socket
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from pytest_imaging101.faults import GraderFault, TaskFault
from pytest_imaging101.outcome import Assessment, Check
from pytest_imaging101.sandboxes.base import Completed, NotDelivered, Sandbox
from pytest_imaging101.scoring.drift import drift_of_tests, with_drift
from pytest_imaging101.task import Task

OpenSandbox = Callable[[], Sandbox]

SETS = {"visible": "evaluation/fixtures", "hidden": "evaluation/fixtures_hidden"}

_CALL_SECONDS = 60.0
_IMPORT_SECONDS = 60.0
# What the trusted side may compute itself, beside waiting for calls; and what starting it may take.
_OWN_SECONDS = 60.0
_START_SECONDS = 60.0
# Of the memory that a sandbox of the task has: beyond it an answer that is too large is a MemoryError in its test
# rather than the end of the grader.
_TRUSTED_MEMORY_SHARE = 0.75
_RESULT_FILE = "result.json"
_DRIFT_FILE = "drift.json"
_RESULT_BYTES = 16 * 2**20
_TRUSTED_FILES = (
    "stub.py",
    "run_tests.py",
    "operands.py",
    "conventions.py",
    "candidates.py",
    "case.py",
    "frames.py",
    "values.py",
    "fits.py",
    "constants.py",
)
_ENVIRONMENT = {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTEST_ADDOPTS": ""}


@dataclass(frozen=True)
class _Report:
    """What the trusted side wrote."""

    import_error: str
    collected: tuple[str, ...]
    tests: Mapping[str, Mapping[str, str]]
    errors: tuple[str, ...]
    ended_by: str = ""
    drifts: Mapping[str, Mapping[str, Any] | None] | None = None


def grade_module(
    task: Task,
    module: str,
    source: bytes | None,
    open_sandbox: OpenSandbox,
    *,
    timeout: float,
    call_seconds: float | None = None,
) -> Assessment:
    """Run every test of a module against a submitted source, on the visible and on the hidden fixtures.

    Parameters
    ----------
    source : bytes or None
        The submitted ``src/<module>.py``; None if none was delivered.
    open_sandbox : callable
        Gives a fresh sandbox with the task's environment, in which ``python`` has numpy and pytest, and with the
        task's memory. Five are opened, two of which run at the same time and wait for each other: they must not
        wait for CPU slots one by one.
    timeout : float
        Seconds for all calls of the submission on one set of fixtures.
    call_seconds : float, optional
        Seconds for one call; a third of ``timeout``, at most a minute, if not given, so that one call that hangs
        leaves time for the others.

    Raises
    ------
    TaskFault, GraderFault, SandboxFault
        The task's tests or fixtures are broken, the trusted side failed by itself, a sandbox did not work.
    """
    check_module_inputs(task, module)
    if source is None:
        return Assessment(
            False, f"src/{module}.py was not delivered", _fractions([]), grading="out_of_process"
        )
    grading = _Grading(task, module, open_sandbox, timeout, call_seconds or min(_CALL_SECONDS, timeout / 3))
    expected = grading.expected_tests()
    checks: list[Check] = []
    drifts: dict[str, Mapping[str, Any] | None] = {}
    notes = [] if "hidden" in grading.sets else ["the task has no hidden fixtures for this module"]
    for name in grading.sets:
        report = grading.run(name, source)
        if report.ended_by:
            notes.append(f"{name}: the submission was ended by its limit of {report.ended_by}")
        if reason := report.import_error:
            failed = [Check(f"{s}::{t}", False, s, reason) for s in grading.sets for t in expected]
            return _assess(failed, notes, reason)
        checks += _checks(name, expected, report)
        drifts |= {f"{name}::{test}": drift for test, drift in (report.drifts or {}).items()}
        if report.drifts is None and any(test["outcome"] != "passed" for test in report.tests.values()):
            notes.append(f"{name}: the search for a drifted convention did not end")
    return with_drift(_assess(checks, notes, _reason(checks)), drift_of_tests(drifts))


def check_module_inputs(task: Task, module: str) -> None:
    """Raise TaskFault unless the module's reference, tests and fixtures are there, visible and hidden alike."""
    for file in (_test_file(module), f"src/{module}.py"):
        if not task.path(file).is_file():
            raise TaskFault(f"task {task.name}: {file} is missing")
    names = {
        label: {name.removeprefix(f"{folder}/{module}/") for name in task.tree(f"{folder}/{module}")}
        for label, folder in SETS.items()
    }
    if names["hidden"] and names["hidden"] != names["visible"]:
        odd = ", ".join(sorted(names["hidden"] ^ names["visible"]))
        raise TaskFault(f"task {task.name}: visible and hidden fixtures differ in their files: {odd}")


@dataclass(frozen=True)
class _Grading:
    """One module of one task, and where its tests run."""

    task: Task
    module: str
    open_sandbox: OpenSandbox
    timeout: float
    call_seconds: float

    @property
    def sets(self) -> tuple[str, ...]:
        """Names of the fixture sets that there are."""
        return tuple(name for name in SETS if name == "visible" or self._fixtures(name))

    @property
    def most_seconds(self) -> float:
        """When the trusted side must have ended by itself, whatever the submission does."""
        return self.timeout + _IMPORT_SECONDS + _OWN_SECONDS + _START_SECONDS

    def expected_tests(self) -> tuple[str, ...]:
        """Ids of the tests, collected against the reference. Raises GraderFault if there are none."""
        reference = {f"reference/{name}": file for name, file in self.task.tree("src").items()}
        with closing(self.open_sandbox()) as trusted:
            trusted.put({**self._trusted_files("visible"), **reference})
            report = self._run_tests(trusted, "visible", None)
        if report.errors or not report.collected:
            raise GraderFault(
                f"task {self.task.name}: no tests could be collected from {_test_file(self.module)}",
                evidence="\n".join(report.errors),
            )
        return report.collected

    def run(self, name: str, source: bytes) -> _Report:
        """What every test says of the submission, on one set of fixtures."""
        with closing(self.open_sandbox()) as submission, closing(self.open_sandbox()) as trusted:
            submission.put(self._submission_files(source))
            trusted.put(self._trusted_files(name))
            theirs, ours = socket.socketpair()
            server = _Server(submission, self.module, theirs, self.most_seconds + _START_SECONDS)
            try:
                server.start()
                report = self._run_tests(trusted, name, ours)
            finally:
                ours.close()
                ended_by = server.stop()
        return replace(report, ended_by=ended_by)

    def _fixtures(self, name: str) -> dict[str, Path]:
        return self.task.tree(f"{SETS[name]}/{self.module}")

    def _submission_files(self, source: bytes) -> dict[str, bytes | Path]:
        files: dict[str, bytes | Path] = dict(self.task.tree("data"))
        files |= {
            name: file
            for name, file in self.task.visible("function", self.module).items()
            if name.startswith("src/")
        }
        files[f"src/{self.module}.py"] = source
        return files | _grader_files("serve_submission.py")

    def _trusted_files(self, name: str) -> dict[str, bytes | Path]:
        files: dict[str, bytes | Path] = dict(self.task.tree("data"))
        files |= self._fixtures(name)
        files[_test_file(self.module)] = self.task.path(_test_file(self.module))
        return files | _grader_files(*_TRUSTED_FILES) | {"grader/pytest.ini": b"[pytest]\n"}

    def _run_tests(self, trusted: Sandbox, name: str, channel: socket.socket | None) -> _Report:
        nonce = secrets.token_hex(16)
        job = {
            "nonce": nonce,
            "module": self.module,
            "test_file": _test_file(self.module),
            "result_file": _RESULT_FILE,
            "drift_file": _DRIFT_FILE,
            "call_seconds": self.call_seconds,
            "total_seconds": self.timeout,
            "import_seconds": _IMPORT_SECONDS,
            "own_seconds": _OWN_SECONDS,
            "memory_bytes": int(_TRUSTED_MEMORY_SHARE * self.task.limits.memory_gib * 2**30),
        }
        completed = trusted.run(
            ["python", "-B", "-m", "grader.run_tests", json.dumps(job)],
            timeout=self.most_seconds,
            environment={**_ENVIRONMENT, "IMAGING101_FIXTURES": SETS[name]},
            channel=channel,
        )
        return self._read_report(trusted, completed, nonce)

    def _read_report(self, trusted: Sandbox, completed: Completed, nonce: str) -> _Report:
        try:
            written = json.loads(trusted.get(_RESULT_FILE, _RESULT_BYTES))
        except (NotDelivered, ValueError) as error:
            how = completed.killed_by or f"exit code {completed.exit_code}"
            raise GraderFault(
                f"task {self.task.name}: the run of {_test_file(self.module)} ended without a result ({how})",
                evidence=completed.output,
            ) from error
        if written["nonce"] != nonce:
            raise GraderFault(f"task {self.task.name}: the tests' result is not the one that was asked for")
        return _Report(
            written["import_error"],
            tuple(written["collected"]),
            written["tests"],
            tuple(written["errors"]),
            drifts=self._read_drifts(trusted),
        )

    @staticmethod
    def _read_drifts(trusted: Sandbox) -> dict[str, Any] | None:
        """What explains failed tests; None where all passed, or where looking for it did not end."""
        try:
            found: dict[str, Any] = json.loads(trusted.get(_DRIFT_FILE, _RESULT_BYTES))
        except NotDelivered:
            return None
        return found


class _Server(threading.Thread):
    """Runs the submission's side for as long as its sandbox's command lives.

    The thread starts the command and waits for it: bubblewrap kills what it holds when the thread that
    started it ends.
    """

    def __init__(self, sandbox: Sandbox, module: str, channel: socket.socket, timeout: float) -> None:
        super().__init__(name=f"submission {module}", daemon=True)
        self._sandbox = sandbox
        self._command = ["python", "-B", "-m", "grader.serve_submission", module, str(_IMPORT_SECONDS)]
        self._channel = channel
        self._timeout = timeout
        self._error: Exception | None = None
        self._ended_by = ""

    def run(self) -> None:
        try:
            completed = self._sandbox.run(self._command, timeout=self._timeout, channel=self._channel)
            self._ended_by = completed.killed_by
        # Raised again by `stop`, in the thread that wants to know.
        except Exception as error:
            self._error = error
        finally:
            # The last copy of this end: the tests see the end of file, and every further call fails.
            self._channel.close()

    def stop(self) -> str:
        """End the submission; says which limit had ended it. Raises what had kept it from running."""
        self.join(2.0)
        error = self._error
        if self.is_alive():  # it was told by the closed channel, and stays
            self._sandbox.close()
            self.join()
        if error is not None:
            raise error
        return self._ended_by


def _grader_files(*names: str) -> dict[str, bytes | Path]:
    return {
        f"grader/{name}": Path(__file__).parent / "grader" / name
        for name in ("__init__.py", "wire.py", *names)
    }


def _test_file(module: str) -> str:
    return f"evaluation/tests/test_{module}.py"


def _checks(group: str, expected: Sequence[str], report: _Report) -> list[Check]:
    trouble = report.errors[0] if report.errors else "the test did not run"
    checks = []
    for test in expected:
        found: Mapping[str, Any] = report.tests.get(test, {"outcome": "missing", "message": trouble})
        checks.append(Check(f"{group}::{test}", found["outcome"] == "passed", group, found["message"][:400]))
    return checks


def _assess(checks: Sequence[Check], notes: Sequence[str], reason: str) -> Assessment:
    return Assessment(
        passed=bool(checks) and all(check.passed for check in checks),
        reason=reason,
        scores=_fractions(checks),
        checks=tuple(checks),
        notes=tuple(notes),
        grading="out_of_process",
    )


def _fractions(checks: Sequence[Check]) -> dict[str, float]:
    def fraction(chosen: Sequence[Check]) -> float:
        return sum(check.passed for check in chosen) / len(chosen) if chosen else 0.0

    scores = {"tests_passed_fraction": fraction(checks)}
    for group in SETS:
        chosen = [check for check in checks if check.group == group]
        if chosen or not checks:  # a set that the task does not have is no zero
            scores[f"{group}_fraction"] = fraction(chosen)
    return scores


def _reason(checks: Sequence[Check]) -> str:
    failed = [check for check in checks if not check.passed]
    if not failed:
        return f"all {len(checks)} tests passed"
    hidden = sum(check.group == "hidden" for check in checks)
    if all(check.group == "hidden" for check in failed):
        return f"passes every visible test, fails {len(failed)} of the {hidden} hidden ones"
    named = ", ".join(check.name for check in failed[:3]) + (", ..." if len(failed) > 3 else "")
    return f"{len(failed)} of {len(checks)} tests failed: {named}"
