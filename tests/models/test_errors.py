"""Refusals, outages, rate limits and deadlines: each its own typed error, tried again only where that can help."""

from __future__ import annotations

import time
from typing import Any

import pytest

from pytest_imaging101.faults import EndpointFault, KeyRefused, ModelNotFound, QuotaSpent
from pytest_imaging101.models.base import ContextOverflow, OutOfTime
from pytest_imaging101.models.retries import RetryPolicy
from tests.models.asking import QUICK, Asker, ask, conversation
from tests.models.fake_endpoint import (
    FakeEndpoint,
    Scripted,
    answer,
    hangs,
    page,
    refuses,
    resets_in_body,
    says,
    trickles,
)


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (refuses(401, "Incorrect API key provided"), KeyRefused),
        (refuses(403, "Country not supported"), KeyRefused),
        (page(status=403), KeyRefused),
        (answer({"error": {"code": 400, "message": "API key not valid. Please pass one."}}, 400), KeyRefused),
        (answer({"detail": "Unauthorized"}, 401), KeyRefused),
        (refuses(404, "The model `m` does not exist", code="model_not_found"), ModelNotFound),
        (answer({"error": 'model "m" not found, try pulling it first'}, 404), ModelNotFound),
        (refuses(400, "Model Not Exist"), ModelNotFound),
        (refuses(400, "m is not a valid model ID"), ModelNotFound),
        (refuses(429, "You exceeded your current quota", code="insufficient_quota"), QuotaSpent),
        (refuses(429, "You exceeded your current quota, check your plan and billing details"), QuotaSpent),
        (refuses(429, "daily quota exceeded"), QuotaSpent),
        (refuses(429, "The monthly free quota is used up"), QuotaSpent),
        (answer({"error": {"details": [{"quotaId": "RequestsPerDayPerModel"}]}}, 429), QuotaSpent),
        (refuses(402, "Insufficient Balance"), QuotaSpent),
        (answer(b"", 402), QuotaSpent),
        (refuses(400, "Your credit balance is too low to access the API"), QuotaSpent),
        (refuses(400, "something odd"), EndpointFault),
        (answer({"detail": "Method Not Allowed"}, 405), EndpointFault),
        (answer(b"", 307), EndpointFault),
    ],
)
def test_what_no_retry_can_cure_is_said_at_once(error: Scripted, expected: type[EndpointFault]) -> None:
    with FakeEndpoint([error]) as fake, pytest.raises(EndpointFault) as caught:
        ask(fake, api_key="sk-0123456789")
    assert type(caught.value) is expected
    assert len(fake.requests) == 1
    assert f"{fake.base_url}/chat/completions" in caught.value.message
    assert f"HTTP {error.status}" in caught.value.evidence


def test_a_refused_key_says_where_keys_are_given_and_what_came() -> None:
    with (
        FakeEndpoint([refuses(401, "Incorrect API key provided")]) as fake,
        pytest.raises(KeyRefused) as caught,
    ):
        ask(fake)
    assert "(401: Incorrect API key provided); check API_KEY, --api-key or config_llm.yaml" in str(
        caught.value
    )


@pytest.mark.parametrize(
    "error", [answer({"detail": "Not Found"}, 404), page("<html>404</html>", 404), answer(b"", 404)]
)
def test_a_path_that_is_not_there_points_at_base_url(error: Scripted) -> None:
    with FakeEndpoint([error]) as fake, pytest.raises(EndpointFault, match=r"check --base-url") as caught:
        ask(fake)
    assert not isinstance(caught.value, ModelNotFound)
    assert len(fake.requests) == 1


@pytest.mark.parametrize(
    "error",
    [
        refuses(400, "no", code="context_length_exceeded"),
        answer(
            {"error": {"type": "exceed_context_size_error", "n_prompt_tokens": 33056, "n_ctx": 32768}}, 400
        ),
        answer({"error": {"n_prompt_tokens": 33056, "n_ctx": 32768}}, 400),
        refuses(400, "prompt is too long: 210000 tokens > 200000 maximum", type="invalid_request_error"),
        refuses(400, "Please Reduce The Length Of the messages"),
        answer({"object": "error", "message": "This model's maximum context length is 4096 tokens."}, 400),
        refuses(413, "Request too large for model on tokens per minute", code="rate_limit_exceeded"),
        page(status=413),
        answer({"error": {"code": 500, "message": "context size exceeded", "type": "server_error"}}, 500),
        answer(
            {
                "error": {
                    "message": "Provider returned error",
                    "metadata": {"raw": '{"error": {"code": "context_length_exceeded"}}'},
                }
            },
            400,
        ),
    ],
)
def test_an_overflow_is_told_from_its_fields_or_its_words(error: Scripted) -> None:
    with FakeEndpoint([error]) as fake, pytest.raises(ContextOverflow, match="window"):
        ask(fake, conversation("long"))
    assert len(fake.requests) == 1


@pytest.mark.parametrize(
    "error",
    [
        page("<html>Bad gateway</html>", 502),
        answer(b"", 524),
        answer({"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}, 529),
        answer(b"upstream connect error", 503),
        answer([{"error": {"code": 500, "message": "internal"}}], 500),
        answer({"error": None}, 500),
        answer(["odd", 3, None], 500),
        answer(b"\xff\xfe", 500),
        refuses(408, "timeout"),
        refuses(409, "conflict"),
        refuses(503, "The model is overloaded"),
        resets_in_body(),
    ],
)
def test_outages_are_tried_again_and_end_as_a_fault(error: Scripted) -> None:
    with FakeEndpoint([error, error, says("back")]) as fake:
        assert ask(fake).text == "back"
    with (
        FakeEndpoint([error] * 4) as fake,
        pytest.raises(EndpointFault, match="given up after 3 tries") as caught,
    ):
        ask(fake)
    assert type(caught.value) is EndpointFault
    assert len(fake.requests) == QUICK.tries


def test_a_connection_that_broke_in_the_body_yields_no_partial_text() -> None:
    half = b'{"choices":[{"message":{"content":"half"},"finish_reason":"stop"}]}'
    with FakeEndpoint([resets_in_body(half), says("whole")]) as fake:
        assert ask(fake).text == "whole"


@pytest.mark.parametrize(
    "limited",
    [
        refuses(429, "slow down", headers={"Retry-After": "0.01"}),
        refuses(429, "slow down", headers={"retry-after-ms": "10"}),
        refuses(429, "slow down", headers={"Retry-After": "soon"}),
        refuses(429, "slow down", headers={"Retry-After": "Mon, 01 Jan 2024 00:00:00 GMT"}),
        refuses(429, "Rate limit reached. Please try again in 5ms."),
        refuses(429, "You exceeded your current quota. Please retry in 0.01s."),
        answer(b"", 429),
        page(status=429),
        answer({"error": {"message": "rate", "code": "rate_limit_exceeded"}}, 200),
    ],
)
def test_a_rate_limit_is_waited_out(limited: Scripted) -> None:
    with FakeEndpoint([limited] * 4 + [says("at last")]) as fake, Asker(fake) as asker:
        reply = asker.ask()
        assert asker.endpoint.limiter.window < 64
    assert reply.text == "at last"
    assert reply.usage.calls == 1


def test_the_time_waited_is_reported_apart_from_the_time_of_the_answer() -> None:
    limited = refuses(429, "slow down", headers={"Retry-After": "0.5"})
    with FakeEndpoint([limited, says()]) as fake, Asker(fake) as asker:
        began = time.monotonic()
        reply = asker.ask()
        took = time.monotonic() - began
    assert reply.waited_seconds >= 0.5
    assert 0 < reply.seconds <= took - 0.5


def test_a_wait_longer_than_the_deadline_is_a_fault_at_once() -> None:
    limited = refuses(429, "slow down", headers={"Retry-After": "300"})
    with FakeEndpoint([limited]) as fake, pytest.raises(EndpointFault, match="limits the rate") as caught:
        ask(fake, deadline_seconds=100.0, policy=RetryPolicy())
    assert "given up: the next try is due in 300." in str(caught.value)


def test_rate_limits_without_end_are_given_up() -> None:
    patience = RetryPolicy(first_seconds=0.001, longest_seconds=0.002, rate_limit_seconds=0.02)
    with (
        FakeEndpoint(lambda _body, _headers: refuses(429, "slow down")) as fake,
        pytest.raises(EndpointFault, match="given up: the next wait would make"),
    ):
        ask(fake, policy=patience)
    assert len(fake.requests) > 3


@pytest.mark.parametrize("slow", [hangs(), trickles()])
def test_the_deadline_is_wall_clock_and_hangs_up(slow: Scripted) -> None:
    with FakeEndpoint([says(), slow]) as fake, Asker(fake) as asker:
        asker.ask()
        with pytest.raises(OutOfTime, match=r"gave no reply within 0\.5 s"):
            asker.ask(deadline_seconds=0.5)
        assert fake.hang_ups.wait(10)


def test_loading_the_sdk_does_not_count_against_the_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    def slow_import(_name: str) -> None:
        time.sleep(1.0)

    monkeypatch.setattr("pytest_imaging101.models.endpoint.importlib.import_module", slow_import)
    with FakeEndpoint([says("in time")]) as fake:
        assert ask(fake, deadline_seconds=1.0).text == "in time"


def test_a_deadline_eaten_by_the_endpoints_failures_is_the_endpoints_fault() -> None:
    def script(_body: Any, _headers: Any) -> Scripted:
        return refuses(502, "bad gateway") if len(fake.requests) < 50 else hangs()

    patient = RetryPolicy(tries=1000, first_seconds=0.02, longest_seconds=0.02)
    with FakeEndpoint(script) as fake, pytest.raises(EndpointFault, match="bad gateway"):
        ask(fake, deadline_seconds=1.0, policy=patient)


def test_there_is_one_layer_of_retries() -> None:
    once = RetryPolicy(tries=1)
    with FakeEndpoint([refuses(500, "no")] * 3) as fake, pytest.raises(EndpointFault):
        ask(fake, policy=once)
    assert len(fake.requests) == 1
    assert fake.requests[0].headers["x-stainless-retry-count"] == "0"


def test_probe_reads_the_list_of_models() -> None:
    with FakeEndpoint(models=["a", "m"]) as fake, Asker(fake) as asker:
        probe = asker.probe()
    assert (probe.url, probe.note) == (
        f"{fake.base_url}/chat/completions",
        "m is among the 2 models it lists",
    )
    assert not fake.requests


def test_probe_completes_where_there_is_no_list() -> None:
    with FakeEndpoint([says("yes")]) as fake, Asker(fake) as asker:
        assert asker.probe().note == "it lists no models but completes"


def test_probe_says_what_is_wrong() -> None:
    with (
        FakeEndpoint([refuses(401, "who are you?")]) as fake,
        Asker(fake) as asker,
        pytest.raises(KeyRefused),
    ):
        asker.probe()
    with (
        FakeEndpoint([hangs()]) as fake,
        Asker(fake) as asker,
        pytest.raises(EndpointFault, match="did not answer"),
    ):
        asker.probe(deadline_seconds=0.4)
