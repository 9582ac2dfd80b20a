"""What an endpoint says instead of answering, read from the many shapes that error bodies have."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from pytest_imaging101.models.text import clean

_MESSAGE_KEYS = ("message", "msg", "error_msg", "error_message", "detail", "title")
_CODE_KEYS = ("code", "type", "status", "error_type", "reason", "blockReason")
_INNER_KEYS = ("innererror", "inner_error")
_DEEPEST = 5


@dataclass(frozen=True)
class Rejection:
    """An error, flattened. ``status`` is the HTTP status, or the error's own where HTTP said 200.

    ``codes`` are all machine-readable names in it, case-folded; ``params`` the request fields it points at;
    ``text`` its sentences; ``fields`` its plain values by name.
    """

    status: int | None
    codes: frozenset[str] = frozenset()
    params: tuple[str, ...] = ()
    text: str = ""
    fields: Mapping[str, Any] = field(default_factory=dict)
    is_page: bool = False

    @property
    def brief(self) -> str:
        """Status and text in one line for a sentence."""
        said = one_line(self.text, 200) or ", ".join(sorted(self.codes)) or "no explanation"
        return f"{self.status}: {said}" if self.status else said


class Rejected(Exception):
    """The endpoint answered with an error."""

    def __init__(self, rejection: Rejection, headers: Mapping[str, str]) -> None:
        super().__init__(rejection.brief)
        self.rejection = rejection
        self.headers = headers


def one_line(text: str, most: int) -> str:
    """The beginning of a text, with all white space made single blanks."""
    line = " ".join(clean(text[: 4 * most]).split())
    return line if len(line) <= most else line[: most - 1] + "…"


def is_web_page(text: str) -> bool:
    """Whether a body is HTML."""
    return text.lstrip()[:200].casefold().startswith(("<!doctype html", "<html", "<head", "<body"))


def parsed(text: str) -> Any:
    """The body as JSON where it is JSON, else as the text it is."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def read_rejection(status: int, body: Any) -> Rejection:
    """Flatten an error body (what ``parsed`` returned)."""
    codes: set[str] = set()
    params: list[str] = []
    texts: list[str] = []
    fields: dict[str, Any] = {}
    inner_status: int | None = None
    for error in _errors(body):
        codes |= {value.casefold() for key in _CODE_KEYS if isinstance(value := error.get(key), str)}
        params += _params(error)
        texts += [value for key in _MESSAGE_KEYS if isinstance(value := error.get(key), str) and value]
        fields = {**error, **fields}
        inner_status = inner_status or _status(error.get("code")) or _status(error.get("status"))
    return Rejection(
        status=inner_status if status < 300 else status,
        codes=frozenset(codes),
        params=tuple(dict.fromkeys(params)),
        text=clean("; ".join(dict.fromkeys(texts))),
        fields=fields,
        is_page=isinstance(body, str) and is_web_page(body),
    )


def _errors(body: Any, depth: int = 0) -> Iterator[dict[str, Any]]:
    """Every error object in a body: below ``error``, ``errors``, ``detail``, or packed as JSON into a message."""
    if depth > _DEEPEST:
        return
    if isinstance(body, str):
        yield {"message": body}
        unpacked = parsed(body) if body.lstrip()[:1] in ("{", "[") else None
        if isinstance(unpacked, dict | list):
            yield from _errors(unpacked, depth + 1)
    elif isinstance(body, list):
        for item in body[:20]:
            yield from _errors(item, depth + 1)
    elif isinstance(body, dict):
        yield body
        metadata = body.get("metadata")
        inner = [body.get(key) for key in ("error", "errors", *_INNER_KEYS)]
        inner += [body.get("detail"), metadata.get("raw") if isinstance(metadata, dict) else None]
        inner += [value for key in ("message", "details") if isinstance(value := body.get(key), list | dict)]
        message = body.get("message")
        if isinstance(message, str) and message.lstrip().startswith("{"):
            inner.append(message)
        for value in inner:
            if isinstance(value, str | list | dict):
                yield from _errors(value, depth + 1)


def _params(error: Mapping[str, Any]) -> list[str]:
    """Names of request fields: ``param``, or pydantic's ``loc`` without its first word."""
    found = [error["param"]] if isinstance(error.get("param"), str) else []
    location = error.get("loc")
    if isinstance(location, list):
        found.append(".".join(str(part) for part in location if part != "body"))
    return found


def _status(value: Any) -> int | None:
    try:
        number = int(value) if isinstance(value, int | str) else 0
    except ValueError:
        return None
    return number if 400 <= number <= 599 else None
