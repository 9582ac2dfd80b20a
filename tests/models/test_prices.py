"""Tokens are the endpoint's where it states them, else estimated and marked; money comes from the config alone."""

from __future__ import annotations

from typing import Any

import pytest

from pytest_imaging101.budget import Usage
from pytest_imaging101.models.prices import cost_usd, estimated_tokens, usage_of


def usage(stated: Any, prices: tuple[float, float] | None = None) -> Usage:
    return usage_of(stated, prompt_characters=400, completion_characters=40, prices_usd_per_million=prices)


def test_stated_figures_are_taken_as_they_are() -> None:
    stated = {
        "prompt_tokens": 7,
        "completion_tokens": 5,
        "completion_tokens_details": {"reasoning_tokens": 3},
    }
    assert usage(stated) == Usage(calls=1, prompt_tokens=7, completion_tokens=5, reasoning_tokens=3)
    assert usage({"input_tokens": 7, "output_tokens": 5}) == Usage(1, 7, 5)


@pytest.mark.parametrize(
    "stated",
    [
        None,
        {},
        "junk",
        [],
        {"prompt_tokens": None, "completion_tokens": None},
        {"prompt_tokens": 0, "completion_tokens": 0},
        {"prompt_tokens": "many", "completion_tokens": True},
        {"prompt_tokens": -1, "completion_tokens": float("nan")},
        {"total_tokens": 5},
    ],
)
def test_missing_figures_are_estimated_and_marked(stated: Any) -> None:
    assert usage(stated) == Usage(calls=1, prompt_tokens=100, completion_tokens=10, estimated=True)


def test_a_stated_total_is_a_lower_bound() -> None:
    assert usage({"total_tokens": 900}).tokens == 900
    assert usage({"prompt_tokens": 300, "total_tokens": 900}) == Usage(1, 300, 600, estimated=True)
    assert usage({"completion_tokens": 300, "total_tokens": 900}) == Usage(1, 600, 300, estimated=True)


def test_an_empty_answer_may_have_no_completion_tokens() -> None:
    counted = usage_of(
        {"prompt_tokens": 9, "completion_tokens": 0},
        prompt_characters=30,
        completion_characters=0,
        prices_usd_per_million=None,
    )
    assert counted == Usage(calls=1, prompt_tokens=9, completion_tokens=0)


def test_money_is_known_only_where_prices_are() -> None:
    assert cost_usd(None, 10, 10) is None
    assert cost_usd((2.0, 8.0), 1_000_000, 500_000) == pytest.approx(6.0)
    assert usage({"prompt_tokens": 10, "completion_tokens": 1}, (1.0, 10.0)).cost_usd == pytest.approx(2e-5)
    assert usage(None).cost_usd is None


def test_an_estimate_is_never_zero_for_text() -> None:
    assert [estimated_tokens(n) for n in (0, 1, 4, 5)] == [0, 1, 1, 2]
