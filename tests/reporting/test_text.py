"""Foreign text loses what acts and keeps what it says."""

from __future__ import annotations

import pytest

from pytest_imaging101.reporting.text import clean, one_line


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("a \x1b[1;31mred\x1b[0m b", "a red b"),
        ("\x1b]0;title\x07shown \x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\", "shown link"),
        ("\x9b31mred", "red"),
        ("nul\x00bell\x07del\x7f", "nulbelldel"),
        ("one\r\ntwo\rthree\tfour", "one\ntwo\nthree\tfour"),
        ("lone \ud800, pair \ud83d\ude00, 🗼", "lone \ufffd, pair 😀, 🗼"),
        ("abc\u202egnp", "abcgnp"),
        (b"bytes \xff", "bytes \ufffd"),
        (None, "None"),
    ],
)
def test_only_what_acts_is_removed(text: object, left: str) -> None:
    assert clean(text) == left


def test_too_long_a_text_keeps_both_ends_and_says_what_is_gone() -> None:
    text = clean("head" + "x" * 10_000 + "tail", 300)
    assert text.startswith("headx")
    assert text.endswith("xtail")
    assert "9708 characters left out" in text
    assert len(text) < 350


def test_one_line_is_one_line() -> None:
    assert one_line(" a\n b\u2028c\t d ") == "a b c d"
