"""Check a sweep from its files: every planned item has the wanted verdict, and junit says the same."""

from __future__ import annotations

import json
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

PROPERTIES = {"task", "domain", "mechanism", "model", "verdict", "stop_reason"}


def main(folder: Path, junit: Path, wanted: str, exit_code: int) -> None:
    """Exit with a sentence on the first thing that is not as it must be."""
    outcomes = [json.loads(line) for line in (folder / "results.jsonl").read_text().splitlines()]
    planned = json.loads((folder / "summary.json").read_text())["total"]["planned"]
    others = [
        f"{one['node_id']}: {one['verdict']} ({one['reason']})"
        for one in outcomes
        if one["verdict"] != wanted
    ]
    if others:
        sys.exit("not " + wanted + ":\n" + "\n".join(others))
    if not outcomes or len(outcomes) != planned:
        sys.exit(f"{len(outcomes)} outcomes of {planned} planned")
    cases = list(ET.parse(junit).getroot().iter("testcase"))
    if len(cases) != planned:
        sys.exit(f"junit has {len(cases)} cases of {planned}")
    for case in cases:
        names = {entry.get("name") for entry in case.iter("property")}
        if missing := PROPERTIES - names:
            sys.exit(f"{case.get('name')}: junit lacks {sorted(missing)}")
    expected = 0 if wanted == "passed" else 1
    if exit_code != expected:
        sys.exit(f"pytest's exit code was {exit_code}, not {expected}")
    print(f"{len(outcomes)} items {wanted}, as they must")


main(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3], int(sys.argv[4]))
