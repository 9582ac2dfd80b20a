"""A run that is killed at any time loses only what was in flight, and --resume does the rest."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from pytest_imaging101.reporting.report import rebuild
from tests.plugin.runs import junit_cases, outcomes, verdicts

GATE = """
    import time
    from pathlib import Path

    import pytest

    @pytest.fixture
    def agent(agent, attempt):
        # The attempt at L3 waits for ever while the gate is closed.
        if attempt.planned.part == "L3":
            Path("waiting").touch()
            while not Path("open").exists():
                time.sleep(0.05)
        return agent
"""


def start(pytester: pytest.Pytester, tasks: Path, *args: str) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "pytest", f"--tasks={tasks}", "--model=oracle", *args]
    return subprocess.Popen(
        command,
        cwd=pytester.path,
        start_new_session=True,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )


def wait_until_the_attempt_waits(pytester: pytest.Pytester, process: subprocess.Popen[bytes]) -> None:
    while not (pytester.path / "waiting").exists():
        assert process.poll() is None, "the run ended before its gate"


@pytest.mark.parametrize("workers", [(), ("-n", "2")])
def test_the_union_of_a_killed_run_and_its_resume_equals_an_undisturbed_one(
    pytester: pytest.Pytester, toy_tasks: Path, workers: tuple[str, ...]
) -> None:
    pytester.makeconftest(GATE)
    process = start(pytester, toy_tasks, "--output=out", *workers)
    wait_until_the_attempt_waits(pytester, process)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()

    run = pytester.path / "out"
    rebuild(run)
    before = outcomes(run)
    assert before["end2end[L3]"]["fault"]["kind"] == "interrupted"
    finished = {name for name, one in before.items() if one["verdict"] == "passed"}
    assert finished

    (pytester.path / "open").touch()
    result = pytester.runpytest_subprocess(
        f"--tasks={toy_tasks}", "--model=oracle", "--resume=out", "-p", "no:cacheprovider"
    )
    assert result.ret == 0
    result.assert_outcomes(passed=6 - len(finished), deselected=len(finished))

    undisturbed = pytester.runpytest_subprocess(f"--tasks={toy_tasks}", "--model=oracle", "--output=whole")
    assert undisturbed.ret == 0
    after = outcomes(run)
    assert verdicts(run) == verdicts(pytester.path / "whole")
    assert {name: after[name] for name in finished} == {name: before[name] for name in finished}
    whole = outcomes(pytester.path / "whole")
    assert {name: one["key"] for name, one in after.items()} == {
        name: one["key"] for name, one in whole.items()
    }
    assert {name: one["scores"] for name, one in after.items()} == {
        name: one["scores"] for name, one in whole.items()
    }
    assert {end for end, _ in junit_cases(run / "junit.xml").values()} == {"passed"}


def test_a_resume_with_nothing_to_do_succeeds_as_the_run_did(
    pytester: pytest.Pytester, toy_tasks: Path
) -> None:
    arguments = (f"--tasks={toy_tasks}", "--level=L1")
    assert pytester.runpytest_subprocess(*arguments, "--model=oracle", "--output=good").ret == 0
    assert pytester.runpytest_subprocess(*arguments, "--model=oracle", "--resume=good").ret == 0
    assert pytester.runpytest_subprocess(*arguments, "--model=nop", "--output=bad").ret == 1
    assert pytester.runpytest_subprocess(*arguments, "--model=nop", "--resume=bad").ret == 1


def test_a_run_of_another_model_is_not_added_to(pytester: pytest.Pytester, toy_tasks: Path) -> None:
    arguments = (f"--tasks={toy_tasks}", "--level=L1")
    pytester.runpytest_subprocess(*arguments, "--model=oracle", "--output=out")
    result = pytester.runpytest_subprocess(*arguments, "--model=nop", "--resume=out")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["ERROR: --resume: *out is a run of oracle, not of nop*"])
    assert len(list((pytester.path / "out/attempts").iterdir())) == 1


def test_a_changed_limit_makes_a_new_attempt_and_concurrency_does_not(
    pytester: pytest.Pytester, toy_tasks: Path
) -> None:
    arguments = (f"--tasks={toy_tasks}", "--level=L1", "--model=oracle")
    pytester.runpytest_subprocess(*arguments, "--output=out")
    same = pytester.runpytest_subprocess(*arguments, "--resume=out", "-n", "2", "-v")
    same.assert_outcomes(passed=0)
    other = pytester.runpytest_subprocess(*arguments, "--resume=out", "--max-iterations=7")
    other.assert_outcomes(passed=1)


def test_a_torn_outcome_is_run_again_and_the_others_stand(pytester: pytest.Pytester, toy_tasks: Path) -> None:
    arguments = (f"--tasks={toy_tasks}", "--level=L1,L2", "--model=oracle")
    pytester.runpytest_subprocess(*arguments, "--output=out")
    torn = next((pytester.path / "out/attempts").glob("*L1*")) / "outcome.json"
    torn.write_bytes(torn.read_bytes()[:200])
    result = pytester.runpytest_subprocess(*arguments, "--resume=out")
    result.assert_outcomes(passed=1, deselected=1)
    assert verdicts(pytester.path / "out") == {"end2end[L1]": "passed", "end2end[L2]": "passed"}


def test_sigterm_ends_a_run_like_ctrl_c_with_its_reports(pytester: pytest.Pytester, toy_tasks: Path) -> None:
    pytester.makeconftest(GATE)
    process = start(pytester, toy_tasks, "--output=out", "--mechanism=end2end", "--junitxml=j.xml")
    wait_until_the_attempt_waits(pytester, process)
    process.send_signal(signal.SIGTERM)
    assert process.wait() == pytest.ExitCode.INTERRUPTED
    found = outcomes(pytester.path / "out")
    assert found["end2end[L1]"]["verdict"] == "passed"
    assert found["end2end[L3]"]["fault"]["kind"] == "interrupted"
    assert (pytester.path / "j.xml").is_file()
