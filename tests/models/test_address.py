"""base_url and key as people write them, and what a call says where they cannot be used."""

from __future__ import annotations

import socket

import pytest

from pytest_imaging101.faults import EndpointFault, KeyRefused, UsageError
from pytest_imaging101.models.address import DEFAULT_BASE_URL, Address, is_loopback, normalised
from pytest_imaging101.models.base import ModelSettings
from pytest_imaging101.models.retries import RetryPolicy
from tests.models.asking import ask
from tests.models.fake_endpoint import FakeEndpoint, answer, completion, says

SECRET = "sk-very-secret-0123456789"


@pytest.mark.parametrize(
    ("tail", "path"),
    [
        ("", "/chat/completions"),
        ("/v1", "/v1/chat/completions"),
        ("/v1/", "/v1/chat/completions"),
        ("/v1//", "/v1/chat/completions"),
        ("/v1/chat/completions", "/v1/chat/completions"),
        ("/v1/chat/completions/", "/v1/chat/completions"),
        ("/api/paas/v4", "/api/paas/v4/chat/completions"),
    ],
)
def test_base_url_shapes_reach_the_same_path(tail: str, path: str) -> None:
    with FakeEndpoint([says("yes")]) as fake:
        root = fake.base_url.removesuffix("/v1")
        assert ask(fake, base_url=f"  {root}{tail} \n").text == "yes"
    assert fake.requests[0].path == path


def test_a_password_in_a_base_url_that_cannot_be_used_is_not_shown() -> None:
    with pytest.raises(UsageError) as caught:
        normalised(f"https://user:{SECRET}@host/v1?key={SECRET}")
    assert SECRET not in str(caught.value)


def test_no_base_url_means_openai() -> None:
    assert normalised(None) == normalised("  ") == DEFAULT_BASE_URL


@pytest.mark.parametrize(
    "wrong",
    ["localhost:8000/v1", "ftp://host/v1", "http://", "http://a b/v1", "http://h:port", "http://h/v1?k="],
)
def test_a_base_url_that_is_no_address_is_named(wrong: str) -> None:
    with pytest.raises(UsageError, match="--base-url") as caught:
        normalised(wrong)
    assert wrong[:-2] in str(caught.value)
    with FakeEndpoint() as fake, pytest.raises(EndpointFault, match="no plain http"):
        ask(fake, base_url=wrong)


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("http://localhost:1/v1", True),
        ("http://127.0.0.7", True),
        ("http://[::1]:8000/v1", True),
        ("http://0.0.0.0:8000", True),
        ("http://api.localhost", True),
        ("http://10.0.0.5:8000", False),
        ("https://localhost.example.org", False),
    ],
)
def test_loopback_is_recognised(url: str, expected: bool) -> None:
    assert is_loopback(url) is expected


def test_a_local_server_needs_no_key() -> None:
    with FakeEndpoint([says(), says()]) as fake:
        ask(fake, api_key=None)
        ask(fake, api_key="  ")
    assert [request.headers["authorization"] for request in fake.requests] == ["Bearer no-key"] * 2


def test_a_key_is_stripped() -> None:
    with FakeEndpoint([says()]) as fake:
        ask(fake, api_key=f" {SECRET}\n")
    assert fake.requests[0].headers["authorization"] == f"Bearer {SECRET}"


def test_a_missing_key_is_a_sentence_about_where_to_give_it() -> None:
    with FakeEndpoint() as fake, pytest.raises(KeyRefused) as caught:
        ask(fake, base_url="https://api.example.org/v1", api_key=" ")
    for place in ("API_KEY", "--api-key", "config_llm.yaml", "https://api.example.org/v1", "'m'"):
        assert place in str(caught.value)


@pytest.mark.parametrize("key", ["sk-secret中", "sk-sec ret", "sk-sec\nret"])
def test_a_key_that_cannot_be_sent_is_refused_without_showing_it(key: str) -> None:
    with FakeEndpoint() as fake, pytest.raises(KeyRefused, match="position") as caught:
        ask(fake, api_key=key)
    assert "sk-sec" not in str(caught.value)
    assert not fake.requests


def test_a_key_and_a_password_are_in_no_repr_and_no_url() -> None:
    address = Address.of(ModelSettings("m", base_url=f"https://user:{SECRET}@host/v1", api_key=SECRET))
    assert address.url == "https://host/v1/chat/completions"
    assert SECRET not in repr(address)
    assert address.scrub(f"bad key {SECRET}!") == "bad key [key]!"


@pytest.mark.parametrize("status", [200, 400, 401, 429, 500])
def test_a_key_that_the_endpoint_echoes_reaches_nobody(status: int) -> None:
    error = answer({"error": {"message": "x" * 150 + f" key {SECRET} is odd", "code": SECRET}}, status)
    once = RetryPolicy(tries=1, bad_reply_tries=1, rate_limit_seconds=0.0)
    with FakeEndpoint([error]) as fake, pytest.raises(EndpointFault) as caught:
        ask(fake, api_key=SECRET, policy=once)
    seen = str(caught.value) + caught.value.evidence
    assert SECRET[:12] not in seen
    assert "[key]" in caught.value.evidence


def test_a_key_echoed_in_a_reply_is_blanked() -> None:
    with FakeEndpoint([answer(completion(f"your key is {SECRET}"))]) as fake:
        assert ask(fake, api_key=SECRET).text == "your key is [key]"


@pytest.mark.parametrize(
    "proxy", ["http://127.0.0.1:1", "socks5://127.0.0.1:1", "socks://127.0.0.1:1", "nonsense"]
)
def test_proxies_of_the_environment_do_not_stand_before_a_local_server(
    proxy: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("HTTP_PROXY", "ALL_PROXY", "http_proxy", "all_proxy"):
        monkeypatch.setenv(name, proxy)
    monkeypatch.delenv("NO_PROXY", raising=False)
    with FakeEndpoint([says("direct")]) as fake:
        assert ask(fake).text == "direct"


@pytest.mark.parametrize("proxy", ["socks5://127.0.0.1:1", "socks://127.0.0.1:1"])
def test_a_proxy_that_the_client_cannot_use_is_a_fault_that_names_the_variables(
    proxy: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ALL_PROXY", proxy)
    with FakeEndpoint() as fake, pytest.raises(EndpointFault, match="ALL_PROXY"):
        ask(fake, base_url="http://api.example.org/v1", api_key=SECRET)


def test_a_server_that_is_not_started_is_named() -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        port = unused.getsockname()[1]
        with FakeEndpoint() as fake, pytest.raises(EndpointFault) as caught:
            ask(fake, base_url=f"http://127.0.0.1:{port}/v1")
    assert f"nothing answers at http://127.0.0.1:{port}/v1/chat/completions; is the server started?" in str(
        caught.value
    )
    assert "given up after 3 tries" in str(caught.value)


def test_a_host_that_is_not_found_is_named() -> None:
    with FakeEndpoint() as fake, pytest.raises(EndpointFault, match=r"host of http://no-such\.invalid/v1"):
        ask(fake, base_url="http://no-such.invalid/v1", api_key=SECRET)
