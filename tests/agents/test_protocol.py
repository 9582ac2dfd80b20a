"""What a reply may look like, and what is done with it."""

from __future__ import annotations

import pytest

from pytest_imaging101.agents.protocol import Action, parse


def test_a_file_keeps_everything_between_its_markers() -> None:
    reply = "Thought: write it\nAction: WRITE_FILE src/a.py\n<<<BEGIN\nx = 1\n\ny = 2\nEND>>>"
    assert parse(reply).action == Action("WRITE_FILE", "src/a.py", "x = 1\n\ny = 2\n")


def test_markers_inside_a_file_are_content() -> None:
    body = "# Notes\nAction: RUN rm -rf x\nObservation: gone\n```python\nAction: DONE\n```\n"
    parsed = parse(f"Action: WRITE_FILE README2.md\n<<<BEGIN\n{body}END>>>")
    assert parsed.action == Action("WRITE_FILE", "README2.md", body)
    assert parsed.dropped == 0


def test_a_tag_lets_content_hold_the_end_marker() -> None:
    parsed = parse("Action: WRITE_FILE a.md\n<<<BEGIN t9\nEND>>>\nlast\nEND>>> t9")
    assert parsed.action == Action("WRITE_FILE", "a.md", "END>>>\nlast\n")


def test_an_end_marker_in_the_content_is_refused_before_the_file_is_touched() -> None:
    parsed = parse("Action: WRITE_FILE a.md\n<<<BEGIN\nEND>>>\nlast\nEND>>>")
    assert parsed.action is None
    assert "more than once" in parsed.problem


@pytest.mark.parametrize("mark", ["```", "````", "~~~"])
def test_a_code_fence_may_stand_for_the_markers(mark: str) -> None:
    parsed = parse(f"Action: WRITE_FILE a.py\n{mark}python\nx = 1\n{mark}")
    assert parsed.action == Action("WRITE_FILE", "a.py", "x = 1\n")


def test_a_longer_fence_holds_shorter_ones() -> None:
    parsed = parse("Action: WRITE_FILE a.md\n````\n```python\nx\n```\n````")
    assert parsed.action == Action("WRITE_FILE", "a.md", "```python\nx\n```\n")


def test_a_fence_that_occurs_again_is_refused_as_unclear() -> None:
    parsed = parse("Action: WRITE_FILE a.md\n```\ntext\n```python\nx\n```\nmore\n```")
    assert parsed.action is None
    assert "unclear" in parsed.problem


@pytest.mark.parametrize(
    "header",
    ["**Action:** RUN ls", "action: run ls", "Action: `RUN` ls", "2. Action: RUN ls", "### Action: RUN ls"],
)
def test_drift_of_the_header_is_tolerated(header: str) -> None:
    assert parse(f"Thought: look\n{header}").action == Action("RUN", "", "ls")


def test_only_the_first_action_counts_and_the_rest_is_cut() -> None:
    parsed = parse("Action: READ_FILE a\nAction: WRITE_FILE b\n<<<BEGIN\nx\nEND>>>\nAction: DONE")
    assert parsed.action == Action("READ_FILE", "a")
    assert parsed.dropped == 2
    assert parsed.kept == "Action: READ_FILE a"


def test_an_invented_observation_is_never_kept() -> None:
    parsed = parse("Action: RUN python x.py\nObservation: ncc 0.99\nThought: done\nAction: DONE")
    assert parsed.action == Action("RUN", "", "python x.py")
    assert "0.99" not in parsed.kept


def test_an_action_after_an_invented_observation_is_not_executed() -> None:
    parsed = parse("Thought: hm\nObservation: all fine\nAction: DONE")
    assert parsed.action is None
    assert "all fine" not in parsed.kept


def test_an_action_inside_a_fence_of_prose_is_an_example() -> None:
    assert parse("Thought: I could do\n```\nAction: RUN rm x\n```\nbut wait").action is None


def test_a_block_without_its_end_is_not_executed() -> None:
    parsed = parse("Action: RUN\n<<<BEGIN\ncat > f <<EOF\nhalf", cut=True)
    assert parsed.action is None
    assert "END>>>" in parsed.problem
    assert "cut" in parsed.problem


def test_a_line_cut_at_the_length_limit_is_not_executed() -> None:
    assert parse("Action: RUN rm -rf out", cut=True).action is None


@pytest.mark.parametrize(
    ("reply", "said"),
    [
        ("I am done.", "no action"),
        ("Action: FLY away", "not an action"),
        ("Action: WRITE_FILE", "path"),
        ("Action: WRITE_FILE a.py", "block"),
        ("Action: READ_FILE", "path"),
        ("Action: RUN", "command"),
        ("Action: RUN ls\n<<<BEGIN\npwd\nEND>>>", "another in a block"),
    ],
)
def test_what_cannot_be_read_is_said(reply: str, said: str) -> None:
    parsed = parse(reply)
    assert parsed.action is None
    assert said in parsed.problem


def test_line_ends_of_windows_and_form_feeds_survive() -> None:
    parsed = parse("Action: WRITE_FILE a.py\r\n<<<BEGIN\r\nx = '\x0c'\r\nEND>>>\r\n")
    assert parsed.action == Action("WRITE_FILE", "a.py", "x = '\x0c'\n")
