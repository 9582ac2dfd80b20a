"""When a call is tried again, and after how long."""

from __future__ import annotations

import math
import random
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from typing import Any

_IN_TEXT = re.compile(
    r"(?:try again|retry) (?:in|after) (?:(\d+)h)?(?:(\d+)m(?!s))?(?:([\d.]+) ?(ms|s))?", re.I
)


@dataclass(frozen=True)
class RetryPolicy:
    """Bounds of one call's retries; the deadline of the call bounds all of them together.

    ``tries`` counts connection and server faults, ``bad_reply_tries`` answers that are no completions.
    ``rate_limit_seconds`` is how long one call lets itself be put off by rate limits.
    """

    tries: int = 6
    bad_reply_tries: int = 3
    rate_limit_seconds: float = 900.0
    first_seconds: float = 0.5
    longest_seconds: float = 30.0

    def delay(self, failures: int, jitter: Callable[[], float] = random.random) -> float:
        """Seconds before the next try after so many failures: doubled each time, capped, 50 to 100 % of it."""
        full = min(self.longest_seconds, self.first_seconds * 2.0 ** min(failures - 1, 30))
        return full * (0.5 + 0.5 * jitter())


def stated_wait(headers: Mapping[str, str], error: Mapping[str, Any], text: str, now: float) -> float | None:
    """Seconds an endpoint asks to wait: header fields first, then the error object, then its sentence.

    ``now`` is the wall clock (seconds since the epoch), which a date is compared with. A date in the past, a
    negative number and junk count as nothing said.
    """
    stated = (
        _number(headers.get("retry-after-ms"), 0.001),
        _number(headers.get("retry-after"), 1.0),
        _date(headers.get("retry-after"), now),
        _retry_info(error),
        _sentence(text),
    )
    usable = (seconds for seconds in stated if seconds is not None and math.isfinite(seconds) and seconds > 0)
    return next(usable, None)


def _number(value: str | None, unit: float) -> float | None:
    try:
        return float(value) * unit if value else None
    except ValueError:
        return None


def _date(value: str | None, now: float) -> float | None:
    try:
        return parsedate_to_datetime(value).timestamp() - now if value else None
    except (ValueError, TypeError, OverflowError):
        return None


def _retry_info(error: Mapping[str, Any]) -> float | None:
    details = error.get("details")
    for detail in details if isinstance(details, list) else ():
        delay = detail.get("retryDelay") if isinstance(detail, dict) else None
        if isinstance(delay, str):
            return _number(delay.removesuffix("s"), 1.0)
    return None


def _sentence(text: str) -> float | None:
    found = _IN_TEXT.search(text)
    if found is None:
        return None
    hours, minutes, seconds, unit = found.groups()
    fraction = _number(seconds, 0.001 if unit == "ms" else 1.0) or 0.0
    return 3600.0 * int(hours or 0) + 60.0 * int(minutes or 0) + fraction
