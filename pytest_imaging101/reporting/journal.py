"""The journal of a run: one append-only JSON-lines file a writer, which no kill can make unreadable."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Any

from pytest_imaging101.outcome import Outcome, PlannedItem, plain
from pytest_imaging101.reporting.atomic import storage_fault
from pytest_imaging101.slugs import slug

JOURNAL_FOLDER = "journal"
ATTEMPT_STARTED = "attempt_started"
ATTEMPT_SKIPPED = "attempt_skipped"
VERDICT = "verdict"

Event = dict[str, Any]

_IDENTITY = ("task", "mechanism", "part", "model", "agent", "epoch")


class Journal:
    """One writer's file. Threads of a process may share it; each process has a writer id of its own."""

    def __init__(self, run_folder: Path, writer_id: str) -> None:
        """Open ``journal/<writer>.jsonl`` for appending. Raises StorageFault."""
        self.path = run_folder / JOURNAL_FOLDER / f"{slug(writer_id)}.jsonl"
        self._lock = threading.Lock()
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self._torn = _is_torn(self.path)
            flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | getattr(os, "O_BINARY", 0)
            self._descriptor: int | None = os.open(self.path, flags, 0o644)
        except OSError as error:
            raise storage_fault(self.path, error) from error

    def write(self, event: str, *, durable: bool = False, **fields: Any) -> None:
        """Append one event; ``durable`` waits until it is on the disk. Raises StorageFault.

        Fields may hold anything: what JSON cannot carry is written as its text, NaN as null.
        """
        record = {"event": event, "time": datetime.now(UTC).isoformat(), **plain(fields)}
        line = json.dumps(record, allow_nan=False).encode("ascii") + b"\n"
        with self._lock:
            if self._descriptor is None:
                raise ValueError(f"{self.path}: the journal is closed")
            try:
                self._append(self._descriptor, line)
                if durable:
                    os.fsync(self._descriptor)
            except OSError as error:
                raise storage_fault(self.path, error) from error

    def started(self, item: PlannedItem) -> None:
        """Note that an attempt at an item begins: without a later outcome it was interrupted."""
        self.write(ATTEMPT_STARTED, **_identity(item))

    def skipped(self, item: PlannedItem, reason: str) -> None:
        """Note that an item cannot run here, and why: it is then neither planned nor missing."""
        self.write(ATTEMPT_SKIPPED, durable=True, **_identity(item), reason=reason)

    def verdict(self, outcome: Outcome) -> None:
        """Note a verdict, durably. The outcome itself goes to the run folder's store."""
        self.write(
            VERDICT,
            durable=True,
            **_identity(outcome),
            key=outcome.key,
            retry=outcome.retry,
            verdict=outcome.verdict,
            reason=outcome.reason,
        )

    def close(self) -> None:
        """Close the file; may be called twice."""
        with self._lock:
            if self._descriptor is not None:
                os.close(self._descriptor)
                self._descriptor = None

    def __enter__(self) -> Journal:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _append(self, descriptor: int, line: bytes) -> None:
        # One write call, so that other writers of the same file cannot come between; the loop is for a disk
        # that takes a part. A line once torn is ended before the next, so that it spoils itself alone.
        rest = b"\n" + line if self._torn else line
        self._torn = True
        while rest:
            rest = rest[os.write(descriptor, rest) :]
        self._torn = False


def read_events(run_folder: Path) -> tuple[list[Event], list[str]]:
    """Every event of a run in the order of time, and a warning for each line that could not be read.

    Each event has the name of its file as ``writer``. A run without a journal has no events.
    """
    events: list[Event] = []
    warnings: list[str] = []
    for path in sorted((run_folder / JOURNAL_FOLDER).glob("*.jsonl")):
        name = f"{JOURNAL_FOLDER}/{path.name}"
        try:
            lines = path.read_bytes().split(b"\n")
        except OSError as error:
            warnings.append(f"{name}: the journal cannot be read ({error.strerror}) and is left out")
            continue
        for number, line in enumerate(lines, start=1):
            if not line.strip():
                continue
            event = _parse(line)
            if event is not None:
                events.append({**event, "writer": path.stem})
            elif number == len(lines):
                warnings.append(f"{name}: the last line is torn (its writer was killed) and is left out")
            else:
                warnings.append(f"{name}, line {number}: not an event, left out")
    return sorted(events, key=lambda event: str(event["time"])), warnings


def _parse(line: bytes) -> Event | None:
    try:
        event = json.loads(line)
    except (ValueError, RecursionError):
        return None
    if isinstance(event, Mapping) and isinstance(event.get("event"), str) and "time" in event:
        return dict(event)
    return None


def event_identity(event: Mapping[str, Any]) -> tuple[Any, ...]:
    """Which item an event is about, as ``PlannedItem.identity`` has it."""
    return (*(str(event.get(name) or "") for name in _IDENTITY[:-1]), _whole(event.get("epoch")))


def _whole(value: Any) -> int:
    return value if isinstance(value, int) else 0


def _identity(item: PlannedItem) -> dict[str, Any]:
    return {"node_id": item.node_id, **item.model_dump(include=set(_IDENTITY))}


def _is_torn(path: Path) -> bool:
    """Whether a file ends in the middle of a line."""
    if not path.is_file() or path.stat().st_size == 0:
        return False
    with path.open("rb") as file:
        file.seek(-1, os.SEEK_END)
        return file.read(1) != b"\n"
