"""What a model is to the rest: messages in, a reply and its usage out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, TypedDict

from pytest_imaging101.budget import Usage


class Message(TypedDict):
    """One turn of a conversation."""

    role: Literal["system", "user", "assistant"]
    content: str


@dataclass(frozen=True)
class ModelSettings:
    """One model at one endpoint. ``api_key`` never leaves the broker and never appears in a repr."""

    name: str
    base_url: str | None = None
    api_key: str | None = field(default=None, repr=False)
    temperature: float | None = None
    max_reply_tokens: int | None = None
    context_tokens: int | None = None
    extra_body: Mapping[str, Any] = field(default_factory=dict)
    prices_usd_per_million: tuple[float, float] | None = None

    def parameters(self) -> dict[str, Any]:
        """What belongs to an attempt's key: everything that changes replies, no secrets."""
        return {
            "name": self.name,
            "temperature": self.temperature,
            "max_reply_tokens": self.max_reply_tokens,
            "extra_body": dict(self.extra_body),
        }


@dataclass(frozen=True)
class Reply:
    """A model's answer. ``notes`` says what was adapted ("temperature not applied") or looked odd."""

    text: str
    finish_reason: str | None
    usage: Usage
    seconds: float
    reasoning: str = ""
    notes: tuple[str, ...] = ()
    waited_seconds: float = 0.0


class Refused(Exception):
    """The endpoint's content filter refused the prompt or the reply: the agent's end, not a fault."""


class ContextOverflow(Exception):
    """The messages do not fit the model's window, said by the endpoint."""


class OutOfTime(Exception):
    """The deadline that the caller gave passed before a reply came."""


class Model(Protocol):
    """Anything that answers messages. ``deadline_seconds`` bounds the whole call with all its retries."""

    name: str

    def complete(
        self, messages: Sequence[Message], *, deadline_seconds: float, stop: Sequence[str] = ()
    ) -> Reply:
        """Raises Refused, ContextOverflow, OutOfTime, or an EndpointFault once retries are spent."""
