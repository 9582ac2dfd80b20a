"""Serves a submitted module over the channel: a supervisor, and a child process that runs the module.

Runs inside the submission's sandbox: standard library and numpy only. Nothing here is trusted by the other side; the
supervisor is there so that a call which crashes or hangs costs its own test and not all others.

Usage: ``python -m grader.serve_submission <module> <import seconds>`` with IMAGING101_CHANNEL naming the channel's
file descriptor.
"""

from __future__ import annotations

import importlib
import os
import signal
import socket
import sys
import time
import traceback
from typing import Any

from .wire import Frame, PeerGone, WireError, receive, send

_REPLY_SECONDS = 600.0


class Supervisor:
    """Hands each question to the child and its answer back; replaces a child that died or ran too long.

    Importing the module has its own time, so that a call after a crash is not charged for the new child's start.
    """

    def __init__(self, channel: socket.socket, module: str, import_seconds: float) -> None:
        self._channel = channel
        self._module = module
        self._import_seconds = import_seconds
        self._child: tuple[int, socket.socket] | None = None

    def serve(self) -> None:
        """Answer questions until the other side closes the channel."""
        try:
            while True:
                question = receive(self._channel, None)
                send(self._channel, self._answer(question), time.monotonic() + _REPLY_SECONDS)
        except PeerGone:
            pass
        finally:
            self._end_child()

    def _answer(self, question: Frame) -> Frame:
        doing, seconds = f"src/{self._module}.py did not import", self._import_seconds
        try:
            if self._child is None:
                receive(self._start_child(), time.monotonic() + seconds)
            doing, seconds = "no answer", question.seconds
            answer = self._ask_child(question, time.monotonic() + seconds)
            return Frame(question.id, 0.0, answer.header, answer.body)
        except TimeoutError:
            self._end_child()
            sentence = f"{doing} within {seconds:g} s"
        except PeerGone:
            sentence = f"{doing}: the submission's process {self._end_child()}"
        except WireError as error:
            self._end_child()
            sentence = f"{doing}: the submission wrote into the grader's pipe: {error}"
        return _failure(question.id, sentence)

    def _ask_child(self, question: Frame, deadline: float) -> Frame:
        if self._child is None:
            raise PeerGone("the child is gone")
        send(self._child[1], question, deadline)
        answer = receive(self._child[1], deadline)
        if answer.id != question.id:
            raise WireError("an answer to nothing that was asked")
        return answer

    def _start_child(self) -> socket.socket:
        ours, theirs = socket.socketpair()
        pid = os.fork()
        if pid == 0:
            ours.close()
            self._channel.close()
            _run_child(theirs, self._module)
        theirs.close()
        self._child = (pid, ours)
        return ours

    def _end_child(self) -> str:
        """Kill and reap the child; says how it had ended."""
        if self._child is None:
            return "was not running"
        pid, pipe = self._child
        self._child = None
        # A child that closed its pipe by ending is about to be a zombie: give it the moment to become one.
        pipe.close()
        for _ in range(20):
            reaped, status = os.waitpid(pid, os.WNOHANG)
            if reaped:
                break
            time.sleep(0.005)
        else:
            _kill_group(pid)
            _, status = os.waitpid(pid, 0)
        code = os.waitstatus_to_exitcode(status)
        return f"was ended by signal {-code}" if code < 0 else f"ended with exit code {code}"


def _kill_group(pid: int) -> None:
    try:
        os.killpg(pid, signal.SIGKILL)
    except ProcessLookupError:  # it has not made its group yet
        os.kill(pid, signal.SIGKILL)


def _run_child(pipe: socket.socket, module: str) -> None:
    try:
        os.setsid()
        _serve_module(pipe, module)
    except PeerGone:
        pass
    except BaseException:
        traceback.print_exc()
    finally:
        # The supervisor's stack lies above this frame and must not run a second time.
        os._exit(0)


def _serve_module(pipe: socket.socket, module: str) -> None:
    loaded = _load(module)
    send(pipe, Frame.of(0, 0.0, "ready"), time.monotonic() + _REPLY_SECONDS)
    while True:
        question = receive(pipe, None)
        if isinstance(loaded, str):
            send(pipe, _failure(question.id, loaded), time.monotonic() + _REPLY_SECONDS)
            return
        answer = _perform(loaded, question.value())
        try:
            frame = Frame.of(question.id, 0.0, answer)
        except WireError as error:
            frame = _failure(question.id, f"the submission returned what cannot be sent: {error}")
        send(pipe, frame, time.monotonic() + _REPLY_SECONDS)


def _load(module: str) -> Any:
    """The submitted module, or the sentence that says why it does not import."""
    try:
        return importlib.import_module(f"src.{module}")
    # Whatever the submission raises, and be it SystemExit, is its own affair and only reported.
    except BaseException as error:
        return f"src/{module}.py does not import: {type(error).__name__}: {error}"


def _perform(module: Any, question: dict[str, Any]) -> dict[str, Any]:
    name = question["name"]
    if question["op"] == "import":
        return {"kind": "value", "value": None}
    try:
        found = getattr(module, name)
        if question["op"] == "get":
            return {"kind": "callable"} if callable(found) else {"kind": "value", "value": found}
        return {"kind": "value", "value": found(*question["args"], **question["kwargs"])}
    # Reported to the test, which decides whether it was the right one.
    except BaseException as error:
        if isinstance(error, AttributeError) and not hasattr(module, name):
            return {"kind": "missing"}
        return {"kind": "error", "type": _builtin_name(error), "message": _message(error)}


def _builtin_name(error: BaseException) -> str:
    """The nearest built-in class that says more than Exception, else the class's own name."""
    for kind in type(error).__mro__:
        if kind.__module__ == "builtins" and kind not in (Exception, BaseException, object):
            return kind.__name__
    return type(error).__name__


def _message(error: BaseException) -> str:
    # str(KeyError("a")) has quotes of its own, which would be doubled when it is raised again.
    return str(error.args[0]) if isinstance(error, KeyError) and error.args else str(error)


def _failure(id: int, sentence: str) -> Frame:
    return Frame.of(id, 0.0, {"kind": "failure", "message": sentence[:2000]})


def main() -> None:
    """Serve the module named on the command line."""
    channel = socket.socket(fileno=int(os.environ.pop("IMAGING101_CHANNEL")))
    os.set_inheritable(channel.fileno(), False)
    Supervisor(channel, sys.argv[1], float(sys.argv[2])).serve()


if __name__ == "__main__":
    main()
