"""Outcomes and plans for the tests of reporting, and a JSON reader that forgives nothing."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from pytest_imaging101.outcome import FaultRecord, Outcome, PlannedItem

ROOT = Path(__file__).parents[2]

HOSTILE = {
    "ansi": "red \x1b[31malert\x1b[0m and \x1b]0;title\x07 bell",
    "nul": "before\x00after",
    "controls": "\x01\x08\x0b\x1f\x7f\x9b31m",
    "surrogate": "lone \ud800 and \udfff",
    "emoji": "tower 🗼 and pair \ud83d\ude00",
    "xml": ']]> <script>&amp; "quotes" \' </failure> \ufffe',
    "markup": "[bold red]rich[/] :smile: $\\frac{",
    "separators": "one\u2028two\u2029three\r\nfour\rfive",
    "bidi": "abc \u202egnp.exe",
    "long": "x" * 200_000,
    "chinese": "层析成像",
}


def make_item(**changes: Any) -> PlannedItem:
    """A planned item; its node id and key follow its other fields unless given."""
    fields: dict[str, Any] = {
        "task": "ct_fan_beam",
        "domain": "medicine",
        "difficulty": "medium",
        "tier": 1,
        "mechanism": "end2end",
        "part": "L1",
        "model": "gpt-4o",
        "agent": "react",
        "epoch": 1,
    } | changes
    words = (fields["task"], fields["mechanism"], fields["part"], fields["model"], fields["epoch"])
    part = f"[{fields['part']}]" if fields["part"] else ""
    fields.setdefault("node_id", f"tasks/{fields['task']}/task.toml::{fields['mechanism']}{part}")
    fields.setdefault("key", "-".join(map(str, words)))
    return PlannedItem(**fields)


def make_outcome(item: PlannedItem | None = None, /, **changes: Any) -> Outcome:
    """An outcome of an item: passed unless told otherwise; an ungraded one has a fault."""
    names = set(PlannedItem.model_fields)
    item = item or make_item(**{name: value for name, value in changes.items() if name in names})
    fields: dict[str, Any] = {
        "grader": "g1",
        "verdict": "passed",
        "started": "2026-11-30T10:00:00.000+00:00",
        "finished": "2026-11-30T10:05:00.000+00:00",
    } | {name: value for name, value in changes.items() if name not in names}
    if fields["verdict"] == "ungraded":
        fields.setdefault("fault", FaultRecord(kind="endpoint", message="The endpoint did not answer."))
    return Outcome(**item.model_dump(), **fields)


def strict_json(text: bytes | str) -> Any:
    """Parse JSON as a strict reader does: UTF-8, no NaN or infinities, no lone surrogates."""
    decoded = text.decode("utf-8", "strict") if isinstance(text, bytes) else text
    value = json.loads(decoded, parse_constant=_refuse)
    json.dumps(value, ensure_ascii=False).encode("utf-8")
    return value


def strict_json_lines(path: Path) -> list[Any]:
    """Every line of a JSON-lines file, split as the strictest and the laxest readers split."""
    data = path.read_bytes()
    assert data.endswith(b"\n")
    assert data.decode("ascii").splitlines() == data.decode("ascii").split("\n")[:-1]
    return [strict_json(line) for line in data.splitlines()]


def start_python(program: str, *arguments: object) -> subprocess.Popen[str]:
    """A Python process that runs a text and talks by its output."""
    command = [sys.executable, "-c", program, *map(str, arguments)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT)


def wait_all(processes: Iterable[subprocess.Popen[str]]) -> list[str]:
    """What the processes said; each must have ended well."""
    outputs = []
    for process in processes:
        output, _ = process.communicate(timeout=60)
        assert process.returncode == 0
        outputs.append(output)
    return outputs


def _refuse(constant: str) -> Any:
    raise ValueError(f"{constant} is not JSON")
