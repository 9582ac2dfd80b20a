"""Attempts wait for the machine's slots: what they wait is said, counted against nothing, and ends."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from pytest_imaging101.budget import Budget, Limits, Usage
from pytest_imaging101.models.base import Message, Reply
from pytest_imaging101.sandboxes.base import Completed
from pytest_imaging101.slots import Slots, slots_folder
from pytest_imaging101.waiting import MachineSlots
from tests.plugin.runs import outcomes, verdicts

# Generous: reached only where something is broken.
PATIENCE = 300.0
HELD_SECONDS = 0.5

Start = Callable[..., "subprocess.Popen[bytes]"]


@pytest.fixture(autouse=True)
def slots_of_this_test(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of slots that no other run on this machine knows of."""
    folder = tmp_path / "tmp"
    folder.mkdir()
    monkeypatch.setenv("TMPDIR", str(folder))
    monkeypatch.setattr("tempfile.tempdir", None)
    return slots_folder()


@pytest.fixture
def start(pytester: pytest.Pytester, toy_tasks: Path) -> Iterator[Start]:
    """Start a run of the oracle over the toy task."""
    started: list[subprocess.Popen[bytes]] = []

    def begin(*args: str) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "pytest", "--model=oracle", f"--tasks={toy_tasks}", *args]
        started.append(subprocess.Popen(command, cwd=pytester.path, stdout=subprocess.DEVNULL))
        return started[-1]

    yield begin
    for process in started:
        process.kill()
        process.wait()


@contextmanager
def held_until_missed(folder: Path) -> Iterator[None]:
    """Hold the only CPU slot until somebody has waited for it for a while."""
    with Slots(folder, "cpu", 1).acquire():
        yield
        deadline = time.monotonic() + PATIENCE
        while not list(folder.glob("cpu/ticket-*")):
            assert time.monotonic() < deadline
            time.sleep(0.005)
        missed = time.monotonic()
        while time.monotonic() < missed + HELD_SECONDS:
            time.sleep(0.005)


@pytest.mark.parametrize("item", ["end2end[L1]", "function[solvers]"])
def test_an_attempt_waits_for_another_run_and_the_wait_stands_in_its_outcome(
    start: Start, pytester: pytest.Pytester, slots_of_this_test: Path, item: str
) -> None:
    with held_until_missed(slots_of_this_test):
        run = start("--output=out", "--cpu-slots=1", f"tasks/toy/task.toml::{item}")
    assert run.wait(PATIENCE) == 0
    outcome = outcomes(pytester.path / "out")[item]
    clocks = outcome["clocks"]
    assert clocks["waiting_seconds"] >= HELD_SECONDS
    # No clock counts the wait a second time: the oracle waits as an agent in end2end, as a module that is graded else.
    began, ended = (datetime.fromisoformat(outcome[name]) for name in ("started", "finished"))
    assert sum(clocks.values()) <= (ended - began).total_seconds() + 0.05


def test_one_slot_serves_several_workers_and_another_run(start: Start, pytester: pytest.Pytester) -> None:
    workers = start("--output=a", "--cpu-slots=1", "--mechanism=function", "-n", "2")
    alone = start("--output=b", "--cpu-slots=1", "--target-function=solvers")
    assert [run.wait(PATIENCE) for run in (workers, alone)] == [0, 0]
    for name in ("a", "b"):
        assert set(verdicts(pytester.path / name).values()) == {"passed"}


def test_the_header_says_how_many_compute_at_once(pytester: pytest.Pytester, toy_tasks: Path) -> None:
    result = pytester.runpytest_subprocess(
        "--model=nop", f"--tasks={toy_tasks}", "--level=L1", "--cpu-slots=3", "--no-gate"
    )
    result.stdout.fnmatch_lines(["imaging101: at most 3 commands compute at once*"])


def test_a_wait_before_the_attempts_clock_began_is_no_time_of_the_agents(
    start: Start, pytester: pytest.Pytester, slots_of_this_test: Path
) -> None:
    pytester.makeconftest(
        """
        import pytest

        @pytest.fixture
        def agent(agent, sandbox):
            sandbox.run("true", timeout=60)
            return agent
        """
    )
    with held_until_missed(slots_of_this_test):
        run = start("--output=out", "--cpu-slots=1", "tasks/toy/task.toml::planning")
    assert run.wait(PATIENCE) == 0
    clocks = outcomes(pytester.path / "out")["planning"]["clocks"]
    assert clocks["waiting_seconds"] >= HELD_SECONDS
    assert clocks["attempt_seconds"] > 0.0


class Clock:
    """A clock that a test sets."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


class StubSandbox:
    """Notes what reaches it."""

    backend = "stub"
    warnings = ("a stub",)

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self.timeouts: list[float] = []

    def run(self, command: str, *, timeout: float, **_: Any) -> Completed:
        self.timeouts.append(timeout)
        self.clock.now += 5.0
        return Completed(0, "", 0, False, False, 5.0)


class StubModel:
    """Counts how many of its calls are under way."""

    name = "m"

    def __init__(self) -> None:
        self.under_way = self.most = 0
        self.lock = threading.Lock()

    def complete(self, messages: list[Message], *, deadline_seconds: float, stop: object = ()) -> Reply:
        with self.lock:
            self.under_way += 1
            self.most = max(self.most, self.under_way)
        time.sleep(0.01)
        with self.lock:
            self.under_way -= 1
        return Reply("", "stop", Usage(), 0.0)


def test_waiting_takes_nothing_of_a_commands_and_an_attempts_time(slots_of_this_test: Path) -> None:
    clock = Clock()
    budget = Budget(Limits(attempt_seconds=60.0), clock=clock)
    budget.start()
    inner = StubSandbox(clock)

    def waited(seconds: float) -> None:
        assert seconds >= HELD_SECONDS
        clock.now += 1000.0  # as it would seem on the attempt's clock
        budget.credit(1000.0)

    slots = MachineSlots(Slots(slots_of_this_test, "cpu", 1), {})
    sandbox = slots.sandbox(inner, waited)  # type: ignore[arg-type]
    assert (sandbox.backend, sandbox.warnings) == ("stub", ("a stub",))
    thread = threading.Thread(target=lambda: sandbox.run("true", timeout=budget.remaining_seconds))
    with held_until_missed(slots_of_this_test):
        thread.start()
    thread.join(PATIENCE)
    assert inner.timeouts == [60.0]
    assert budget.remaining_seconds == 55.0


@pytest.mark.parametrize("most", [1, 2])
def test_no_more_calls_of_a_model_are_under_way_than_it_has_slots(
    slots_of_this_test: Path, most: int
) -> None:
    inner = StubModel()
    waits: list[float] = []
    slots = MachineSlots(None, {"m": Slots(slots_of_this_test, "model:m", most)})
    model = slots.model(inner, waits.append)
    threads = [threading.Thread(target=lambda: model.complete([], deadline_seconds=1.0)) for _ in range(8)]
    with ExitStack() as stack:
        for thread in threads:
            thread.start()
            stack.callback(thread.join, PATIENCE)
    assert inner.most <= most
    assert len(waits) == 8


def test_a_model_without_slots_and_a_sandbox_without_are_left_as_they_are() -> None:
    slots = MachineSlots(None, {})
    model, sandbox = StubModel(), StubSandbox(Clock())
    assert slots.model(model, lambda _: None) is model
    assert slots.sandbox(sandbox, lambda _: None) is sandbox  # type: ignore[arg-type, comparison-overlap]
    with slots.computing(lambda _: pytest.fail("nothing was waited for")):
        pass
