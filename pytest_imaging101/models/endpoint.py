"""One model at one OpenAI-compatible endpoint: the SDK's client, one request at a time, and a cheap probe."""

from __future__ import annotations

import asyncio
import importlib
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pytest_imaging101.budget import Usage
from pytest_imaging101.faults import EndpointFault, UsageError
from pytest_imaging101.models.address import Address, without_secrets
from pytest_imaging101.models.answers import Answer, Unreadable, read_answer
from pytest_imaging101.models.base import ContextOverflow, Message, ModelSettings, OutOfTime, Refused, Reply
from pytest_imaging101.models.calls import Call
from pytest_imaging101.models.dialect import Dialect
from pytest_imaging101.models.errors import Retry, bad_reply, broken_connection, trouble_of
from pytest_imaging101.models.kinds import Kind, kind_of
from pytest_imaging101.models.limiter import Limiter
from pytest_imaging101.models.prices import usage_of
from pytest_imaging101.models.rejections import Rejected, parsed, read_rejection
from pytest_imaging101.models.retries import RetryPolicy
from pytest_imaging101.models.wire import Probe

if TYPE_CHECKING:
    from openai import APIStatusError, AsyncOpenAI

# A connection that a router forgot in silence would hold a call until its deadline, and an endpoint's failure would
# look like an agent that was too slow. Endpoints that think for longer send keep-alive blanks.
_SILENT_SECONDS = 900.0
_CONNECT_SECONDS = 20.0


class Endpoint:
    """Answers messages; remembers what this endpoint was found to refuse. Belongs to one event loop.

    ``usage`` is the meter: every answer that came, also those that no caller got to see.
    """

    def __init__(
        self, settings: ModelSettings, *, limiter: Limiter | None = None, policy: RetryPolicy | None = None
    ) -> None:
        self.settings = settings
        self.limiter = limiter or Limiter()
        self.policy = policy or RetryPolicy()
        self.dialect = Dialect()
        self.usage = Usage()
        self._client: AsyncOpenAI | None = None
        self._address: Address | None = None

    async def complete(
        self, messages: Sequence[Message], *, deadline_seconds: float, stop: Sequence[str] = ()
    ) -> Reply:
        """As ``Model.complete``. Loading the SDK does not count against the deadline."""
        await self._ready()
        return await Call(self, messages, stop, deadline_seconds).run()

    async def probe(self, *, deadline_seconds: float = 20.0) -> Probe:
        """Whether the endpoint answers and takes the key: its list of models, or else one short completion.

        Raises an EndpointFault that says what is wrong.
        """
        client = await self._ready()
        began = time.monotonic()
        try:
            async with asyncio.timeout(deadline_seconds):
                note = await self._models_note(client)
            if note is None:
                message: Message = {"role": "user", "content": "Reply with the word yes."}
                left = max(0.1, deadline_seconds - (time.monotonic() - began))
                reply = await self.complete([message], deadline_seconds=left)
                note = "; ".join(("it lists no models but completes", *reply.notes))
        except (Refused, ContextOverflow) as error:
            note = f"it answers, but: {error}"
        except (TimeoutError, OutOfTime):
            raise EndpointFault(
                f"{self.address.url} did not answer within {deadline_seconds:g} s; check --base-url and the network"
            ) from None
        return Probe(url=self.address.url, seconds=time.monotonic() - began, note=note)

    async def close(self) -> None:
        """Close the connections."""
        if self._client is not None:
            await self._client.close()
            self._client = None

    @property
    def address(self) -> Address:
        """Where requests go. Raises KeyRefused or EndpointFault where the settings name no usable place."""
        if self._address is None:
            try:
                self._address = Address.of(self.settings)
            except UsageError as error:
                raise EndpointFault(f"model {self.settings.name!r}: {error}") from error
        return self._address

    def scrub(self, text: str) -> str:
        """The text without the key."""
        return text if self._address is None else self._address.scrub(text)

    async def send(self, body: Mapping[str, Any]) -> tuple[Answer, Usage]:
        """One request, one answer. Raises Rejected for an error in the endpoint's words, Trouble for all else."""
        client = await self._ready()
        import openai

        rest = {key: value for key, value in body.items() if key not in ("model", "messages")}
        try:
            raw = await client.chat.completions.with_raw_response.create(
                model=body["model"], messages=body["messages"], extra_body=rest
            )
        except openai.APIStatusError as error:
            raise self._rejected(error) from None
        except openai.APIConnectionError as error:
            raise broken_connection(error, self.address) from None
        text = self._text(raw.http_response.content)
        try:
            answer = read_answer(parsed(text), raw.headers)
        except Unreadable as error:
            retry = Retry.NEVER if error.final else Retry.BAD_REPLY
            raise bad_reply(self.address, error.what, text, retry=retry) from None
        usage = usage_of(
            answer.usage,
            prompt_characters=sum(len(message["content"]) for message in body["messages"]),
            completion_characters=answer.characters,
            prices_usd_per_million=self.settings.prices_usd_per_million,
        )
        self.usage = self.usage + usage
        return answer, usage

    async def _ready(self) -> AsyncOpenAI:
        """The client, made at first use: importing the SDK takes a second, which is nobody's deadline."""
        if self._client is None:
            address = self.address
            await asyncio.to_thread(importlib.import_module, "openai.resources.chat.completions")
            self._client = self._client or _client(address)
        return self._client

    async def _models_note(self, client: AsyncOpenAI) -> str | None:
        """What the list of models says of ours; None where there is no such list."""
        import openai

        try:
            raw = await client.models.with_raw_response.list()
        except openai.APIStatusError as error:
            rejection = self._rejected(error).rejection
            # 403 may mean no more than that this key may not list models.
            if rejection.status == 401 or kind_of(rejection) is Kind.QUOTA:
                raise trouble_of(rejection, self.address, None).error from None
            return None
        except openai.APIConnectionError as error:
            raise broken_connection(error, self.address).error from None
        body = parsed(self._text(raw.http_response.content))
        listed = body.get("data") if isinstance(body, dict) else None
        if not isinstance(listed, list) or not listed:
            return None
        known = any(isinstance(entry, dict) and entry.get("id") == self.settings.name for entry in listed)
        found = "is" if known else "is not"
        return f"{self.settings.name} {found} among the {len(listed)} models it lists"

    def _text(self, body: bytes) -> str:
        """A body as clean text; what an endpoint echoes of the key goes no further than here."""
        return self.address.scrub(body.decode("utf-8-sig", "replace"))

    def _rejected(self, error: APIStatusError) -> Rejected:
        response = error.response
        body = parsed(self._text(response.content))
        return Rejected(read_rejection(response.status_code, body), response.headers)


def _client(address: Address) -> AsyncOpenAI:
    import openai

    try:
        return openai.AsyncOpenAI(
            api_key=address.key,
            base_url=address.base_url,
            max_retries=0,
            timeout=openai.Timeout(_SILENT_SECONDS, connect=_CONNECT_SECONDS),
            http_client=openai.DefaultAsyncHttpxClient(trust_env=not address.is_loopback),
        )
    except (ImportError, ValueError, openai.OpenAIError) as error:
        raise EndpointFault(
            f"the client for {without_secrets(address.base_url)} cannot be made ({address.scrub(str(error))}); "
            "check the variables HTTP_PROXY, HTTPS_PROXY and ALL_PROXY"
        ) from error
