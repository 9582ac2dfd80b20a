"""Real runs of built-in models over a toy task: verdicts, reports, exit codes, faults, retries."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.plugin.runs import junit_cases, outcomes, verdicts

Run = Callable[..., pytest.RunResult]


@pytest.fixture
def run(pytester: pytest.Pytester, toy_tasks: Path) -> Run:
    """Run the benchmark over the toy task, results in ``out``."""

    def start(*args: str) -> pytest.RunResult:
        return pytester.runpytest_subprocess(
            f"--tasks={toy_tasks}", "--output=out", "--junitxml=j.xml", *args
        )

    return start


@pytest.mark.parametrize("workers", [(), ("-n", "2")])
def test_the_oracle_passes_everything_with_and_without_workers(
    run: Run, pytester: pytest.Pytester, workers: tuple[str, ...]
) -> None:
    result = run("--model=oracle", *workers)
    result.assert_outcomes(passed=6)
    assert result.ret == 0
    cases = junit_cases(pytester.path / "j.xml")
    assert {end for end, _ in cases.values()} == {"passed"}
    properties = cases["end2end[L1]"][1]
    expected = {
        "task": "toy",
        "domain": "physics",
        "mechanism": "end2end",
        "level": "L1",
        "model": "oracle",
        "verdict": "passed",
        "stop_reason": "submitted",
    }
    assert expected.items() <= properties.items()
    assert float(properties["ncc"]) > 0.99
    assert float(properties["rel_l2"]) < 0.05
    assert cases["function[solvers]"][1]["module"] == "solvers"
    assert set(verdicts(pytester.path / "out").values()) == {"passed"}


@pytest.mark.parametrize("model", ["nop", "naive"])
def test_nothing_and_the_weak_method_fail_everything_and_are_no_errors(
    run: Run, pytester: pytest.Pytester, model: str
) -> None:
    result = run(f"--model={model}", "-n", "2")
    result.assert_outcomes(failed=6)
    assert result.ret == 1
    assert {end for end, _ in junit_cases(pytester.path / "j.xml").values()} == {"failure"}
    found = outcomes(pytester.path / "out")
    assert {one["verdict"] for one in found.values()} == {"failed"}
    assert all(one["reason"] for one in found.values())


def test_a_verbose_line_carries_the_score(run: Run) -> None:
    result = run("--model=oracle", "-v", "--level=L1")
    result.stdout.fnmatch_lines(["tasks/toy/task.toml::end2end[[]L1[]] PASSED ncc=1.00 rel_l2=0.0*"])


def test_an_attempt_leaves_record_transcript_files_and_picture(run: Run, pytester: pytest.Pytester) -> None:
    run("--model=oracle", "--level=L1")
    (folder,) = (pytester.path / "out/attempts").iterdir()
    names = {file.relative_to(folder).as_posix() for file in folder.rglob("*") if file.is_file()}
    assert {"outcome.json", "transcript.jsonl", "comparison.png"} <= names
    assert {"submitted/output/reconstruction.npy", "submitted/main.py", "submitted/src/solvers.py"} <= names
    assert (folder / "comparison.png").read_bytes().startswith(b"\x89PNG")


def test_exit_codes_follow_the_gates(run: Run, pytester: pytest.Pytester) -> None:
    assert run("--model=nop", "--level=L1", "--no-gate").ret == 0
    both = ("--model=nop", "--model=oracle", "--level=L1", "--output")
    assert run(*both, "a", "--min-pass-rate=0.5").ret == 0
    assert run(*both, "b", "--min-pass-rate=0.6").ret == 1


def test_other_failing_tests_are_not_hidden_by_the_gates(run: Run, pytester: pytest.Pytester) -> None:
    pytester.makepyfile(test_own="def test_own(): assert False")
    result = run("--model=nop", "--no-gate", "test_own.py", "tasks/toy/task.toml::end2end[L1]")
    result.assert_outcomes(failed=2)
    assert result.ret == 1


def test_a_fault_is_an_error_and_is_tried_again_in_a_new_folder(run: Run, pytester: pytest.Pytester) -> None:
    pytester.makeconftest(
        """
        import pytest
        from pytest_imaging101.faults import SandboxFault

        tries = []

        @pytest.fixture
        def agent(agent, attempt):
            tries.append(attempt)
            if len(tries) <= 2:
                raise SandboxFault("the machine hiccuped")
            return agent
        """
    )
    result = run("--model=oracle", "--level=L1,L2")
    result.assert_outcomes(passed=1, errors=1)
    assert result.ret == 1
    found = outcomes(pytester.path / "out")
    assert found["end2end[L1]"]["fault"] == {
        "kind": "sandbox",
        "message": "the machine hiccuped",
        "evidence": "",
    }
    assert found["end2end[L1]"]["retry"] == 2
    assert found["end2end[L2]"]["verdict"] == "passed"
    assert len(list((pytester.path / "out/attempts").iterdir())) == 3
    end, properties = junit_cases(pytester.path / "j.xml")["end2end[L1]"]
    assert end == "error"
    assert properties["verdict"] == "ungraded"
    assert "Traceback" not in result.stdout.str()


def test_a_miss_is_never_tried_again(run: Run, pytester: pytest.Pytester) -> None:
    run("--model=nop", "--level=L1", "--retries=5")
    assert len(list((pytester.path / "out/attempts").iterdir())) == 1


def test_an_unforeseen_error_of_the_harness_is_ungraded_with_its_traceback(
    run: Run, pytester: pytest.Pytester
) -> None:
    pytester.makeconftest(
        """
        import pytest

        @pytest.fixture
        def agent():
            class Broken:
                name, version = "broken", "1"
                def work(self, brief, sandbox, budget, transcript):
                    raise KeyError("a bug")
            return Broken()
        """
    )
    result = run("--model=oracle", "--level=L1")
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["*KeyError: 'a bug'*"])
    assert outcomes(pytester.path / "out")["end2end[L1]"]["fault"]["kind"] == "harness"


def test_what_the_agent_left_before_an_error_is_kept(run: Run, pytester: pytest.Pytester) -> None:
    pytester.makeconftest(
        """
        import pytest

        @pytest.fixture
        def agent():
            class Late:
                name, version = "late", "1"
                def work(self, brief, sandbox, budget, transcript):
                    sandbox.put({"output/reconstruction.npy": b"good work", "main.py": b"pass"})
                    raise RuntimeError("then it broke")
            return Late()
        """
    )
    run("--model=oracle", "--level=L1")
    kept = list((pytester.path / "out/attempts").glob("*/submitted/output/reconstruction.npy"))
    assert [file.read_bytes() for file in kept] == [b"good work"]


@pytest.mark.parametrize("returned", ["None", "'done'"])
def test_an_agent_that_breaks_its_interface_is_a_fault_and_no_miss(
    run: Run, pytester: pytest.Pytester, returned: str
) -> None:
    pytester.makeconftest(
        f"""
        import pytest

        @pytest.fixture
        def agent():
            class Broken:
                name, version = "broken", "1"
                def work(self, brief, sandbox, budget, transcript):
                    return {returned}
            return Broken()
        """
    )
    run("--model=oracle", "--level=L1").assert_outcomes(errors=1)
    fault = outcomes(pytester.path / "out")["end2end[L1]"]["fault"]
    assert fault["kind"] == "agent"
    assert f"the agent broken returned {returned}" in fault["message"]


def test_a_users_agent_takes_the_attempt(run: Run, pytester: pytest.Pytester) -> None:
    pytester.makeconftest(
        """
        import pytest
        from pytest_imaging101.budget import StopReason

        PROGRAM = '''
        import os, numpy as np
        os.makedirs("output", exist_ok=True)
        np.save("output/reconstruction.npy", (np.load("data/raw_data.npz")["y"] - 1) / 2)
        '''

        @pytest.fixture
        def agent():
            class Own:
                name, version = "own", "1"
                def work(self, brief, sandbox, budget, transcript):
                    import textwrap
                    sandbox.put({"main.py": textwrap.dedent(PROGRAM).encode()})
                    done = sandbox.run(["python", "main.py"], timeout=30)
                    assert done.exit_code == 0, done.output
                    return StopReason.SUBMITTED
            return Own()
        """
    )
    run("--model=nop", "--level=L1").assert_outcomes(passed=1)
    assert outcomes(pytester.path / "out")["end2end[L1]"]["versions"]["agent"] == "own 1"


def test_a_worker_that_dies_is_a_fault_and_not_a_miss(run: Run, pytester: pytest.Pytester) -> None:
    pytester.makeconftest(
        """
        import os
        import pytest

        @pytest.fixture
        def agent(agent, attempt):
            if attempt.planned.part == "L2":
                os._exit(3)
            return agent
        """
    )
    result = run("--model=oracle", "--mechanism=end2end", "-n", "2")
    assert result.ret == 1
    found = outcomes(pytester.path / "out")
    assert {name: one["verdict"] for name, one in found.items()} == {
        "end2end[L1]": "passed",
        "end2end[L2]": "ungraded",
        "end2end[L3]": "passed",
    }
    assert found["end2end[L2]"]["fault"]["kind"] == "worker_crash"
    assert junit_cases(pytester.path / "j.xml")["end2end[L2]"][0] == "error"


def test_a_broken_truth_stops_the_attempt_before_the_agent_starts(
    run: Run, pytester: pytest.Pytester, toy_tasks: Path
) -> None:
    (toy_tasks / "toy/evaluation/reference_outputs/ground_truth.npy").unlink()
    result = run("--model=oracle", "--level=L1")
    result.assert_outcomes(errors=1)
    found = outcomes(pytester.path / "out")["end2end[L1]"]
    assert found["fault"]["kind"] == "task"
    assert "ground_truth.npy" in found["fault"]["message"]
    assert found["stop"] is None


def test_a_transcript_can_be_replayed(run: Run, pytester: pytest.Pytester, toy_tasks: Path) -> None:
    recorded = pytester.path / "recorded/attempts/one"
    recorded.mkdir(parents=True)
    program = (toy_tasks / "toy/evaluation/naive.py").read_text()
    replies = [
        f"Action: WRITE_FILE main.py\n<<<BEGIN\n{program}END>>>",
        "Action: RUN python main.py",
        "Action: DONE",
    ]
    usage = {"calls": 1, "prompt_tokens": 10, "completion_tokens": 5}
    lines = [
        json.dumps({"event": "reply", "text": text, "finish_reason": "stop", "usage": usage})
        for text in replies
    ]
    (recorded / "transcript.jsonl").write_text("\n".join(lines) + "\n")
    result = run(f"--model=replay:{recorded}", "--level=L1")
    result.assert_outcomes(failed=1)
    found = outcomes(pytester.path / "out")["end2end[L1]"]
    assert found["usage"]["completion_tokens"] == 15
    assert found["stop"] == "submitted"
