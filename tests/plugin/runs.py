"""Reading back what a run in a test left."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any


def outcomes(run: Path) -> dict[str, dict[str, Any]]:
    """Outcomes of a run by what follows ``task.toml::`` in their ids."""
    lines = (run / "results.jsonl").read_text(encoding="utf-8").splitlines()
    return {one["node_id"].partition("::")[2]: one for one in map(json.loads, lines)}


def verdicts(run: Path) -> dict[str, str]:
    """Verdicts by item."""
    return {name: one["verdict"] for name, one in outcomes(run).items()}


def junit_cases(path: Path) -> dict[str, tuple[str, dict[str, str]]]:
    """What junit says of each case: ``passed``, ``failure``, ``error`` or ``skipped``, and its properties."""
    cases = {}
    for case in ET.parse(path).getroot().iter("testcase"):
        ends = [child.tag for child in case if child.tag in ("failure", "error", "skipped")]
        assert len(ends) <= 1
        properties = {entry.get("name", ""): entry.get("value", "") for entry in case.iter("property")}
        cases[case.get("name", "")] = (ends[0] if ends else "passed", properties)
    return cases
