"""The broker answers many workers at once, keeps keys to itself, and lets nobody wait for a dead peer."""

from __future__ import annotations

import json
import logging
import os
import socket
import stat
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from pytest_imaging101.budget import Usage
from pytest_imaging101.faults import EndpointFault, Fault, KeyRefused, ModelNotFound, QuotaSpent, StorageFault
from pytest_imaging101.models.base import ContextOverflow, ModelSettings, OutOfTime, Refused, Reply
from pytest_imaging101.models.broker import Broker
from pytest_imaging101.models.client import BrokerClient
from pytest_imaging101.models.wire import BrokerAddress, error_as_dict, error_from_dict
from tests.models.asking import QUICK, conversation
from tests.models.fake_endpoint import FakeEndpoint, Scripted, answer, completion, hangs, page, refuses, says

SECRET = "sk-very-secret-0123456789"


def broker_for(fake: FakeEndpoint, **settings: Any) -> Broker:
    fields = {"name": "m", "base_url": fake.base_url, "api_key": SECRET, **settings}
    return Broker({"m": ModelSettings(**fields)}, policy=QUICK)


def ask(address: BrokerAddress, content: str = "hi", *, deadline_seconds: float = 60.0) -> Reply:
    return BrokerClient(address, "m").complete(conversation(content), deadline_seconds=deadline_seconds)


def echo(body: dict[str, Any], _headers: Mapping[str, str]) -> Scripted:
    return says("echo " + body["messages"][-1]["content"])


def test_a_reply_comes_through_whole() -> None:
    script = [says("a 中 \u2028 b\nObservation: c", "length", reasoning="why")]
    with FakeEndpoint(script) as fake, broker_for(fake, prices_usd_per_million=(1.0, 2.0)) as address:
        client = BrokerClient(address, "m")
        reply = client.complete(conversation("hi"), deadline_seconds=60, stop=["\nObservation:"])
    assert (reply.text, reply.reasoning, reply.finish_reason) == ("a 中 \u2028 b", "why", "length")
    assert reply.usage == Usage(1, 12, 5, cost_usd=22e-6)
    assert isinstance(reply.notes, tuple)
    assert client.name == "m"


def test_two_hundred_calls_at_once_all_answer() -> None:
    together = threading.Barrier(200)

    def call(number: int) -> str:
        together.wait(60)
        return ask(address, str(number)).text

    with FakeEndpoint(echo) as fake:
        broker = broker_for(fake)
        address = broker.start()
        with ThreadPoolExecutor(200) as pool:
            texts = list(pool.map(call, range(200)))
        assert texts == [f"echo {number}" for number in range(200)]
        assert broker.usage()["m"].calls == 200
        broker.close()


def test_calls_at_once_learn_an_endpoints_ways_together() -> None:
    def script(body: dict[str, Any], headers: Mapping[str, str]) -> Scripted:
        if "temperature" in body:
            return refuses(400, "no", param="temperature", code="unsupported_value")
        return echo(body, headers)

    with FakeEndpoint(script) as fake, broker_for(fake, temperature=0.5) as address:
        with ThreadPoolExecutor(20) as pool:
            replies = list(pool.map(lambda number: ask(address, str(number)), range(20)))
        later = len(fake.requests)
        replies.append(ask(address, "20"))
    assert [reply.text for reply in replies] == [f"echo {number}" for number in range(21)]
    assert all(reply.notes == ("temperature not applied",) for reply in replies)
    assert len(fake.requests) == later + 1


@pytest.mark.parametrize(
    ("scripted", "expected"),
    [
        (refuses(401, "no"), KeyRefused),
        (refuses(404, "model m does not exist"), ModelNotFound),
        (refuses(402, "no"), QuotaSpent),
        (refuses(400, "odd"), EndpointFault),
        (refuses(400, "no", code="content_filter"), Refused),
        (refuses(400, "no", code="context_length_exceeded"), ContextOverflow),
    ],
)
def test_typed_errors_come_through_as_what_they_are(scripted: Scripted, expected: type[Exception]) -> None:
    with FakeEndpoint([scripted]) as fake, broker_for(fake) as address, pytest.raises(expected) as caught:
        ask(address)
    assert type(caught.value) is expected
    assert fake.base_url in str(caught.value)
    if isinstance(caught.value, Fault):
        assert f"HTTP {scripted.status}" in caught.value.evidence


def test_every_error_survives_the_wire() -> None:
    faults = [
        kind("m", evidence="e") for kind in (Fault, EndpointFault, KeyRefused, ModelNotFound, QuotaSpent)
    ]
    for fault in faults:
        back = error_from_dict(json.loads(json.dumps(error_as_dict(fault))))
        assert isinstance(back, type(fault))
        assert (back.message, back.evidence) == ("m", "e")
    for end in (Refused("r"), ContextOverflow("c"), OutOfTime("o")):
        assert repr(error_from_dict(error_as_dict(end))) == repr(end)


def test_a_deadline_is_kept_through_the_broker() -> None:
    with FakeEndpoint([says(), hangs()]) as fake, broker_for(fake) as address:
        ask(address)
        with pytest.raises(OutOfTime):
            ask(address, deadline_seconds=0.5)
        with pytest.raises(OutOfTime, match="no time is left"):
            ask(address, deadline_seconds=0.0)
        assert fake.hang_ups.wait(10)
    assert len(fake.requests) == 2


def test_a_call_without_a_deadline_is_possible() -> None:
    with FakeEndpoint([says("ok")]) as fake, broker_for(fake) as address:
        assert ask(address, deadline_seconds=float("inf")).text == "ok"


def test_a_worker_that_is_killed_cancels_its_call() -> None:
    program = (
        "import sys\n"
        "from pytest_imaging101.models.client import BrokerClient\n"
        "from pytest_imaging101.models.wire import BrokerAddress\n"
        "client = BrokerClient(BrokerAddress(sys.argv[1], sys.argv[2]), 'm')\n"
        "client.complete([{'role': 'user', 'content': 'hi'}], deadline_seconds=600)\n"
    )
    with FakeEndpoint([hangs(), says("free again")]) as fake, broker_for(fake) as address:
        worker = subprocess.Popen([sys.executable, "-c", program, address.socket_path, address.token])
        assert fake.arrived.wait(60)
        worker.kill()
        worker.wait()
        assert fake.hang_ups.wait(10)
        assert ask(address).text == "free again"


def test_closing_ends_what_is_under_way_and_leaves_nothing() -> None:
    ended: list[Exception] = []

    def call() -> None:
        try:
            ask(address)
        except EndpointFault as fault:
            ended.append(fault)

    with FakeEndpoint([hangs()]) as fake:
        broker = broker_for(fake)
        address = broker.start()
        caller = threading.Thread(target=call)
        caller.start()
        assert fake.arrived.wait(60)
        broker.close()
        broker.close()
        caller.join(10)
        assert fake.hang_ups.wait(10)
    assert "broker of this run is gone" in str(ended[0])
    assert not Path(address.socket_path).parent.exists()
    assert "imaging101-broker" not in [thread.name for thread in threading.enumerate()]
    with pytest.raises(EndpointFault, match="gone"):
        ask(address)


def test_idle_and_garbled_connections_disturb_nobody(caplog: pytest.LogCaptureFixture) -> None:
    with (
        caplog.at_level(logging.ERROR),
        FakeEndpoint([says("fine")]) as fake,
        broker_for(fake) as address,
        socket.socket(socket.AF_UNIX) as idle,
        socket.socket(socket.AF_UNIX) as garbled,
    ):
        for connection in (idle, garbled):
            connection.connect(address.socket_path)
        garbled.sendall(b"GET / HTTP/1.1\r\n\r\n")
        assert garbled.recv(100) == b""
        assert ask(address).text == "fine"
    assert not caplog.records


def test_a_wrong_token_and_an_unknown_model_are_refused() -> None:
    with FakeEndpoint([says()]) as fake, broker_for(fake) as address:
        with pytest.raises(EndpointFault, match="belongs to another run"):
            ask(BrokerAddress(address.socket_path, "guess"))
        with pytest.raises(EndpointFault, match="belongs to another run"):
            ask(BrokerAddress(address.socket_path, "größe"))
        with pytest.raises(EndpointFault, match="knows no model 'x'; it knows m"):
            BrokerClient(address, "x").complete(conversation(), deadline_seconds=60)
    assert not fake.requests


def test_tokens_differ_and_are_in_no_repr() -> None:
    with FakeEndpoint() as fake, broker_for(fake) as one, broker_for(fake) as other:
        assert one.token != other.token
        assert one.token not in repr(one)


def test_the_socket_is_this_users_alone() -> None:
    with FakeEndpoint() as fake, broker_for(fake) as address:
        folder = Path(address.socket_path).parent
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
        assert [entry.name for entry in folder.iterdir()] == ["broker"]


def test_a_long_temporary_folder_falls_back_to_loopback_tcp(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / ("d" * 100)
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    with FakeEndpoint([says("over TCP")]) as fake, broker_for(fake) as address:
        assert address.socket_path.startswith("127.0.0.1:")
        assert ask(address).text == "over TCP"
        with pytest.raises(EndpointFault, match="another run"):
            ask(BrokerAddress(address.socket_path, ""))
    assert not list(folder.iterdir())


def test_a_temporary_folder_that_is_not_there_is_a_fault(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "gone"))
    with FakeEndpoint() as fake, pytest.raises(StorageFault, match="TMPDIR"):
        broker_for(fake).start()


def test_a_key_is_in_no_message_of_the_broker(caplog: pytest.LogCaptureFixture) -> None:
    heard: list[bytes] = []
    script = [
        answer(completion(f"the key is {SECRET}", reasoning=SECRET)),
        refuses(401, f"Incorrect API key provided: {SECRET}"),
        refuses(400, SECRET, code=SECRET, param=SECRET),
        page(f"<html>{SECRET}</html>"),
        refuses(429, SECRET, code="insufficient_quota"),
        answer({"error": {"message": SECRET, "code": "content_filter"}}),
        refuses(400, f"{SECRET} context_length_exceeded"),
    ]
    with caplog.at_level(logging.DEBUG), FakeEndpoint(script) as fake, broker_for(fake) as address:
        for _ in script:
            heard.append(exchange(address))
    assert all(line.endswith(b"\n") for line in heard)
    assert SECRET.encode() not in b"".join(heard)
    assert b"[key]" in heard[0]
    assert all(SECRET not in record.getMessage() for record in caplog.records)
    assert {request.headers["authorization"] for request in fake.requests} == {f"Bearer {SECRET}"}


def exchange(address: BrokerAddress) -> bytes:
    """One call's response line, as it stands on the wire."""
    request = {
        "token": address.token,
        "ask": "complete",
        "model": "m",
        "deadline_seconds": 60,
        "messages": conversation(),
        "stop": [],
    }
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(address.socket_path)
        connection.sendall(json.dumps(request).encode() + b"\n")
        return connection.makefile("rb").readline()


def test_a_mistake_inside_the_broker_is_a_fault_of_the_harness(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise ZeroDivisionError(f"at {SECRET}")

    monkeypatch.setattr("pytest_imaging101.models.endpoint.read_answer", broken)
    with FakeEndpoint([says(), says()]) as fake, broker_for(fake) as address:
        with pytest.raises(Fault, match=r"failed by itself \(ZeroDivisionError\)") as caught:
            ask(address)
        assert "in send" in caught.value.evidence
        assert SECRET not in caught.value.evidence
        monkeypatch.undo()
        assert ask(address).text == "hello"


def test_large_messages_pass() -> None:
    with FakeEndpoint(echo) as fake, broker_for(fake) as address:
        assert len(ask(address, "x" * 2_000_000).text) == 2_000_005


def test_probe_through_the_broker() -> None:
    with FakeEndpoint(models=["m"]) as fake, broker_for(fake) as address:
        probe = BrokerClient(address, "m").probe()
    assert probe.url == f"{fake.base_url}/chat/completions"
    with FakeEndpoint([refuses(401, "no")]) as fake, broker_for(fake) as address, pytest.raises(KeyRefused):
        BrokerClient(address, "m").probe()


def test_models_at_one_address_share_a_limiter() -> None:
    models = {
        "a": ModelSettings("a", base_url="http://localhost:1/v1/"),
        "b": ModelSettings("b", base_url=" http://localhost:1/v1"),
        "c": ModelSettings("c", base_url="http://localhost:2/v1"),
        "d": ModelSettings("d", base_url="nonsense"),
    }
    endpoints = Broker(models)._endpoints
    assert endpoints["a"].limiter is endpoints["b"].limiter
    assert len({id(endpoint.limiter) for endpoint in endpoints.values()}) == 3


@pytest.mark.parametrize(
    ("module", "absent"),
    [
        ("pytest_imaging101.models.client", ("openai", "asyncio", "pydantic", "httpx2", "numpy")),
        ("pytest_imaging101.models.broker", ("openai", "pydantic", "httpx2", "numpy")),
    ],
)
def test_importing_is_light(module: str, absent: tuple[str, ...]) -> None:
    program = f"import sys, {module}; print(*sorted(set({absent!r}) & set(sys.modules)))"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(
        [sys.executable, "-S", "-c", program], capture_output=True, text=True, check=True, env=environment
    )
    assert done.stdout.strip() == ""


def test_a_broker_that_nobody_asks_loads_no_sdk() -> None:
    program = (
        "import sys\n"
        "from pytest_imaging101.models.base import ModelSettings\n"
        "from pytest_imaging101.models.broker import Broker\n"
        "broker = Broker({'m': ModelSettings('m')})\n"
        "broker.start()\n"
        "broker.close()\n"
        "print('openai' in sys.modules)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"
