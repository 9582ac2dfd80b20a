"""Head and tail of what a command prints."""

from __future__ import annotations

import pytest

from pytest_imaging101.sandboxes.output import HeadAndTail


def collected(limit: int, *chunks: bytes) -> HeadAndTail:
    output = HeadAndTail(limit)
    for chunk in chunks:
        output.add(chunk)
    return output


@pytest.mark.parametrize(
    "chunks", [(b"0123456789",), (b"0", b"12345678", b"9"), tuple(b"%d" % i for i in range(10))]
)
def test_all_is_kept_up_to_the_limit_however_it_comes(chunks: tuple[bytes, ...]) -> None:
    output = collected(10, *chunks)
    assert (output.text(), output.total, output.truncated) == ("0123456789", 10, False)


@pytest.mark.parametrize("size", [1, 3, 7, 100])
def test_beyond_it_both_ends_are_kept(size: int) -> None:
    text = bytes(range(33, 120))
    output = collected(10, *(text[start : start + size] for start in range(0, len(text), size)))
    assert output.text() == '!"#$%\n[... 77 bytes left out ...]\nstuvw'
    assert (output.total, output.truncated) == (87, True)


def test_no_character_is_cut_in_two() -> None:
    output = collected(8, "ab€€€€€€yz".encode())
    assert output.text() == "ab\n[... 14 bytes left out ...]\nyz"


def test_a_limit_of_nothing_keeps_nothing() -> None:
    output = collected(0, b"abc")
    assert (output.text(), output.total) == ("\n[... 3 bytes left out ...]\n", 3)
