"""The text protocol of the react agent: one reply of a model becomes one action, or a sentence on what is wrong.

A reply is prose, then a line ``Action: NAME argument``, then for WRITE_FILE and RUN a block. Headers count only at
the start of a line outside code fences and blocks, so that a file may contain anything, this text included.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

ACTIONS = ("WRITE_FILE", "READ_FILE", "RUN", "DONE")
OBSERVATION_MARK = "Observation:"

_DECORATION = r"[\s*_`#>]*"
_HEADER = re.compile(rf"{_DECORATION}(?:\d+[.)]\s*)?{_DECORATION}action{_DECORATION}:{_DECORATION}(.*)", re.I)
_OBSERVATION = re.compile(rf"{_DECORATION}observation{_DECORATION}:", re.I)
_LABEL = re.compile(rf"{_DECORATION}(?:action )?(?:input|content|command){_DECORATION}:{_DECORATION}", re.I)
_FENCE = re.compile(r"\s{0,3}(`{3,}|~{3,})\s*([\w+-]*)\s*")
_BEGIN = re.compile(r"<<<BEGIN(?: +(\w+))?\s*")


@dataclass(frozen=True)
class Action:
    """What the model wants done: ``argument`` is a path or empty, ``body`` a file's content or a command."""

    name: str
    argument: str = ""
    body: str = ""


@dataclass(frozen=True)
class Parsed:
    """An action or a problem; ``kept`` is the part of the reply that may stay in the conversation.

    ``dropped`` counts further actions in the same reply, which are not executed.
    """

    kept: str
    action: Action | None = None
    problem: str = ""
    dropped: int = 0


class _Malformed(Exception):
    """The action cannot be read; the sentence is for the model."""


def parse(reply: str, *, cut: bool = False) -> Parsed:
    """Read one reply. ``cut`` says that the endpoint ended it at its length limit: then nothing is executed."""
    # Not splitlines(), which also splits at form feeds and other characters that a file may hold.
    lines = reply.replace("\r\n", "\n").split("\n")
    start = _first_header(lines)
    if start is None:
        kept = "\n".join(lines[: _first_observation(lines)])
        said = (
            "the reply was cut at the length limit before any action"
            if cut
            else "no action was found in the reply"
        )
        return Parsed(
            kept, problem=f"{said}; end each reply with one line 'Action: NAME ...', outside code fences"
        )
    try:
        action, end = _read_action(lines, start)
    except _Malformed as error:
        extra = "; the reply was cut at the length limit, write smaller pieces" if cut else ""
        return Parsed("\n".join(lines[: start + 1]), problem=f"{error}{extra}")
    kept = "\n".join(lines[:end])
    on_one_line = end == start + 1
    if cut and on_one_line and not any(line.strip() for line in lines[end:]):
        return Parsed(kept, problem="the reply was cut at the length limit, so the action was not executed")
    return Parsed(kept, action=action, dropped=_count_headers(lines[end:]))


def _outside_fences(lines: Sequence[str]) -> list[bool]:
    outside, fence = [], ""
    for line in lines:
        match = _FENCE.fullmatch(line)
        if fence:
            outside.append(False)
            if match and not match[2] and match[1].startswith(fence):
                fence = ""
        elif match:
            outside.append(False)
            fence = match[1]
        else:
            outside.append(True)
    return outside


def _first_observation(lines: Sequence[str]) -> int:
    outside = _outside_fences(lines)
    return next((n for n, line in enumerate(lines) if outside[n] and _OBSERVATION.match(line)), len(lines))


def _first_header(lines: Sequence[str]) -> int | None:
    outside = _outside_fences(lines)
    end = _first_observation(lines)
    return next((n for n in range(end) if outside[n] and _HEADER.match(lines[n])), None)


def _count_headers(lines: Sequence[str]) -> int:
    outside = _outside_fences(lines)
    return sum(1 for n, line in enumerate(lines) if outside[n] and _HEADER.match(line))


def _read_action(lines: Sequence[str], start: int) -> tuple[Action, int]:
    header = _HEADER.match(lines[start])
    words = (header.group(1) if header else "").strip().strip("`*")
    name, _, argument = words.partition(" ")
    name = name.strip("`*:(").upper()
    argument = argument.strip().strip("`*").strip()
    if name not in ACTIONS:
        raise _Malformed(f"{name or 'an empty name'} is not an action; the actions are {', '.join(ACTIONS)}")
    if name == "DONE":
        return Action(name), start + 1
    if name == "READ_FILE":
        if not argument:
            raise _Malformed("READ_FILE needs a path on the same line")
        return Action(name, argument.strip("'\"")), start + 1
    body, end = _read_block(lines, start + 1)
    if name == "WRITE_FILE":
        if not argument:
            raise _Malformed("WRITE_FILE needs a path on the same line")
        if body is None:
            raise _Malformed(
                "WRITE_FILE needs the content in a block: a line <<<BEGIN, the content, a line END>>>"
            )
        return Action(name, argument.strip("'\""), body), end
    return _read_run(argument, body, start, end)


def _read_run(argument: str, body: str | None, start: int, end: int) -> tuple[Action, int]:
    if body is None:
        if not argument:
            raise _Malformed("RUN needs a command, on the same line or in a block")
        return Action("RUN", "", argument), start + 1
    if argument.lower() not in ("", "bash", "sh", "shell"):
        raise _Malformed("RUN has a command on its line and another in a block; give one of them")
    return Action("RUN", "", body), end


def _read_block(lines: Sequence[str], start: int) -> tuple[str | None, int]:
    """Content of the block that begins at or after a line, and the line after it; None if there is no block."""
    first = start
    while first < len(lines) and (not lines[first].strip() or _LABEL.fullmatch(lines[first])):
        first += 1
    if first == len(lines):
        return None, start
    if begin := _BEGIN.fullmatch(lines[first]):
        closing = f"END>>> {begin.group(1)}" if begin.group(1) else "END>>>"
        return _until(lines, first + 1, lambda line: line.rstrip() == closing, closing)
    if fence := _FENCE.fullmatch(lines[first]):
        mark = fence.group(1)
        return _until(lines, first + 1, lambda line: _closes(line, mark), mark)
    return None, start


def _closes(line: str, mark: str) -> bool:
    match = _FENCE.fullmatch(line)
    return bool(match and not match[2] and match[1].startswith(mark))


def _until(lines: Sequence[str], start: int, closes: Callable[[str], bool], mark: str) -> tuple[str, int]:
    ends = [n for n in range(start, len(lines)) if closes(lines[n])]
    if not ends:
        raise _Malformed(f"the block has no closing line {mark!r}, so nothing was executed")
    end = ends[0]
    stop = next((n for n in range(end + 1, len(lines)) if _is_header(lines[n])), len(lines))
    if any(n < stop for n in ends[1:]):
        raise _Malformed(
            f"the closing line {mark!r} occurs more than once, so where the block ends is unclear; "
            "use <<<BEGIN tag and END>>> tag with a tag that the content does not hold"
        )
    return "\n".join(lines[start:end]) + "\n", end + 1


def _is_header(line: str) -> bool:
    return bool(_HEADER.match(line) or _OBSERVATION.match(line))
