"""A module ``src.<name>`` whose functions live in another sandbox: calls go over the wire, plain values come back.

Runs inside the trusted sandbox: standard library and numpy only.
"""

from __future__ import annotations

import builtins
import importlib.machinery
import secrets
import socket
import sys
import time
from collections.abc import Callable
from types import ModuleType
from typing import Any

from .wire import Frame, WireError, receive, send

# How much longer than the submission's own supervisor the trusted side waits for an answer.
_GRACE_SECONDS = 5.0
_MESSAGE_CHARACTERS = 2000

# Kinds of answers, and what each of them must say in words.
_ANSWERS = {
    "value": (),
    "callable": (),
    "missing": (),
    "error": ("type", "message"),
    "failure": ("message",),
}


class SubmissionLost(BaseException):
    """There is no answer to a call. Not an Exception, so that no ``pytest.raises`` takes it for the right one."""


class Connection:
    """The submission at the other end of a channel.

    Parameters
    ----------
    channel : socket
        Connected stream socket.
    call_seconds, total_seconds : float
        Time allowed for one call, and for all of them together.
    import_seconds : float
        Time that the other side may take to import the module, before the first call and after a crash.
    """

    def __init__(
        self, channel: socket.socket, call_seconds: float, total_seconds: float, import_seconds: float
    ) -> None:
        self._channel = channel
        self._call_seconds = call_seconds
        self._remaining = total_seconds
        self._grace = import_seconds + _GRACE_SECONDS
        self.lost: str = ""

    def load(self) -> str:
        """Have the module imported; says why it cannot be, or nothing. Its time is not charged to the calls."""
        remaining = self._remaining
        try:
            self.ask(op="import", name="")
        except SubmissionLost as lost:
            # Said once and for all: every further call would only try the same import again.
            self.lost = str(lost)
        self._remaining = remaining
        return self.lost

    def ask(self, **question: Any) -> dict[str, Any]:
        """The answer to one question. Raises SubmissionLost where there is none, TypeError for an odd argument."""
        if self.lost:
            raise SubmissionLost(self.lost)
        seconds = min(self._call_seconds, self._remaining)
        if seconds <= 0:
            self.lost = "the time for all calls together is used up"
            raise SubmissionLost(self.lost)
        try:
            frame = Frame.of(secrets.randbits(63), seconds, question)
        except WireError as error:
            raise TypeError(f"the test passes what cannot be sent: {error}") from error
        started = time.monotonic()
        try:
            reply = self._exchange(frame, started + seconds + self._grace)
        finally:
            self._remaining -= time.monotonic() - started
        try:
            return _checked(reply.value())
        except WireError as error:
            raise SubmissionLost(f"the submission returned what is no plain value: {error}") from error

    def _exchange(self, frame: Frame, deadline: float) -> Frame:
        try:
            send(self._channel, frame, deadline)
            reply = receive(self._channel, deadline)
        except TimeoutError:
            self.lost = "the submission stopped answering"
        except (WireError, OSError) as error:
            self.lost = f"the connection to the submission broke: {error}"
        else:
            # Ids are drawn at random: an answer cannot be sent before its question.
            if reply.id == frame.id:
                return reply
            self.lost = "the submission answered a question that was not asked"
        raise SubmissionLost(self.lost)


def _checked(answer: Any) -> dict[str, Any]:
    if not isinstance(answer, dict):
        raise WireError("an answer must be a mapping")
    kind = answer.get("kind")
    texts = _ANSWERS.get(kind) if isinstance(kind, str) else None
    if texts is None or not all(isinstance(answer.get(text), str) for text in texts):
        raise WireError("an answer of unknown kind")
    if kind == "failure":
        raise SubmissionLost(answer["message"][:_MESSAGE_CHARACTERS])
    return answer


class RemoteModule(ModuleType):
    """Stands in ``sys.modules`` for the submitted module."""

    def __init__(self, name: str, connection: Connection) -> None:
        super().__init__(name)
        self.__spec__ = importlib.machinery.ModuleSpec(name, None)
        self._connection = connection

    def __getattr__(self, name: str) -> Any:
        """A constant's value, or a function that calls the submission's.

        What is missing is a function too, which raises AttributeError when called, so that one missing name
        fails its own tests and not the import of the test file.
        """
        if name.startswith("__"):
            raise AttributeError(name)
        try:
            answer = self._connection.ask(op="get", name=name)
        except SubmissionLost:
            answer = {"kind": "missing"}
        if answer["kind"] == "value":
            return answer["value"]
        return _remote_function(self._connection, name)


def _remote_function(connection: Connection, name: str) -> Callable[..., Any]:
    def call(*args: Any, **kwargs: Any) -> Any:
        answer = connection.ask(op="call", name=name, args=args, kwargs=kwargs)
        if answer["kind"] == "value":
            return answer["value"]
        if answer["kind"] == "error":
            raise _exception(answer["type"], answer["message"])
        raise AttributeError(f"the submitted module has no function {name!r}")

    call.__name__ = call.__qualname__ = name
    return call


def _exception(type_name: str, message: str) -> Exception:
    """The built-in exception of that name, or RuntimeError; never one that would stop pytest."""
    message = message[:_MESSAGE_CHARACTERS]
    found = getattr(builtins, type_name, None)
    if isinstance(found, type) and issubclass(found, Exception):
        try:
            return found(message)
        except TypeError:  # needs more than a message (UnicodeDecodeError)
            pass
    return RuntimeError(f"{type_name[:100]}: {message}")


def install(module: str, connection: Connection) -> None:
    """Make ``import src.<module>`` give the remote module, and nothing else of ``src`` importable."""
    package = ModuleType("src")
    package.__path__ = []
    remote = RemoteModule(f"src.{module}", connection)
    setattr(package, module, remote)
    sys.modules["src"] = package
    sys.modules[remote.__name__] = remote
