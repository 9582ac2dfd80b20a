"""What one reply cost: tokens as the endpoint states them, else estimated and marked so; money from the config."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pytest_imaging101.budget import Usage

CHARACTERS_PER_TOKEN = 4


def estimated_tokens(characters: int) -> int:
    """A rough count, never 0 where there is text."""
    return -(-characters // CHARACTERS_PER_TOKEN)


def cost_usd(
    prices_usd_per_million: tuple[float, float] | None, prompt_tokens: int, completion_tokens: int
) -> float | None:
    """Money for prompt and completion tokens; None where no prices are configured."""
    if prices_usd_per_million is None:
        return None
    prompt_price, completion_price = prices_usd_per_million
    return (prompt_tokens * prompt_price + completion_tokens * completion_price) / 1e6


def usage_of(
    stated: object,
    *,
    prompt_characters: int,
    completion_characters: int,
    prices_usd_per_million: tuple[float, float] | None,
) -> Usage:
    """Usage of one answer. ``stated`` is the endpoint's ``usage`` field, whatever it holds.

    A figure that is missing, or 0 where there was text, is estimated; a stated total is kept as a lower bound.
    """
    fields: Mapping[str, Any] = stated if isinstance(stated, dict) else {}
    prompt = _count(fields, "prompt_tokens", "input_tokens")
    completion = _count(fields, "completion_tokens", "output_tokens")
    estimated = not prompt or (not completion and completion_characters > 0)
    total = _count(fields, "total_tokens") or 0
    if not completion:
        missing = max(0, total - prompt) if prompt else 0
        completion = max(estimated_tokens(completion_characters), missing)
    if not prompt:
        prompt = max(estimated_tokens(prompt_characters), total - completion)
    details = fields.get("completion_tokens_details") or fields.get("output_tokens_details")
    reasoning = _count(details if isinstance(details, dict) else {}, "reasoning_tokens")
    return Usage(
        calls=1,
        prompt_tokens=prompt,
        completion_tokens=completion,
        reasoning_tokens=reasoning or _count(fields, "reasoning_tokens") or 0,
        cost_usd=cost_usd(prices_usd_per_million, prompt, completion),
        estimated=estimated,
    )


def _count(fields: Mapping[str, Any], *names: str) -> int | None:
    for name in names:
        value = fields.get(name)
        if isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < 1e12:
            return int(value)
    return None
