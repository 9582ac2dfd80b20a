"""A budget says which limit ended an attempt, and does not count what was waited for."""

from __future__ import annotations

import pytest

from pytest_imaging101.budget import Budget, Limits, StopReason, Usage


class Clock:
    """A clock that a test moves."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_credited_time_does_not_count() -> None:
    clock = Clock()
    budget = Budget(Limits(attempt_seconds=10), clock)
    budget.start()
    clock.now = 12.0
    assert budget.exhausted() is StopReason.DEADLINE
    budget.credit(5.0)
    assert budget.exhausted() is None
    assert budget.remaining_seconds == pytest.approx(3.0)


def test_a_stopped_clock_stands() -> None:
    clock = Clock()
    budget = Budget(Limits(), clock)
    budget.start()
    clock.now = 4.0
    budget.stop()
    clock.now = 100.0
    assert budget.seconds == pytest.approx(4.0)


@pytest.mark.parametrize(
    ("limits", "usage", "steps", "reason"),
    [
        (Limits(iterations=3), Usage(), 3, StopReason.ITERATIONS),
        (Limits(tokens=100), Usage(prompt_tokens=60, completion_tokens=40), 1, StopReason.TOKENS),
        (Limits(cost_usd=0.5), Usage(cost_usd=0.5), 1, StopReason.COST),
        (Limits(cost_usd=0.5), Usage(cost_usd=None), 1, None),
        (Limits(iterations=3), Usage(), 2, None),
    ],
)
def test_the_limit_that_is_reached_is_named(
    limits: Limits, usage: Usage, steps: int, reason: StopReason | None
) -> None:
    budget = Budget(limits)
    budget.start()
    budget.spend(usage)
    for _ in range(steps):
        budget.step()
    assert budget.exhausted() is reason


def test_an_unknown_price_stays_unknown_until_one_is_known() -> None:
    assert (Usage(calls=1) + Usage(calls=1)).cost_usd is None
    assert (Usage(calls=1) + Usage(calls=1, cost_usd=0.25)).cost_usd == pytest.approx(0.25)
    assert (Usage(estimated=True) + Usage()).estimated
