"""One endpoint's slots: halved once per burst of 429s, handed out in order, regained while it answers."""

from __future__ import annotations

import asyncio
import time

from pytest_imaging101.models.limiter import Limiter


def test_a_burst_of_refusals_halves_the_window_once() -> None:
    limiter = Limiter(start=8.0)
    sent_at = time.monotonic()
    for _ in range(8):
        limiter.limited(sent_at, 0.0)
    assert limiter.window == 4.0
    limiter.limited(time.monotonic(), 0.0)
    assert limiter.window == 2.0
    for _ in range(5):
        limiter.limited(time.monotonic(), 0.0)
    assert limiter.window == 1.0


def test_a_window_of_answers_earns_one_slot_up_to_a_bound() -> None:
    limiter = Limiter(start=4.0, most=6.0)
    for _ in range(5):
        limiter.answered()
    assert 5.0 <= limiter.window < 5.5
    for _ in range(100):
        limiter.answered()
    assert limiter.window == 6.0


def test_slots_are_bounded_and_first_come_first_served() -> None:
    async def scenario() -> tuple[list[int], int]:
        limiter = Limiter(start=2.0, most=2.0)
        order: list[int] = []
        running = most = 0

        async def call(number: int) -> None:
            nonlocal running, most
            await limiter.acquire()
            order.append(number)
            running += 1
            most = max(most, running)
            await asyncio.sleep(0)
            running -= 1
            limiter.release()

        await asyncio.gather(*(call(number) for number in range(20)))
        return order, most

    assert asyncio.run(scenario()) == (list(range(20)), 2)


def test_a_waiter_that_gives_up_takes_no_slot_with_it() -> None:
    async def scenario() -> None:
        limiter = Limiter(start=1.0, most=1.0)
        await limiter.acquire()
        waiting = [asyncio.ensure_future(limiter.acquire()) for _ in range(3)]
        await asyncio.sleep(0)
        for waiter in waiting[:2]:
            waiter.cancel()
        limiter.release()
        await waiting[2]

    asyncio.run(asyncio.wait_for(scenario(), 10))


def test_a_pause_holds_everybody() -> None:
    async def scenario() -> float:
        limiter = Limiter()
        began = time.monotonic()
        limiter.limited(began, 0.2)
        await limiter.acquire()
        return time.monotonic() - began

    assert asyncio.run(scenario()) >= 0.2
