"""Limits of one attempt: iterations, seconds, tokens, cost; and the clock that keeps them."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from enum import StrEnum


class StopReason(StrEnum):
    """Why the agent stopped; it says nothing about whether its work is right."""

    SUBMITTED = "submitted"
    ITERATIONS = "iterations"
    DEADLINE = "deadline"
    TOKENS = "tokens"
    COST = "cost"
    CONTEXT = "context_overflow"
    FORMAT = "format_error"
    REPETITION = "repetition"
    REFUSED = "refused"
    CRASHED = "crashed"
    SANDBOX_DESTROYED = "sandbox_destroyed"


@dataclass(frozen=True)
class Usage:
    """Tokens and money of one or more model calls.

    ``cost_usd`` is None where no price is known. ``estimated`` is true as soon as one figure was counted here
    rather than stated by the endpoint.
    """

    calls: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    reasoning_tokens: int = 0
    cost_usd: float | None = None
    estimated: bool = False

    @property
    def tokens(self) -> int:
        return self.prompt_tokens + self.completion_tokens

    def __add__(self, other: Usage) -> Usage:
        costs = [cost for cost in (self.cost_usd, other.cost_usd) if cost is not None]
        return Usage(
            calls=self.calls + other.calls,
            prompt_tokens=self.prompt_tokens + other.prompt_tokens,
            completion_tokens=self.completion_tokens + other.completion_tokens,
            reasoning_tokens=self.reasoning_tokens + other.reasoning_tokens,
            cost_usd=sum(costs) if costs else None,
            estimated=self.estimated or other.estimated,
        )


@dataclass(frozen=True)
class Limits:
    """What one attempt may spend; None means no limit."""

    iterations: int = 50
    attempt_seconds: float = 3600.0
    command_seconds: float = 600.0
    tokens: int | None = None
    cost_usd: float | None = None

    def with_command_seconds(self, seconds: float) -> Limits:
        """The same limits with the shorter of both command timeouts."""
        return replace(self, command_seconds=min(self.command_seconds, seconds))


@dataclass
class Budget:
    """Limits being spent. Monotonic; time credited back (waiting for a slot) does not count."""

    limits: Limits
    clock: Callable[[], float] = time.monotonic
    usage: Usage = field(default_factory=Usage)
    iterations: int = 0
    credited_seconds: float = 0.0
    _started: float | None = None
    _stopped: float | None = None

    def start(self) -> None:
        """Start the attempt's clock."""
        self._started = self.clock()

    def stop(self) -> None:
        """Freeze the attempt's clock: what follows is grading."""
        if self._stopped is None:
            self._stopped = self.clock()

    @property
    def seconds(self) -> float:
        """Seconds spent by the agent, without what was credited."""
        if self._started is None:
            return 0.0
        end = self.clock() if self._stopped is None else self._stopped
        return max(0.0, end - self._started - self.credited_seconds)

    @property
    def remaining_seconds(self) -> float:
        return max(0.0, self.limits.attempt_seconds - self.seconds)

    def credit(self, seconds: float) -> None:
        """Give back time that the attempt waited through no doing of its own."""
        self.credited_seconds += max(0.0, seconds)

    def spend(self, usage: Usage) -> None:
        """Account for model calls."""
        self.usage = self.usage + usage

    def step(self) -> None:
        """Account for one iteration of the agent."""
        self.iterations += 1

    def exhausted(self) -> StopReason | None:
        """The first limit that is reached, or None."""
        limits = self.limits
        if self.remaining_seconds <= 0:
            return StopReason.DEADLINE
        if self.iterations >= limits.iterations:
            return StopReason.ITERATIONS
        if limits.tokens is not None and self.usage.tokens >= limits.tokens:
            return StopReason.TOKENS
        if limits.cost_usd is not None and (self.usage.cost_usd or 0.0) >= limits.cost_usd:
            return StopReason.COST
        return None
