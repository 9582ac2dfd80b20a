"""What an agent is to the rest: a brief, a sandbox and a budget in, a transcript and a stop reason out."""

from __future__ import annotations

import hashlib
import json
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from pytest_imaging101.budget import Budget, StopReason
from pytest_imaging101.faults import StorageFault
from pytest_imaging101.sandboxes.base import Sandbox

PROMPTS = Path(__file__).parent / "prompts"


@dataclass(frozen=True)
class Deliverable:
    """A file that the agent must leave, relative to the workspace, and what it is in a few words."""

    path: str
    what: str
    max_bytes: int


@dataclass(frozen=True)
class Brief:
    """What an agent is told: the item it is an attempt at, the text of its prompt and what it must leave."""

    task: str
    mechanism: str
    part: str | None
    text: str
    deliverables: tuple[Deliverable, ...]


class Transcript:
    """The attempt's ``transcript.jsonl``: one JSON object a line, flushed as it happens."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def event(self, kind: str, **data: Any) -> None:
        """Append an event. Raises StorageFault if it cannot be written."""
        line = json.dumps(
            {"event": kind, "time": round(time.time(), 3), **data}, ensure_ascii=True, default=str
        )
        try:
            with self.path.open("a", encoding="utf-8") as file:
                file.write(line + "\n")
        except OSError as error:
            raise StorageFault(f"{self.path.name} cannot be written: {error.strerror}") from error


class Agent(Protocol):
    """Anything that works on an attempt. ``version`` belongs to the attempt's key: raise it when behaviour changes."""

    @property
    def name(self) -> str: ...

    @property
    def version(self) -> str: ...

    def work(self, brief: Brief, sandbox: Sandbox, budget: Budget, transcript: Transcript) -> StopReason:
        """Work until done or until the budget ends; what was left in the sandbox is graded either way."""


def prompts_hash() -> str:
    """Hash over every prompt file, for the attempt's key."""
    digest = hashlib.sha256()
    for file in sorted(PROMPTS.glob("*.md")):
        digest.update(file.name.encode() + b"\0" + file.read_bytes())
    return digest.hexdigest()
