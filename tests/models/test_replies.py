"""What comes back with status 200, in every shape that endpoints give it."""

from __future__ import annotations

from typing import Any

import pytest

from pytest_imaging101.faults import BadReply, EndpointFault, ModelNotFound
from pytest_imaging101.models.base import ContextOverflow, Refused
from tests.models.asking import QUICK, Asker, ask, conversation
from tests.models.fake_endpoint import FakeEndpoint, Scripted, answer, completion, page, says


def without(body: dict[str, Any], *keys: str) -> dict[str, Any]:
    return {key: value for key, value in body.items() if key not in keys}


def test_a_plain_reply() -> None:
    with FakeEndpoint([says("hello")]) as fake:
        reply = ask(fake, prices_usd_per_million=(1.0, 2.0))
    assert (reply.text, reply.finish_reason, reply.reasoning, reply.notes) == ("hello", "stop", "", ())
    assert (reply.usage.calls, reply.usage.prompt_tokens, reply.usage.completion_tokens) == (1, 12, 5)
    assert reply.usage.cost_usd == pytest.approx(22e-6)
    assert reply.seconds > 0


@pytest.mark.parametrize(
    "fields",
    [
        {"reasoning": "because"},
        {"reasoning_content": "because"},
        {"reasoning_details": [{"type": "reasoning.text", "text": "because"}]},
        {"reasoning_details": [{"type": "reasoning.summary", "summary": "because"}]},
    ],
)
def test_reasoning_is_kept_apart_under_all_its_names(fields: dict[str, Any]) -> None:
    with FakeEndpoint([says("a", **fields)]) as fake:
        reply = ask(fake)
    assert (reply.text, reply.reasoning) == ("a", "because")


@pytest.mark.parametrize("content", ["<think>x</think>Action", "x</think>Action"])
def test_thinking_in_the_content_is_moved_to_reasoning(content: str) -> None:
    with FakeEndpoint([says(content)]) as fake:
        reply = ask(fake)
    assert (reply.text, reply.reasoning) == ("Action", "x")


def test_stop_markers_in_the_thinking_cut_nothing() -> None:
    with FakeEndpoint([says("<think>\nObservation: no</think>Action\nObservation: yes")]) as fake:
        assert ask(fake, stop=["\nObservation:"]).text == "Action"


def test_content_in_parts_is_joined() -> None:
    parts = [
        {"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]},
        {"type": "text", "text": "one "},
        {"type": "text", "text": "two"},
    ]
    with FakeEndpoint([says(parts)]) as fake:
        reply = ask(fake)
    assert (reply.text, reply.reasoning) == ("one two", "hm")


@pytest.mark.parametrize(
    "spent",
    [
        says("", "length", reasoning="2000 words"),
        says("<think>x", "length"),
        says(None, "length", reasoning="r"),
    ],
)
def test_a_budget_spent_on_thinking_gets_one_larger_cap(spent: Scripted) -> None:
    with FakeEndpoint([spent, says("Action")]) as fake:
        reply = ask(fake, max_reply_tokens=100)
    assert [body["max_completion_tokens"] for body in fake.bodies] == [100, 200]
    assert reply.text == "Action"
    assert reply.notes == ("reply cap raised once to 200: budget exhausted by reasoning",)
    assert (reply.usage.calls, reply.usage.completion_tokens) == (2, 10)


def test_a_budget_spent_twice_is_an_empty_reply_that_says_why() -> None:
    spent = says("", "length", reasoning="words")
    with FakeEndpoint([spent, spent, spent]) as fake:
        capped = ask(fake, max_reply_tokens=100)
        uncapped = ask(fake)
    assert (capped.text, capped.finish_reason) == ("", "length")
    assert "budget exhausted by reasoning" in capped.notes
    assert uncapped.notes == ("budget exhausted by reasoning",)
    assert len(fake.requests) == 3


def test_an_empty_answer_is_a_reply_with_a_note() -> None:
    with FakeEndpoint(
        [says("", reasoning="r"), says(None), says(None, "tool_calls", tool_calls=[{}])]
    ) as fake:
        replies = [ask(fake), ask(fake), ask(fake)]
    assert [reply.text for reply in replies] == ["", "", ""]
    assert [reply.notes for reply in replies] == [
        ("empty answer",),
        ("empty answer",),
        ("tool calls in place of text",),
    ]


def test_a_server_side_stop_inside_the_thinking_is_tried_again_without_it() -> None:
    def script(body: dict[str, Any], _headers: Any) -> Scripted:
        return (
            says("<think>I expect") if "stop" in body else says("<think>I expect\nEND</think>Action\nEND x")
        )

    with FakeEndpoint(script) as fake:
        assert ask(fake, stop=["\nEND"]).text == "Action"
    assert len(fake.requests) == 2


def test_tool_calls_with_broken_arguments_are_never_sent_back() -> None:
    call = {"id": "1", "type": "function", "function": {"name": "f", "arguments": '{"a": '}}
    with FakeEndpoint([says("text", tool_calls=[call]), says()]) as fake, Asker(fake) as asker:
        text = asker.ask().text
        asker.ask(conversation("one", text, "two"))
    assert '"a"' not in str(fake.bodies[1])


@pytest.mark.parametrize(
    "reason", ["end_turn", "model_context_window_exceeded", "eos", "Größe", None, 7, {"odd": 1}]
)
def test_an_unknown_finish_reason_is_kept_as_it_is(reason: Any) -> None:
    with FakeEndpoint([says("text", reason)]) as fake:
        reply = ask(fake)
    assert reply.text == "text"
    assert reply.finish_reason == (reason if isinstance(reason, str) else None)


@pytest.mark.parametrize("reason", ["network_error", "error", "abort"])
def test_a_reply_that_the_endpoint_broke_off_is_tried_again(reason: str) -> None:
    with FakeEndpoint([says("half", reason), says("whole")]) as fake:
        assert ask(fake).text == "whole"
    with (
        FakeEndpoint([says("half", reason)] * 3) as fake,
        pytest.raises(EndpointFault, match=f"finish_reason {reason}"),
    ):
        ask(fake)
    assert len(fake.requests) == QUICK.tries


@pytest.mark.parametrize(
    "filtered",
    [
        says("half a sen", "content_filter"),
        answer({**completion(), "choices": [{"index": 0, "message": {}, "finish_reason": "content_filter"}]}),
        answer({**completion(), "choices": [{"index": 0, "finish_reason": "content_filter"}]}),
        says("x", "sensitive"),
        says(None, "stop", refusal="I cannot help with that."),
        answer(
            {"id": "x", "prompt_filter_results": [{"content_filter_results": {"hate": {"filtered": True}}}]}
        ),
        answer({"id": "x", "promptFeedback": {"blockReason": "SAFETY"}}),
        answer({"error": {"message": "blocked", "code": "content_filter", "innererror": {}}}, 400),
        answer({"error": {"code": "x", "innererror": {"code": "ResponsibleAIPolicyViolation"}}}, 400),
        answer({"error": {"message": "triggered our content management policy"}}, 400),
        answer({"error": {"message": "no", "code": "data_inspection_failed"}}, 400),
    ],
)
def test_every_shape_of_a_content_filter_is_refused_and_not_tried_again(filtered: Scripted) -> None:
    with FakeEndpoint([filtered]) as fake, pytest.raises(Refused, match="content filter"):
        ask(fake)
    assert len(fake.requests) == 1


def test_what_a_filtered_reply_cost_is_on_the_meter() -> None:
    with FakeEndpoint([says("half", "content_filter")]) as fake, Asker(fake) as asker:
        with pytest.raises(Refused):
            asker.ask()
        assert asker.endpoint.usage.tokens == 17


@pytest.mark.parametrize(
    "body",
    [
        {"error": {"message": "upstream", "code": 502}},
        {"error": {"message": "upstream", "code": "502"}},
        {"error": "upstream is busy"},
        {"choices": None, "error": {"message": "upstream"}},
        [{"error": {"message": "upstream", "code": 503}}],
        {"choices": [{"error": {"message": "upstream", "code": 502}}]},
    ],
)
def test_an_error_inside_a_200_is_tried_again(body: Any) -> None:
    with FakeEndpoint([answer(body), says("whole")]) as fake:
        assert ask(fake).text == "whole"
    with FakeEndpoint([answer(body)] * 3) as fake, pytest.raises(EndpointFault, match="upstream"):
        ask(fake)


def test_an_error_inside_a_200_keeps_its_meaning() -> None:
    missing = answer({"error": {"message": "No such thing", "code": "model_not_found"}})
    too_long = answer({"error": {"message": "no", "code": "context_length_exceeded"}})
    with FakeEndpoint([missing, too_long]) as fake:
        with pytest.raises(ModelNotFound):
            ask(fake)
        with pytest.raises(ContextOverflow):
            ask(fake)


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (answer({**completion(), "choices": []}), "no choices"),
        (answer({"id": "x"}), "no choices"),
        (answer({**completion(), "choices": None}), "no choices"),
        (answer({**completion(), "choices": [None]}), "no choices"),
        (answer({**completion(), "choices": {"0": {}}}), "no choices"),
        (answer({**completion(), "choices": [{"message": None}]}), "a choice without a message"),
        (answer({**completion(), "choices": [{"message": {"content": 5}}]}), "content is no text"),
        (answer(None), "JSON that is no object"),
        (answer([]), "JSON that is no object"),
        (answer(b""), "an empty body"),
        (answer(b"  \n"), "an empty body"),
        (answer(b"{'a': 1}"), "text that is not JSON"),
        (answer(b'{"id": "x", "choi'), "text that is not JSON"),
        (answer(b"[" * 100_000), "text that is not JSON"),
        (answer(b"data: {}\n\n", headers={"Content-Type": "text/event-stream"}), "text that is not JSON"),
    ],
)
def test_what_is_no_completion_is_a_bad_reply_after_a_few_tries(body: Scripted, said: str) -> None:
    with FakeEndpoint([body, says("whole")]) as fake:
        assert ask(fake).text == "whole"
    with FakeEndpoint([body] * 4) as fake, pytest.raises(BadReply, match=said) as caught:
        ask(fake)
    assert len(fake.requests) == QUICK.bad_reply_tries
    assert f"{fake.base_url}/chat/completions" in str(caught.value)


@pytest.mark.parametrize("kind", ["text/html", "application/json"])
def test_a_web_page_says_so_at_once_and_points_at_base_url(kind: str) -> None:
    html = b"<html><head><title>login</title></head></html>"
    with (
        FakeEndpoint([answer(html, headers={"Content-Type": kind})]) as fake,
        pytest.raises(BadReply) as caught,
    ):
        ask(fake)
    assert len(fake.requests) == 1
    for words in ("a web page", "check --base-url", "<title>login</title>"):
        assert words in str(caught.value)


def test_a_page_that_is_a_whole_site_is_quoted_in_part() -> None:
    with FakeEndpoint([page("<html>" + "x" * 10_000)]) as fake, pytest.raises(BadReply) as caught:
        ask(fake)
    assert len(str(caught.value)) < 500


@pytest.mark.parametrize(
    ("usage", "known"),
    [(None, False), ({"total_tokens": 5}, False), ("gone", False), ({"prompt_tokens": 1}, False)],
)
def test_missing_usage_is_estimated_and_marked(usage: Any, known: bool) -> None:
    body = completion("x" * 40) if usage == "gone" else {**completion("x" * 40), "usage": usage}
    body = without(body, "usage") if usage == "gone" else body
    with FakeEndpoint([answer(body)]) as fake:
        reply = ask(fake, conversation("y" * 400))
    assert reply.usage.estimated is not known
    assert reply.usage.completion_tokens == 10
    assert reply.usage.prompt_tokens >= 1


@pytest.mark.parametrize(
    ("body", "text"),
    [
        (b'{"choices":[{"message":{"content":"a\\ud800b"},"finish_reason":"stop"}]}', "a\ufffdb"),
        (b'{"choices":[{"message":{"content":"a\xff\xfeb"},"finish_reason":"stop"}]}', "a\ufffd\ufffdb"),
        (b'\xef\xbb\xbf{"choices":[{"message":{"content":"a"},"finish_reason":"stop"}]}', "a"),
        (
            '{"choices":[{"message":{"content":"Größe"},"finish_reason":"stop"}]}'.encode("latin-1"),
            "Gr\ufffd\ufffde",
        ),
    ],
)
def test_unclean_text_is_cleaned_on_the_way_in(body: bytes, text: str) -> None:
    with FakeEndpoint([answer(body, headers={"Content-Type": "application/json; charset=latin-1"})]) as fake:
        assert ask(fake).text == text


def test_a_prompt_that_the_server_cut_in_silence_is_noted() -> None:
    with FakeEndpoint([says(), says()]) as fake:
        cut, whole = ask(fake, conversation("word " * 2000)), ask(fake)
    assert "counted 12 prompt tokens where about 2500 were sent" in cut.notes[0]
    assert whole.notes == ()
