"""The summary on a terminal: complete, in width, plain where colour is off, and with commands that work."""

from __future__ import annotations

import shlex
from dataclasses import replace
from pathlib import Path

import pytest

from pytest_imaging101.budget import Usage
from pytest_imaging101.outcome import Clocks, FaultRecord
from pytest_imaging101.reporting.summary import Summary, summarise
from pytest_imaging101.reporting.terminal import next_commands, summary_lines
from tests.reporting.records import HOSTILE, make_item, make_outcome

RUN = Path("reports/2026-11-30-021507-gpt-4o")


def mixed_summary() -> Summary:
    planned = [make_item(task=f"t{n}", part=part) for n in range(10) for part in ("L1", "L2")]
    outcomes = [
        make_outcome(
            item,
            verdict="passed" if number < 8 else "failed",
            usage=Usage(calls=3, prompt_tokens=70_000, completion_tokens=500, cost_usd=0.25, estimated=True),
            clocks=Clocks(attempt_seconds=600),
        )
        for number, item in enumerate(planned[:16])
    ]
    fault = FaultRecord(kind="endpoint.quota_spent", message="The account's balance is spent.")
    outcomes.append(make_outcome(planned[16], verdict="ungraded", fault=fault))
    outcomes.append(make_outcome(mechanism="planning", part=None, domain="physics", verdict="failed"))
    return summarise(outcomes, planned)


def test_rates_coverage_and_bounds_are_shown() -> None:
    text = "\n".join(summary_lines(mixed_summary(), RUN))
    lines = [line.split() for line in text.splitlines()]
    assert ["end2end", "0.50", "[0.28,", "0.72]", "8/16", "20", "0.40", "to", "0.60"] in lines
    assert ["L1", "0.50", "[0.22,", "0.78]", "4/8", "10", "0.40", "to", "0.60"] in lines
    assert ["planning", "0.00", "[0.00,", "0.79]", "0/1", "1"] in lines
    assert ["medicine", "0.50", "8/16", "+4"] in lines
    assert "coverage: 17 of 21 planned graded (80 %)" in text
    assert (
        "4 ungraded: over everything planned the rate is 0.38 if they all fail, 0.57 if they all pass" in text
    )


def test_faults_cost_time_and_retries_are_shown() -> None:
    text = "\n".join(summary_lines(mixed_summary(), RUN, width=200))
    assert "1 x endpoint.quota_spent: The account's balance is spent." in text
    assert "3 x interrupted: The run ended before the attempt began." in text
    assert "tasks/t8/task.toml::end2end[L2]" in text
    assert "gpt-4o: 18 attempts, 48 calls, about 1.1M + 8.0k tokens, about $4.00, agents 2 h 40 min" in text
    assert "18 attempts; 0 of 21 items (0 %) took more than one" in text
    assert f"results in {RUN}" in text


@pytest.mark.parametrize("width", [1, 78, 80, 100, 200])
def test_lines_keep_to_the_width_and_no_figure_is_cut(width: int) -> None:
    lines = summary_lines(mixed_summary(), RUN, width=width)
    commands = next_commands(mixed_summary(), RUN)
    assert all(len(line) <= max(width, 78) for line in lines if line not in commands)
    (row,) = [line for line in lines if line.split()[:1] == ["end2end"]]
    assert row.endswith("0.40 to 0.60")


def test_there_are_no_escape_codes_unless_colour_is_on() -> None:
    plain = summary_lines(mixed_summary(), RUN)
    coloured = summary_lines(mixed_summary(), RUN, color=True)
    assert "\x1b" not in "".join(plain)
    assert "\x1b[1m" in "".join(coloured)
    assert len(plain) == len(coloured)


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE.keys())
def test_hostile_text_is_shown_as_text(text: str) -> None:
    names = {"model": text, "agent": text, "task": text, "part": text, "node_id": text}
    outcomes = [
        make_outcome(**names, domain=text, usage=Usage(calls=1), warnings=[text]),
        make_outcome(**names, epoch=2, verdict="ungraded", fault=FaultRecord(kind=text, message=text)),
    ]
    summary = replace(summarise(outcomes, []), command=("pytest", "--model", text))
    shown = "\n".join(summary_lines(summary, RUN))
    assert "\x1b" not in shown
    shown.encode("utf-8")
    assert not [letter for letter in shown if ord(letter) < 32 and letter != "\n"]
    assert len(shown) < 12_000


def test_markup_in_a_name_is_not_obeyed() -> None:
    summary = summarise([make_outcome(model="[bold]m:smile:")], [])
    assert "[bold]m:smile:" in summary_lines(summary, RUN)


def test_the_command_to_go_on_is_the_run_s_own_without_folder_and_key() -> None:
    command = (
        "pytest",
        "--model",
        "gpt-4o",
        "-k",
        "ct and not mri",
        "--output",
        "here",
        "--imaging101-output=x",
    )
    options = ("--api-key", "(removed)", "--api-key=(removed)", "-n", "4", "--resume=old")
    summary = replace(mixed_summary(), command=(*command, *options))
    folder = Path("my reports/x")
    (line,) = next_commands(summary, folder)
    assert shlex.split(line) == [
        *("pytest", "--model", "gpt-4o", "-k", "ct and not mri", "-n", "4"),
        "--resume=my reports/x",
    ]
    assert line in summary_lines(summary, folder, width=78)


def test_a_run_without_a_readable_command_can_be_resumed_too() -> None:
    assert next_commands(mixed_summary(), RUN) == [f"pytest --resume={RUN}"]


def test_a_complete_run_needs_no_resume() -> None:
    summary = summarise([make_outcome()], [])
    assert next_commands(summary, RUN) == [f"imaging101 report {RUN}"]
    assert "ungraded" not in "\n".join(summary_lines(summary, RUN)).replace("+ungraded", "")


def test_an_empty_run_is_said_to_be_empty() -> None:
    assert "nothing was planned" in summary_lines(summarise([], []), RUN)


def test_nearly_all_is_not_all() -> None:
    planned = [make_item(task=f"t{number}") for number in range(1000)]
    text = "\n".join(summary_lines(summarise([make_outcome(item) for item in planned[1:]], planned), RUN))
    assert "999 of 1000 planned graded (99 %)" in text


def test_several_agents_of_a_model_are_told_apart() -> None:
    summary = summarise([make_outcome(agent="react"), make_outcome(agent="multi_agent")], [])
    lines = summary_lines(summary, RUN)
    assert "gpt-4o (react)" in lines
    assert "gpt-4o (multi_agent)" in lines


@pytest.mark.parametrize(
    ("usage", "words"),
    [
        ([Usage()], "no cost"),
        ([Usage(calls=1)], "cost unknown"),
        ([Usage(calls=1, cost_usd=1.5)], "$1.50"),
        ([Usage(calls=1, cost_usd=1.5), Usage(calls=1)], "at least $1.50 (1 attempts without a known price)"),
    ],
)
def test_cost_is_never_more_certain_than_it_is(usage: list[Usage], words: str) -> None:
    outcomes = [make_outcome(task=f"t{number}", usage=each) for number, each in enumerate(usage)]
    assert words in "\n".join(summary_lines(summarise(outcomes, []), RUN, width=200))
