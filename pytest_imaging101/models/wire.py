"""What broker and client say to each other: one JSON line each way, typed errors kept as what they are."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from pytest_imaging101.budget import Usage
from pytest_imaging101.faults import BadReply, EndpointFault, Fault, KeyRefused, ModelNotFound, QuotaSpent
from pytest_imaging101.models.base import ContextOverflow, OutOfTime, Refused, Reply

LONGEST_LINE = 2**26

_FAULTS: dict[str, type[Fault]] = {
    fault.kind: fault for fault in (Fault, EndpointFault, KeyRefused, ModelNotFound, QuotaSpent, BadReply)
}
_ENDS: dict[str, type[Exception]] = {
    "refused": Refused,
    "context_overflow": ContextOverflow,
    "out_of_time": OutOfTime,
}


@dataclass(frozen=True)
class BrokerAddress:
    """Where a broker listens, and the token of its run. Two plain strings, so that it can be sent to workers.

    ``socket_path`` is the path of a Unix socket, or ``host:port`` where there are none.
    """

    socket_path: str
    token: str = field(repr=False)


@dataclass(frozen=True)
class Probe:
    """An endpoint that answers: the URL that calls will use, how long it took, and what was found."""

    url: str
    seconds: float
    note: str


def encode(message: Mapping[str, Any]) -> bytes:
    """One line."""
    return json.dumps(message).encode("ascii") + b"\n"


def decode(line: bytes) -> dict[str, Any]:
    """Raises ValueError for anything but a JSON object on one whole line."""
    message = json.loads(line) if line.endswith(b"\n") else None
    if not isinstance(message, dict):
        raise ValueError("no whole JSON object")
    return message


def reply_as_dict(reply: Reply) -> dict[str, Any]:
    """A reply as plain JSON types."""
    return asdict(reply)


def reply_from_dict(fields: Mapping[str, Any]) -> Reply:
    """The reply that ``reply_as_dict`` took apart."""
    return Reply(**{**fields, "usage": Usage(**fields["usage"]), "notes": tuple(fields["notes"])})


def error_as_dict(error: Exception) -> dict[str, str]:
    """One of the errors that ``Model.complete`` may raise, as plain JSON types."""
    if isinstance(error, Fault):
        return {"kind": error.kind, "message": error.message, "evidence": error.evidence}
    kind = next(name for name, end in _ENDS.items() if isinstance(error, end))
    return {"kind": kind, "message": str(error)}


def error_from_dict(fields: Mapping[str, str]) -> Exception:
    """The error that ``error_as_dict`` took apart."""
    kind, message = fields["kind"], fields["message"]
    if kind in _ENDS:
        return _ENDS[kind](message)
    return _FAULTS.get(kind, EndpointFault)(message, evidence=fields.get("evidence", ""))
