"""A chat completion's body read as text, reasoning and finish reason, whatever dialect it is in."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pytest_imaging101.models.rejections import Rejected, is_web_page, read_rejection
from pytest_imaging101.models.text import clean, split_thinking

TRUNCATED = frozenset({"length", "max_tokens", "model_context_window_exceeded"})
_FILTERED = frozenset({"content_filter", "sensitive", "safety", "prohibited_content", "blocklist", "refusal"})
_BROKEN = frozenset({"network_error", "error", "abort"})
_REASONING_KEYS = ("reasoning_content", "reasoning", "reasoning_details")


class Unreadable(Exception):
    """A body with status 200 that is no completion; ``what`` fits into a sentence."""

    def __init__(self, what: str, *, final: bool = False) -> None:
        super().__init__(what)
        self.what = what
        self.final = final


@dataclass(frozen=True)
class Answer:
    """The first choice. ``finish_reason`` is raw; ``text`` has neither thinking nor anything unclean."""

    text: str
    reasoning: str
    finish_reason: str | None
    usage: Any
    refusal: str = ""
    has_tool_calls: bool = False
    characters: int = 0

    @property
    def is_empty(self) -> bool:
        return not self.text.strip()

    @property
    def is_truncated(self) -> bool:
        return _folded(self.finish_reason) in TRUNCATED

    @property
    def is_filtered(self) -> bool:
        return _folded(self.finish_reason) in _FILTERED or (self.is_empty and bool(self.refusal))

    @property
    def is_broken(self) -> bool:
        """The endpoint itself says that something failed while it answered."""
        return _folded(self.finish_reason) in _BROKEN


def read_answer(body: Any, headers: Mapping[str, str]) -> Answer:
    """Read what ``parsed`` returned. Raises Rejected for an error inside a 200, Unreadable for anything else."""
    if isinstance(body, str):
        if is_web_page(body):
            raise Unreadable("a web page", final=True)
        raise Unreadable("text that is not JSON" if body.strip() else "an empty body")
    if not isinstance(body, dict):
        if isinstance(body, list) and any(isinstance(item, dict) and item.get("error") for item in body):
            raise Rejected(read_rejection(200, body), headers)
        raise Unreadable(f"JSON that is no object ({type(body).__name__})")
    choices = body.get("choices")
    if not choices and (body.get("error") or body.get("detail")):
        raise Rejected(read_rejection(200, body), headers)
    choice = choices[0] if isinstance(choices, list) and choices else None
    if choice is None and _says_filtered(body):
        return Answer("", "", "content_filter", body.get("usage"))
    if not isinstance(choice, dict):
        raise Unreadable("no choices")
    if choice.get("error") and not choice.get("message"):
        raise Rejected(read_rejection(200, choice), headers)
    return _from_choice(choice, body.get("usage"))


def _from_choice(choice: dict[str, Any], usage: Any) -> Answer:
    finish = choice.get("finish_reason")
    finish = finish if isinstance(finish, str) else None
    message = choice.get("message")
    if not isinstance(message, dict):
        if _folded(finish) in _FILTERED | _BROKEN:
            return Answer("", "", finish, usage)
        raise Unreadable("a choice without a message")
    content, in_parts = _content(message.get("content"))
    thinking, text = split_thinking(clean(content))
    stated = next((_flat(message[key]) for key in _REASONING_KEYS if message.get(key)), "")
    reasoning = "\n\n".join(part for part in (clean(stated), clean(in_parts), thinking) if part)
    refusal = message.get("refusal")
    return Answer(
        text=text,
        reasoning=reasoning,
        finish_reason=None if finish is None else clean(finish),
        usage=usage,
        refusal=clean(refusal) if isinstance(refusal, str) else "",
        has_tool_calls=bool(message.get("tool_calls")),
        characters=len(text) + len(reasoning),
    )


def _content(content: Any) -> tuple[str, str]:
    """Text and thinking of a content field: a string, nothing, or a list of typed parts."""
    if content is None:
        return "", ""
    if isinstance(content, str):
        return content, ""
    if not isinstance(content, list):
        raise Unreadable(f"a message whose content is no text ({type(content).__name__})")
    texts: list[str] = []
    thoughts: list[str] = []
    for part in content:
        if isinstance(part, str):
            texts.append(part)
        elif isinstance(part, dict) and ("thinking" in part or part.get("type") in ("thinking", "reasoning")):
            thoughts.append(_flat(part))
        elif isinstance(part, dict):
            texts.append(_flat(part.get("text", "")))
    return "".join(texts), "\n".join(thoughts)


def _flat(value: Any) -> str:
    """The text in a nest of lists and objects, as ``reasoning_details`` are."""
    if isinstance(value, str):
        return value
    if isinstance(value, list):
        return "\n".join(text for item in value if (text := _flat(item)))
    if isinstance(value, dict):
        keys = ("text", "thinking", "summary", "reasoning", "content")
        return "\n".join(text for key in keys if (text := _flat(value.get(key))))
    return ""


def _says_filtered(value: Any) -> bool:
    """Whether a body without choices says that a filter stopped it."""
    if isinstance(value, dict):
        if value.get("filtered") is True or value.get("blockReason") or value.get("block_reason"):
            return True
        return any(_says_filtered(item) for item in value.values())
    return isinstance(value, list) and any(_says_filtered(item) for item in value)


def _folded(finish_reason: str | None) -> str:
    return (finish_reason or "").casefold()
