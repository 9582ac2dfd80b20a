"""Plans against the patterns of a rubric."""

from __future__ import annotations

from typing import Any

import pytest

from pytest_imaging101.faults import TaskFault
from pytest_imaging101.scoring.plan import (
    MAX_PARAGRAPH_CHARACTERS,
    PlanMissing,
    Rubric,
    check_rubric,
    join_plan,
    miss_plan,
    reference_plan,
    split_paragraphs,
)
from pytest_imaging101.task import Task
from tests.scoring.toy import APPROACH, DESIGN, make_task

PLAN = f"{APPROACH}\n{DESIGN}"


@pytest.fixture
def task(tmp_path: Any) -> Task:
    return make_task(tmp_path)


@pytest.fixture
def rubric(task: Task) -> Rubric:
    return Rubric.read(task)


def test_the_reference_plan_meets_every_item(task: Task, rubric: Rubric) -> None:
    found = check_rubric(rubric, reference_plan(task))
    assert found.passed
    assert found.reason == "all 4 parts of the plan are right"
    assert found.scores == {
        "preprocessing": 1.0,
        "forward_model": 1.0,
        "inverse_solver": 1.0,
        "visualization": 1.0,
        "overall": 1.0,
        "items_met_fraction": 1.0,
    }
    assert found.judge == "rubric"
    assert [(check.name, check.group) for check in found.checks][:2] == [
        ("floats", "preprocessing"),
        ("gain", "forward_model"),
    ]


def test_one_unmet_item_makes_its_part_and_the_whole_wrong(rubric: Rubric) -> None:
    found = check_rubric(rubric, PLAN.replace("; iterations stop when the residual no longer falls", ""))
    assert not found.passed
    assert found.reason == "1 of 4 parts of the plan are not right: inverse_solver (stop)"
    assert found.scores["inverse_solver"] == found.scores["overall"] == 0.0
    assert found.scores["forward_model"] == 1.0
    assert found.scores["items_met_fraction"] == pytest.approx(4 / 5)
    assert {check.name: check.passed for check in found.checks}["least_squares"]


def test_the_readme_is_no_plan(task: Task, rubric: Rubric) -> None:
    assert check_rubric(rubric, task.text("README.md")).scores["inverse_solver"] == 0.0


def test_all_patterns_must_match_in_one_paragraph(rubric: Rubric) -> None:
    apart = PLAN.replace("The counts become float values.", "There are counts.\n\nThey become float values.")
    assert check_rubric(rubric, apart).scores["preprocessing"] == 0.0


def test_a_line_break_or_a_capital_changes_no_match(rubric: Rubric) -> None:
    wrapped = PLAN.replace("least squares", "LEAST\n   squares").replace("\n", "\r\n")
    assert check_rubric(rubric, wrapped).passed


def test_what_must_not_be_said_spoils_its_paragraph_only(rubric: Rubric) -> None:
    said = "The image is multiplied by the gain."
    spoilt = PLAN.replace(said, said + " Then the logarithm is taken.")
    assert check_rubric(rubric, spoilt).scores["forward_model"] == 0.0
    assert check_rubric(rubric, spoilt + f"\n\n{said}").scores["forward_model"] == 1.0


def test_a_list_is_one_paragraph_even_with_blank_lines() -> None:
    text = "Steps:\n\n- one\n\n- two\n  more\n\n* three\n\nEnd\n \n1. a\n\n\n2) b\n\n|a|b|\n|-|-|\n|c|d|"
    assert split_paragraphs(text) == [
        "Steps:",
        "- one - two more * three",
        "End",
        "1. a 2) b",
        "|a|b| |-|-| |c|d|",
    ]


def test_a_long_paragraph_is_looked_at_in_pieces_that_overlap(rubric: Rubric) -> None:
    filler = "word " * (MAX_PARAGRAPH_CHARACTERS // 5 - 3)
    pieces = split_paragraphs(filler + "least squares, and stop there. " + filler)
    assert all(len(piece) <= MAX_PARAGRAPH_CHARACTERS for piece in pieces)
    assert any("least squares, and stop there" in piece for piece in pieces)


def test_a_long_plan_is_cut_and_the_assessment_says_so(rubric: Rubric) -> None:
    found = check_rubric(rubric, "x\n\n" * 100_000 + PLAN)
    assert not found.passed
    assert found.notes[0].startswith("only the first 200000 of the plan's ")
    assert check_rubric(rubric, PLAN).notes == ()


def files(**contents: bytes | None) -> dict[str, bytes | None]:
    return {f"plan/{name}.md": content for name, content in contents.items()}


def test_both_plan_files_are_read() -> None:
    text = join_plan(files(approach=b"first\xff", design="zweite \u00fc".encode()))
    assert text == "first\ufffd\n\nzweite \u00fc"


@pytest.mark.parametrize(
    ("contents", "sentence"),
    [
        (files(approach=b"x"), "plan/design.md was not delivered"),
        (files(approach=None, design=b"x"), "plan/approach.md was not delivered"),
        (files(approach=b"x", design=b" \n\t"), "plan/design.md is empty"),
    ],
)
def test_a_missing_or_empty_plan_file_is_a_miss(
    rubric: Rubric, contents: dict[str, bytes | None], sentence: str
) -> None:
    with pytest.raises(PlanMissing) as caught:
        join_plan(contents)
    assert str(caught.value) == sentence
    found = miss_plan(rubric, sentence, "rubric")
    assert (found.passed, found.reason, found.scores["overall"]) == (False, sentence, 0.0)
    assert len(found.checks) == 5


ITEM = """
[[item]]
part = "preprocessing"
id = "a"
text = "A."
all_of = ['x']
"""


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("[[item", "is not TOML"),
        ("", "has no [[item]]"),
        ("item = 3", "has no [[item]]"),
        ("item = [3]", "item 1 is no table"),
        (ITEM.replace("'x'", "'('"), "item 1 (a): all_of holds '(', which is no regular expression"),
        (ITEM.replace("['x']", "'x'"), "item 1 (a): all_of is 'x'; it must be a list"),
        (ITEM.replace("['x']", "[]"), "item 1 (a): all_of is empty"),
        (ITEM + "none_of = [3]", "item 1 (a): none_of is [3]"),
        (ITEM.replace("preprocessing", "cooking"), "item 1 (a): part is 'cooking'; it must be one of"),
        (ITEM.replace('"A."', '""'), "item 1 (a): text is ''"),
        (ITEM.replace('id = "a"', ""), "item 1: id is None"),
        (ITEM + "any_of = []", "item 1 (a) has the unknown key 'any_of'"),
        (ITEM + ITEM, "the id 'a' stands there twice"),
        (ITEM, "has no item for the part 'forward_model'"),
    ],
)
def test_a_broken_rubric_is_the_tasks_fault_and_names_file_and_item(
    task: Task, text: str, sentence: str
) -> None:
    task.path("plan/rubric.toml").write_text(text)
    with pytest.raises(TaskFault) as caught:
        Rubric.read(task)
    assert str(caught.value).startswith("task toy_blur: plan/rubric.toml")
    assert sentence in str(caught.value)


def test_a_missing_rubric_is_the_tasks_fault(task: Task) -> None:
    task.path("plan/rubric.toml").unlink()
    with pytest.raises(TaskFault, match=r"rubric\.toml cannot be read"):
        Rubric.read(task)
