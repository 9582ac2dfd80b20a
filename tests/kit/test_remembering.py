"""What was accepted and has not changed is not looked at again; what failed, or changed, is."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_imaging101.faults import SandboxFault
from pytest_imaging101.kit import validate as kit
from pytest_imaging101.kit.finding import Finding, Unit, Verdict
from pytest_imaging101.kit.subject import Subject
from pytest_imaging101.kit.table import to_json
from pytest_imaging101.sandboxes.choose import Backend
from tests.kit.spoiling import appended


class Look:
    """A check that counts how often it looks, and says what it is told to."""

    def __init__(self) -> None:
        self.times = 0
        self.problems: tuple[str, ...] = ()
        self.fault: Exception | None = None

    def __call__(self, subject: Subject) -> Verdict:
        self.times += 1
        if self.fault:
            raise self.fault
        return Verdict("", self.problems)


@pytest.fixture
def look(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Look:
    """The only check there is, and an empty cache."""
    look = Look()
    monkeypatch.setenv("IMAGING101_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(kit, "first_units", list)
    monkeypatch.setattr(kit, "other_units", lambda task: [Unit("only", "group", look)])
    # The package's own files may be edited while these tests run.
    monkeypatch.setattr(kit, "_package_files", lambda: iter(()))
    return look


def validated(folder: Path, *, force: bool = False) -> kit.Report:
    (report,) = kit.validate([folder], Backend("local"), force=force)
    return report


def test_an_accepted_task_is_remembered_until_a_file_of_it_changes(look: Look, demo: Path) -> None:
    assert validated(demo).accepted
    again = validated(demo)
    assert (again.accepted, again.cached, look.times) == (True, True, 1)
    appended("README.md", "One sentence more.")(demo)
    assert not validated(demo).cached
    assert look.times == 2


def test_force_looks_again(look: Look, demo: Path) -> None:
    validated(demo)
    assert not validated(demo, force=True).cached
    assert look.times == 2


def test_what_running_a_task_leaves_behind_is_no_change(look: Look, demo: Path) -> None:
    validated(demo)
    (demo / "output").mkdir()
    appended("output/log.txt", "x")(demo)
    assert validated(demo).cached


def test_a_refused_task_is_looked_at_again(look: Look, demo: Path) -> None:
    look.problems = ("the sky is green",)
    assert [finding.status for finding in validated(demo).findings] == ["failed"]
    look.problems = ()
    assert validated(demo).accepted


def test_a_fault_of_the_machine_is_neither_accepted_nor_the_tasks(look: Look, demo: Path) -> None:
    look.fault = SandboxFault("no sandbox today")
    (finding,) = validated(demo).findings
    assert (finding.status, finding.sentence) == ("fault", "sandbox: no sandbox today")
    look.fault = None
    assert not validated(demo).cached


def test_what_nobody_foresaw_is_a_failure_of_that_check(look: Look, demo: Path) -> None:
    look.fault = ZeroDivisionError("division by zero")
    report = validated(demo)
    assert [f.sentence for f in report.findings] == ["ZeroDivisionError: division by zero"]
    assert '"accepted": false' in to_json([report])


def test_a_change_of_the_package_makes_it_look_again(
    look: Look, demo: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    validated(demo)
    monkeypatch.setattr(kit, "_package_files", lambda: iter([Path(kit.__file__)]))
    assert not validated(demo).cached


def test_progress_is_told_as_checks_end(look: Look, demo: Path) -> None:
    told: list[Finding] = []
    kit.validate([demo], Backend("local"), progress=told.append)
    assert [finding.check for finding in told] == ["only"]
