"""A rate says what it rests on; ungraded items widen its bounds, epochs do not narrow its interval."""

from __future__ import annotations

import pytest
from scipy.stats import binomtest

from pytest_imaging101.reporting.statistics import Rate, rate_of, wilson
from tests.reporting.records import make_outcome


@pytest.mark.parametrize(("passed", "graded"), [(0, 1), (1, 1), (24, 57), (0, 57), (57, 57), (1, 10_000)])
def test_the_interval_is_wilsons(passed: int, graded: int) -> None:
    expected = binomtest(passed, graded).proportion_ci(confidence_level=0.95, method="wilson")
    assert Rate(passed, graded, graded).interval == pytest.approx((expected.low, expected.high), abs=1e-12)


def test_the_bounds_are_all_ungraded_failed_and_all_passed() -> None:
    rate = Rate(passed=24, graded=57, planned=60)
    assert rate.rate == pytest.approx(24 / 57)
    assert rate.bounds == pytest.approx((24 / 60, 27 / 60))
    assert rate.ungraded == 3


def test_nothing_graded_has_no_rate_but_full_bounds() -> None:
    rate = Rate(0, 0, 5)
    assert (rate.rate, rate.interval, rate.bounds) == (None, None, (0.0, 1.0))
    assert str(rate) == "no rate, 0 graded of 5 planned"
    assert str(Rate(0, 0, 0)) == "no rate, 0 graded of 0 planned"
    assert Rate(0, 0, 0).bounds is None


def test_the_headline_holds_rate_interval_and_coverage() -> None:
    assert str(Rate(24, 57, 57)) == "0.42 [0.30, 0.55] 24/57"
    assert str(Rate(24, 57, 60)) == (
        "0.42 [0.30, 0.55] 24/57 graded of 60 planned (0.40 to 0.45 with the 3 ungraded)"
    )


@pytest.mark.parametrize("counts", [(2, 1, 3), (1, 4, 3), (-1, 1, 1)])
def test_counts_that_cannot_be_are_refused(counts: tuple[int, int, int]) -> None:
    with pytest.raises(ValueError, match="passed <= graded <= planned"):
        Rate(*counts)
    with pytest.raises(ValueError, match="items <= graded"):
        Rate(1, 2, 3, items=3)


def test_epochs_of_an_item_are_no_further_items() -> None:
    tasks = [(task, passes) for task, passes in (("a", 3), ("b", 0), ("c", 1), ("d", 3))]
    outcomes = [
        make_outcome(task=task, epoch=epoch, verdict="passed" if epoch <= passes else "failed")
        for task, passes in tasks
        for epoch in (1, 2, 3)
    ]
    rate = rate_of(outcomes)
    assert (rate.passed, rate.graded, rate.planned, rate.items) == (7, 12, 12, 4)
    assert rate.rate == pytest.approx(7 / 12)
    assert rate.interval == wilson(7 / 12, 4)
    low, high = Rate(7, 12, 12).interval or (0, 0)
    assert rate.interval[0] < low < high < rate.interval[1]


def test_ungraded_outcomes_are_planned_and_neither_passed_nor_graded() -> None:
    outcomes = [
        make_outcome(task=name, verdict=verdict)
        for name, verdict in zip("abc", ("passed", "failed", "ungraded"), strict=True)
    ]
    rate = rate_of(outcomes)
    assert (rate.passed, rate.graded, rate.planned) == (1, 2, 3)


def test_as_dict_holds_the_counts_and_what_follows() -> None:
    found = Rate(1, 2, 4, items=1).as_dict()
    assert (found["passed"], found["graded"], found["planned"], found["items"]) == (1, 2, 4, 1)
    assert found["rate"] == 0.5
    assert found["bounds"] == [0.25, 0.75]
    assert Rate(0, 0, 1).as_dict()["rate"] is None
