"""The record of one attempt: versioned, JSON, what every report is made from."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal, SupportsFloat

from pydantic import BaseModel, ConfigDict, Field, FiniteFloat, model_validator

from pytest_imaging101.budget import StopReason, Usage

SCHEMA_VERSION = 1

Verdict = Literal["passed", "failed", "ungraded"]
Mechanism = Literal["planning", "function", "end2end"]
FailureMode = Literal[
    "not_finished",
    "crashed",
    "missing_api",
    "convention_drift",
    "overfit_to_visible",
    "wrong_result",
    "no_deliverable",
    "format",
]

_KEY = "Hash of all that can change the attempt: task, prompts, model, agent, limits, epoch."


@dataclass(frozen=True)
class Check:
    """One thing that grading looked at: a unit test, a boundary, an item of the rubric.

    ``group`` is the part it belongs to (``"visible"``, ``"hidden"``, ``"boundary"``, ``"forward_model"``
    ...).
    """

    name: str
    passed: bool
    group: str = ""
    detail: str = ""


class Drift(BaseModel):
    """The change of convention that explains a miss, such as a factor 2π or a flip."""

    model_config = ConfigDict(frozen=True)

    name: str = Field(description="The kinds of change, joined by +: scale, flip+shift ...")
    sentence: str = Field(description="The same in words, as it follows the reason of the miss.")
    parameters: dict[str, Any] = Field(
        default={}, description="Values of the change: factor, axes, pixels ..."
    )
    explained: FiniteFloat = Field(description="Share of the error's energy that the change explains.")
    checks: list[str] = Field(default=[], description="The failing unit tests in which it was seen.")


@dataclass(frozen=True)
class Assessment:
    """What grading found: the mark is met or missed, why in one sentence, and the figures.

    ``score_notes`` says of a figure that is not among ``scores`` why it has no meaning here.
    """

    passed: bool
    reason: str
    scores: dict[str, float] = field(default_factory=dict)
    score_notes: dict[str, str] = field(default_factory=dict)
    checks: tuple[Check, ...] = ()
    notes: tuple[str, ...] = ()
    grading: str = "arrays"
    judge: str | None = None
    drift: Drift | None = None


class FaultRecord(BaseModel):
    """Why an attempt is ungraded."""

    model_config = ConfigDict(frozen=True)

    kind: str = Field(description="Stable name of the class of fault, such as endpoint.quota_spent.")
    message: str = Field(description="What happened, in one sentence.")
    evidence: str = Field(default="", description="What was seen: a status line, the end of a log; capped.")


class Clocks(BaseModel):
    """Seconds of the three clocks, and what was waited for without being counted."""

    model_config = ConfigDict(frozen=True)

    setup_seconds: FiniteFloat = Field(default=0.0, description="Making the sandbox and its environment.")
    attempt_seconds: FiniteFloat = Field(default=0.0, description="The agent's own time, waiting excluded.")
    grading_seconds: FiniteFloat = Field(default=0.0, description="Grading what the agent left.")
    waiting_seconds: FiniteFloat = Field(
        default=0.0, description="Waiting for slots and rate limits, counted against no limit."
    )


class Integrity(BaseModel):
    """Whether private content of the task was found in what an attempt left."""

    model_config = ConfigDict(frozen=True)

    verdict: Literal["clean", "tainted"] = Field(
        description="tainted: private content was found, so that the attempt cannot pass; clean: none was."
    )
    evidence: list[str] = Field(default=[], description="What was found and where, a sentence each.")
    files_not_examined: int = Field(
        default=0, description="Files of the workspace beyond what is looked at, or that could not be read."
    )


class Pipeline(BaseModel):
    """What came of running the submitted main.py again, from the submitted sources and the data alone."""

    model_config = ConfigDict(frozen=True)

    ran: bool = Field(description="Whether main.py was there and ended by itself with exit code 0.")
    agrees: bool | None = Field(
        description="Whether its array is what the agent left; null where that cannot be told."
    )
    scores: dict[str, float | None] = Field(
        default={},
        description="Figures of its array, and difference: its relative L2 distance from what the agent left.",
    )
    reason: str = Field(default="", description="Why it agrees or not, in one sentence.")

    @property
    def word(self) -> str:
        """``agrees``, ``differs`` or ``unknown``."""
        return {True: "agrees", False: "differs", None: "unknown"}[self.agrees]


class PlannedItem(BaseModel):
    """One item before it runs: enough to count and name it when no outcome of it is left."""

    model_config = ConfigDict(frozen=True)

    key: str = Field(default="", description=_KEY)
    node_id: str = Field(description="The pytest item, as it can be typed.")
    task: str = Field(description="Name of the task folder.")
    domain: str = Field(description="One of the six domains.")
    difficulty: str = Field(description="easy, medium or hard.")
    tier: int = Field(description="1 plain packages, 2 specialised packages, 3 its own environment.")
    mechanism: Mechanism = Field(description="What the agent is asked for.")
    part: str | None = Field(default=None, description="Level of end2end, module of function.")
    model: str = Field(description="The model's name as given by the user.")
    agent: str = Field(description="The agent that drove the model.")
    epoch: int = Field(default=1, description="Which repetition of the item this is, from 1.")

    @property
    def identity(self) -> tuple[str, str, str, str, str, int]:
        """What makes two records belong to the same item of a run.

        Not the node id: it names model and epoch only where one session has several.
        """
        return (self.task, self.mechanism, self.part or "", self.model, self.agent, self.epoch)


class Outcome(PlannedItem):
    """One attempt at one item, whole. ``key`` names its content, ``grader`` the version that judged it."""

    schema_version: int = Field(default=SCHEMA_VERSION, description="Version of this record's form.")
    key: str = Field(description=_KEY)
    grader: str = Field(description="Version of what graded it; a second key.")
    retry: int = Field(default=1, description="1 for the first try, counted up when a fault was retried.")
    verdict: Verdict = Field(description="passed and failed are results; ungraded is a fault, never a score.")
    stop: StopReason | None = Field(
        default=None, description="Why the agent stopped; not whether it was right."
    )
    reason: str = Field(default="", description="Why the verdict is what it is, in one sentence.")
    fault: FaultRecord | None = Field(default=None, description="What went wrong, if ungraded.")
    scores: dict[str, float | None] = Field(
        default={}, description="Figures by name; null where none could be computed (see score_notes)."
    )
    score_notes: dict[str, str] = Field(default={}, description="Why a score is null.")
    checks: list[Check] = Field(default=[], description="Each thing that grading looked at.")
    boundaries: dict[str, FiniteFloat] = Field(
        default={}, description="Judged scores by name, and the value each had to reach."
    )
    drift: Drift | None = Field(
        default=None, description="The change of convention that explains the miss, where one was found."
    )
    failure_mode: FailureMode | None = Field(
        default=None, description="What kind of miss this is; null for what passed or was not graded."
    )
    missing: dict[str, str] = Field(
        default={}, description="Deliverables that were not there, by path, and why."
    )
    last_error: str = Field(
        default="",
        description="The exception in the agent's last observation, where a deliverable is missing.",
    )
    integrity: Integrity | None = Field(
        default=None, description="Whether the attempt saw what it must not; null if nothing was examined."
    )
    pipeline: Pipeline | None = Field(
        default=None,
        description="The submitted main.py run again (--verify-pipeline); never the verdict's reason.",
    )
    grading: str = Field(default="", description="How it was graded: arrays, out_of_process, in_process ...")
    judge: str | None = Field(default=None, description="Which judge gave the verdict of a plan.")
    iterations: int = Field(default=0, description="Turns that the agent took.")
    usage: Usage = Field(default=Usage(), description="Model calls, tokens and money.")
    judge_usage: Usage = Field(default=Usage(), description="The same of the judge, apart from the agent's.")
    clocks: Clocks = Field(default=Clocks(), description="Where the time went.")
    sandbox: str = Field(default="", description="Which kind of sandbox held the agent.")
    warnings: list[str] = Field(default=[], description="What was degraded or looked odd, a sentence each.")
    folder: str = Field(
        default="", description="The attempt's folder, relative to the run's; set when stored and when read."
    )
    artefacts: list[str] = Field(
        default=[], description="Files kept of the attempt, relative to its folder, with forward slashes."
    )
    parameters: dict[str, Any] = Field(
        default={}, description="Parameters of model and agent, and limits; no secrets."
    )
    versions: dict[str, str] = Field(default={}, description="Versions of the software that took part.")
    started: str = Field(default="", description="When the attempt began, ISO 8601, UTC.")
    finished: str = Field(default="", description="When its verdict stood, ISO 8601, UTC.")

    @model_validator(mode="before")
    @classmethod
    def _null_what_is_not_finite(cls, data: Any) -> Any:
        """A NaN or infinite score becomes null with a reason, whoever made the record."""
        if not isinstance(data, dict):
            return data
        scores, known = data.get("scores"), data.get("score_notes", {})
        if not isinstance(scores, Mapping) or not isinstance(known, Mapping):
            return data
        numbers = {name: value for name, value in scores.items() if isinstance(value, SupportsFloat)}
        clean, notes = finite_scores(numbers)
        return {**data, "scores": {**scores, **clean}, "score_notes": {**notes, **known}}

    def to_json(self, indent: int | None = 2) -> str:
        """ASCII JSON text that every strict parser reads: no NaN, no infinities, no lone surrogates."""
        return json.dumps(plain(self.model_dump(warnings=False)), allow_nan=False, indent=indent)


def finite_scores(scores: Mapping[str, SupportsFloat]) -> tuple[dict[str, float | None], dict[str, str]]:
    """Scores with NaN and infinities replaced by None, and why each was replaced."""
    clean: dict[str, float | None] = {}
    notes: dict[str, str] = {}
    for name, value in scores.items():
        try:
            number = float(value)
        except OverflowError:  # a whole number beyond every float
            number = math.inf
        clean[name] = number if math.isfinite(number) else None
        if clean[name] is None:
            notes[name] = f"computed as {number}"
    return clean, notes


def check_as_dict(check: Check) -> dict[str, Any]:
    """A check as plain JSON types."""
    return asdict(check)


def plain(value: Any) -> Any:
    """A value as exact built-ins that JSON and xdist can carry.

    Subclasses (numpy scalars, enumerations of strings) become what they stand for, arrays become lists, NaN
    and infinities None, lone surrogates U+FFFD, and anything unknown its text.
    """
    if value is None or isinstance(value, bool):
        return value
    if hasattr(value, "tolist"):  # numpy, without importing it; before float, which np.float64 inherits from
        return plain(value.tolist())
    if isinstance(value, str):
        return str.__str__(value).encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {str(plain(key)): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [plain(item) for item in value]
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    return plain(str(value))
