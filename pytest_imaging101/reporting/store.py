"""The folder of one run: where outcomes are kept, one folder an attempt, and what the run set out to do.

::

    reports/<run>/run.json  run-2.json ...   what each session planned, with its command and settings
    reports/<run>/journal/<writer>.jsonl     events, see journal.py
    reports/<run>/attempts/<name>/           outcome.json, and beside it whatever the attempt left
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from pytest_imaging101.faults import UsageError
from pytest_imaging101.outcome import SCHEMA_VERSION, Outcome, PlannedItem, plain
from pytest_imaging101.reporting.atomic import storage_fault, write_atomic
from pytest_imaging101.reporting.redact import without_secrets
from pytest_imaging101.slugs import slug

OUTCOME_FILE = "outcome.json"
ATTEMPTS_FOLDER = "attempts"


@dataclass(frozen=True)
class Session:
    """What one session (the start of a run, or a resume) was about: command, settings; and its plan."""

    facts: dict[str, Any]
    planned: tuple[PlannedItem, ...]


class RunFolder:
    """One run's folder. Any number of processes may write to it at once: none rewrites another's file."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @classmethod
    def create(
        cls, output: Path | None, label: str, now: datetime, *, reports: Path = Path("reports")
    ) -> RunFolder:
        """Make the folder of a new run: ``output``, or ``reports/<time>-<label>`` with a suffix if taken.

        Raises UsageError where that cannot be done: nothing has run yet and the user chooses again.
        """
        try:
            if output is None:
                return cls(_new_folder(reports / f"{now:%Y-%m-%d-%H%M%S}-{slug(label)}"))
            output.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            where = output or reports
            raise UsageError(
                f"{where}: no run folder can be made here ({error.strerror}); give another --output"
            ) from error
        run = cls(output)
        if run.holds_a_run():
            raise UsageError(
                f"{output} already holds a run: go on with it by --resume={output}, or give another --output"
            )
        return run

    @classmethod
    def open(cls, path: Path) -> RunFolder:
        """The folder of an existing run. Raises UsageError if it is not one."""
        run = cls(path)
        if not run.holds_a_run():
            raise UsageError(
                f"{path} is not the folder of a run: it has neither run.json nor {ATTEMPTS_FOLDER}/"
            )
        return run

    def holds_a_run(self) -> bool:
        """Whether something of a run is in it."""
        return (self.path / "run.json").is_file() or (self.path / ATTEMPTS_FOLDER).is_dir()

    def attempt_folder(self, name: str) -> Path:
        """Make a new folder for one attempt; each call makes another, with a suffix if the name is taken.

        Raises StorageFault.
        """
        path = self.path / ATTEMPTS_FOLDER / slug(name)
        try:
            return _new_folder(path)
        except OSError as error:
            raise storage_fault(path, error) from error

    def write_outcome(self, outcome: Outcome, folder: Path | None = None) -> Path:
        """Store an outcome, whole or not at all, in its attempt's folder (a new one if None).

        Raises StorageFault. Returns the file.
        """
        folder = folder or self.attempt_folder(attempt_name(outcome, outcome.retry))
        finished = outcome.finished or datetime.now(UTC).isoformat(timespec="milliseconds")
        stored = outcome.model_copy(update={"folder": self._relative(folder), "finished": finished})
        write_atomic(folder / OUTCOME_FILE, f"{stored.to_json()}\n".encode())
        return folder / OUTCOME_FILE

    def read_outcomes(self) -> tuple[list[Outcome], list[str]]:
        """Every outcome of the run, all retries, and a warning for each file that could not be read.

        Sorted by item and then by time, so that the latest retry of a key is its last. Raises UsageError for
        an outcome that a newer version of this package wrote.
        """
        outcomes: list[Outcome] = []
        warnings: list[str] = []
        for path in sorted((self.path / ATTEMPTS_FOLDER).glob(f"*/{OUTCOME_FILE}")):
            try:
                outcome = _read_outcome(path)
            except (OSError, ValueError, RecursionError) as error:
                warnings.append(
                    f"{self._relative(path)}: not a whole outcome, left out ({_first_line(error)})"
                )
                continue
            outcomes.append(outcome.model_copy(update={"folder": self._relative(path.parent)}))
        return sorted(outcomes, key=_order), warnings

    def outcomes(self) -> list[Outcome]:
        """``read_outcomes`` without the warnings, for who shows them elsewhere (every summary does)."""
        return self.read_outcomes()[0]

    def write_run_record(self, record: Mapping[str, Any], planned: Sequence[PlannedItem]) -> Path:
        """Store what a session is about to do: ``run.json``, or ``run-2.json`` ... when a run is resumed.

        Values of secrets (``api_key`` and its like, ``--api-key`` in the command) are removed. Raises
        StorageFault. Returns the file.
        """
        content = {
            "schema_version": SCHEMA_VERSION,
            **without_secrets(plain(record)),
            "planned": [plain(item.model_dump()) for item in planned],
        }
        path = self._claim_record()
        write_atomic(path, f"{json.dumps(content, allow_nan=False, indent=2)}\n".encode())
        return path

    def sessions(self) -> tuple[list[Session], list[str]]:
        """Every session of the run in their order, and a warning for each record that could not be read."""
        sessions: list[Session] = []
        warnings: list[str] = []
        for path in sorted([*self.path.glob("run.json"), *self.path.glob("run-*.json")], key=_record_number):
            try:
                sessions.append(_read_session(path))
            except (OSError, ValueError, RecursionError) as error:
                warnings.append(
                    f"{path.name}: not a whole record of a session, left out ({_first_line(error)})"
                )
        return sessions, warnings

    def planned(self) -> list[PlannedItem]:
        """Every item that any session of the run planned, once."""
        return union(session.planned for session in self.sessions()[0])

    def _claim_record(self) -> Path:
        """Take the next free name by making the file, which one of several processes alone can do."""
        number = 1
        while True:
            path = self.path / ("run.json" if number == 1 else f"run-{number}.json")
            try:
                path.parent.mkdir(parents=True, exist_ok=True)
                path.open("xb").close()
            except FileExistsError:
                number += 1
            except OSError as error:
                raise storage_fault(path, error) from error
            else:
                return path

    def _relative(self, folder: Path) -> str:
        return folder.relative_to(self.path).as_posix()


def attempt_name(item: PlannedItem, retry: int) -> str:
    """The name of one attempt's folder: readable, and its own for every content, item and retry."""
    readable = f"{item.task} {item.mechanism} {item.part or ''} {item.model}"[:60]
    exact = "\0".join((item.key, *map(str, item.identity)))
    digest = hashlib.sha256(exact.encode("utf-8", "replace")).hexdigest()[:8]
    words = re.sub(r"[^A-Za-z0-9._]+", "-", readable).strip("-.")
    return f"{words}-{digest}-e{item.epoch}-r{retry}"


def union(plans: Iterable[Sequence[PlannedItem]]) -> list[PlannedItem]:
    """Every item of several plans once, as the last plan that holds it has it."""
    return list({item.identity: item for plan in plans for item in plan}.values())


def _new_folder(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    candidate, number = path, 1
    while True:
        try:
            candidate.mkdir()
        except FileExistsError:
            number += 1
            candidate = path.with_name(f"{path.name}-{number}")
        else:
            return candidate


def _read_outcome(path: Path) -> Outcome:
    record = json.loads(path.read_bytes())
    _refuse_newer(path, record)
    return Outcome.model_validate(record)


def _read_session(path: Path) -> Session:
    record = json.loads(path.read_bytes())
    _refuse_newer(path, record)
    if not isinstance(record, dict):
        raise ValueError("not a JSON object")
    planned = TypeAdapter(tuple[PlannedItem, ...]).validate_python(record.pop("planned", ()))
    return Session(record, planned)


def _refuse_newer(path: Path, record: Any) -> None:
    version = record.get("schema_version", SCHEMA_VERSION) if isinstance(record, dict) else SCHEMA_VERSION
    if isinstance(version, int) and version > SCHEMA_VERSION:
        raise UsageError(
            f"{path}: schema_version is {version} and this version reads up to {SCHEMA_VERSION}; "
            "upgrade pytest-imaging101"
        )


def _order(outcome: Outcome) -> tuple[Any, ...]:
    return (outcome.node_id, outcome.model, outcome.agent, outcome.epoch, outcome.finished, outcome.retry)


def _record_number(path: Path) -> int:
    number = re.fullmatch(r"run-(\d+)", path.stem)
    return int(number.group(1)) if number else 1


def _first_line(error: Exception) -> str:
    if isinstance(error, ValidationError):
        first = error.errors()[0]
        return f"{'.'.join(map(str, first['loc']))}: {first['msg']}"
    return str(error).partition("\n")[0]
