"""A journal loses nothing that was written before a kill, a full disk or a second writer."""

from __future__ import annotations

import math
import signal
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

from pytest_imaging101.faults import StorageFault
from pytest_imaging101.reporting.journal import Journal, event_identity, read_events
from tests.reporting.records import (
    HOSTILE,
    make_item,
    make_outcome,
    start_python,
    strict_json_lines,
    wait_all,
)

linux_only = pytest.mark.skipif(sys.platform != "linux", reason="needs /dev/full and /proc/sys")


def test_events_come_back_whole_with_time_and_writer(tmp_path: Path) -> None:
    with Journal(tmp_path, "gw0") as journal:
        journal.write("sandbox_created", name="box", nested={"a": [1, None]})
        journal.verdict(make_outcome(verdict="failed", reason="ncc too low"))
    events, warnings = read_events(tmp_path)
    assert warnings == []
    assert [event["event"] for event in events] == ["sandbox_created", "verdict"]
    assert events[0]["nested"] == {"a": [1, None]}
    assert {event["writer"] for event in events} == {"gw0"}
    assert events[0]["time"].endswith("+00:00")
    assert events[1]["verdict"] == "failed"


def test_started_and_skipped_name_the_item(tmp_path: Path) -> None:
    item = make_item(part=None, mechanism="planning", epoch=3)
    with Journal(tmp_path, "gw0") as journal:
        journal.started(item)
        journal.skipped(item, "needs its own environment")
    events, _ = read_events(tmp_path)
    assert [event_identity(event) for event in events] == [item.identity, item.identity]
    assert events[1]["reason"] == "needs its own environment"


def test_a_run_without_a_journal_has_no_events(tmp_path: Path) -> None:
    assert read_events(tmp_path) == ([], [])


def test_a_torn_last_line_is_read_past_with_a_warning(tmp_path: Path) -> None:
    with Journal(tmp_path, "gw0") as journal:
        journal.write("one")
        journal.write("two")
    journal.path.write_bytes(journal.path.read_bytes()[:-20])
    events, warnings = read_events(tmp_path)
    assert [event["event"] for event in events] == ["one"]
    assert len(warnings) == 1
    assert "gw0.jsonl" in warnings[0]
    assert "last line is torn" in warnings[0]


def test_a_whole_last_line_without_its_newline_counts(tmp_path: Path) -> None:
    with Journal(tmp_path, "gw0") as journal:
        journal.write("one")
    journal.path.write_bytes(journal.path.read_bytes().rstrip(b"\n"))
    events, warnings = read_events(tmp_path)
    assert ([event["event"] for event in events], warnings) == (["one"], [])


@pytest.mark.parametrize(
    "broken", [b"{not json", b"[1, 2]", b'{"event": 3, "time": ""}', b"\xff\xfe\x00", b"[" * 100_000, b"12"]
)
def test_a_broken_middle_line_is_left_out_with_its_number(tmp_path: Path, broken: bytes) -> None:
    with Journal(tmp_path, "gw0") as journal:
        journal.write("one")
        with journal.path.open("ab") as file:
            file.write(broken + b"\n")
        journal.write("two")
    events, warnings = read_events(tmp_path)
    assert [event["event"] for event in events] == ["one", "two"]
    assert len(warnings) == 1
    assert "line 2" in warnings[0]


def test_a_writer_that_comes_after_a_torn_line_is_not_spoilt_by_it(tmp_path: Path) -> None:
    with Journal(tmp_path, "main") as journal:
        journal.write("one")
        journal.write("two")
    journal.path.write_bytes(journal.path.read_bytes()[:-5])
    with Journal(tmp_path, "main") as journal:
        journal.write("three")
    events, warnings = read_events(tmp_path)
    assert [event["event"] for event in events] == ["one", "three"]
    assert len(warnings) == 1


def test_events_hold_anything_and_stay_strict_json(tmp_path: Path) -> None:
    with Journal(tmp_path, "gw0") as journal:
        for name, text in HOSTILE.items():
            journal.write(name, text=text, path=Path(text[:9]), score=np.float32("nan"), size=math.inf)
    lines = strict_json_lines(journal.path)
    assert [line["event"] for line in lines] == list(HOSTILE)
    assert {line["score"] for line in lines} == {None}
    events, warnings = read_events(tmp_path)
    assert len(events) == len(HOSTILE)
    assert warnings == []


_WRITE_MANY = """
import sys
from pathlib import Path
from pytest_imaging101.reporting.journal import Journal
with Journal(Path(sys.argv[1]), sys.argv[2]) as journal:
    for number in range(400):
        journal.write("event", number=number, by=sys.argv[3], filling="x" * (number % 97) * 50)
"""


@pytest.mark.parametrize("writers", [("gw0", "gw1"), ("same", "same")], ids=["own files", "one file"])
def test_two_processes_at_once_lose_nothing(tmp_path: Path, writers: tuple[str, str]) -> None:
    wait_all([start_python(_WRITE_MANY, tmp_path, writer, by) for by, writer in enumerate(writers)])
    events, warnings = read_events(tmp_path)
    assert warnings == []
    for by in ("0", "1"):
        assert [event["number"] for event in events if event["by"] == by] == list(range(400))


def test_threads_share_a_journal(tmp_path: Path) -> None:
    def write_many(journal: Journal) -> None:
        for _ in range(100):
            journal.write("event", filling="y" * 500)

    with Journal(tmp_path, "main") as journal:
        threads = [threading.Thread(target=write_many, args=[journal]) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert len(strict_json_lines(journal.path)) == 800


_WRITE_UNTIL_KILLED = """
import itertools, sys
from pathlib import Path
from pytest_imaging101.reporting.journal import Journal
journal = Journal(Path(sys.argv[1]), "victim")
for number in itertools.count():
    journal.write("event", durable=True, number=number, filling="z" * 100_000)
    print(number, flush=True)
"""


def test_what_was_acknowledged_before_a_kill_is_there(tmp_path: Path) -> None:
    process = start_python(_WRITE_UNTIL_KILLED, tmp_path)
    assert process.stdout is not None
    acknowledged = [int(process.stdout.readline()) for _ in range(20)]
    process.send_signal(signal.SIGKILL)
    process.communicate()
    events, _ = read_events(tmp_path)
    assert [event["number"] for event in events][:20] == acknowledged


@linux_only
def test_a_full_disk_is_a_storage_fault_that_says_so(tmp_path: Path) -> None:
    (tmp_path / "journal").mkdir()
    (tmp_path / "journal" / "gw0.jsonl").symlink_to("/dev/full")
    journal = Journal(tmp_path, "gw0")
    with pytest.raises(StorageFault, match=r"gw0\.jsonl cannot be written: the disk is full.*--resume"):
        journal.write("event")


@linux_only
def test_a_forbidden_file_is_a_storage_fault_that_says_so(tmp_path: Path) -> None:
    (tmp_path / "journal").mkdir()
    # Writing here is refused even to root.
    (tmp_path / "journal" / "gw0.jsonl").symlink_to("/proc/sys/kernel/ostype")
    with pytest.raises(StorageFault, match=r"gw0\.jsonl cannot be written: permission is denied"):
        Journal(tmp_path, "gw0")


_FILL_THEN_GO_ON = """
import resource, sys
from pathlib import Path
from pytest_imaging101.faults import StorageFault
from pytest_imaging101.reporting.journal import Journal
hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
journal = Journal(Path(sys.argv[1]), "gw0")
resource.setrlimit(resource.RLIMIT_FSIZE, (1000, hard))
try:
    for number in range(100):
        journal.write("before", number=number)
except StorageFault as fault:
    resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
    journal.write("after")
    print(number)
"""


@linux_only
def test_a_disk_that_takes_half_a_line_spoils_that_line_alone(tmp_path: Path) -> None:
    (output,) = wait_all([start_python(_FILL_THEN_GO_ON, tmp_path)])
    whole = int(output)
    events, warnings = read_events(tmp_path)
    assert whole > 3
    assert [event["event"] for event in events] == ["before"] * whole + ["after"]
    assert len(warnings) == 1


def test_a_closed_journal_refuses_to_pretend(tmp_path: Path) -> None:
    journal = Journal(tmp_path, "gw0")
    journal.close()
    journal.close()
    with pytest.raises(ValueError, match="closed"):
        journal.write("event")


def test_a_writer_id_cannot_leave_the_folder(tmp_path: Path) -> None:
    with Journal(tmp_path, "../../etc/x\x00") as journal:
        journal.write("event")
    assert journal.path.parent == tmp_path / "journal"
    assert len(read_events(tmp_path)[0]) == 1
