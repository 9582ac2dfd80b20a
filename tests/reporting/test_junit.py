"""junit from outcomes alone: every planned item once, valid, small, and nothing that its readers choke on."""

from __future__ import annotations

import re
from pathlib import Path
from xml.etree import ElementTree

import pytest

from pytest_imaging101.budget import StopReason
from pytest_imaging101.outcome import Check, Clocks, FaultRecord
from pytest_imaging101.reporting.journal import Journal, read_events
from pytest_imaging101.reporting.junit import write_junit
from tests.reporting.records import HOSTILE, make_item, make_outcome

# What the xunit2 schema allows: attributes and children by element; properties on a test case are the one
# liberty that pytest itself takes.
SHAPE: dict[str, tuple[set[str], set[str]]] = {
    "testsuites": ({"name", "time", "tests", "failures", "errors", "disabled"}, {"testsuite"}),
    "testsuite": (
        {"name", "tests", "failures", "errors", "skipped", "time", "timestamp", "hostname"},
        {"properties", "testcase", "system-out", "system-err"},
    ),
    "testcase": (
        {"name", "classname", "time"},
        {"properties", "skipped", "failure", "error", "system-out", "system-err"},
    ),
    "properties": (set(), {"property"}),
    "property": ({"name", "value"}, set()),
    "failure": ({"message", "type"}, set()),
    "error": ({"message", "type"}, set()),
    "skipped": ({"message", "type"}, set()),
    "system-out": (set(), set()),
}
REQUIRED = {
    "testsuite": {"name", "tests", "failures", "errors"},
    "testcase": {"name", "classname"},
    "property": {"name", "value"},
}


def read(path: Path) -> ElementTree.Element:
    """Parse a junit file and check its shape, its counts and that its names are unique."""
    root = ElementTree.fromstring(path.read_bytes())
    for element in root.iter():
        attributes, children = SHAPE[element.tag]
        assert set(element.attrib) <= attributes
        assert {child.tag for child in element} <= children
        assert REQUIRED.get(element.tag, set()) <= set(element.attrib)
        if "time" in element.attrib:
            assert re.fullmatch(r"\d+\.\d{3}", element.attrib["time"])
    (suite,) = root
    cases = suite.findall("testcase")
    for name, tag in (("failures", "failure"), ("errors", "error"), ("skipped", "skipped")):
        assert int(suite.attrib[name]) == len([case for case in cases if case.find(tag) is not None])
    assert int(suite.attrib["tests"]) == len(cases)
    assert len({(case.attrib["classname"], case.attrib["name"]) for case in cases}) == len(cases)
    return suite


def test_verdicts_become_what_a_ci_shows(tmp_path: Path) -> None:
    skipped = make_item(task="skipped", tier=3)
    with Journal(tmp_path, "gw0") as journal:
        journal.skipped(skipped, "needs an environment of its own")
    outcomes = [
        make_outcome(task="passed", clocks=Clocks(setup_seconds=1, attempt_seconds=2, grading_seconds=0.5)),
        make_outcome(
            task="missed",
            verdict="failed",
            reason="nrmse 0.2 is above 0.094",
            scores={"ncc": 0.5, "nrmse": 0.2},
            checks=[Check("nrmse", False, "boundary", "0.2 > 0.094"), Check("ncc", True, "boundary")],
        ),
        make_outcome(
            task="broken",
            verdict="ungraded",
            fault=FaultRecord(kind="sandbox", message="It died.", evidence="OOM"),
        ),
    ]
    planned = [skipped, make_item(task="gone"), make_item(task="passed")]
    write_junit(tmp_path / "junit.xml", outcomes, planned, read_events(tmp_path)[0])
    suite = read(tmp_path / "junit.xml")
    cases = {case.attrib["classname"].split(".")[1]: case for case in suite.findall("testcase")}
    assert set(cases) == {"passed", "missed", "broken", "skipped", "gone"}
    passed = cases["passed"]
    assert passed.attrib["name"] == "end2end[L1]"
    assert passed.attrib["time"] == "3.500"
    assert {child.tag for child in passed} == {"properties", "system-out"}
    failure = cases["missed"].find("failure")
    assert failure is not None
    assert failure.attrib["message"] == "ncc=0.50 nrmse=0.20: nrmse 0.2 is above 0.094"
    assert failure.text == "boundary nrmse: 0.2 > 0.094"
    error = cases["broken"].find("error")
    assert error is not None
    assert (error.attrib["type"], error.attrib["message"], error.text) == ("sandbox", "It died.", "OOM")
    interrupted = cases["gone"].find("error")
    assert interrupted is not None
    assert interrupted.attrib["type"] == "interrupted"
    skip = cases["skipped"].find("skipped")
    assert skip is not None
    assert skip.attrib["message"] == "needs an environment of its own"


def test_properties_are_on_every_case_and_can_be_left_out(tmp_path: Path) -> None:
    write_junit(tmp_path / "with.xml", [make_outcome(scores={"ncc": 0.9})], [])
    properties = {
        item.attrib["name"]: item.attrib["value"] for item in read(tmp_path / "with.xml").iter("property")
    }
    assert (properties["ncc"], properties["verdict"], properties["level"]) == ("0.9", "passed", "L1")
    write_junit(tmp_path / "without.xml", [make_outcome(scores={"ncc": 0.9})], [], properties=False)
    suite = read(tmp_path / "without.xml")
    assert list(suite.iter("property")) == []
    assert "ncc=0.90" in (suite.findtext("testcase/system-out") or "")


def test_the_transcript_is_named_not_copied(tmp_path: Path) -> None:
    outcome = make_outcome(
        stop=StopReason.DEADLINE,
        folder="attempts/ct-1",
        artefacts=["comparison.png", "submitted/transcript_of_mine.txt", "transcript.jsonl"],
    )
    write_junit(tmp_path / "junit.xml", [outcome], [])
    text = read(tmp_path / "junit.xml").findtext("testcase/system-out") or ""
    assert "attempts/ct-1/transcript.jsonl" in text
    assert "the agent stopped: deadline" in text
    assert "png" not in text


def test_one_verdict_an_item_whatever_was_retried_or_resumed(tmp_path: Path) -> None:
    outcomes = [
        make_outcome(verdict="ungraded", finished="2026-11-30T10:00:00+00:00"),
        make_outcome(retry=2, finished="2026-11-30T11:00:00+00:00"),
        make_outcome(part="L2"),
    ]
    write_junit(tmp_path / "junit.xml", outcomes, [make_item(), make_item(part="L2"), make_item(part="L3")])
    suite = read(tmp_path / "junit.xml")
    assert (suite.attrib["tests"], suite.attrib["errors"]) == ("3", "1")


def test_items_that_share_a_node_id_have_names_of_their_own(tmp_path: Path) -> None:
    outcomes = [make_outcome(model=model, epoch=epoch) for model in ("a", "b") for epoch in (1, 2)]
    write_junit(tmp_path / "junit.xml", outcomes, [])
    assert len(read(tmp_path / "junit.xml").findall("testcase")) == 4


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE.keys())
def test_hostile_text_gives_valid_small_xml(tmp_path: Path, text: str) -> None:
    names = {"model": text, "task": text, "node_id": f"{text}::{text}"}
    checks = [Check(text, False, text, text) for _ in range(200)]
    outcomes = [
        make_outcome(
            **names, verdict="failed", reason=text, checks=checks, artefacts=["transcript" + text] * 50
        ),
        make_outcome(
            **names, epoch=2, verdict="ungraded", fault=FaultRecord(kind=text, message=text, evidence=text)
        ),
    ]
    file = tmp_path / "junit.xml"
    write_junit(file, outcomes, [make_item(**names, epoch=3)])
    read(file)
    assert file.stat().st_size < 60_000
    written = file.read_text(encoding="utf-8")
    assert "\x1b" not in written
    assert "[31m" not in written
    assert not re.search(r"&#x?(0|1b|[01]?[0-9a-f]);", written.replace("&#10;", ""))


def test_an_empty_run_is_a_valid_file(tmp_path: Path) -> None:
    write_junit(tmp_path / "junit.xml", [], [])
    assert read(tmp_path / "junit.xml").attrib["tests"] == "0"
