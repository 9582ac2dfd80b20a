"""Named slots shared by every process of a machine: locked files that vanish with their owner, first in first out.

::

    <folder>/<name>/slot-0  slot-1 ...   one file a slot; who holds the lock on it holds the slot
    <folder>/<name>/ticket-7 ...         one file for each who waits, locked by the one who waits
    <folder>/<name>/door                 locked for the moment in which a ticket is drawn

A ticket's number is greater than that of everyone who waits, and its turn comes when all lower ones are gone. A lock
ends with its process, however that ends, so a dead owner holds no slot and a dead waiter holds nobody up. Local file
systems only.
"""

from __future__ import annotations

import math
import os
import tempfile
import threading
import time
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future, InvalidStateError
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from pytest_imaging101.faults import Fault, StorageFault
from pytest_imaging101.slugs import slug

# How often the one whose turn it is looks for a slot that has become free; nobody else looks.
_POLL_SECONDS = 0.002
_TICKET = "ticket-"


class SlotTimeout(Fault):
    """No slot became free within the time that the caller had for it."""

    kind = "slots"


@dataclass(frozen=True)
class Slot:
    """A slot that is held, and how long it was waited for."""

    waited_seconds: float


@dataclass(frozen=True)
class _Waiter:
    """Someone in the line: the tickets ahead, the own one and the descriptor that locks it, the slot to come."""

    ahead: tuple[int, ...]
    ticket: Path
    descriptor: int
    granted: Future[int] = field(default_factory=Future)

    def leave(self) -> None:
        """Give way to those behind."""
        self.ticket.unlink(missing_ok=True)
        os.close(self.descriptor)


class Slots:
    """``count`` slots of a name. Threads and processes that name the same folder share them.

    A process with a greater count uses its additional slots first, so that it leaves room to one with a smaller.
    Locks cannot be waited for with a time limit, hence one thread of each process waits for all others of it.
    Children of a process inherit none of its slots.
    """

    def __init__(self, folder: Path, name: str, count: int) -> None:
        if count < 1:
            raise ValueError(f"count is {count}; there must be at least one slot")
        self.name = name
        self.count = count
        self._folder = folder / slug(name)
        self._lock = threading.Lock()
        self._line: deque[_Waiter] = deque()
        self._served = False

    @contextmanager
    def acquire(self, timeout: float | None = None) -> Iterator[Slot]:
        """Hold a slot for the length of a block. Raises SlotTimeout, or StorageFault if there can be no files."""
        began = time.monotonic()
        try:
            descriptor = self._wait(timeout)
        except OSError as error:
            raise StorageFault(
                f"{self._folder}: slots cannot be kept here ({error}); set TMPDIR to a folder on a local disk that "
                "can be written"
            ) from error
        try:
            yield Slot(time.monotonic() - began)
        finally:
            _unlock(descriptor)

    def _wait(self, timeout: float | None) -> int:
        """The locked descriptor of a slot."""
        waiter = self._line_up()
        granted = waiter.granted
        try:
            return granted.result(timeout)
        except TimeoutError:
            if not granted.cancel():  # it came in this very moment
                return granted.result()
            raise SlotTimeout(
                f"none of {self.count} {self.name} slots became free in {timeout:g} s"
            ) from None
        except BaseException:
            if not granted.cancel() and granted.exception() is None:
                _unlock(granted.result())
            raise
        finally:
            waiter.leave()

    def _line_up(self) -> _Waiter:
        with self._lock:  # tickets of one process must stand in the order of their numbers
            waiter = self._draw_ticket()
            self._line.append(waiter)
            if not self._served:
                self._served = True
                threading.Thread(target=self._serve, name=f"slots {self.name}", daemon=True).start()
            return waiter

    def _draw_ticket(self) -> _Waiter:
        import fcntl

        _make_private(self._folder)
        door = _open(self._folder / "door")
        try:
            fcntl.flock(door, fcntl.LOCK_EX)
            ahead = self._waiting()
            ticket = self._folder / f"{_TICKET}{max(ahead, default=0) + 1}"
            descriptor = _open(ticket)
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            return _Waiter(ahead, ticket, descriptor)
        finally:
            os.close(door)

    def _waiting(self) -> tuple[int, ...]:
        """Numbers of those who wait, ascending. Tickets of the dead are removed; called behind the locked door."""
        alive = []
        for ticket in self._folder.glob(f"{_TICKET}*"):
            if (descriptor := _try_lock(ticket)) is None:
                alive.append(int(ticket.name.removeprefix(_TICKET)))
            else:
                ticket.unlink(missing_ok=True)
                os.close(descriptor)
        return tuple(sorted(alive))

    def _serve(self) -> None:
        """The one waiting thread: it ends when nobody of this process waits."""
        while True:
            with self._lock:
                if not self._line:
                    self._served = False
                    return
                waiter = self._line.popleft()
            # A waiter that gave up meanwhile takes neither a slot nor an error.
            with suppress(InvalidStateError):
                try:
                    self._await_turn(waiter)
                    descriptor = self._await_slot(waiter)
                except Exception as error:  # whoever waits must be told, whatever it is
                    waiter.granted.set_exception(error)
                    continue
                try:
                    waiter.granted.set_result(descriptor)
                except InvalidStateError:
                    _unlock(descriptor)

    def _await_turn(self, waiter: _Waiter) -> None:
        import fcntl

        for number in reversed(waiter.ahead):
            with suppress(FileNotFoundError):  # it was served
                ticket = os.open(self._folder / f"{_TICKET}{number}", os.O_RDONLY | os.O_CLOEXEC)
                try:
                    if not waiter.granted.cancelled():
                        fcntl.flock(ticket, fcntl.LOCK_SH)
                finally:
                    os.close(ticket)

    def _await_slot(self, waiter: _Waiter) -> int:
        """A locked slot, the last free one. For a waiter that gave up it is any descriptor."""
        import fcntl

        with ExitStack() as stack:
            files = [_open(self._folder / f"slot-{number}") for number in reversed(range(self.count))]
            for file in files:
                stack.callback(os.close, file)
            while not waiter.granted.cancelled():
                for file in files:
                    with suppress(BlockingIOError):
                        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                        return os.dup(file)
                time.sleep(_POLL_SECONDS)
            return os.dup(files[0])


def slots_folder() -> Path:
    """Where all of a user's runs on a machine keep their slots: on a local disk, as /home may not be."""
    return Path(tempfile.gettempdir()) / f"pytest-imaging101-slots-{os.getuid()}"


def usable_cores(quota: Path = Path("/sys/fs/cgroup/cpu.max")) -> int:
    """Cores that this process may use: its affinity, or a container's share of processor time if that is less."""
    affinity = getattr(os, "sched_getaffinity", None)
    cores = len(affinity(0)) if affinity else os.cpu_count() or 1
    try:
        most, period = quota.read_text().split()
        return max(1, min(cores, math.ceil(int(most) / int(period))))
    except (OSError, ValueError):  # no such file, or no limit ("max")
        return cores


def _make_private(folder: Path) -> None:
    folder.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    folder.mkdir(mode=0o700, exist_ok=True)
    if folder.stat().st_uid != os.getuid():
        raise PermissionError(f"{folder} belongs to another user")


def _open(path: Path) -> int:
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)


def _try_lock(path: Path) -> int | None:
    """A descriptor that locks the file, unless another has locked it or it is gone."""
    import fcntl

    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        return None
    return descriptor


def _unlock(descriptor: int) -> None:
    import fcntl

    # Said explicitly: a child that was forked shares the lock, and would keep it beyond a mere close.
    fcntl.flock(descriptor, fcntl.LOCK_UN)
    os.close(descriptor)
