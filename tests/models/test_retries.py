"""Waits before the next try: capped, jittered, and as long as the endpoint asks in any of its ways."""

from __future__ import annotations

from email.utils import formatdate
from typing import Any

import pytest

from pytest_imaging101.models.retries import RetryPolicy, stated_wait

NOW = 1_800_000_000.0


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ({"retry-after": "1"}, 1.0),
        ({"retry-after": "0.5"}, 0.5),
        ({"retry-after": "300"}, 300.0),
        ({"retry-after": formatdate(NOW + 3, usegmt=True)}, 3.0),
        ({"retry-after-ms": "1500"}, 1.5),
        ({"retry-after-ms": "1500", "retry-after": "9"}, 1.5),
        ({"retry-after-ms": "junk", "retry-after": "9"}, 9.0),
        ({"retry-after": formatdate(NOW - 300, usegmt=True)}, None),
        ({"retry-after": "soon"}, None),
        ({"retry-after": "-5"}, None),
        ({"retry-after": "0"}, None),
        ({"retry-after": "nan"}, None),
        ({"retry-after": "inf"}, None),
        ({"retry-after": ""}, None),
        ({}, None),
    ],
)
def test_retry_after_in_all_its_forms(headers: dict[str, str], expected: float | None) -> None:
    assert stated_wait(headers, {}, "", NOW) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Rate limit reached. Please try again in 7m12s.", 432.0),
        ("please try again in 1.5s", 1.5),
        ("Please retry in 11.5s.", 11.5),
        ("try again in 500ms", 0.5),
        ("try again in 1h2m3s", 3723.0),
        ("try again in a moment", None),
    ],
)
def test_a_wait_stated_in_a_sentence(text: str, expected: float | None) -> None:
    assert stated_wait({}, {}, text, NOW) == expected


def test_a_wait_stated_in_the_error_object() -> None:
    error: dict[str, Any] = {
        "details": [{"@type": "Help"}, "odd", {"@type": "RetryInfo", "retryDelay": "36s"}]
    }
    assert stated_wait({}, error, "", NOW) == 36.0
    assert stated_wait({"retry-after": "2"}, error, "", NOW) == 2.0


def test_delays_double_up_to_a_cap_and_are_jittered() -> None:
    policy = RetryPolicy(first_seconds=0.5, longest_seconds=30.0)
    longest = [policy.delay(failures, jitter=lambda: 1.0) for failures in range(1, 9)]
    assert longest == [0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 30.0, 30.0]
    assert policy.delay(1000, jitter=lambda: 0.0) == 15.0
