"""The built-in agent: thought, action, observation, until done or out of budget."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field

from pytest_imaging101.agents.base import PROMPTS, Brief, Transcript
from pytest_imaging101.agents.conversation import Conversation, Turn
from pytest_imaging101.agents.protocol import OBSERVATION_MARK, Action, parse
from pytest_imaging101.budget import Budget, StopReason
from pytest_imaging101.faults import EndpointFault
from pytest_imaging101.models.base import ContextOverflow, Model, OutOfTime, Refused, Reply
from pytest_imaging101.sandboxes.base import Completed, NotDelivered, Sandbox

FORMAT_ERRORS_IN_A_ROW = 4
REPEATS_WARNED, REPEATS_ENDED = 3, 6
OBSERVATION_CHARACTERS = 12_000
FILE_BYTES = 2_000_000
_SECONDS = re.compile(r", \d+\.\d s(?=\]\Z)")  # what differs between runs of one command


@dataclass
class _Repeats:
    """Counts how often the same action had the same result; a wait whose output changes never counts."""

    last: tuple[Action, str] | None = None
    count: int = 0

    def note(self, action: Action, result: str) -> int:
        same = self.last == (action, result)
        self.count = self.count + 1 if same else 1
        self.last = (action, result)
        return self.count


@dataclass
class _State:
    """What the loop remembers beside the conversation."""

    conversation: Conversation
    format_errors: int = 0
    reminded: bool = False
    repeats: _Repeats = field(default_factory=_Repeats)


@dataclass(frozen=True)
class ReactAgent:
    """One action a step: WRITE_FILE, READ_FILE, RUN or DONE. Stateless between attempts."""

    model: Model
    context_tokens: int = 100_000
    name: str = "react"
    version: str = "1"

    def work(self, brief: Brief, sandbox: Sandbox, budget: Budget, transcript: Transcript) -> StopReason:
        system = (PROMPTS / "system.md").read_text(encoding="utf-8")
        state = _State(Conversation(system, brief.text, self.context_tokens))
        transcript.event("brief", system=system, brief=brief.text)
        while (stop := budget.exhausted()) is None:
            try:
                reply = self.model.complete(
                    state.conversation.messages(),
                    deadline_seconds=budget.remaining_seconds,
                    stop=(f"\n{OBSERVATION_MARK}",),
                )
            except OutOfTime as late:
                if budget.iterations == 0:
                    raise EndpointFault(f"not one reply came in the whole attempt: {late}") from late
                return StopReason.DEADLINE
            except Refused as refusal:
                transcript.event("refused", message=str(refusal))
                return StopReason.REFUSED
            except ContextOverflow as overflow:
                transcript.event("context_overflow", message=str(overflow))
                if not state.conversation.shrink():
                    return StopReason.CONTEXT
                continue
            _account(reply, budget, transcript)
            if (end := self._step(reply, brief, sandbox, budget, transcript, state)) is not None:
                return end
        return stop

    def _step(
        self,
        reply: Reply,
        brief: Brief,
        sandbox: Sandbox,
        budget: Budget,
        transcript: Transcript,
        state: _State,
    ) -> StopReason | None:
        parsed = parse(reply.text, cut=reply.finish_reason == "length")
        if parsed.action is None:
            state.format_errors += 1
            if state.format_errors >= FORMAT_ERRORS_IN_A_ROW:
                return StopReason.FORMAT
            _observe(
                state,
                parsed.kept,
                f"Nothing was executed: {parsed.problem}.",
                "no action",
                budget,
                transcript,
            )
            return None
        state.format_errors = 0
        if parsed.action.name == "DONE":
            missing = _missing(brief, sandbox)
            if not missing or state.reminded:
                return StopReason.SUBMITTED
            state.reminded = True
            result = f"Not finished: {', '.join(missing)} is not there. Say DONE again to submit without it."
        else:
            result = _act(parsed.action, sandbox, budget)
        repeats = state.repeats.note(parsed.action, _SECONDS.sub("", result))
        if repeats >= REPEATS_ENDED:
            return StopReason.REPETITION
        if repeats >= REPEATS_WARNED:
            result += f"\n(The same action gave the same result {repeats} times; try something else.)"
        if parsed.dropped:
            result += (
                f"\n({parsed.dropped} further action(s) in that reply were ignored: one action a reply.)"
            )
        _observe(state, parsed.kept, result, _summary(parsed.action, result), budget, transcript)
        return None


def _account(reply: Reply, budget: Budget, transcript: Transcript) -> None:
    budget.credit(reply.waited_seconds)
    budget.spend(reply.usage)
    budget.step()
    transcript.event(
        "reply",
        text=reply.text,
        reasoning=reply.reasoning,
        finish_reason=reply.finish_reason,
        usage=asdict(reply.usage),
        seconds=round(reply.seconds, 3),
        notes=list(reply.notes),
    )


def _observe(
    state: _State, kept: str, result: str, summary: str, budget: Budget, transcript: Transcript
) -> None:
    left = budget.limits.iterations - budget.iterations
    minutes = budget.remaining_seconds / 60
    text = f"{OBSERVATION_MARK} {result}\n[{left} steps and {minutes:.0f} minutes left]"
    transcript.event("observation", text=text)
    state.conversation.add(Turn(kept, text, summary))


def _missing(brief: Brief, sandbox: Sandbox) -> list[str]:
    there = {entry.path for entry in sandbox.list()}
    return [item.path for item in brief.deliverables if item.path not in there]


def _act(action: Action, sandbox: Sandbox, budget: Budget) -> str:
    if action.name == "WRITE_FILE":
        return _write(action, sandbox)
    if action.name == "READ_FILE":
        return _read(action.argument, sandbox)
    timeout = min(budget.limits.command_seconds, budget.remaining_seconds)
    return describe(sandbox.run(action.body, timeout=timeout), timeout)


def _write(action: Action, sandbox: Sandbox) -> str:
    content = action.body.encode("utf-8", "replace")
    try:
        sandbox.put({action.argument: content})
    except ValueError as error:
        return f"not written: {error}"
    return f"wrote {action.argument} ({len(content)} bytes)"


def _read(path: str, sandbox: Sandbox) -> str:
    try:
        content = sandbox.get(path, FILE_BYTES)
    except (NotDelivered, ValueError) as error:
        return f"cannot be read: {error}"
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError:
        return f"{path} is binary, {len(content)} bytes; load it with Python"
    return shorten(text, OBSERVATION_CHARACTERS)


def describe(done: Completed, timeout: float) -> str:
    """A finished command in words: its output, how it ended and what ended it."""
    output = shorten(done.output, OBSERVATION_CHARACTERS).rstrip("\n")
    if done.timed_out:
        ending = f"[stopped at the time limit of {timeout:.0f} s]"
    elif done.killed_by:
        ending = f"[stopped at the limit of {done.killed_by}]"
    else:
        ending = f"[exit code {done.exit_code}, {done.seconds:.1f} s]"
    return f"{output}\n{ending}" if output else ending


def shorten(text: str, limit: int) -> str:
    """Head and tail of a long text, with what was left out counted between them."""
    if len(text) <= limit:
        return text
    half = limit // 2
    return f"{text[:half]}\n[... {len(text) - 2 * half} characters left out ...]\n{text[-half:]}"


def _summary(action: Action, result: str) -> str:
    target = action.argument or (action.body.strip().splitlines() or [""])[0]
    lines: Sequence[str] = [line for line in result.splitlines() if line.strip()] or [""]
    return f"{action.name} {json.dumps(target[:120])}: {lines[-1][:200]}"
