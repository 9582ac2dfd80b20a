"""The benchmark's part in a pytest session: what is planned, what was reported, how it ends."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Sequence
from typing import Any

import pytest

from pytest_imaging101.attempts import Miss, Ungraded, known_fault
from pytest_imaging101.collection import AttemptItem, Planned, item_id, plan
from pytest_imaging101.faults import Fault, StorageFault, UsageError
from pytest_imaging101.options import Settings
from pytest_imaging101.outcome import FaultRecord, Outcome, PlannedItem
from pytest_imaging101.reporting.properties import headline, to_properties
from pytest_imaging101.reporting.report import rebuild
from pytest_imaging101.reporting.summary import Summary
from pytest_imaging101.run import Run
from pytest_imaging101.sandboxes.environment import is_ready
from pytest_imaging101.sandboxes.leftovers import remove_leftovers
from pytest_imaging101.task import Task

_NOT_OURS = (Miss, pytest.skip.Exception, pytest.exit.Exception)
_DECIDED_BY_MARKS = (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED, pytest.ExitCode.NO_TESTS_COLLECTED)


class WorkerCrash(Fault):
    """An xdist worker died under an attempt."""

    kind = "worker_crash"


class BenchmarkSession:
    """One per process: the controller's plans and sums up, a worker's only settles its own attempts."""

    def __init__(self, config: pytest.Config, run: Run, tasks: Sequence[Task], controller: bool) -> None:
        self.config = config
        self.run = run
        self.controller = controller
        self.tasks = tasks
        self.planned: dict[str, Planned] = {}
        self.items: list[PlannedItem] = []
        self.summary: Summary | None = None
        self.removed = 0
        self._previous_handler: Any = None
        self._hidden: dict[str, str] = {}

    @classmethod
    def open(cls, config: pytest.Config, settings: Settings, tasks: Sequence[Task]) -> BenchmarkSession:
        """Start or resume a run, or join it as a worker."""
        workerinput = getattr(config, "workerinput", None)
        if workerinput is None:
            run = Run.start(settings, config.invocation_params.dir / "reports")
        else:
            run = Run.join(settings, workerinput["imaging101"], workerinput["workerid"])
        session = cls(config, run, tasks, controller=workerinput is None)
        if session.controller:
            session.removed = remove_leftovers()
        session._take_sigterm()
        session._hide_keys()
        return session

    def _take_sigterm(self) -> None:
        # A scheduler's SIGTERM ends a run the way Ctrl-C does: fixtures are torn down, reports are written.
        if threading.current_thread() is threading.main_thread():
            self._previous_handler = signal.signal(signal.SIGTERM, signal.default_int_handler)

    def _hide_keys(self) -> None:
        # Workers inherit the environment, and nothing of theirs needs a key: the broker holds them all.
        keys = {entry.api_key for entry in self.run.settings.model_settings.values() if entry.api_key}
        self._hidden = {name: value for name, value in os.environ.items() if value.strip() in keys}
        for name in self._hidden:
            del os.environ[name]

    def close(self) -> None:
        self.run.close()
        os.environ.update(self._hidden)
        if self._previous_handler is not None:
            signal.signal(signal.SIGTERM, self._previous_handler)

    # -- what is planned

    def deselect_finished(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        """Leave out what a resumed run already has a verdict for."""
        if self.run.settings.resume is None:
            return
        done = self.run.graded_keys()
        finished = [
            item for item in items if isinstance(item, AttemptItem) and self._record(item).key in done
        ]
        if finished:
            config.hook.pytest_deselected(items=finished)
            items[:] = [item for item in items if item not in finished]

    def _record(self, item: AttemptItem) -> PlannedItem:
        return self.run.item(item.planned, item.nodeid)

    def planned_here(self, items: Sequence[pytest.Item]) -> None:
        """Note the plan of a session without workers."""
        if self.controller:
            self._note({item.nodeid: item.planned for item in items if isinstance(item, AttemptItem)})

    def planned_by_workers(self, ids: Sequence[str]) -> None:
        """Note the plan from what a worker collected; all collect the same."""
        if self.planned:
            return
        known = {
            item_id(planned, self.run.settings): planned
            for task in self.tasks
            for planned in plan(task, self.run.settings)
        }
        self._note({node_id: known[node_id] for node_id in ids if node_id in known})

    def _note(self, planned: dict[str, Planned]) -> None:
        self.planned = planned
        self.items = [self.run.item(one, node_id) for node_id, one in planned.items()]
        self.run.record_plan(self.items, ["pytest", *map(str, self.config.invocation_params.args)])
        self._build_environments()

    def _build_environments(self) -> None:
        """Build what is missing before the first attempt; an attempt meets the fault of one that cannot be built."""
        for requirements, task in {
            one.task.requirements(): one.task for one in self.planned.values()
        }.items():
            if is_ready(requirements):
                continue
            self._say(
                f"imaging101: building the environment of {task.name} (once): {', '.join(requirements)}"
            )
            try:
                self.run.environment(task)
            except Fault as fault:
                self._say(f"imaging101: {fault}")

    def _say(self, line: str) -> None:
        reporter = self.config.pluginmanager.get_plugin("terminalreporter")
        if reporter is not None:
            reporter.ensure_newline()
            reporter.write_line(line)

    # -- what happened

    def settle(self, item: AttemptItem, call: pytest.CallInfo[None]) -> bool:
        """Record the end of a phase of an item; True if it was a fault, so that the item is ungraded."""
        error = call.excinfo.value if call.excinfo else None
        faulty = error is not None and call.when != "teardown" and not isinstance(error, _NOT_OURS)
        attempt = item.attempt
        item.last_error = error if faulty else item.last_error
        if isinstance(error, pytest.skip.Exception):
            self.run.journal.skipped(self._record(item), str(error))
        if attempt is None or call.when == "teardown":
            return faulty
        if faulty and error is not None and attempt.outcome is None:
            self._settle_fault(item, error)
        if attempt.outcome is not None:
            item.user_properties[:] = to_properties(attempt.outcome)
            item.config.hook.pytest_imaging101_outcome(outcome=attempt.outcome)
        return faulty

    def _settle_fault(self, item: AttemptItem, error: BaseException) -> None:
        assert item.attempt is not None
        if isinstance(error, Fault) and error.ends_run:
            self.run.stop_model(item.planned.model, error)
        try:
            item.attempt.ungraded(error)
        except StorageFault as storage:
            item.add_report_section("setup", "imaging101", f"the outcome was not written: {storage}")

    def mark_report(self, call: pytest.CallInfo[None], report: pytest.TestReport) -> None:
        """Make a fault pytest's ERROR: pytest tells a miss from a fault by the phase that failed."""
        assert call.excinfo is not None
        error = call.excinfo.value
        report.when = "setup"
        report.outcome = "failed"
        if known_fault(error):
            kind = error.kind if isinstance(error, Fault) else "usage"
            shown = Ungraded(f"{kind}: {error}")
            excinfo = pytest.ExceptionInfo.from_exc_info((Ungraded, shown, call.excinfo.tb))
            report.longrepr = excinfo.getrepr(style="value")

    def describe(self, item: AttemptItem, report: pytest.TestReport) -> None:
        """Give the report the few words that a verbose line shows; xdist carries them to the controller."""
        if item.attempt is not None and item.attempt.outcome is not None and report.when != "teardown":
            report.imaging101 = headline(item.attempt.outcome)  # type: ignore[attr-defined]

    def status(self, report: pytest.TestReport) -> tuple[str, str, str] | None:
        """Category, letter and words of an attempt's report."""
        words = getattr(report, "imaging101", None)
        if words is None or report.skipped:
            return None
        if self.config.get_verbosity() <= 0:
            words = ""  # the short summary at the end prints these words before the id
        if report.when == "setup":
            return ("error", "E", f"ERROR {words}".rstrip()) if report.failed else None
        if report.failed:
            return "failed", "F", f"FAILED {words}".rstrip()
        return "passed", ".", f"PASSED {words}".rstrip()

    def worker_crashed(self, node_id: str, report: pytest.TestReport) -> None:
        """An attempt whose worker died is ungraded, unless its verdict was already written."""
        planned = self.planned.get(node_id)
        if planned is None:
            return
        item = self.run.item(planned, node_id)
        fault = WorkerCrash(f"the worker process died in the middle of the attempt ({report.longrepr})")
        outcome = Outcome(
            **item.model_dump(),
            grader=self.run.grader(planned.task),
            verdict="ungraded",
            reason=fault.message,
            fault=FaultRecord(kind=fault.kind, message=fault.message),
        )
        if item.key not in self.run.graded_keys():
            self.run.folder.write_outcome(outcome)
            self.run.journal.verdict(outcome)
        report.when = "setup"
        report.longrepr = f"Ungraded: {fault.kind}: {fault.message}"
        report.user_properties = to_properties(outcome)
        report.imaging101 = headline(outcome)  # type: ignore[attr-defined]

    # -- how it ends

    def finish(self, session: pytest.Session) -> None:
        """Make the reports from what is on disk, and decide the exit code from planned and graded."""
        if not self.controller:
            return
        try:
            self.summary = rebuild(self.run.folder.path)
        except (Fault, UsageError, OSError) as error:
            self._say(f"imaging101: the reports could not be made: {error}")
            self._say(f"imaging101: what was recorded stands; then: imaging101 report {self.run.folder.path}")
            session.exitstatus = session.exitstatus or pytest.ExitCode.TESTS_FAILED
            return
        total = self.summary.total
        if session.exitstatus not in _DECIDED_BY_MARKS or total.planned == 0:
            return
        passed = {outcome.key for outcome in self.run.folder.outcomes() if outcome.verdict == "passed"}
        ours = sum(item.key not in passed for item in self.items)
        other_failures = session.testsfailed > ours
        good = self.summary.complete and not other_failures and self._good_enough(total.rate)
        session.exitstatus = pytest.ExitCode.OK if good else pytest.ExitCode.TESTS_FAILED

    def _good_enough(self, rate: float | None) -> bool:
        settings = self.run.settings
        if settings.min_pass_rate is not None:
            return rate is not None and rate >= settings.min_pass_rate
        return rate == 1.0 or not settings.gate

    def print_summary(self, reporter: pytest.TerminalReporter) -> None:
        if self.summary is None:
            return
        from pytest_imaging101.reporting.terminal import summary_lines

        reporter.section("imaging101")
        for line in summary_lines(self.summary, self.run.folder.path, width=reporter._tw.fullwidth):
            reporter.line(line)
