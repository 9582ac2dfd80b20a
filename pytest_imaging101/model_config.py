"""Which endpoint a model's name stands for: built in, config_llm.yaml, or --base-url and --api-key."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from pytest_imaging101.faults import UsageError
from pytest_imaging101.models.base import ModelSettings

BUILT_IN = ("oracle", "nop", "naive")
REPLAY = "replay:"
CONFIG_FILE = "config_llm.yaml"

ModelTable = Mapping[str, Mapping[str, Any]]

_FIELDS = (
    "base_url",
    "api_key",
    "api_key_env",
    "temperature",
    "max_reply_tokens",
    "context_tokens",
    "extra_body",
    "prices_usd_per_million",
)


def is_built_in(model: str) -> bool:
    """Whether a model needs no endpoint."""
    return model in BUILT_IN or model.startswith(REPLAY)


def model_table(file: Path | None, folder: Path) -> ModelTable:
    """Entries of config_llm.yaml by model name; empty if none was asked for and none is there."""
    path = file or folder / CONFIG_FILE
    if not path.is_file():
        if file is not None:
            raise UsageError(f"--config-llm: {file} is not a file")
        return {}
    import yaml

    try:
        loaded = yaml.safe_load(path.read_text(encoding="utf-8")) or {}
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise UsageError(f"{path}: cannot be read as YAML: {' '.join(str(error).split())}") from error
    entries = loaded.get("models", loaded) if isinstance(loaded, dict) else None
    if not isinstance(entries, dict):
        raise UsageError(f"{path}: must map model names to their settings")
    for name, entry in entries.items():
        _check_entry(path, name, entry)
    return entries


def _check_entry(path: Path, name: object, entry: object) -> None:
    if not isinstance(name, str) or not isinstance(entry, dict):
        raise UsageError(f"{path}: the entry of model {name!r} must be a mapping with base_url, api_key ...")
    for key in entry:
        if key not in _FIELDS:
            near = get_close_matches(str(key), _FIELDS, n=1)
            hint = f"; did you mean {near[0]}?" if near else f"; known are {', '.join(_FIELDS)}"
            raise UsageError(f"{path}: model {name!r} has an unknown setting {key!r}{hint}")


def resolve_models(
    names: Sequence[str], table: ModelTable, base_url: str | None, api_key: str | None
) -> dict[str, ModelSettings]:
    """Endpoint settings of every model that is not built in. Raises UsageError for a name nobody knows."""
    for name in names:
        if name.startswith(REPLAY) and not Path(name.removeprefix(REPLAY) or "?").is_dir():
            raise UsageError(f"--model {name}: {REPLAY}DIR needs the folder of a run or of one attempt")
    return {name: _resolve(name, table, base_url, api_key) for name in names if not is_built_in(name)}


def _resolve(name: str, table: ModelTable, base_url: str | None, api_key: str | None) -> ModelSettings:
    entry = table.get(name)
    # A key alone names no endpoint; only a variable of OpenAI's own name stands for OpenAI's.
    if entry is None and not base_url and not os.environ.get("OPENAI_API_KEY"):
        near = get_close_matches(name, [*BUILT_IN, *table], n=1)
        hint = f" Did you mean {near[0]}?" if near else ""
        raise UsageError(
            f"--model {name}: no endpoint is known for it. Give --base-url (and API_KEY), or an entry in "
            f"{CONFIG_FILE}; built in are {', '.join(BUILT_IN)} and {REPLAY}DIR.{hint}"
        )
    entry = entry or {}
    prices = entry.get("prices_usd_per_million")
    return ModelSettings(
        name=name,
        base_url=base_url or entry.get("base_url"),
        api_key=api_key or _key(name, entry) or os.environ.get("OPENAI_API_KEY"),
        temperature=entry.get("temperature"),
        max_reply_tokens=entry.get("max_reply_tokens"),
        context_tokens=entry.get("context_tokens"),
        extra_body=entry.get("extra_body") or {},
        prices_usd_per_million=(float(prices[0]), float(prices[1])) if prices else None,
    )


def _key(name: str, entry: Mapping[str, Any]) -> str | None:
    variable = entry.get("api_key_env")
    key = entry.get("api_key")
    if isinstance(key, str) and (reference := re.fullmatch(r"\$\{?(\w+)\}?", key.strip())):
        variable = reference.group(1)
    if variable is None:
        return None if key is None else str(key)
    value = os.environ.get(str(variable))
    if not value:
        raise UsageError(
            f"{CONFIG_FILE}: model {name!r} takes its key from the variable {variable}, which is not set"
        )
    return value
