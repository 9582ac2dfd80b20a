"""Thinking is told from the answer, replies are cut at stop markers, and text is clean Unicode."""

from __future__ import annotations

import pytest

from pytest_imaging101.models.text import clean, cut_at_stop, split_thinking

FENCED = "Action: write\n```\n<think>kept</think>\n```\n"


@pytest.mark.parametrize(
    ("content", "thinking", "answer"),
    [
        ("Action", "", "Action"),
        ("<think>x</think>Action", "x", "Action"),
        ("x</think>Action", "x", "Action"),
        ("<think>x", "x", ""),
        ("<think>x</think>", "x", ""),
        ("x</think>", "x", ""),
        ("\n<THINK>\nx\n</THINK>\n\nAction", "x", "Action"),
        ("<thinking>x</thinking>Action", "x", "Action"),
        ("<think>a</think>\n<think>b</think>Action", "a\nb", "Action"),
        ("<think>a</think> and more </think>Action", "a\nand more", "Action"),
        ("<think>a <think> b</think>Action", "a  b", "Action"),
        ("a</think><think>b</think>Action", "a\nb", "Action"),
        ("<think>x</think>Action: ls</think>", "x", "Action: ls</think>"),
        ("<think>Action: rm x</think>Action: ls", "Action: rm x", "Action: ls"),
        ("```\nplan\n```\nx</think>Action", "```\nplan\n```\nx", "Action"),
    ],
)
def test_thinking_is_split_off(content: str, thinking: str, answer: str) -> None:
    assert split_thinking(content) == (thinking, answer)


@pytest.mark.parametrize(
    "answer",
    [
        FENCED,
        "Action: write\n```\nprint('a') </think>\n```\nrest",
        "Action: run\nprint('</think>')",
        "I write <think>this</think> into the file",
        "~~~text\nx</think>\n~~~\ntail",
    ],
)
def test_tags_inside_the_answer_stay(answer: str) -> None:
    assert split_thinking(answer) == ("", answer)
    assert split_thinking(f"<think>t</think>{answer}") == ("t", answer)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Action: a\nObservation: b", "Action: a"),
        ("one STOP two\nObservation: b", "one "),
        ("nothing to cut", "nothing to cut"),
    ],
)
def test_a_reply_is_cut_at_the_first_stop_marker(text: str, expected: str) -> None:
    assert cut_at_stop(text, ["\nObservation:", "STOP", ""]) == expected


def test_surrogates_are_joined_or_replaced() -> None:
    assert clean("a\ud800b") == "a\ufffdb"
    assert clean("\ud83d\ude00") == "😀"
    assert clean("plain Å 中") == "plain Å 中"
