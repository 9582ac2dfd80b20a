"""The loop of the react agent against a scripted model in a real sandbox."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from pytest_imaging101.agents.base import Brief, Deliverable, Transcript
from pytest_imaging101.agents.react import ReactAgent
from pytest_imaging101.budget import Budget, Limits, StopReason, Usage
from pytest_imaging101.models.base import ContextOverflow, Message, OutOfTime, Refused, Reply
from pytest_imaging101.sandboxes.base import Resources, Sandbox
from pytest_imaging101.sandboxes.choose import choose_backend, open_sandbox
from pytest_imaging101.sandboxes.environment import provide_environment

BRIEF = Brief("toy", "end2end", "L1", "make out.txt", (Deliverable("out.txt", "the answer", 1000),))


@dataclass
class Script:
    """A model that says one thing after the other; an exception in the list is raised in its turn."""

    replies: list[str | Reply | Exception]
    name: str = "script"
    seen: list[list[Message]] = field(default_factory=list)

    def complete(
        self, messages: Sequence[Message], *, deadline_seconds: float, stop: Sequence[str] = ()
    ) -> Reply:
        self.seen.append(list(messages))
        reply = self.replies[min(len(self.seen), len(self.replies)) - 1]
        if isinstance(reply, Exception):
            raise reply
        if isinstance(reply, Reply):
            return reply
        return Reply(reply, "stop", Usage(calls=1, prompt_tokens=100, completion_tokens=10), 0.1)

    def last_observation(self) -> str:
        return self.seen[-1][-1]["content"]


@pytest.fixture
def sandbox() -> Iterator[Sandbox]:
    box = open_sandbox(choose_backend("auto").name, provide_environment(("numpy>=1.26",)), Resources())
    yield box
    box.close()


def work(
    model: Script, sandbox: Sandbox, tmp_path: Path, limits: Limits | None = None, context: int = 100_000
) -> tuple[StopReason, Budget]:
    budget = Budget(limits or Limits())
    budget.start()
    stop = ReactAgent(model, context).work(BRIEF, sandbox, budget, Transcript(tmp_path / "transcript.jsonl"))
    return stop, budget


def write(content: str, path: str = "out.txt") -> str:
    return f"Action: WRITE_FILE {path}\n<<<BEGIN\n{content}\nEND>>>"


def test_it_writes_reads_runs_and_submits(sandbox: Sandbox, tmp_path: Path) -> None:
    model = Script(
        [write("41"), "Action: READ_FILE out.txt", "Action: RUN echo 42 > out.txt", "Action: DONE"]
    )
    stop, budget = work(model, sandbox, tmp_path)
    assert stop is StopReason.SUBMITTED
    assert sandbox.get("out.txt", 100) == b"42\n"
    assert budget.usage == Usage(calls=4, prompt_tokens=400, completion_tokens=40)
    assert "41" in model.seen[2][-1]["content"]
    events = [json.loads(line)["event"] for line in (tmp_path / "transcript.jsonl").read_text().splitlines()]
    assert events == ["brief", *["reply", "observation"] * 3, "reply"]


def test_a_path_out_of_the_workspace_is_refused_and_said(sandbox: Sandbox, tmp_path: Path) -> None:
    model = Script([write("x", "../escape.txt"), write("y"), "Action: DONE"])
    work(model, sandbox, tmp_path)
    assert "not written" in model.seen[1][-1]["content"]


def test_a_binary_file_is_named_as_such(sandbox: Sandbox, tmp_path: Path) -> None:
    sandbox.put({"a.npy": b"\x93NUMPY\xff\xfe" * 100})
    model = Script(["Action: READ_FILE a.npy", write("y"), "Action: DONE"])
    work(model, sandbox, tmp_path)
    assert "binary, 800 bytes" in model.seen[1][-1]["content"]


def test_a_command_that_takes_too_long_is_stopped_and_named(sandbox: Sandbox, tmp_path: Path) -> None:
    model = Script(["Action: RUN sleep 600", write("y"), "Action: DONE"])
    work(model, sandbox, tmp_path, Limits(command_seconds=1.0))
    assert "time limit of 1 s" in model.seen[1][-1]["content"]


def test_the_same_action_with_the_same_result_is_warned_of_and_then_ended(
    sandbox: Sandbox, tmp_path: Path
) -> None:
    model = Script(["Thought: again\nAction: RUN sleep 0.$((RANDOM % 3)); echo same"])
    assert work(model, sandbox, tmp_path)[0] is StopReason.REPETITION
    assert "try something else" in model.last_observation()


def test_a_wait_whose_output_changes_is_no_repetition(sandbox: Sandbox, tmp_path: Path) -> None:
    model = Script(["Action: RUN echo x >> log; wc -l log"])
    assert work(model, sandbox, tmp_path, Limits(iterations=12))[0] is StopReason.ITERATIONS


def test_further_actions_of_a_reply_are_counted_and_ignored(sandbox: Sandbox, tmp_path: Path) -> None:
    model = Script([f"{write('first')}\nAction: RUN rm out.txt", "Action: DONE"])
    work(model, sandbox, tmp_path)
    assert sandbox.get("out.txt", 100) == b"first\n"
    assert "1 further action(s)" in model.seen[1][-1]["content"]
    assert "rm out.txt" not in model.seen[1][-2]["content"]


@pytest.mark.parametrize(
    ("error", "reason"),
    [(Refused("filter"), StopReason.REFUSED), (OutOfTime("late"), StopReason.DEADLINE)],
)
def test_what_ends_the_conversation_is_the_stop_reason(
    sandbox: Sandbox, tmp_path: Path, error: Exception, reason: StopReason
) -> None:
    assert work(Script([write("x"), error]), sandbox, tmp_path)[0] is reason
    assert sandbox.get("out.txt", 100) == b"x\n"


def test_an_overflow_shrinks_the_conversation_and_goes_on(sandbox: Sandbox, tmp_path: Path) -> None:
    long = "Action: RUN seq 1 3000"
    model = Script(
        [
            long,
            long.replace("1 ", "2 "),
            long.replace("1 ", "3 "),
            ContextOverflow("full"),
            write("x"),
            "Action: DONE",
        ]
    )
    assert work(model, sandbox, tmp_path)[0] is StopReason.SUBMITTED
    before, after = model.seen[3], model.seen[4]
    assert len(str(after)) < len(str(before))
    assert after[1]["content"].startswith("make out.txt")


def test_an_overflow_of_the_brief_itself_ends_the_attempt(sandbox: Sandbox, tmp_path: Path) -> None:
    assert work(Script([ContextOverflow("full")]), sandbox, tmp_path)[0] is StopReason.CONTEXT


def test_a_reply_cut_at_the_limit_is_not_executed(sandbox: Sandbox, tmp_path: Path) -> None:
    cut = Reply("Action: WRITE_FILE out.txt\n<<<BEGIN\nhalf of", "length", Usage(calls=1), 0.1)
    model = Script([cut, write("whole"), "Action: DONE"])
    work(model, sandbox, tmp_path)
    assert "cut at the length limit" in model.seen[1][-1]["content"]
    assert sandbox.get("out.txt", 100) == b"whole\n"


def test_tokens_end_an_attempt(sandbox: Sandbox, tmp_path: Path) -> None:
    model = Script([write("1"), write("2"), write("3"), write("4")])
    assert work(model, sandbox, tmp_path, Limits(tokens=250))[0] is StopReason.TOKENS
    assert len(model.seen) == 3
