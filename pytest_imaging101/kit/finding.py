"""What a check of a task found: a figure, and a sentence for each thing that is wrong."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from pytest_imaging101.kit.subject import Subject

Status = Literal["passed", "failed", "fault", "skipped"]
_SHOWN = 4


@dataclass(frozen=True)
class Verdict:
    """What one check saw: its figure, and what is wrong, a sentence each."""

    figure: str
    problems: tuple[str, ...] = ()


@dataclass(frozen=True)
class Unit:
    """One thing to look at, independent of all others: a check, or one trap of many."""

    name: str
    group: str
    look: Callable[[Subject], Verdict]


@dataclass(frozen=True)
class Finding:
    """The result of one unit at one task. ``fault`` is ours or the machine's, ``skipped`` was not looked at."""

    task: str
    check: str
    group: str
    status: Status
    figure: str = ""
    sentence: str = ""
    seconds: float = 0.0

    @property
    def good(self) -> bool:
        return self.status == "passed"


def sentence_of(problems: tuple[str, ...]) -> str:
    """The first few problems as one text, and how many more there are."""
    more = f" (and {len(problems) - _SHOWN} more)" if len(problems) > _SHOWN else ""
    return "; ".join(problems[:_SHOWN]) + more


def counted(number: int, noun: str) -> str:
    """``"1 file"``, ``"3 files"``."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
