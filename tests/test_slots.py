"""Slots of a machine: real processes that line up, hold, die and have children."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from pytest_imaging101.slots import Slots, SlotTimeout, usable_cores

# Generous: reached only where something is broken.
PATIENCE = 60.0

START = """
import os, signal, subprocess, sys, threading
from pathlib import Path
from pytest_imaging101.slots import Slots
folder, count, log, name = Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3], sys.argv[4]
slots = Slots(folder, "cpu", count)
file = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
def say(word):
    os.write(file, f"{word}{name}\\n".encode())
"""
ONCE = "with slots.acquire(): say('+')\n"
HOLD = "with slots.acquire(): say('+'); input()\n"
Start = Callable[..., "subprocess.Popen[bytes]"]


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """What the processes say, in the order in which they say it."""
    path = tmp_path / "log"
    path.touch()
    return path


@pytest.fixture
def start(tmp_path: Path, log: Path) -> Iterator[Start]:
    """Start a process that uses slots of the folder ``tmp_path``."""
    started: list[subprocess.Popen[bytes]] = []

    def begin(program: str, name: str = "", count: int = 1) -> subprocess.Popen[bytes]:
        arguments = [sys.executable, "-c", START + program, str(tmp_path), str(count), str(log), name]
        process = subprocess.Popen(arguments, stdin=subprocess.PIPE)
        started.append(process)
        return process

    yield begin
    for process in started:
        process.kill()
        process.communicate()


def wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.002)


def words(log: Path) -> list[str]:
    return log.read_text().split()


def waiting(tmp_path: Path) -> int:
    """How many have drawn a ticket and not been served."""
    return len(list((tmp_path / "cpu").glob("ticket-*")))


def test_a_slot_is_held_for_the_block_and_knows_that_it_was_not_waited_for(tmp_path: Path) -> None:
    slots = Slots(tmp_path, "cpu", 1)
    with slots.acquire() as slot:
        assert 0 <= slot.waited_seconds < PATIENCE
        with pytest.raises(SlotTimeout, match="none of 1 cpu slots"), slots.acquire(0.01):
            pytest.fail("two hold the one slot")
    assert waiting(tmp_path) == 0
    with slots.acquire(PATIENCE):
        pass


def test_names_have_slots_of_their_own(tmp_path: Path) -> None:
    with Slots(tmp_path, "cpu", 1).acquire(), Slots(tmp_path, "model:org/m", 1).acquire(PATIENCE):
        pass


def test_processes_are_served_in_the_order_in_which_they_came(
    tmp_path: Path, start: Start, log: Path
) -> None:
    began = time.monotonic()
    with Slots(tmp_path, "cpu", 1).acquire():
        processes = []
        for number in range(6):
            processes.append(start(ONCE, str(number)))
            wait_until(lambda number=number: waiting(tmp_path) == number + 1)  # type: ignore[misc]
        assert words(log) == []
    assert [process.wait(PATIENCE) for process in processes] == [0] * 6
    assert words(log) == [f"+{number}" for number in range(6)]
    assert time.monotonic() - began < PATIENCE


def test_threads_of_a_process_stand_in_the_same_line(tmp_path: Path, start: Start, log: Path) -> None:
    slots = Slots(tmp_path, "cpu", 1)
    waited = []

    def take(name: str) -> None:
        with slots.acquire() as slot:
            waited.append(slot.waited_seconds)
            with log.open("a") as file:
                file.write(f"+{name}\n")

    threads = [threading.Thread(target=take, args=(name,)) for name in ("first", "third")]
    with slots.acquire():
        threads[0].start()
        wait_until(lambda: waiting(tmp_path) == 1)
        other = start(ONCE, "second")
        wait_until(lambda: waiting(tmp_path) == 2)
        threads[1].start()
        wait_until(lambda: waiting(tmp_path) == 3)
        held = time.monotonic()
        wait_until(lambda: time.monotonic() > held + 0.02)
    for thread in threads:
        thread.join(PATIENCE)
    assert other.wait(PATIENCE) == 0
    assert words(log) == ["+first", "+second", "+third"]
    assert min(waited) >= 0.02


def test_a_greedy_process_starves_nobody(tmp_path: Path, start: Start, log: Path) -> None:
    greedy = """
def take_again():
    while True:
        with slots.acquire(): say('+')
for _ in range(4):
    threading.Thread(target=take_again, daemon=True).start()
input()
"""
    start(greedy, "greedy")
    wait_until(lambda: len(words(log)) > 20)
    assert start(ONCE, "modest").wait(PATIENCE) == 0
    assert "+modest" in words(log)


def test_no_more_than_the_count_hold_a_slot_at_once(tmp_path: Path, start: Start, log: Path) -> None:
    several = "for _ in range(20):\n    with slots.acquire(): say('+'); say('-')\n"
    processes = [start(several, count=2) for _ in range(4)]
    assert [process.wait(PATIENCE) for process in processes] == [0] * 4
    holders = [0]
    for word in words(log):
        holders.append(holders[-1] + (1 if word == "+" else -1))
    assert len(holders) == 161
    assert max(holders) <= 2


def test_the_slot_of_a_killed_owner_is_free(tmp_path: Path, start: Start, log: Path) -> None:
    owner = start(HOLD)
    wait_until(lambda: words(log) == ["+"])
    owner.kill()
    with Slots(tmp_path, "cpu", 1).acquire(PATIENCE):
        pass


def test_a_killed_waiter_holds_nobody_up(tmp_path: Path, start: Start, log: Path) -> None:
    slots = Slots(tmp_path, "cpu", 1)
    with slots.acquire():
        dead = start(ONCE, "dead")
        wait_until(lambda: waiting(tmp_path) == 1)
        alive = start(ONCE, "alive")
        wait_until(lambda: waiting(tmp_path) == 2)
        dead.kill()
        dead.wait()
    assert alive.wait(PATIENCE) == 0
    assert words(log) == ["+alive"]
    with slots.acquire(PATIENCE):  # who draws a ticket removes those of the dead
        assert waiting(tmp_path) == 0


def test_a_waiter_that_gave_up_holds_nobody_up(tmp_path: Path) -> None:
    slots = Slots(tmp_path, "cpu", 1)
    with slots.acquire():
        for _ in range(3):
            with pytest.raises(SlotTimeout), slots.acquire(0.005):
                pytest.fail("two hold the one slot")
        assert waiting(tmp_path) == 0
    with slots.acquire(PATIENCE):
        pass


@pytest.mark.parametrize("end", ["killed", "released"])
def test_children_do_not_keep_a_slot(tmp_path: Path, start: Start, log: Path, end: str) -> None:
    # One child that runs a program and is handed everything that can be inherited; one that was only forked, which
    # shares its parent's files for good and is told apart from it only by the parent's explicit release.
    parent = """
with slots.acquire():
    if sys.argv[4] == "killed":
        child = subprocess.Popen(["sleep", "600"], close_fds=False).pid
    elif not (child := os.fork()):
        signal.pause()
    os.write(file, f"{child}\\n".encode())
    if sys.argv[4] == "killed":
        input()
input()
"""
    owner = start(parent, end)
    wait_until(lambda: log.read_text().endswith("\n"))
    child = int(words(log)[0])
    try:
        if end == "killed":
            owner.kill()
        with Slots(tmp_path, "cpu", 1).acquire(PATIENCE):
            os.kill(child, 0)  # it is alive
    finally:
        with suppress(ProcessLookupError):
            os.kill(child, signal.SIGKILL)


def test_a_run_with_more_slots_leaves_room_to_one_with_fewer(tmp_path: Path) -> None:
    with (
        Slots(tmp_path, "cpu", 3).acquire(),
        Slots(tmp_path, "cpu", 3).acquire(),
        Slots(tmp_path, "cpu", 1).acquire(PATIENCE),
        pytest.raises(SlotTimeout),
        Slots(tmp_path, "cpu", 3).acquire(0.01),
    ):
        pytest.fail("four hold three slots")


def test_a_count_of_none_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="count is 0"):
        Slots(tmp_path, "cpu", 0)


@pytest.mark.parametrize(
    ("text", "cores"), [("100000 100000", 1), ("50000 100000", 1), ("max 100000", None), (None, None)]
)
def test_cores_are_those_of_the_affinity_or_of_a_containers_share(
    tmp_path: Path, text: str | None, cores: int | None
) -> None:
    quota = tmp_path / "cpu.max"
    if text is not None:
        quota.write_text(f"{text}\n")
    assert usable_cores(quota) == (cores or len(os.sched_getaffinity(0)))
