"""Names the failure mode of a miss from the evidence in its outcome alone."""

from __future__ import annotations

import re
from collections import Counter

from pytest_imaging101.budget import StopReason
from pytest_imaging101.outcome import Check, FailureMode, Outcome

# The agent ended by itself, whether or not its work is any good; every other stop reason cut it short.
_OWN_ENDS = (StopReason.SUBMITTED, StopReason.REFUSED)

# A detail that begins with the name of an exception, as pytest prints it, or a module that does not import.
_EXCEPTION = re.compile(r"(?:\Asrc/\w+\.py does not import: |\A)(?:\w+\.)*([A-Z]\w*(?:Error|Exception))\b")
# The submission's process ended or went silent during a call (grader/serve_submission.py and grader/stub.py).
_LOST = re.compile(
    r"the submission's process |the submission stopped answering|connection to the submission broke"
)
_CALLED_WRONGLY = re.compile(r"argument|not callable|has no len|is not subscriptable")


def failure_mode(outcome: Outcome) -> FailureMode | None:
    """The failure mode of a missed mark; None for what passed or was not graded.

    Also None where every check passed and something else (private content in the sandbox) made it a miss.
    """
    if outcome.verdict != "failed" or (outcome.checks and all(check.passed for check in outcome.checks)):
        return None
    if outcome.missing:
        return _nothing_to_grade(outcome)
    if outcome.drift is not None:
        return "convention_drift"
    if outcome.mechanism == "function":
        return _of_a_module(outcome)
    if outcome.mechanism == "end2end" and all(figure is None for figure in outcome.scores.values()):
        return "format"
    return _unfinished(outcome) or "wrong_result"


def _nothing_to_grade(outcome: Outcome) -> FailureMode:
    """A deliverable is missing: the agent was cut short, its last command failed, or it left nothing."""
    if outcome.stop == StopReason.CRASHED:
        return "crashed"
    if unfinished := _unfinished(outcome):
        return unfinished
    if outcome.last_error:
        return _of_an_error(outcome.last_error) or "crashed"
    return "no_deliverable"


def _unfinished(outcome: Outcome) -> FailureMode | None:
    cut_short = outcome.stop is not None and outcome.stop not in _OWN_ENDS
    return "not_finished" if cut_short else None


def _of_a_module(outcome: Outcome) -> FailureMode:
    """From the tests of a module: what most of the failing ones ended with."""
    failed = [check for check in outcome.checks if not check.passed]
    visible = [check for check in outcome.checks if check.group == "visible"]
    if failed and visible and all(check.passed for check in visible):
        return "overfit_to_visible"
    modes = Counter(_of_a_check(check) for check in failed)
    errors = modes["missing_api"] + modes["crashed"]
    if failed and 2 * errors >= len(failed):
        return "missing_api" if modes["missing_api"] >= modes["crashed"] else "crashed"
    return _unfinished(outcome) or "wrong_result"


def _of_a_check(check: Check) -> FailureMode:
    return _of_an_error(check.detail) or "wrong_result"


def _of_an_error(text: str) -> FailureMode | None:
    """missing_api for a name or an argument that a library does not have, crashed for any other exception."""
    if _LOST.search(text):
        return "crashed"
    found = _EXCEPTION.match(text)
    if found is None or found.group(1) == "AssertionError":
        return None
    name = found.group(1)
    if name in ("ImportError", "ModuleNotFoundError", "AttributeError"):
        return "missing_api"
    if name == "TypeError" and _CALLED_WRONGLY.search(text):
        return "missing_api"
    return "crashed"
