"""No secret reaches a file: values of API keys and their like, replaced wherever a record names them."""

from __future__ import annotations

import re
from typing import Any

REMOVED = "(removed)"

_SECRET_NAME = re.compile(r"api[-_]?key|secret|password|authorization|(^|[-_])token$", re.IGNORECASE)
_SECRET_OPTIONS = ("--api-key", "--imaging101-api-key")


def without_secrets(value: Any) -> Any:
    """Plain JSON data with the values of secrets replaced, in mappings and in lists of arguments."""
    if isinstance(value, dict):
        return {
            name: REMOVED if isinstance(item, str) and _SECRET_NAME.search(name) else without_secrets(item)
            for name, item in value.items()
        }
    if isinstance(value, list):
        return [
            _argument(item, before) if isinstance(item, str) else without_secrets(item)
            for before, item in zip(["", *value], value, strict=False)
        ]
    return value


def _argument(argument: str, before: Any) -> str:
    if before in _SECRET_OPTIONS:
        return REMOVED
    option, equals, _ = argument.partition("=")
    return f"{option}={REMOVED}" if equals and option in _SECRET_OPTIONS else argument
