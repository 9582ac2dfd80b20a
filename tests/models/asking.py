"""One endpoint asked from plain test functions, with retries that take no time."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Sequence
from typing import Any, TypeVar

from pytest_imaging101.models.base import Message, ModelSettings, Reply
from pytest_imaging101.models.endpoint import Endpoint
from pytest_imaging101.models.retries import RetryPolicy
from pytest_imaging101.models.wire import Probe
from tests.models.fake_endpoint import FakeEndpoint

T = TypeVar("T")

QUICK = RetryPolicy(
    tries=3, bad_reply_tries=3, rate_limit_seconds=5.0, first_seconds=0.001, longest_seconds=0.002
)


def conversation(*contents: str, system: str = "") -> list[Message]:
    """User and assistant in turn, the user first."""
    messages: list[Message] = [{"role": "system", "content": system}] if system else []
    for place, content in enumerate(contents or ("hi",)):
        messages.append({"role": "assistant" if place % 2 else "user", "content": content})
    return messages


class Asker:
    """An endpoint in an event loop of its own; ``with Asker(fake, temperature=0.0) as asker: asker.ask()``."""

    def __init__(self, fake: FakeEndpoint, *, policy: RetryPolicy = QUICK, **settings: Any) -> None:
        fields = {"name": "m", "base_url": fake.base_url, **settings}
        self.endpoint = Endpoint(ModelSettings(**fields), policy=policy)
        self._runner = asyncio.Runner()

    def ask(
        self,
        messages: Sequence[Message] | None = None,
        *,
        deadline_seconds: float = 60.0,
        stop: Sequence[str] = (),
    ) -> Reply:
        """One call."""
        return self.run(
            self.endpoint.complete(messages or conversation(), deadline_seconds=deadline_seconds, stop=stop)
        )

    def probe(self, **arguments: Any) -> Probe:
        return self.run(self.endpoint.probe(**arguments))

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Something else in the endpoint's event loop."""
        return self._runner.run(work)

    def __enter__(self) -> Asker:
        return self

    def __exit__(self, *_: object) -> None:
        self._runner.run(self.endpoint.close())
        self._runner.close()


def ask(fake: FakeEndpoint, messages: Sequence[Message] | None = None, **settings: Any) -> Reply:
    """One call of a new endpoint."""
    calling = {key: settings.pop(key) for key in ("deadline_seconds", "stop") if key in settings}
    with Asker(fake, **settings) as asker:
        return asker.ask(messages, **calling)
