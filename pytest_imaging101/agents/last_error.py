"""The exception that an agent's last command ended with, read from the end of its transcript."""

from __future__ import annotations

import json
import re
from pathlib import Path

_TAIL_BYTES = 256 * 1024
_MOST_CHARACTERS = 300
_ENDED = re.compile(r"\[(exit code -?\d+|stopped at the limit of |stopped at the time limit)")
_RAISED = re.compile(r"^((?:\w+\.)*[A-Z]\w*(?:Error|Exception)(?::[^\n]*)?)$", re.MULTILINE)


def last_error(transcript: Path) -> str:
    """``"ImportError: cannot import name ..."``, or nothing if the last command that ran raised no exception."""
    if not transcript.is_file():
        return ""
    with transcript.open("rb") as file:
        file.seek(max(0, transcript.stat().st_size - _TAIL_BYTES))
        lines = file.read().decode("utf-8", "replace").splitlines()
    for line in reversed(lines):
        output = _output_of_a_command(line)
        if output is not None:
            raised = _RAISED.findall(output.partition("Traceback (most recent call last)")[2])
            return str(raised[-1])[:_MOST_CHARACTERS] if raised else ""
    return ""


def _output_of_a_command(line: str) -> str | None:
    """What a command printed, if a line of the transcript tells of one; a line cut at the tail's start does not."""
    try:
        event = json.loads(line)
    except ValueError:
        return None
    if not isinstance(event, dict):
        return None
    if event.get("event") == "run":
        return str(event.get("output", ""))
    text = str(event.get("text", ""))
    return text if event.get("event") == "observation" and _ENDED.search(text) else None
