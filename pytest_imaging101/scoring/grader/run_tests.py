"""Runs one trusted test file against the remote submission and writes what every test said.

Runs inside the trusted sandbox, which never holds a line of the submission.

Usage: ``python -m grader.run_tests '<JSON of Job>'`` with IMAGING101_CHANNEL naming the channel's file descriptor.
Without a channel it only collects the tests, against the reference in ``reference/src``: what a submission exports
can then change neither which tests there are nor how many.
"""

from __future__ import annotations

import json
import os
import re
import resource
import signal
import socket
import sys
import time
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from .operands import Witness
from .stub import Connection, SubmissionLost, install

_MESSAGE_CHARACTERS = 400
# For saying what went wrong, once what the tests said is written down.
_DIAGNOSIS_SECONDS = 20.0


@dataclass(frozen=True)
class Job:
    """What to run, and what it may use; given by the harness."""

    nonce: str
    module: str
    test_file: str
    result_file: str
    drift_file: str
    call_seconds: float
    total_seconds: float
    import_seconds: float
    own_seconds: float
    memory_bytes: int


@dataclass
class Report:
    """What is written for the harness."""

    nonce: str
    import_error: str = ""
    collected: list[str] = field(default_factory=list)
    tests: dict[str, dict[str, str]] = field(default_factory=dict)
    errors: list[str] = field(default_factory=list)


class TooLong(BaseException):
    """The trusted side itself ran out of time: what it got to compare is too large or too odd."""


class Recorder:
    """A pytest plugin that keeps every collected test's outcome and first message, and bounds its time."""

    def __init__(self, report: Report, deadline: float) -> None:
        self._report = report
        self._deadline = deadline

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        self._report.collected += [_short_id(item.nodeid) for item in items]

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed:
            self._report.errors.append(f"{report.nodeid}: {report.longreprtext}"[-4000:])

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_setup(self) -> Generator[None]:
        with self._bounded():
            return (yield)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self) -> Generator[None]:
        with self._bounded():
            return (yield)

    @contextmanager
    def _bounded(self) -> Iterator[None]:
        # Inside the phase's hook, so that pytest takes the alarm for the test's own failure.
        signal.setitimer(signal.ITIMER_REAL, max(1.0, self._deadline - time.monotonic()))
        try:
            yield
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        name = _short_id(report.nodeid)
        known = self._report.tests.setdefault(name, {"outcome": "missing", "message": "the test did not run"})
        if report.outcome != "passed" and known["outcome"] in ("missing", "passed"):
            known.update(outcome=report.outcome, message=_first_message(report))
        elif report.when == "call" and known["outcome"] == "missing":
            known.update(outcome="passed", message="")


def _short_id(node_id: str) -> str:
    return node_id.partition("::")[2] or node_id


def _first_message(report: pytest.TestReport) -> str:
    crash = getattr(report.longrepr, "reprcrash", None)
    text = crash.message if crash is not None else str(report.longrepr)
    text = re.sub(rf"^(\w+\.)*({SubmissionLost.__name__}|{TooLong.__name__}): ", "", text)
    return " ".join(text.split())[:_MESSAGE_CHARACTERS]


def _ring(_signal: int, _frame: FrameType | None) -> None:
    raise TooLong("comparing what the submission returned took too long")


def _limit_memory(most: int) -> None:
    # A huge answer shall raise MemoryError in its test rather than get the grader killed by its sandbox.
    _, hard = resource.getrlimit(resource.RLIMIT_DATA)
    if hard == resource.RLIM_INFINITY or hard > most:
        resource.setrlimit(resource.RLIMIT_DATA, (most, hard))


def run(job: Job, channel: socket.socket | None, witness: Witness) -> Report:
    """Run the job's tests, or collect them where there is no channel."""
    report = Report(job.nonce)
    extra = []
    if channel is None:
        sys.path.insert(0, os.path.abspath("reference"))
        extra = ["--collect-only"]
    else:
        report.import_error = _connect(job, channel)
        if report.import_error:
            return report
        witness.watch()
    settings = Path(__file__).with_name("pytest.ini")
    arguments = [
        job.test_file,
        f"--config-file={settings}",
        f"--rootdir={Path.cwd()}",
        "--noconftest",
        "--import-mode=importlib",
        "--tb=short",
        "--quiet",
        "-pno:cacheprovider",
        *extra,
    ]
    deadline = time.monotonic() + job.total_seconds + job.own_seconds
    code = pytest.main(arguments, plugins=[Recorder(report, deadline), witness])
    if code not in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED):
        report.errors.append(f"pytest ended with {code!r}")
    return report


def _connect(job: Job, channel: socket.socket) -> str:
    """Put the remote module in place; says why the submission does not import, if it does not."""
    connection = Connection(channel, job.call_seconds, job.total_seconds, job.import_seconds)
    install(job.module, connection)
    signal.signal(signal.SIGALRM, _ring)
    return connection.load()


def main() -> None:
    """Run the job given on the command line and write its report."""
    given: dict[str, Any] = json.loads(sys.argv[1])
    job = Job(**given)
    _limit_memory(job.memory_bytes)
    descriptor = os.environ.pop("IMAGING101_CHANNEL", None)
    witness = Witness()
    report = run(job, socket.socket(fileno=int(descriptor)) if descriptor else None, witness)
    Path(job.result_file).write_text(json.dumps(asdict(report)), encoding="utf-8")
    failed = {name for name, found in report.tests.items() if found["outcome"] != "passed"}
    if failed:
        signal.setitimer(signal.ITIMER_REAL, _DIAGNOSIS_SECONDS)
        drifts = witness.drifts(failed)
        signal.setitimer(signal.ITIMER_REAL, 0)
        Path(job.drift_file).write_text(json.dumps(drifts), encoding="utf-8")


if __name__ == "__main__":
    main()
