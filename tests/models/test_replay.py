"""replay:DIR says again what was recorded, and says so when the recording ends."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pytest_imaging101.budget import Usage
from pytest_imaging101.faults import BadReply, UsageError
from pytest_imaging101.models.replay import RecordingEnded, ReplayModel
from tests.models.asking import conversation


def record(folder: Path, *lines: object) -> Path:
    folder.mkdir(exist_ok=True)
    text = "".join(line if isinstance(line, str) else json.dumps(line) + "\n" for line in lines)
    (folder / "transcript.jsonl").write_text(text, encoding="utf-8")
    return folder


def reply(text: str, **fields: object) -> dict[str, object]:
    usage = {"calls": 1, "prompt_tokens": 3, "completion_tokens": 2, "cost_usd": 0.5, "odd": 1}
    return {"event": "reply", "text": text, "finish_reason": "stop", "usage": usage, **fields}


def test_replies_come_back_in_their_order(tmp_path: Path) -> None:
    folder = record(
        tmp_path / "a", {"event": "start"}, reply("one", reasoning="r"), {"event": "action"}, reply("two")
    )
    model = ReplayModel(folder)
    first = model.complete(conversation("x"), deadline_seconds=1)
    second = model.complete([], deadline_seconds=1, stop=["o"])
    assert (first.text, first.reasoning, second.text) == ("one", "r", "two")
    assert first.usage == Usage(1, 3, 2, cost_usd=0.5)
    assert first.finish_reason == "stop"
    assert model.name == f"replay:{folder}"


def test_the_end_of_the_recording_is_a_fault_that_is_not_tried_again(tmp_path: Path) -> None:
    model = ReplayModel(record(tmp_path / "a", reply("one")))
    model.complete([], deadline_seconds=1)
    for _ in range(2):
        with pytest.raises(RecordingEnded, match="ended after 1 replies") as caught:
            model.complete([], deadline_seconds=1)
    assert isinstance(caught.value, BadReply)
    assert not caught.value.retryable


def test_a_torn_last_line_is_read_past(tmp_path: Path) -> None:
    model = ReplayModel(record(tmp_path / "a", reply("one"), '{"event": "reply", "te'))
    assert model.complete([], deadline_seconds=1).text == "one"


def test_sparse_replies_are_enough(tmp_path: Path) -> None:
    model = ReplayModel(record(tmp_path / "a", {"event": "reply", "text": "one", "usage": None}))
    assert model.complete([], deadline_seconds=1).usage == Usage(calls=1)


def test_a_folder_without_a_recording_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="reports/<run>/attempts"):
        ReplayModel(tmp_path / "nowhere")
    with pytest.raises(UsageError, match="holds no reply"):
        ReplayModel(record(tmp_path / "a", {"event": "start"}))
    with pytest.raises(UsageError, match="line 1 is not JSON"):
        ReplayModel(record(tmp_path / "b", "junk\n", reply("one")))
