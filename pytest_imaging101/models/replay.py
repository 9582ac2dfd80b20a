"""A model that says again what a recorded attempt's model said: ``replay:DIR``."""

from __future__ import annotations

import json
import threading
from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

from pytest_imaging101.budget import Usage
from pytest_imaging101.faults import BadReply, UsageError
from pytest_imaging101.models.base import Message, Reply
from pytest_imaging101.models.text import clean

TRANSCRIPT = "transcript.jsonl"


class RecordingEnded(BadReply):
    """A replayed attempt asked for more replies than were recorded."""

    kind = "endpoint.recording_ended"
    retryable = False


class ReplayModel:
    """Replies of ``folder/transcript.jsonl`` in their order; threads may share one.

    Usage is what was recorded, so that limits fire where they fired. Raises UsageError for a folder that holds
    no recording.
    """

    def __init__(self, folder: Path) -> None:
        self.name = f"replay:{folder}"
        self._path = folder / TRANSCRIPT
        self._replies = _recorded(self._path)
        self._said = 0
        self._lock = threading.Lock()

    def complete(
        self, messages: Sequence[Message], *, deadline_seconds: float, stop: Sequence[str] = ()
    ) -> Reply:
        """The next recorded reply, whatever is asked. Raises RecordingEnded after the last."""
        with self._lock:
            if self._said == len(self._replies):
                raise RecordingEnded(
                    f"the recording {self._path} ended after {self._said} replies and the agent asks for more; "
                    "replay it with the agent and limits that it was made with"
                )
            self._said += 1
            return self._replies[self._said - 1]


def _recorded(path: Path) -> list[Reply]:
    try:
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError as error:
        raise UsageError(
            f"replay: {path} cannot be read ({error.strerror}); "
            "give the folder of one attempt, reports/<run>/attempts/<attempt>"
        ) from error
    replies = []
    for number, line in enumerate(lines, 1):
        try:
            event = json.loads(line) if line.strip() else None
        except ValueError as error:
            if number == len(lines):
                break  # the last line of a killed run is torn
            raise UsageError(
                f"replay: {path}, line {number} is not JSON; the recording is damaged"
            ) from error
        if isinstance(event, dict) and event.get("event") == "reply":
            replies.append(_reply(event))
    if not replies:
        raise UsageError(f"replay: {path} holds no reply; the attempt ended before its model answered")
    return replies


def _reply(event: dict[str, Any]) -> Reply:
    stated = event.get("usage")
    known = {field.name for field in fields(Usage)}
    usage = {name: value for name, value in (stated or {}).items() if name in known}
    return Reply(
        text=clean(str(event.get("text", ""))),
        finish_reason=event.get("finish_reason"),
        usage=Usage(**{"calls": 1, **usage}),
        seconds=0.0,
        reasoning=clean(str(event.get("reasoning", ""))),
    )
