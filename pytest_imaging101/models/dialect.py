"""The request as one endpoint takes it for one model: what it was found to refuse is left out from then on."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from pytest_imaging101.models.base import Message, ModelSettings
from pytest_imaging101.models.kinds import Kind, kind_of
from pytest_imaging101.models.rejections import Rejection
from pytest_imaging101.models.text import clean

CAPS = ("max_completion_tokens", "max_tokens")
_MOST_STOPS = 4
_MARGIN_TOKENS = 16
_ROLE = re.compile(
    r"system (role|message|prompt|instruction)|roles?\b.{0,60}\bsystem\b|got system|roles must alternate|messages\.0"
)
_LIMIT = re.compile(
    r"(?:at most|up to|maximum(?: value)?(?: of| is)?|less than or equal to|<=|\[\d+,) *`?(\d{2,9})\b"
)
_WINDOW = re.compile(r"context (?:length|window|size)[^.\d]{0,40}?(\d{3,8})\b")
_PROMPT = re.compile(
    r"(\d+) (?:tokens )?(?:in|from) the (?:messages|prompt|input)|(\d+) (?:input|prompt) tokens"
)


@dataclass(frozen=True)
class Dialect:
    """What is sent. ``caps`` are the names for the reply's cap still to be tried, best first."""

    caps: tuple[str, ...] = CAPS
    largest_cap: int | None = None
    temperature: bool = True
    stop: bool = True
    system: bool = True

    def body(
        self, settings: ModelSettings, messages: Sequence[Message], stop: Sequence[str], cap: int | None
    ) -> dict[str, Any]:
        """The JSON body of a request. ``extra_body`` of the settings has the last word."""
        body: dict[str, Any] = {"model": settings.name, "messages": outgoing(messages, system=self.system)}
        if cap is not None and self.caps and not any(name in settings.extra_body for name in CAPS):
            body[self.caps[0]] = min(cap, self.largest_cap or cap)
        if settings.temperature is not None and self.temperature:
            body["temperature"] = settings.temperature
        if stop and self.stop:
            body["stop"] = list(stop[:_MOST_STOPS])
        return {**body, **settings.extra_body}

    def after(self, rejection: Rejection, body: Mapping[str, Any]) -> Dialect | None:
        """The dialect without what the endpoint refused of ``body``; None if it refused nothing we may leave out."""
        if kind_of(rejection) not in (Kind.REQUEST, Kind.TRANSIENT) or rejection.status in (502, 503, 504):
            return None
        text = rejection.text.casefold()
        cap = self.caps[0] if self.caps else ""
        if cap in body and _points_at(cap, rejection, text):
            largest = next((int(n) for n in _LIMIT.findall(text) if 0 < int(n) < body[cap]), None)
            return replace(self, largest_cap=largest) if largest else replace(self, caps=self.caps[1:])
        if self.temperature and "temperature" in body:
            pinned = re.search(r"only [\d.]+ is allowed", text) is not None
            if pinned or _points_at("temperature", rejection, text):
                return replace(self, temperature=False)
        if self.system and body["messages"][0]["role"] == "system" and _refuses_role(rejection, text):
            return replace(self, system=False)
        if self.stop and "stop" in body and _points_at("stop", rejection, text):
            return replace(self, stop=False)
        return None

    def notes(self, settings: ModelSettings) -> tuple[str, ...]:
        """What the settings asked for and this endpoint does not get."""
        wanted = settings.max_reply_tokens
        notes = []
        if settings.temperature is not None and not self.temperature:
            notes.append("temperature not applied")
        if wanted is not None and not self.caps:
            notes.append("reply cap not applied")
        if wanted is not None and self.largest_cap is not None and self.largest_cap < wanted:
            notes.append(f"reply cap lowered to {self.largest_cap}, the endpoint's largest")
        if not self.system:
            notes.append("system message sent as part of the first user message")
        return tuple(notes)


def outgoing(messages: Sequence[Message], *, system: bool) -> list[dict[str, str]]:
    """Messages with role and content alone, clean Unicode, one system message at most, roles in turn, a user's last.

    With ``system`` false the system text stands at the head of the first user message.
    """
    preamble = "\n\n".join(clean(message["content"]) for message in messages if message["role"] == "system")
    turns: list[dict[str, str]] = []
    if preamble and not system:
        turns.append({"role": "user", "content": preamble})
    for message in messages:
        role, content = message["role"], clean(message["content"])
        if role == "system":
            continue
        if role == "assistant" and not content.strip():
            content = "(no answer)"
        if turns and turns[-1]["role"] == role:
            turns[-1]["content"] += "\n\n" + content
        else:
            turns.append({"role": role, "content": content})
    if not turns:
        return [{"role": "user", "content": preamble}]
    if turns[-1]["role"] == "assistant":
        turns.append({"role": "user", "content": "Continue."})
    return [{"role": "system", "content": preamble}, *turns] if preamble and system else turns


def room_for_reply(rejection: Rejection) -> int | None:
    """Tokens left for the reply where a prompt fits the window and only prompt and cap together do not."""
    text = rejection.text.casefold()
    window = rejection.fields.get("n_ctx") or _first(_WINDOW, text)
    prompt = rejection.fields.get("n_prompt_tokens") or _first(_PROMPT, text)
    if not isinstance(window, int) or not isinstance(prompt, int):
        return None
    room = window - prompt - _MARGIN_TOKENS
    return room if room > 0 else None


def _first(pattern: re.Pattern[str], text: str) -> int | None:
    found = pattern.search(text)
    return int(next(group for group in found.groups() if group)) if found else None


def _points_at(name: str, rejection: Rejection, text: str) -> bool:
    if rejection.params:
        return any(name in re.split(r"[.\[\]]", param) for param in rejection.params)
    return re.search(rf"\b{name}\b", text) is not None


def _refuses_role(rejection: Rejection, text: str) -> bool:
    by_field = any(param.startswith("messages") and "role" in param for param in rejection.params)
    return by_field or _ROLE.search(text) is not None
