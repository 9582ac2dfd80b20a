"""Pass rates that say how much they rest on: graded of planned, bounds, and a Wilson interval."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from pytest_imaging101.outcome import Outcome

Z_95 = 1.959963984540054


@dataclass(frozen=True)
class Rate:
    """How many attempts passed, of those graded, of those planned.

    Attempts are items times epochs. ``items`` is how many different items the graded attempts belong to; None
    means that each attempt is an item of its own. Epochs of one item are alike, so they are no further
    evidence about other items: the rate is taken over attempts, the interval over items.
    """

    passed: int
    graded: int
    planned: int
    items: int | None = None

    def __post_init__(self) -> None:
        items = self.graded if self.items is None else self.items
        if not 0 <= self.passed <= self.graded <= self.planned or not 0 <= items <= self.graded:
            raise ValueError(f"{self!r}: must hold passed <= graded <= planned and items <= graded")

    @property
    def rate(self) -> float | None:
        """Passed of graded; None where nothing was graded."""
        return self.passed / self.graded if self.graded else None

    @property
    def ungraded(self) -> int:
        return self.planned - self.graded

    @property
    def bounds(self) -> tuple[float, float] | None:
        """What the rate over everything planned would be if all ungraded failed, and if all passed."""
        if not self.planned:
            return None
        return self.passed / self.planned, (self.passed + self.ungraded) / self.planned

    @property
    def interval(self) -> tuple[float, float] | None:
        """Wilson's 95 % interval for the rate of items like these, one observation an item.

        With several epochs this is cautious: the mean over epochs varies less between items than one attempt.
        """
        if self.rate is None:
            return None
        return wilson(self.rate, self.graded if self.items is None else self.items)

    def __str__(self) -> str:
        """``0.42 [0.30, 0.55] 24/57 graded of 60 planned (0.40 to 0.45 with the 3 ungraded)``."""
        if self.rate is None or self.interval is None or self.bounds is None:
            return f"no rate, 0 graded of {self.planned} planned"
        low, high = self.interval
        text = f"{self.rate:.2f} [{low:.2f}, {high:.2f}] {self.passed}/{self.graded}"
        if not self.ungraded:
            return text
        least, most = self.bounds
        return (
            f"{text} graded of {self.planned} planned "
            f"({least:.2f} to {most:.2f} with the {self.ungraded} ungraded)"
        )

    def as_dict(self) -> dict[str, Any]:
        """The counts and all that follows from them, as plain JSON types."""
        return {
            "passed": self.passed,
            "graded": self.graded,
            "planned": self.planned,
            "items": self.graded if self.items is None else self.items,
            "rate": self.rate,
            "interval_95": None if self.interval is None else list(self.interval),
            "bounds": None if self.bounds is None else list(self.bounds),
        }


def rate_of(outcomes: Sequence[Outcome]) -> Rate:
    """The rate of settled outcomes: one an item and epoch, with those that are missing among the ungraded."""
    graded = [outcome for outcome in outcomes if outcome.verdict != "ungraded"]
    return Rate(
        passed=sum(outcome.verdict == "passed" for outcome in graded),
        graded=len(graded),
        planned=len(outcomes),
        items=len({outcome.identity[:-1] for outcome in graded}),
    )


def wilson(rate: float, count: int, z: float = Z_95) -> tuple[float, float]:
    """Wilson's score interval (Wilson 1927) for a proportion seen over ``count`` observations.

    Within [0, 1], and never empty at 0 or 1. Nothing seen gives (0, 1).
    """
    if not count:
        return 0.0, 1.0
    spread = z * z / count
    centre = (rate + spread / 2) / (1 + spread)
    half = math.sqrt(rate * (1 - rate) * spread + spread * spread / 4) / (1 + spread)
    return max(0.0, centre - half), min(1.0, centre + half)
