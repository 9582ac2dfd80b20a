"""What a model wrote, made fit to use: clean Unicode, thinking apart from the answer, cut at stop markers."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

_TAG = r"(?:think|thinking|seed:think)"
_OPENER = re.compile(rf"\s*<{_TAG}>", re.IGNORECASE)
_CLOSER = re.compile(rf"</{_TAG}>", re.IGNORECASE)
_EITHER = re.compile(rf"<(/?){_TAG}>", re.IGNORECASE)
_FENCED = re.compile(r"^[ \t]*(`{3,}|~{3,}).*?^[ \t]*\1[`~]*[ \t]*$", re.MULTILINE | re.DOTALL)
_QUOTES = "'\"`"


def clean(text: str) -> str:
    """The text with surrogate pairs joined and lone surrogates replaced, so that it can be sent and stored."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def cut_at_stop(text: str, stop: Sequence[str]) -> str:
    """The text up to the first stop marker, as a server that honours ``stop`` would return it."""
    ends = [found for marker in stop if marker and (found := text.find(marker)) >= 0]
    return text[: min(ends)] if ends else text


def split_thinking(content: str) -> tuple[str, str]:
    """Thinking and answer of a reply whose server left the thinking in.

    Thinking is what leading ``<think>`` blocks hold, and what stands before a closing tag whose opener the
    chat template had already written. An opener that is never closed leaves no answer. Tags that belong to
    the answer (in a code fence, in quotes, or opened after it began) stay where they are.
    """
    thoughts: list[str] = []
    answer = content
    while end := _thinking_end(answer, is_first=not thoughts):
        thoughts.append(_EITHER.sub("", answer[:end]).strip())
        answer = answer[end:].lstrip()
    return "\n".join(thought for thought in thoughts if thought), answer


def _thinking_end(text: str, *, is_first: bool) -> int:
    """How far the text is thinking: a leading block, or all before the last stray closing tag; 0 if none is."""
    if opener := _OPENER.match(text):
        closer = _CLOSER.search(text, opener.end())
        return closer.end() if closer else len(text)
    strays = list(_stray_closers(text))
    before_text = [end for end in strays if text[end:].strip()]
    if before_text:
        return before_text[-1]
    return len(text) if strays and is_first else 0


def _stray_closers(text: str) -> Iterator[int]:
    """Ends of closing tags that close nothing of the answer's own."""
    fences = [match.span() for match in _FENCED.finditer(text)]
    opened = 0
    for tag in _EITHER.finditer(text):
        around = text[max(0, tag.start() - 1) : tag.start()] + text[tag.end() : tag.end() + 1]
        if any(first <= tag.start() < last for first, last in fences) or any(q in around for q in _QUOTES):
            continue
        if not tag.group(1):
            opened += 1
        elif opened:
            opened -= 1
        else:
            yield tag.end()
