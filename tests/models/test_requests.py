"""What is sent: only what the endpoint takes, learned once and remembered."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from pytest_imaging101.faults import EndpointFault
from pytest_imaging101.models.base import ContextOverflow, Reply
from pytest_imaging101.models.endpoint import Endpoint
from tests.models.asking import Asker, ask, conversation
from tests.models.fake_endpoint import FakeEndpoint, Scripted, answer, refuses, says

Body = dict[str, Any]


def unless(refused: Callable[[Body], bool], error: Scripted) -> Callable[[Body, Mapping[str, str]], Scripted]:
    """An endpoint that refuses some bodies and answers all others."""
    return lambda body, _headers: error if refused(body) else says("fine")


def extra_forbidden(name: str) -> Scripted:
    detail = {
        "type": "extra_forbidden",
        "loc": ["body", name],
        "msg": "Extra inputs are not permitted",
        "input": 5,
    }
    return answer({"detail": [detail]}, 422)


def test_nothing_is_sent_that_was_not_asked_for() -> None:
    with FakeEndpoint([says()]) as fake:
        ask(fake)
    assert fake.bodies == [{"model": "m", "messages": [{"role": "user", "content": "hi"}]}]


def test_settings_are_sent_and_extra_body_has_the_last_word() -> None:
    with FakeEndpoint([says()]) as fake:
        ask(
            fake,
            temperature=0.0,
            max_reply_tokens=50,
            stop=["\nEND"],
            extra_body={"top_p": 0.5, "stop": ["X"]},
        )
    body = fake.bodies[0]
    assert (body["temperature"], body["max_completion_tokens"]) == (0.0, 50)
    assert (body["top_p"], body["stop"]) == (0.5, ["X"])


def test_a_cap_in_extra_body_is_the_only_cap() -> None:
    with FakeEndpoint([says()]) as fake:
        ask(fake, max_reply_tokens=50, extra_body={"max_tokens": 7})
    assert fake.bodies[0]["max_tokens"] == 7
    assert "max_completion_tokens" not in fake.bodies[0]


def test_a_reasoning_model_that_refuses_max_tokens_never_sees_it() -> None:
    error = refuses(
        400,
        "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens'.",
        param="max_tokens",
        code="unsupported_parameter",
    )
    with FakeEndpoint(unless(lambda body: "max_tokens" in body, error)) as fake:
        reply = ask(fake, max_reply_tokens=50)
    assert reply.text == "fine"
    assert len(fake.requests) == 1


@pytest.mark.parametrize(
    "error",
    [
        refuses(400, "unrecognized argument max_completion_tokens"),
        refuses(400, "no", param="max_completion_tokens", code="unsupported_parameter"),
        extra_forbidden("max_completion_tokens"),
        answer({"error": "Unknown field max_completion_tokens"}, 400),
        answer([{"error": {"message": "bad field: max_completion_tokens"}}], 400),
        answer(b"max_completion_tokens: unexpected", 400),
        answer({"message": '{"error": {"message": "what is max_completion_tokens?"}}'}, 400),
        answer({"error": {"message": "template engine: max_completion_tokens", "code": 500}}, 500),
    ],
)
def test_the_old_name_is_tried_when_the_new_one_is_refused(error: Scripted) -> None:
    with (
        FakeEndpoint(unless(lambda body: "max_completion_tokens" in body, error)) as fake,
        Asker(fake, max_reply_tokens=50) as asker,
    ):
        assert asker.ask().text == "fine"
        assert asker.ask().text == "fine"
    caps = [{key: body[key] for key in body if key.startswith("max")} for body in fake.bodies]
    assert caps == [{"max_completion_tokens": 50}, {"max_tokens": 50}, {"max_tokens": 50}]


def test_neither_name_is_sent_when_both_are_refused_and_the_reply_says_so() -> None:
    def script(body: Body, _headers: Mapping[str, str]) -> Scripted:
        caps = [name for name in body if name.startswith("max")]
        return extra_forbidden(caps[0]) if caps else says()

    with FakeEndpoint(script) as fake:
        reply = ask(fake, max_reply_tokens=50)
    assert reply.notes == ("reply cap not applied",)
    assert reply.usage.calls == 1
    assert [len(body) for body in fake.bodies] == [3, 3, 2]


def test_a_cap_above_the_models_own_is_lowered_to_it() -> None:
    message = "max_tokens is too large: 100000. This model supports at most 16384 completion tokens."
    error = refuses(400, message, param="max_completion_tokens", code="invalid_value")
    with FakeEndpoint(unless(lambda body: body["max_completion_tokens"] > 16384, error)) as fake:
        reply = ask(fake, max_reply_tokens=100_000)
    assert fake.bodies[-1]["max_completion_tokens"] == 16384
    assert reply.notes == ("reply cap lowered to 16384, the endpoint's largest",)


@pytest.mark.parametrize(
    "error",
    [
        refuses(400, "no", param="temperature", code="unsupported_value"),
        refuses(400, "no", param="temperature", code="unsupported_parameter"),
        refuses(400, "invalid temperature: only 0.6 is allowed for this model"),
        refuses(400, "only 0.6 is allowed"),
        extra_forbidden("temperature"),
    ],
)
def test_a_refused_temperature_is_dropped_remembered_and_noted(error: Scripted) -> None:
    with (
        FakeEndpoint(unless(lambda body: "temperature" in body, error)) as fake,
        Asker(fake, temperature=0.0) as asker,
    ):
        replies = [asker.ask(), asker.ask()]
    assert [reply.notes for reply in replies] == [("temperature not applied",)] * 2
    assert ["temperature" in body for body in fake.bodies] == [True, False, False]


@pytest.mark.parametrize(
    "error",
    [
        refuses(400, "Unsupported parameter", param="stop", code="unsupported_parameter"),
        answer({"code": "invalid argument", "error": "argument not supported on this model: stop"}, 400),
    ],
)
def test_a_refused_stop_is_dropped_and_the_cut_is_made_here(error: Scripted) -> None:
    def script(body: Body, _headers: Mapping[str, str]) -> Scripted:
        return error if "stop" in body else says("Action: ls\nObservation: invented")

    with FakeEndpoint(script) as fake, Asker(fake) as asker:
        for _ in range(2):
            assert asker.ask(stop=["\nObservation:"]).text == "Action: ls"
    assert ["stop" in body for body in fake.bodies] == [True, False, False]


def test_several_refusals_in_a_row_are_all_learned() -> None:
    def script(body: Body, _headers: Mapping[str, str]) -> Scripted:
        for name in ("stop", "temperature", "max_completion_tokens"):
            if name in body:
                return extra_forbidden(name)
        return says("fine")

    with FakeEndpoint(script) as fake:
        reply = ask(fake, temperature=0.2, max_reply_tokens=9, stop=["x"])
    assert reply.text == "fine"
    assert set(fake.bodies[-1]) == {"model", "messages", "max_tokens"}


def test_a_setting_of_the_users_own_that_is_refused_is_named() -> None:
    error = extra_forbidden("reasoning_effort")
    with (
        FakeEndpoint(unless(lambda _body: True, error)) as fake,
        pytest.raises(EndpointFault, match=r"refuses the request \(422: Extra inputs"),
    ):
        ask(fake, extra_body={"reasoning_effort": "extreme"})
    assert len(fake.requests) == 1


@pytest.mark.parametrize(
    "error",
    [
        refuses(400, "Unsupported value", param="messages[0].role", code="unsupported_value"),
        refuses(400, "Conversation roles must alternate user/assistant/user/assistant/..."),
        refuses(500, "Only user, assistant and tool roles are supported, got system"),
        answer({"error": "System role not supported", "error_type": "generation"}, 424),
    ],
)
def test_a_refused_system_role_is_folded_into_the_first_user_message(error: Scripted) -> None:
    def is_refused(body: Body) -> bool:
        return bool(body["messages"][0]["role"] == "system")

    messages = conversation("one", "two", "three", system="rules")
    with FakeEndpoint(unless(is_refused, error)) as fake, Asker(fake) as asker:
        replies = [asker.ask(messages), asker.ask(messages)]
    assert [len(body["messages"]) for body in fake.bodies] == [4, 3, 3]
    assert fake.bodies[-1]["messages"][0] == {"role": "user", "content": "rules\n\none"}
    assert replies[1].notes == ("system message sent as part of the first user message",)


def test_system_messages_become_one_and_roles_take_turns() -> None:
    messages = [
        *conversation("one", "two", system="rules"),
        *conversation("three", system="more rules"),
        *conversation("four"),
    ]
    with FakeEndpoint([says()]) as fake:
        ask(fake, messages)
    assert fake.bodies[0]["messages"] == [
        {"role": "system", "content": "rules\n\nmore rules"},
        {"role": "user", "content": "one"},
        {"role": "assistant", "content": "two"},
        {"role": "user", "content": "three\n\nfour"},
    ]


def test_the_last_message_is_always_a_users() -> None:
    with FakeEndpoint([says(), says()]) as fake:
        ask(fake, conversation("one", "cut off he"))
        ask(fake, conversation(system="rules")[:1])
    assert [message["role"] for message in fake.bodies[0]["messages"]] == ["user", "assistant", "user"]
    assert fake.bodies[1]["messages"] == [{"role": "user", "content": "rules"}]


def test_messages_go_out_with_role_and_content_alone() -> None:
    poisoned: Any = {"role": "assistant", "content": "", "reasoning_content": "r", "tool_calls": None}
    with FakeEndpoint([says()]) as fake:
        ask(fake, [*conversation("one"), poisoned, *conversation("two")])
    assert all(set(message) == {"role", "content"} for message in fake.bodies[0]["messages"])
    assert all(message["content"] for message in fake.bodies[0]["messages"])


def test_surrogates_are_replaced_on_the_way_out() -> None:
    with FakeEndpoint([says()]) as fake:
        ask(fake, conversation("tool said a\ud800b"))
    assert fake.bodies[0]["messages"][0]["content"] == "tool said a\ufffdb"


@pytest.mark.parametrize("name", ["org/m:free", "hf.co/a/b:Q3_K_M", "ollama/m", "my model"])
def test_model_names_are_sent_untouched(name: str) -> None:
    with FakeEndpoint([says()]) as fake:
        ask(fake, name=name)
    assert fake.bodies[0]["model"] == name


@pytest.mark.parametrize(
    "message",
    [
        "This model's maximum context length is 6048 tokens. However, you requested 6616 tokens "
        "(568 in the messages, 6048 in the completion). Please reduce the length of the messages or completion.",
        "'max_completion_tokens' is too large: 6048. This model's maximum context length is 6048 tokens and your "
        "request has 568 input tokens (6048 > 6048 - 568).",
    ],
)
def test_a_cap_that_does_not_fit_beside_the_prompt_is_shrunk_for_this_call(message: str) -> None:
    error = refuses(400, message)
    with (
        FakeEndpoint(unless(lambda body: body["max_completion_tokens"] > 5480, error)) as fake,
        Asker(fake, max_reply_tokens=6048) as asker,
    ):
        reply = asker.ask()
        assert asker.endpoint.dialect.largest_cap is None
    assert fake.bodies[-1]["max_completion_tokens"] == 5464
    assert reply.notes == ("reply cap lowered to 5464 to fit the window",)


def test_a_prompt_that_does_not_fit_by_itself_is_an_overflow_whatever_the_cap() -> None:
    message = (
        "This model's maximum context length is 500 tokens (800 in the messages, 100 in the completion)."
    )
    with (
        FakeEndpoint(unless(lambda _body: True, refuses(400, message))) as fake,
        pytest.raises(ContextOverflow),
    ):
        ask(fake, max_reply_tokens=100)
    assert len(fake.requests) == 1


def test_what_two_calls_learn_at_the_same_time_is_not_forgotten() -> None:
    """The second call's refusal comes when the first has already learned something else."""
    both_sent, first_learned = threading.Event(), threading.Event()

    def script(body: Body, _headers: Mapping[str, str]) -> Scripted:
        number = len(fake.requests)
        if number == 1:
            assert both_sent.wait(30)
        elif number == 2:
            both_sent.set()
            assert first_learned.wait(30)
            return extra_forbidden("stop")
        if "temperature" not in body:
            first_learned.set()
        refused = [name for name in ("temperature", "stop") if name in body]
        return extra_forbidden(refused[0]) if refused else says("fine")

    async def two_calls(endpoint: Endpoint) -> list[Reply]:
        calls = [endpoint.complete(conversation(), deadline_seconds=60, stop=["x"]) for _ in range(2)]
        return await asyncio.gather(*calls)

    with FakeEndpoint(script) as fake, Asker(fake, temperature=0.5) as asker:
        replies = asker.run(two_calls(asker.endpoint))
    assert [reply.text for reply in replies] == ["fine", "fine"]
    assert ["temperature" in body for body in fake.bodies].count(True) == 2
