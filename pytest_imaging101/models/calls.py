"""One call of a model: tries, waits and adaptations until a reply, an end or the deadline."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pytest_imaging101.budget import Usage
from pytest_imaging101.faults import EndpointFault
from pytest_imaging101.models.answers import Answer
from pytest_imaging101.models.base import Message, OutOfTime, Refused, Reply
from pytest_imaging101.models.dialect import Dialect, room_for_reply
from pytest_imaging101.models.errors import Retry, Trouble, trouble_of
from pytest_imaging101.models.kinds import Kind, kind_of
from pytest_imaging101.models.prices import estimated_tokens
from pytest_imaging101.models.rejections import Rejected
from pytest_imaging101.models.retries import stated_wait
from pytest_imaging101.models.text import cut_at_stop

if TYPE_CHECKING:
    from pytest_imaging101.models.endpoint import Endpoint

# Beyond this share of a deadline lost to the endpoint's failures and limits, a missed deadline is the endpoint's.
_FORGIVEN_SHARE = 0.1
# One endpoint's word on when to come back holds all its calls, but no longer than this.
_LONGEST_PAUSE_SECONDS = 60.0
_LONGEST_DEADLINE_SECONDS = 7 * 86400.0
_TRUNCATION_FLOOR_TOKENS = 1000


class Call:
    """State of one call. ``_lost`` are the seconds that went to waiting and to tries that failed."""

    def __init__(
        self, endpoint: Endpoint, messages: Sequence[Message], stop: Sequence[str], deadline_seconds: float
    ) -> None:
        self._endpoint = endpoint
        self._messages = messages
        self._stop = stop
        self._deadline_seconds = min(deadline_seconds, _LONGEST_DEADLINE_SECONDS)
        self._began = time.monotonic()
        self._cap = endpoint.settings.max_reply_tokens
        self._cap_raised = False
        self._lost = 0.0
        self._rate_waited = 0.0
        self._failures = dict.fromkeys(Retry, 0)
        self._last_fault: EndpointFault | None = None
        self._usage = Usage()
        self._notes: list[str] = []

    async def run(self) -> Reply:
        """The reply. Raises as ``Model.complete`` says."""
        try:
            async with asyncio.timeout(self._deadline_seconds):
                answer = await self._answer()
        except TimeoutError:
            raise self._late() from None
        return self._reply(answer)

    async def _answer(self) -> Answer:
        while True:
            try:
                answer = await self._try()
            except Trouble as trouble:
                await self._wait_out(trouble)
            else:
                if answer is not None and not self._asks_again(answer):
                    return answer

    async def _try(self) -> Answer | None:
        """One request; None if it was refused for a reason that the next one avoids."""
        endpoint = self._endpoint
        with self._losing():
            await endpoint.limiter.acquire()
        try:
            dialect, sent_at = endpoint.dialect, time.monotonic()
            body = dialect.body(endpoint.settings, self._messages, self._stop, self._cap)
            answer, usage = await endpoint.send(body)
        except Trouble:
            self._lost += time.monotonic() - sent_at
            raise
        except Rejected as rejected:
            self._lost += time.monotonic() - sent_at
            self._adapt(rejected, dialect, body, sent_at)
            return None
        finally:
            endpoint.limiter.release()
        endpoint.limiter.answered()
        self._usage = self._usage + usage
        self._note_truncation(usage, sum(len(message["content"]) for message in body["messages"]))
        return self._unspoilt(answer)

    def _unspoilt(self, answer: Answer) -> Answer:
        """The answer, unless its finish reason says that it was filtered or broken off."""
        url = self._endpoint.address.url
        if answer.is_filtered:
            said = answer.refusal or f"finish_reason {answer.finish_reason}"
            raise Refused(f"{url}: the content filter stopped the reply ({said})")
        if answer.is_broken:
            sentence = f"{url} broke off its reply (finish_reason {answer.finish_reason}); try again later"
            raise Trouble(EndpointFault(sentence), Retry.FAULT)
        return answer

    def _adapt(self, rejected: Rejected, dialect: Dialect, body: Mapping[str, Any], sent_at: float) -> None:
        """Learn from a rejection what to leave out, or raise the trouble that it is."""
        endpoint, rejection = self._endpoint, rejected.rejection
        kind = kind_of(rejection)
        if kind is Kind.OVERFLOW and self._cap is not None:
            room = room_for_reply(rejection)
            if room is not None and room < self._cap:
                self._cap = room
                self._notes.append(f"reply cap lowered to {room} to fit the window")
                return
        if learned := dialect.after(rejection, body):
            if endpoint.dialect is dialect:  # else another call has learned meanwhile
                endpoint.dialect = learned
            return
        wait = stated_wait(rejected.headers, rejection.fields, rejection.text, time.time())
        if kind is Kind.RATE:
            endpoint.limiter.limited(sent_at, min(wait or 0.0, _LONGEST_PAUSE_SECONDS))
        raise trouble_of(rejection, endpoint.address, wait)

    async def _wait_out(self, trouble: Trouble) -> None:
        """Sleep before the next try, or raise the trouble's error where there should be none."""
        policy, retry = self._endpoint.policy, trouble.retry
        if isinstance(trouble.error, EndpointFault):
            self._last_fault = trouble.error
        self._failures[retry] += 1
        count = self._failures[retry]
        if retry is Retry.NEVER:
            raise trouble.error
        tries = {Retry.FAULT: policy.tries, Retry.BAD_REPLY: policy.bad_reply_tries}.get(retry)
        if tries is not None and count >= tries:
            raise _given_up(trouble, f"given up after {count} tries")
        wait = policy.delay(count)
        if trouble.wait_seconds is not None:
            wait = trouble.wait_seconds + policy.delay(1)
        if retry is Retry.RATE:
            self._rate_waited += wait
            if self._rate_waited > policy.rate_limit_seconds:
                raise _given_up(
                    trouble, f"given up: the next wait would make {self._rate_waited:.0f} s of waiting"
                )
        left = self._began + self._deadline_seconds - time.monotonic()
        if wait >= left:
            raise _given_up(
                trouble, f"given up: the next try is due in {wait:.1f} s, {max(0.0, left):.1f} s are left"
            )
        with self._losing():
            await asyncio.sleep(wait)

    def _asks_again(self, answer: Answer) -> bool:
        """Whether an answer that is nothing but thinking is worth one more request, and what to change in it."""
        endpoint = self._endpoint
        if not answer.is_empty or not answer.reasoning:
            return False
        if answer.is_truncated:
            if self._cap is None or self._cap_raised or not endpoint.dialect.caps:
                return False
            self._cap_raised = True
            self._cap *= 2
            self._notes.append(f"reply cap raised once to {self._cap}: budget exhausted by reasoning")
            return True
        if self._stop and endpoint.dialect.stop:
            # The server's stop may have hit a marker inside the thinking; the cut is made here anyway.
            endpoint.dialect = replace(endpoint.dialect, stop=False)
            return True
        return False

    def _reply(self, answer: Answer) -> Reply:
        text = cut_at_stop(answer.text, self._stop)
        if answer.is_empty and answer.is_truncated and answer.reasoning:
            self._notes.append("budget exhausted by reasoning")
        elif answer.is_empty:
            self._notes.append("tool calls in place of text" if answer.has_tool_calls else "empty answer")
        return Reply(
            text=text,
            finish_reason=answer.finish_reason,
            usage=self._usage,
            seconds=time.monotonic() - self._began - self._lost,
            reasoning=answer.reasoning,
            notes=(*self._endpoint.dialect.notes(self._endpoint.settings), *dict.fromkeys(self._notes)),
            waited_seconds=self._lost,
        )

    def _note_truncation(self, usage: Usage, sent_characters: int) -> None:
        sent = estimated_tokens(sent_characters)
        if not usage.estimated and sent > _TRUNCATION_FLOOR_TOKENS and usage.prompt_tokens * 2 < sent:
            self._notes.append(
                f"the endpoint counted {usage.prompt_tokens} prompt tokens where about {sent} were sent: "
                "it may have dropped the start of the prompt"
            )

    def _late(self) -> Exception:
        url, deadline = self._endpoint.address.url, self._deadline_seconds
        if self._lost <= _FORGIVEN_SHARE * deadline:
            return OutOfTime(f"{url} gave no reply within {deadline:g} s")
        late = (
            f"{url} left no time for a reply: its limits and failures took {self._lost:.1f} of {deadline:g} s"
        )
        if self._last_fault is None:
            return EndpointFault(late)
        return EndpointFault(
            f"{late}; the last: {self._last_fault.message}", evidence=self._last_fault.evidence
        )

    @contextmanager
    def _losing(self) -> Iterator[None]:
        began = time.monotonic()
        try:
            yield
        finally:
            self._lost += time.monotonic() - began


def _given_up(trouble: Trouble, why: str) -> Exception:
    error = trouble.error
    if isinstance(error, EndpointFault):
        return type(error)(f"{error.message}; {why}", evidence=error.evidence)
    return error
