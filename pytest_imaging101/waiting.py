"""A sandbox and a model that wait for a slot of the machine before each command or call, and say how long."""

from __future__ import annotations

import builtins
import socket
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path

from pytest_imaging101.faults import UsageError
from pytest_imaging101.models.base import Message, Model, Reply
from pytest_imaging101.options import Settings
from pytest_imaging101.sandboxes.base import Completed, Entry, Sandbox
from pytest_imaging101.slots import Slots, slots_folder, usable_cores

# Every holder has a time limit of its own, so whoever waits longer than this waits for something that is broken.
PATIENCE_SECONDS = 6 * 3600.0

Waited = Callable[[float], None]
"""Told the seconds of each wait, which count against no limit."""


@dataclass(frozen=True)
class MachineSlots:
    """What attempts share with all workers and runs of the machine: slots to compute, and to call a model.

    ``cpu`` is None where there can be no slots; a model that is not in ``models`` is called without one.
    """

    cpu: Slots | None
    models: Mapping[str, Slots]

    @classmethod
    def of(cls, settings: Settings) -> MachineSlots:
        """As many as asked for; by default one a core, and no limit to calls. Raises UsageError on Windows."""
        if sys.platform == "win32":
            for option, wanted in (
                ("--cpu-slots", settings.cpu_slots),
                ("--model-slots", settings.model_slots),
            ):
                if wanted is not None:
                    raise UsageError(
                        f"{option}: there are no slots on Windows; leave it out, or run in WSL 2"
                    )
            return cls(None, {})
        folder, calls = slots_folder(), settings.model_slots
        names = settings.model_settings if calls else ()
        return cls(
            Slots(folder, "cpu", settings.cpu_slots or usable_cores()),
            {name: Slots(folder, f"model:{name}", calls) for name in names if calls},
        )

    @contextmanager
    def computing(self, waited: Waited) -> Iterator[None]:
        """Hold a slot for the length of a block: what computes in it, in one sandbox or several, counts once."""
        with _holding(self.cpu, waited) if self.cpu else nullcontext():
            yield

    def sandbox(self, sandbox: Sandbox, waited: Waited) -> Sandbox:
        """The sandbox, with each of its commands waiting for a slot first."""
        return WaitingSandbox(sandbox, self.cpu, waited) if self.cpu else sandbox

    def model(self, model: Model, waited: Waited) -> Model:
        """The model, with each of its calls waiting for a slot first."""
        slots = self.models.get(model.name)
        return WaitingModel(model, slots, waited) if slots else model


@contextmanager
def _holding(slots: Slots, waited: Waited) -> Iterator[None]:
    with slots.acquire(PATIENCE_SECONDS) as slot:
        waited(slot.waited_seconds)
        yield


class WaitingSandbox:
    """A sandbox whose every command first waits for a slot; the command's own timeout begins after that."""

    def __init__(self, inner: Sandbox, slots: Slots, waited: Waited) -> None:
        self.backend = inner.backend
        self.warnings = inner.warnings
        self._inner = inner
        self._slots = slots
        self._waited = waited

    def put(self, files: Mapping[str, bytes | Path]) -> None:
        """Write files into the workspace."""
        self._inner.put(files)

    def get(self, path: str, max_bytes: int) -> bytes:
        """Contents of a regular file."""
        return self._inner.get(path, max_bytes)

    def list(self, folder: str = "") -> builtins.list[Entry]:
        """Regular files below a folder."""
        return self._inner.list(folder)

    def run(
        self,
        command: str | Sequence[str],
        *,
        timeout: float,
        stdin: bytes | None = None,
        environment: Mapping[str, str] | None = None,
        channel: socket.socket | None = None,
    ) -> Completed:
        """Run a command as soon as a slot is free."""
        with _holding(self._slots, self._waited):
            return self._inner.run(
                command, timeout=timeout, stdin=stdin, environment=environment, channel=channel
            )

    def close(self) -> None:
        """Kill what runs and delete the workspace."""
        self._inner.close()


class WaitingModel:
    """A model whose every call, with its retries, first waits for a slot; its deadline begins after that."""

    def __init__(self, inner: Model, slots: Slots, waited: Waited) -> None:
        self.name = inner.name
        self._inner = inner
        self._slots = slots
        self._waited = waited

    def complete(
        self, messages: Sequence[Message], *, deadline_seconds: float, stop: Sequence[str] = ()
    ) -> Reply:
        """As ``Model.complete``, as soon as a slot is free."""
        with _holding(self._slots, self._waited):
            return self._inner.complete(messages, deadline_seconds=deadline_seconds, stop=stop)
