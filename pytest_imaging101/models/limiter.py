"""How many requests one endpoint gets at once: fewer after each 429, slowly more again while it answers."""

from __future__ import annotations

import asyncio
import time


class Limiter:
    """Additive increase, multiplicative decrease; first come, first served. Belongs to one event loop."""

    def __init__(self, start: float = 64.0, most: float = 256.0) -> None:
        self.window = start
        self._most = most
        self._in_flight = 0
        self._cut_at = float("-inf")
        self._resume_at = float("-inf")
        self._turn = asyncio.Lock()
        self._freed = asyncio.Event()

    async def acquire(self) -> None:
        """Wait for a slot, as long as the caller lets it; whoever got one gives it back with ``release``."""
        async with self._turn:
            while (pause := self._resume_at - time.monotonic()) > 0 or self._in_flight >= int(self.window):
                if pause > 0:
                    await asyncio.sleep(pause)
                else:
                    self._freed.clear()
                    await self._freed.wait()
            self._in_flight += 1

    def release(self) -> None:
        """Give a slot back."""
        self._in_flight -= 1
        self._freed.set()

    def answered(self) -> None:
        """The endpoint answered: one more slot per window of answers."""
        self.window = min(self._most, self.window + 1.0 / self.window)

    def limited(self, sent_at: float, pause_seconds: float) -> None:
        """The endpoint said 429 to a request sent at ``sent_at`` (monotonic) and asks all to wait.

        The window is halved once for all requests that were already under way when it was last halved.
        """
        now = time.monotonic()
        if sent_at > self._cut_at:
            self.window = max(1.0, self.window / 2)
            self._cut_at = now
        self._resume_at = max(self._resume_at, now + pause_seconds)
