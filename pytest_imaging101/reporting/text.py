"""Foreign text made fit for a terminal, XML and a property: capped, and nothing in it that acts."""

from __future__ import annotations

import re
from typing import Any

from pytest_imaging101.outcome import plain

_ANSI = re.compile(
    r"\x9b[0-?]*[ -/]*[@-~]|\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[PX^_][^\x1b]*(?:\x1b\\)?|[ -~])"
)
# C0 but tab and newline, DEL, C1, bidirectional controls, and what XML 1.0 refuses.
_UNFIT = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069\ufffe\uffff]")


def clean(value: Any, limit: int = 2000) -> str:
    """Text without ANSI sequences, control characters, lone surrogates; one too long loses its middle."""
    text = str(plain(value)).replace("\r\n", "\n").replace("\r", "\n")
    text = _UNFIT.sub("", _ANSI.sub("", text))
    if len(text) <= limit:
        return text
    cut = f" … {len(text) - limit} characters left out … "
    head = limit * 2 // 3
    return text[:head] + cut + text[len(text) - (limit - head) :]


def one_line(value: Any, limit: int = 300) -> str:
    """The same with every run of white space as one space."""
    return " ".join(clean(value, limit).split())
