"""Judges a plan by a language model that fills in the task's rubric and compares with the reference plan.

Without an endpoint, `RubricJudge` gives the same kind of verdict by patterns.
"""

from __future__ import annotations

import json
import re
import secrets
import traceback
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib.resources import files
from string import Template
from typing import Any, Protocol, TypeVar

from pytest_imaging101.budget import Usage
from pytest_imaging101.faults import Fault, JudgeFault
from pytest_imaging101.outcome import Assessment
from pytest_imaging101.scoring.plan import (
    MAX_PLAN_CHARACTERS,
    PlanMissing,
    Rubric,
    assess_items,
    check_rubric,
    join_plan,
    length_notes,
    miss_plan,
    reference_plan,
)
from pytest_imaging101.task import PARTS_OF_A_PLAN, Task

Answer = TypeVar("Answer")

_ASKED_AGAIN = 2
_DETAIL_CHARACTERS = 300


class JudgeReply(Protocol):
    """What a judge reads of a model's reply."""

    @property
    def text(self) -> str: ...

    @property
    def usage(self) -> Usage: ...


class JudgeModel(Protocol):
    """What a judge needs of a model."""

    name: str

    def complete(self, messages: Any, *, deadline_seconds: float) -> JudgeReply:
        """The reply to a list of messages, each a mapping of ``role`` and ``content``."""


@dataclass(frozen=True)
class Judgement:
    """A plan's assessment, and what giving it cost."""

    assessment: Assessment
    usage: Usage = field(default_factory=Usage)


class Judge(Protocol):
    """Anything that judges the text of a plan. Raises a Fault where it can give no verdict."""

    name: str

    def judge(self, task: Task, plan_text: str) -> Judgement:
        """The plan's assessment."""


def grade_plan(task: Task, submitted: Mapping[str, bytes | None], judge: Judge) -> Judgement:
    """Judge the plan files of an attempt; a plan that is not whole is a miss that no judge is asked about.

    ``submitted`` maps ``plan/approach.md`` and ``plan/design.md`` to their contents.
    """
    try:
        text = join_plan(submitted)
    except PlanMissing as missing:
        return Judgement(miss_plan(Rubric.read(task), str(missing), judge.name))
    return judge.judge(task, text)


class RubricJudge:
    """The deterministic judge: patterns of the rubric, no model."""

    name = "rubric"

    def judge(self, task: Task, plan_text: str) -> Judgement:
        return Judgement(check_rubric(Rubric.read(task), plan_text))


@dataclass(frozen=True)
class _Verdict:
    """One filled-in rubric."""

    met: Mapping[str, bool]
    quotes: Mapping[str, str]
    parts: Mapping[str, bool]
    overall: bool


class LLMJudge:
    """A language model as judge.

    Parameters
    ----------
    model
        What answers.
    repeats : int
        How often everything is asked; the majority decides, so it must be odd.
    deadline_seconds : float
        For one question, with the model's own retries.
    spend : callable, optional
        Told the usage of every reply as it comes, so that a judge that fails is paid for too.
    """

    def __init__(
        self,
        model: JudgeModel,
        repeats: int = 1,
        *,
        deadline_seconds: float = 600.0,
        spend: Callable[[Usage], None] | None = None,
    ) -> None:
        if repeats < 1 or repeats % 2 == 0:
            raise ValueError(f"repeats is {repeats}; it must be odd, so that there is a majority")
        self.name = f"llm:{model.name}"
        self._model = model
        self._repeats = repeats
        self._deadline_seconds = deadline_seconds
        self._spend = spend

    def judge(self, task: Task, plan_text: str) -> Judgement:
        """Every part and the whole must be right; the comparison with the reference plan is only reported.

        Raises JudgeFault if three answers to one question hold no usable verdict, and the model's own faults.
        """
        rubric = Rubric.read(task)
        plan = neutralise(plan_text[:MAX_PLAN_CHARACTERS])
        reference = neutralise(reference_plan(task))
        session = _Session(self._model, self._deadline_seconds, self._spend)
        verdicts = [_ask_rubric(session, rubric, plan) for _ in range(self._repeats)]
        wins = [_ask_comparison(session, plan, reference) for _ in range(self._repeats)]
        assessment = assess_items(
            rubric,
            {item.id: _majority(verdict.met[item.id] for verdict in verdicts) for item in rubric.items},
            judge=self.name,
            notes=length_notes(plan_text) + _quote_notes(verdicts, plan),
            details={item.id: _detail(verdicts, item.id) for item in rubric.items},
            right_parts={
                part: _majority(verdict.parts[part] for verdict in verdicts) for part in PARTS_OF_A_PLAN
            },
            right_overall=_majority(verdict.overall for verdict in verdicts),
        )
        against_reference = sum(wins) / len(wins)
        scores = {**assessment.scores, "against_reference": against_reference}
        return Judgement(replace(assessment, scores=scores), session.usage)


def neutralise(text: str) -> str:
    """The text without anything that looks like a mark of ours, and without characters that cannot be sent."""
    text = text.encode("utf-8", errors="replace").decode("utf-8").replace("\0", "")
    return re.sub(r"<(\s*/?\s*(?:plan|verdict))", r"‹\1", text, flags=re.IGNORECASE)


class _Session:
    """Asks a model, again where it must, and adds up what that costs."""

    def __init__(
        self, model: JudgeModel, deadline_seconds: float, spend: Callable[[Usage], None] | None
    ) -> None:
        self._model = model
        self._deadline_seconds = deadline_seconds
        self._spend = spend
        self.usage = Usage()

    def ask(self, nonce: str, question: str, read: Callable[[Any], Answer]) -> Answer:
        """What ``read`` makes of the last verdict in the reply; it raises ValueError for an unusable one."""
        problem = text = ""
        for _ in range(1 + _ASKED_AGAIN):
            again = f"\n\n{_prompt('judge_again', problem=problem)}" if problem else ""
            text = self._complete(question + again)
            try:
                return read(_last_verdict(text, nonce))
            except ValueError as error:
                problem = str(error)
        raise JudgeFault(
            f"the judge {self._model.name} gave no usable verdict in {1 + _ASKED_AGAIN} answers: {problem}",
            evidence=text,
        )

    def _complete(self, question: str) -> str:
        messages = [
            {"role": "system", "content": _prompt("judge_system")},
            {"role": "user", "content": question},
        ]
        try:
            reply = self._model.complete(messages, deadline_seconds=self._deadline_seconds)
        except Fault:
            raise
        # A refusal, a full window, a deadline: whatever word the model has for it, here it means no verdict.
        except Exception as error:
            raise JudgeFault(
                f"the judge {self._model.name} gave no answer ({type(error).__name__}: {error})",
                evidence=traceback.format_exc(),
            ) from error
        self.usage = self.usage + reply.usage
        if self._spend is not None:
            self._spend(reply.usage)
        return reply.text


def _ask_rubric(session: _Session, rubric: Rubric, plan: str) -> _Verdict:
    nonce = secrets.token_hex(8)
    lines = [
        f"{part}\n" + "\n".join(f"- {item.id}: {item.text}" for item in rubric.items if item.part == part)
        for part in PARTS_OF_A_PLAN
    ]
    form = {
        "items": {item.id: {"met": False, "quote": ""} for item in rubric.items},
        "parts": dict.fromkeys(PARTS_OF_A_PLAN, False),
        "overall": False,
    }
    question = _prompt(
        "judge_rubric", nonce=nonce, plan=plan, items="\n\n".join(lines), form=json.dumps(form, indent=1)
    )
    return session.ask(nonce, question, lambda verdict: _read_verdict(verdict, rubric))


def _read_verdict(verdict: Any, rubric: Rubric) -> _Verdict:
    items = _table(verdict, "items", {item.id for item in rubric.items})
    parts = _table(verdict, "parts", set(PARTS_OF_A_PLAN))
    for id, item in items.items():
        if not isinstance(item, dict) or not isinstance(item.get("met"), bool):
            raise ValueError(f"items.{id}.met must be true or false")
    for part, right in {**parts, "overall": verdict.get("overall")}.items():
        if not isinstance(right, bool):
            raise ValueError(f"{part} must be true or false")
    return _Verdict(
        met={id: item["met"] for id, item in items.items()},
        quotes={id: str(item.get("quote") or "") for id, item in items.items()},
        parts=parts,
        overall=verdict["overall"],
    )


def _table(verdict: Any, key: str, names: set[str]) -> dict[str, Any]:
    table = verdict.get(key) if isinstance(verdict, dict) else None
    if not isinstance(table, dict) or set(table) != names:
        raise ValueError(f"{key} must hold exactly {', '.join(sorted(names))}")
    return table


def _ask_comparison(session: _Session, plan: str, reference: str) -> float:
    """1 where the plan is found better than the reference in both orders, 0 where worse in both, else 0.5."""
    first = _ask_better(session, plan, reference)
    second = _ask_better(session, reference, plan)
    if (first, second) == ("A", "B"):
        return 1.0
    if (first, second) == ("B", "A"):
        return 0.0
    return 0.5


def _ask_better(session: _Session, plan_a: str, plan_b: str) -> str:
    nonce = secrets.token_hex(8)
    question = _prompt("judge_compare", nonce=nonce, plan_a=plan_a, plan_b=plan_b)
    return session.ask(nonce, question, _read_better)


def _read_better(verdict: Any) -> str:
    better = verdict.get("better") if isinstance(verdict, dict) else None
    if better not in ("A", "B", "tie"):
        raise ValueError('better must be "A", "B" or "tie"')
    return str(better)


def _last_verdict(reply: str, nonce: str) -> Any:
    """The JSON of the last verdict that carries this question's nonce, which no plan can know."""
    opening, closing = f"<verdict-{nonce}>", f"</verdict-{nonce}>"
    before, closed, _ = reply.rpartition(closing)
    _, opened, inside = before.rpartition(opening)
    if not closed or not opened:
        raise ValueError(f"there is no verdict between {opening} and {closing}")
    text = re.sub(r"^\s*```(?:json)?|```\s*$", "", inside)
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"the verdict is not JSON ({error})") from error


def _majority(votes: Iterable[bool]) -> bool:
    cast = list(votes)
    return 2 * sum(cast) > len(cast)


def _detail(verdicts: Sequence[_Verdict], id: str) -> str:
    quotes = [verdict.quotes[id] for verdict in verdicts if verdict.quotes[id]]
    return quotes[0][:_DETAIL_CHARACTERS] if quotes else ""


def _quote_notes(verdicts: Sequence[_Verdict], plan: str) -> tuple[str, ...]:
    """Says how many quotes the plan does not hold: a judge that makes them up is not to be trusted."""
    text = _plain(plan)
    quotes = [quote for verdict in verdicts for id, quote in verdict.quotes.items() if verdict.met[id]]
    unfound = sum(_plain(quote) not in text for quote in quotes)
    return (f"{unfound} of the judge's {len(quotes)} quotes are not in the plan",) if unfound else ()


def _plain(text: str) -> str:
    return re.sub(r"[\W_]+", " ", text).strip().casefold()


def _prompt(name: str, **values: str) -> str:
    text = files("pytest_imaging101.scoring").joinpath("prompts", f"{name}.md").read_text(encoding="utf-8")
    return Template(text).substitute(values).strip()
