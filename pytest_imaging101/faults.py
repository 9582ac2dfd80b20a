"""What can go wrong that is nobody's score: typed faults, raised where they are known."""

from __future__ import annotations

from typing import ClassVar


class UsageError(Exception):
    """What the user asked for cannot be done as written; one sentence that says what to change."""


class Fault(Exception):
    """The harness could not do its part, so the attempt is ungraded.

    Attributes
    ----------
    kind : str
        Stable name of the class of fault, as it stands in outcomes (``"sandbox"``, ``"endpoint"`` ...).
    retryable : bool
        Whether the whole attempt may be tried again in a new sandbox.
    ends_run : bool
        Whether every later attempt with the same model would meet the same fault (a refused key, a spent
        quota), so that they need not be tried.
    evidence : str
        What was seen: a status line, the end of a log. Capped, never a key.
    """

    kind: ClassVar[str] = "harness"
    retryable: ClassVar[bool] = True
    ends_run: ClassVar[bool] = False

    def __init__(self, message: str, *, evidence: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.evidence = evidence[-4000:]


class TaskFault(Fault):
    """A task folder is broken: a file is missing, unreadable or not what its hash says."""

    kind = "task"
    retryable = False


class EnvironmentFault(Fault):
    """The task's Python environment could not be built."""

    kind = "environment"


class SandboxFault(Fault):
    """A sandbox could not be started, fed or read, or died by no doing of the agent's."""

    kind = "sandbox"


class EndpointFault(Fault):
    """The model endpoint did not answer usably within its retry budget."""

    kind = "endpoint"


class KeyRefused(EndpointFault):
    """The endpoint refuses the API key (401, 403)."""

    kind = "endpoint.key_refused"
    retryable = False
    ends_run = True


class ModelNotFound(EndpointFault):
    """The endpoint does not know the model's name (404)."""

    kind = "endpoint.model_not_found"
    retryable = False
    ends_run = True


class QuotaSpent(EndpointFault):
    """The account's quota or balance is spent: no retry can succeed."""

    kind = "endpoint.quota_spent"
    retryable = False
    ends_run = True


class BadReply(EndpointFault):
    """The endpoint answered with something that is not a chat completion."""

    kind = "endpoint.bad_reply"


class JudgeFault(Fault):
    """The judge gave no usable verdict."""

    kind = "judge"


class GraderFault(Fault):
    """The trusted side of grading failed by itself."""

    kind = "grader"


class StorageFault(Fault):
    """The run's folder cannot be written (disk full, no permission)."""

    kind = "storage"
    retryable = False
