"""Misses are counted by failure mode, model and mechanism, with the conventions that drifted."""

from __future__ import annotations

from pathlib import Path

from pytest_imaging101.outcome import Drift, Outcome
from pytest_imaging101.reporting.properties import to_properties
from pytest_imaging101.reporting.summary import Summary, summarise
from pytest_imaging101.reporting.terminal import summary_lines
from tests.reporting.records import make_outcome

FLIP = Drift(name="flip", sentence="right up to a flip along axis 0", explained=0.998)
SCALE = Drift(name="scale", sentence="right up to a factor 2π = 6.283", explained=1.0)


def outcomes() -> list[Outcome]:
    def miss(number: int, mode: str | None, **changes: object) -> Outcome:
        return make_outcome(task=f"t{number}", verdict="failed", failure_mode=mode, **changes)

    return [
        miss(1, "convention_drift", drift=FLIP),
        miss(2, "convention_drift", drift=FLIP),
        miss(3, "convention_drift", drift=SCALE, mechanism="function", part="solvers"),
        miss(4, "not_finished"),
        miss(5, None),
        miss(6, "crashed", model="other"),
        make_outcome(task="t7"),
        make_outcome(task="t8", verdict="ungraded"),
    ]


def summary() -> Summary:
    return summarise(outcomes(), [])


def test_every_miss_is_counted_once_and_nothing_else() -> None:
    found = {(one.model, one.mode): one.by_mechanism for one in summary().misses}
    assert found == {
        ("gpt-4o", "convention_drift"): {"end2end": 2, "function": 1},
        ("gpt-4o", "not_finished"): {"end2end": 1},
        ("gpt-4o", "unnamed"): {"end2end": 1},
        ("other", "crashed"): {"end2end": 1},
    }
    assert sum(one.total for one in summary().misses) == sum(one.verdict == "failed" for one in outcomes())


def test_the_commonest_mode_comes_first_with_its_drifts() -> None:
    first = summary().misses[0]
    assert first.mode == "convention_drift"
    assert list(first.drifts.items()) == [("flip", 2), ("scale", 1)]
    assert summary().as_dict()["misses"][0] == {
        "model": "gpt-4o",
        "agent": "react",
        "mode": "convention_drift",
        "by_mechanism": {"end2end": 2, "function": 1},
        "drifts": {"flip": 2, "scale": 1},
        "total": 3,
    }


def test_the_terminal_has_a_table_by_mode() -> None:
    lines = summary_lines(summary(), Path("reports/x"))
    start = lines.index("misses by failure mode")
    rows = [line.split() for line in lines[start + 1 : start + 9]]
    assert ["failure", "mode", "end2end", "function", "all"] in rows
    assert ["convention_drift", "2", "1", "3"] in rows
    assert ["flip", "2"] in rows
    assert ["not_finished", "1", "1"] in rows


def test_a_run_without_a_miss_has_no_table() -> None:
    lines = summary_lines(summarise([make_outcome()], []), Path("reports/x"))
    assert not [line for line in lines if "failure mode" in line]


def test_mode_and_drift_are_properties_of_a_miss_alone() -> None:
    missed = dict(to_properties(outcomes()[0]))
    assert missed["failure_mode"] == "convention_drift"
    assert missed["drift"] == "flip"
    assert missed["drift_explained"] == 0.998
    assert not {"failure_mode", "drift", "drift_explained"} & set(dict(to_properties(make_outcome())))
