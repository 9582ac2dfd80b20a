"""A run's folder keeps every attempt whole, whoever writes, reads or dies at the same time."""

from __future__ import annotations

import json
import signal
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest

from pytest_imaging101.faults import StorageFault, UsageError
from pytest_imaging101.outcome import SCHEMA_VERSION
from pytest_imaging101.reporting.atomic import write_atomic
from pytest_imaging101.reporting.store import RunFolder, attempt_name
from tests.reporting.records import HOSTILE, make_item, make_outcome, start_python, strict_json, wait_all

NOW = datetime(2026, 11, 30, 2, 15, 7, tzinfo=UTC)


def make_run(tmp_path: Path) -> RunFolder:
    return RunFolder.create(tmp_path / "run", "gpt-4o", NOW)


# -- where a run goes


def test_a_run_goes_to_reports_by_time_and_model_with_a_suffix_if_taken(tmp_path: Path) -> None:
    names = [
        RunFolder.create(None, "org/m:free", NOW, reports=tmp_path / "reports").path.name for _ in range(3)
    ]
    assert names[0].startswith("2026-11-30-021507-org-m-free-")
    assert names[1:] == [f"{names[0]}-2", f"{names[0]}-3"]


def test_output_is_taken_as_it_is_even_if_the_folder_exists(tmp_path: Path) -> None:
    (tmp_path / "here").mkdir()
    assert RunFolder.create(tmp_path / "here", "m", NOW).path == tmp_path / "here"


def test_output_that_holds_a_run_is_refused_with_the_way_out(tmp_path: Path) -> None:
    make_run(tmp_path).write_run_record({}, [])
    with pytest.raises(UsageError, match=r"already holds a run.*--resume="):
        make_run(tmp_path)


def test_output_that_is_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "run").write_text("notes")
    with pytest.raises(UsageError, match="give another --output"):
        make_run(tmp_path)


def test_reports_that_lead_nowhere_are_refused(tmp_path: Path) -> None:
    (tmp_path / "reports").symlink_to(tmp_path / "gone" / "away")
    with pytest.raises(UsageError, match="no run folder can be made here"):
        RunFolder.create(None, "m", NOW, reports=tmp_path / "reports")


def test_opening_what_is_no_run_says_so(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="is not the folder of a run"):
        RunFolder.open(tmp_path)
    with pytest.raises(UsageError, match="is not the folder of a run"):
        RunFolder.open(tmp_path / "missing")


# -- outcomes


def test_outcomes_come_back_as_they_were_with_their_folder(tmp_path: Path) -> None:
    run = make_run(tmp_path)
    outcome = make_outcome(scores={"ncc": 0.97}, artefacts=["transcript.jsonl"])
    folder = run.attempt_folder(attempt_name(outcome, outcome.retry))
    file = run.write_outcome(outcome, folder)
    assert file == folder / "outcome.json"
    (read,) = run.outcomes()
    assert read == outcome.model_copy(update={"folder": f"attempts/{folder.name}"})
    strict_json(file.read_bytes())


def test_the_folder_follows_where_the_run_has_been_moved(tmp_path: Path) -> None:
    file = make_run(tmp_path).write_outcome(make_outcome())
    file.parent.rename(file.parent.with_name("renamed"))
    assert RunFolder(tmp_path / "run").outcomes()[0].folder == "attempts/renamed"


def test_all_retries_are_kept_the_latest_last(tmp_path: Path) -> None:
    run = make_run(tmp_path)
    for retry in (3, 1, 2):
        finished = f"2026-11-30T10:0{retry}:00+00:00"
        run.write_outcome(make_outcome(retry=retry, verdict="ungraded", finished=finished))
    assert [outcome.retry for outcome in run.outcomes()] == [1, 2, 3]


def test_the_same_attempt_in_a_resumed_run_does_not_replace_the_earlier_one(tmp_path: Path) -> None:
    run = make_run(tmp_path)
    run.write_outcome(make_outcome(verdict="ungraded"))
    run.write_outcome(make_outcome())
    assert sorted(outcome.verdict for outcome in run.outcomes()) == ["passed", "ungraded"]


def test_an_outcome_without_a_time_gets_one(tmp_path: Path) -> None:
    run = make_run(tmp_path)
    run.write_outcome(make_outcome(finished=""))
    assert run.outcomes()[0].finished


@pytest.mark.parametrize(
    "content", [b"", b'{"key": "k", "task"', b"[]", b"\xff\xfe", b'{"key": "k"}', b"null", b"[" * 100_000]
)
def test_an_outcome_that_cannot_be_read_is_a_warning_and_the_others_stand(
    tmp_path: Path, content: bytes
) -> None:
    run = make_run(tmp_path)
    run.write_outcome(make_outcome(task="good"))
    broken = run.write_outcome(make_outcome(task="broken"))
    broken.write_bytes(content)
    outcomes, warnings = run.read_outcomes()
    assert [outcome.task for outcome in outcomes] == ["good"]
    assert len(warnings) == 1
    assert warnings[0].startswith(f"attempts/{broken.parent.name}/outcome.json: not a whole outcome")
    assert run.outcomes() == outcomes


def test_an_outcome_of_a_newer_version_is_refused_with_the_way_out(tmp_path: Path) -> None:
    run = make_run(tmp_path)
    file = run.write_outcome(make_outcome())
    record = json.loads(file.read_text())
    file.write_text(json.dumps(record | {"schema_version": SCHEMA_VERSION + 1}))
    with pytest.raises(UsageError, match="upgrade pytest-imaging101"):
        run.outcomes()


def test_an_outcome_without_fields_that_came_later_is_read(tmp_path: Path) -> None:
    run = make_run(tmp_path)
    file = run.write_outcome(make_outcome())
    record = json.loads(file.read_text())
    for name in ("folder", "judge_usage", "artefacts", "warnings"):
        del record[name]
    file.write_text(json.dumps(record | {"from_the_future": 1}))
    assert run.outcomes()[0].artefacts == []


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE.keys())
def test_hostile_names_make_safe_folders_of_their_own(tmp_path: Path, text: str) -> None:
    run = make_run(tmp_path)
    run.write_outcome(make_outcome(task=text, model=text))
    run.write_outcome(make_outcome(task=text, model=f"{text}/../.."))
    names = [path.name for path in (run.path / "attempts").iterdir()]
    assert len(names) == 2
    assert all(name.isascii() and len(name) < 100 and not name.startswith(".") for name in names)
    assert len(run.outcomes()) == 2


def test_attempt_names_differ_for_every_item_content_and_retry() -> None:
    items = [
        make_item(),
        make_item(epoch=2),
        make_item(part="L2"),
        make_item(model="gpt-4"),
        make_item(model="gpt 4"),
        make_item(agent="multi_agent"),
        make_item(key="other content"),
        make_item(mechanism="function", part="L1"),
    ]
    names = {attempt_name(item, retry) for item in items for retry in (1, 2)}
    assert len(names) == 2 * len(items)


_MAKE_FOLDERS = """
import sys
from pathlib import Path
from pytest_imaging101.reporting.store import RunFolder
run = RunFolder(Path(sys.argv[1]))
for _ in range(50):
    print(run.attempt_folder("the same").name)
"""


def test_two_processes_never_get_one_attempt_folder(tmp_path: Path) -> None:
    run = make_run(tmp_path)
    outputs = wait_all([start_python(_MAKE_FOLDERS, run.path) for _ in range(2)])
    names = "".join(outputs).split()
    assert len(names) == len(set(names)) == 100


# -- what a kill or a full disk leaves

_REWRITE = """
import itertools, sys
from pathlib import Path
from pytest_imaging101.reporting.store import RunFolder
from tests.reporting.records import make_outcome
run = RunFolder(Path(sys.argv[1]))
folder = run.path / "attempts" / "a"
for number in itertools.count(1):
    run.write_outcome(make_outcome(retry=number, reason="r" * 2_000_000), folder)
    print(number, flush=True)
"""


@pytest.mark.parametrize("written", [1, 2, 5])
def test_a_kill_in_mid_write_leaves_the_last_whole_outcome(tmp_path: Path, written: int) -> None:
    run = make_run(tmp_path)
    process = start_python(_REWRITE, run.path)
    assert process.stdout is not None
    for _ in range(written):
        process.stdout.readline()
    process.send_signal(signal.SIGKILL)
    process.communicate()
    outcomes, warnings = run.read_outcomes()
    assert warnings == []
    assert outcomes[0].retry >= written
    assert len(outcomes[0].reason) == 2_000_000


def test_a_reader_never_sees_half_an_outcome(tmp_path: Path) -> None:
    run = make_run(tmp_path)
    process = start_python(_REWRITE, run.path)
    assert process.stdout is not None
    process.stdout.readline()
    try:
        found = [run.read_outcomes() for _ in range(40)]
    finally:
        process.kill()
        process.communicate()
    assert all(len(outcomes) == 1 and warnings == [] for outcomes, warnings in found)


_FULL = """
import resource, sys
from pathlib import Path
from pytest_imaging101.faults import StorageFault
from pytest_imaging101.reporting.atomic import write_atomic
resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
try:
    write_atomic(Path(sys.argv[1]), b"x" * 5000)
except StorageFault as fault:
    print(fault.message)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="needs a file size limit")
def test_a_write_that_fails_half_way_leaves_the_old_file_and_nothing_else(tmp_path: Path) -> None:
    file = tmp_path / "summary.json"
    write_atomic(file, b"old")
    (output,) = wait_all([start_python(_FULL, file)])
    assert "summary.json cannot be written" in output
    assert file.read_bytes() == b"old"
    assert [path.name for path in tmp_path.iterdir()] == ["summary.json"]


def test_a_folder_that_cannot_be_made_is_a_storage_fault(tmp_path: Path) -> None:
    run = make_run(tmp_path)
    (run.path / "attempts").write_text("in the way")
    with pytest.raises(StorageFault, match="cannot be written"):
        run.write_outcome(make_outcome())


# -- what a session set out to do


def test_each_session_has_a_record_and_the_plan_is_their_union(tmp_path: Path) -> None:
    run = make_run(tmp_path)
    first, second, third = (make_item(part=part) for part in ("L1", "L2", "L3"))
    run.write_run_record({"command": ["pytest", "--model", "gpt-4o"]}, [first, second])
    renamed = make_item(part="L2", node_id="tasks/ct_fan_beam/task.toml::end2end[L2-epoch1]")
    run.write_run_record({"command": ["pytest", "--resume=x"]}, [renamed, third])
    assert sorted(path.name for path in run.path.iterdir()) == ["run-2.json", "run.json"]
    assert {item.identity for item in run.planned()} == {item.identity for item in (first, second, third)}
    assert len(run.planned()) == 3
    sessions, warnings = run.sessions()
    assert [session.facts["command"][1] for session in sessions] == ["--model", "--resume=x"]
    assert warnings == []


def test_the_tenth_session_comes_after_the_second(tmp_path: Path) -> None:
    run = make_run(tmp_path)
    for number in range(11):
        run.write_run_record({"number": number}, [])
    assert [session.facts["number"] for session in run.sessions()[0]] == list(range(11))


def test_a_broken_record_of_a_session_is_a_warning(tmp_path: Path) -> None:
    run = make_run(tmp_path)
    run.write_run_record({}, [make_item()])
    (run.path / "run-2.json").write_bytes(b"")
    (run.path / "run-3.json").write_text('{"planned": [{"task": "x"}]}')
    sessions, warnings = run.sessions()
    assert len(sessions) == 1
    assert len(warnings) == 2
    assert len(run.planned()) == 1


def test_no_secret_reaches_a_record(tmp_path: Path) -> None:
    secret = "sk-1234567890"
    record = {
        "command": ["pytest", "--api-key", secret, f"--imaging101-api-key={secret}", "--model", "m"],
        "settings": {
            "api_key": secret,
            "models": [{"apiKey": secret, "name": "m"}],
            "headers": {"Authorization": f"Bearer {secret}"},
            "access_token": secret,
            "max_tokens": 4096,
            "tokens": "12",
        },
    }
    file = make_run(tmp_path).write_run_record(record, [])
    assert secret not in file.read_text()
    stored = strict_json(file.read_bytes())
    assert stored["command"][:2] == ["pytest", "--api-key"]
    assert stored["command"][-2:] == ["--model", "m"]
    assert (stored["settings"]["max_tokens"], stored["settings"]["tokens"]) == (4096, "12")


def test_records_hold_anything_and_stay_strict_json(tmp_path: Path) -> None:
    settings = {name: (text, Path(text[:9]), float("nan")) for name, text in HOSTILE.items()}
    file = make_run(tmp_path).write_run_record(
        {"settings": settings}, [make_item(model=HOSTILE["surrogate"])]
    )
    strict_json(file.read_bytes())


_RECORD = """
import sys
from pathlib import Path
from pytest_imaging101.reporting.store import RunFolder
from tests.reporting.records import make_item
run = RunFolder(Path(sys.argv[1]))
for number in range(20):
    run.write_run_record({}, [make_item(task=f"{sys.argv[2]}-{number}")])
"""


def test_two_shards_that_start_at_once_both_keep_their_plan(tmp_path: Path) -> None:
    run = make_run(tmp_path)
    wait_all([start_python(_RECORD, run.path, shard) for shard in (1, 2)])
    assert len(run.planned()) == 40
    assert run.sessions()[1] == []
