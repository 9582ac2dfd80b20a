"""Runs on each kind of sandbox: the same verdicts, and nothing left of a run that was killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path

import pytest

from pytest_imaging101.sandboxes.docker_engine import Engine
from tests.plugin.runs import outcomes, verdicts


@pytest.fixture(params=["bubblewrap", "docker", "local"])
def kind(request: pytest.FixtureRequest) -> str:
    if request.param == "docker":
        request.getfixturevalue("docker")
    return str(request.param)


def test_every_kind_gives_the_same_verdicts(kind: str, pytester: pytest.Pytester, toy_tasks: Path) -> None:
    result = pytester.runpytest_subprocess(
        f"--tasks={toy_tasks}", "--output=out", "--model=oracle", "-n2", f"--sandbox={kind}"
    )
    result.assert_outcomes(passed=6)
    assert set(verdicts(pytester.path / "out").values()) == {"passed"}
    result.stdout.fnmatch_lines([f"*sandbox {kind}*"])
    warned = any("no isolation" in text or "run as you" in text for text in result.outlines)
    noted = [one for one in outcomes(pytester.path / "out").values() if "run as you" in str(one)]
    assert (warned or bool(noted)) == (kind == "local")


@pytest.mark.usefixtures("kind")
def test_a_killed_controller_leaves_nothing_once_the_next_run_has_begun(
    kind: str,
    pytester: pytest.Pytester,
    toy_tasks: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its workers are killed with it here, as a scheduler kills a job; their sandboxes are busy at that moment."""
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    monkeypatch.setenv("TMPDIR", str(temporary))
    marker = f"marker-{os.urandom(8).hex()}"
    busy = f"import subprocess\nsubprocess.run(['bash', '-c', 'sleep 600; :', {marker!r}])\n"
    for module in (toy_tasks / "toy" / "src").glob("*.py"):
        module.write_text(busy + module.read_text())
    arguments = ["--model=oracle", "-n2", f"--tasks={toy_tasks}", f"--sandbox={kind}", "--mechanism=function"]
    command = [sys.executable, "-m", "pytest", *arguments]
    with open(tmp_path / "log", "wb") as log:
        run = subprocess.Popen([*command, "--output=killed"], stdout=log, stderr=log, start_new_session=True)
    while not processes(marker):
        assert run.poll() is None, (tmp_path / "log").read_text()
        time.sleep(0.02)
    workers = children(run.pid)
    os.killpg(run.pid, signal.SIGKILL)
    run.wait()
    pytester.runpytest_subprocess(
        f"--tasks={toy_tasks}", "--output=next", "--model=nop", "-k", "L1", f"--sandbox={kind}"
    )
    deadline = time.monotonic() + 20
    while processes(marker) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert processes(marker) == []
    assert list(temporary.glob("imaging101-sandbox-*")) == []
    if kind == "docker":
        assert containers_of([run.pid, *workers]) == []


def processes(word: str) -> list[int]:
    """Processes that have a word among their arguments."""
    found = []
    for file in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if word.encode() in file.read_bytes().split(b"\0"):
                found.append(int(file.parent.name))
        except OSError:
            continue
    return found


def children(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def containers_of(owners: list[int]) -> list[str]:
    with closing(Engine()) as engine:
        return [
            container["Id"]
            for owner in owners
            for container in engine.api.containers(all=True, filters={"label": f"imaging101.pid={owner}"})
        ]
