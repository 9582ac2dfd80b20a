"""The trusted end of the wire, with whatever may sit at the other."""

from __future__ import annotations

import socket
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from pytest_imaging101.scoring.grader.stub import Connection, RemoteModule, SubmissionLost, install
from pytest_imaging101.scoring.grader.wire import Frame, PeerGone, receive, send

Peer = Callable[[socket.socket, Frame], None]


@pytest.fixture
def connect() -> Iterator[Callable[..., Connection]]:
    """Makes connections to a peer that does with every question what a function says."""
    sockets: list[socket.socket] = []
    threads: list[threading.Thread] = []

    def make(
        peer: Peer, call_seconds: float = 30.0, total_seconds: float = 60.0, wait: float = 30.0
    ) -> Connection:
        ours, theirs = socket.socketpair()
        sockets.append(ours)

        def serve() -> None:
            with theirs:
                try:
                    while True:
                        peer(theirs, receive(theirs, None))
                except (PeerGone, OSError):
                    pass

        threads.append(threading.Thread(target=serve))
        threads[-1].start()
        return Connection(ours, call_seconds, total_seconds, import_seconds=wait)

    yield make
    for sock in sockets:
        sock.close()
    for thread in threads:
        thread.join()


FOREVER = float("inf")


def answering(answer: Any) -> Peer:
    return lambda channel, question: send(channel, Frame.of(question.id, 0.0, answer), FOREVER)


def test_a_question_reaches_the_peer_and_its_answer_comes_back(connect: Any) -> None:
    def double(channel: socket.socket, question: Frame) -> None:
        asked = question.value()
        value = 2 * asked["args"][0] if asked["name"] == "double" else None
        send(channel, Frame.of(question.id, 0.0, {"kind": "value", "value": value}), FOREVER)

    module = RemoteModule("src.m", connect(double))
    np.testing.assert_array_equal(
        module._connection.ask(op="call", name="double", args=(np.ones(2),))["value"], 2
    )


@pytest.mark.parametrize(
    "answer",
    [
        None,
        {"value": 1},
        {"kind": "callable "},
        {"kind": ["value"]},
        {"kind": np.array(["value", "value"])},
        {"kind": "error"},
        {"kind": "error", "type": "ValueError", "message": 3},
        {"kind": "failure", "message": None},
    ],
)
def test_an_answer_of_no_known_form_is_no_answer(connect: Any, answer: Any) -> None:
    with pytest.raises(SubmissionLost, match="no plain value"):
        connect(answering(answer)).ask(op="get", name="x")


def test_an_answer_to_another_question_ends_the_conversation(connect: Any) -> None:
    def early(channel: socket.socket, question: Frame) -> None:
        send(channel, Frame.of(question.id + 1, 0.0, {"kind": "value", "value": 1}), FOREVER)

    connection = connect(early)
    for _ in range(2):
        with pytest.raises(SubmissionLost, match="not asked"):
            connection.ask(op="get", name="x")


def test_noise_ends_the_conversation(connect: Any) -> None:
    connection = connect(lambda channel, question: channel.sendall(b"HTTP/1.1 200 OK" + b"\0" * 100))
    for _ in range(2):
        with pytest.raises(SubmissionLost, match="the connection to the submission broke: not a frame"):
            connection.ask(op="get", name="x")


def test_a_peer_that_leaves_is_told_as_such(connect: Any) -> None:
    connection = connect(lambda channel, question: channel.shutdown(socket.SHUT_RDWR))
    with pytest.raises(SubmissionLost, match="closed the channel"):
        connection.ask(op="get", name="x")


def test_a_peer_that_says_nothing_is_waited_for_no_longer_than_allowed(connect: Any) -> None:
    connection = connect(lambda channel, question: None, call_seconds=0.1, wait=-5.0)
    with pytest.raises(SubmissionLost, match="stopped answering"):
        connection.ask(op="get", name="x")


def test_all_calls_together_have_one_budget(connect: Any) -> None:
    connection = connect(answering({"kind": "value", "value": 1}), total_seconds=1e-9)
    connection.ask(op="get", name="x")
    with pytest.raises(SubmissionLost, match="used up"):
        connection.ask(op="get", name="x")


def test_importing_is_not_charged_to_the_calls(connect: Any) -> None:
    connection = connect(answering({"kind": "value", "value": None}), total_seconds=1e-9)
    assert connection.load() == ""
    connection.ask(op="get", name="x")


def test_a_failed_import_is_said_once_and_asked_for_no_more(connect: Any) -> None:
    asked = []

    def fail(channel: socket.socket, question: Frame) -> None:
        asked.append(question)
        send(channel, Frame.of(question.id, 0.0, {"kind": "failure", "message": "does not import"}), FOREVER)

    connection = connect(fail)
    assert connection.load() == "does not import"
    with pytest.raises(SubmissionLost, match="does not import"):
        connection.ask(op="get", name="x")
    assert len(asked) == 1


def test_what_a_test_cannot_send_is_the_tests_own_error(connect: Any) -> None:
    with pytest.raises(TypeError, match="the test passes what cannot be sent: a function"):
        connect(answering({"kind": "value", "value": 1})).ask(op="call", args=(lambda: 0,))


def call(connect: Any, answer: Any) -> Any:
    def peer(channel: socket.socket, question: Frame) -> None:
        callable_first = question.value()["op"] == "get"
        answering({"kind": "callable"} if callable_first else answer)(channel, question)

    return RemoteModule("src.m", connect(peer)).f()


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("ValueError", ValueError),
        ("ZeroDivisionError", ZeroDivisionError),
        ("OSError", OSError),
        ("UnicodeDecodeError", RuntimeError),
        ("SystemExit", RuntimeError),
        ("KeyboardInterrupt", RuntimeError),
        ("GeneratorExit", RuntimeError),
        ("BaseException", RuntimeError),
        ("Failed", RuntimeError),
        ("print", RuntimeError),
        ("__import__", RuntimeError),
    ],
)
def test_only_built_in_exceptions_come_back_as_themselves(
    connect: Any, name: str, kind: type[Exception]
) -> None:
    with pytest.raises(kind, match="the message") as caught:
        call(connect, {"kind": "error", "type": name, "message": "the message"})
    assert type(caught.value) is kind


def test_a_long_message_is_cut(connect: Any) -> None:
    with pytest.raises(ValueError, match="x") as caught:
        call(connect, {"kind": "error", "type": "ValueError", "message": "x" * 1_000_000})
    assert len(str(caught.value)) == 2000


def test_a_missing_function_is_an_attribute_error_when_it_is_called(connect: Any) -> None:
    function = RemoteModule("src.m", connect(answering({"kind": "missing"}))).absent
    with pytest.raises(AttributeError, match="'absent'"):
        function()


def test_no_answer_is_nothing_that_a_test_could_expect(connect: Any) -> None:
    assert not issubclass(SubmissionLost, Exception)
    with pytest.raises(SubmissionLost, match="gone"):
        call(connect, {"kind": "failure", "message": "gone"})


def test_the_module_is_importable_and_nothing_else_of_src_is(
    connect: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in [name for name in sys.modules if name == "src" or name.startswith("src.")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "src", None)
    monkeypatch.setitem(sys.modules, "src.solver", None)
    install("solver", connect(answering({"kind": "value", "value": 2.5})))
    from src.solver import GAIN  # type: ignore[import-not-found]

    assert GAIN == 2.5
    with pytest.raises(ImportError):
        import src.physics  # type: ignore[import-not-found]  # noqa: F401
