"""The three test bodies: planning, function, end2end. What they import heavily, they import when they run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_imaging101.faults import Fault, TaskFault, UsageError
from pytest_imaging101.task import PLAN_FILES

if TYPE_CHECKING:
    from pytest_imaging101.agents.base import Agent
    from pytest_imaging101.record import Attempt
    from pytest_imaging101.sandboxes.base import Sandbox
    from pytest_imaging101.scoring.judge import Judge
    from pytest_imaging101.task import Task


class Miss(Exception):
    """The agent missed the mark: a result, which pytest reports as a failed test."""

    # pytest prints an exception with its module's name unless it is a built-in's.
    __module__ = "builtins"


class Ungraded(Exception):
    """A fault as pytest prints it: its kind and its sentence."""

    __module__ = "builtins"


def known_fault(error: BaseException) -> bool:
    """Whether a sentence says it all, so that a traceback would only hide it."""
    return isinstance(error, Fault | UsageError)


def planning(task: Task, attempt: Attempt, sandbox: Sandbox, agent: Agent, judge: Judge) -> None:
    """The agent plans; the judge finds every required part of the plan right, or not."""
    from pytest_imaging101.scoring.judge import grade_plan

    delivered = attempt.work(agent, sandbox)
    judgement = grade_plan(task, {path: delivered.get(path) for path in PLAN_FILES}, judge)
    attempt.conclude(judgement.assessment)


def function(task: Task, attempt: Attempt, sandbox: Sandbox, agent: Agent) -> None:
    """The agent writes one module; every test of it passes on visible and hidden fixtures, or not."""
    from pytest_imaging101.scoring.unit_tests import grade_module

    module = attempt.planned.part
    if module is None:
        raise TaskFault(f"task {task.name}: a function item without a module")
    attempt.run.check_can_grade_modules()
    delivered = attempt.work(agent, sandbox)
    source = delivered.get(f"src/{module}.py")
    # One slot for all of it: the two sandboxes that grade a module wait for each other.
    with attempt.computing():
        assessment = grade_module(
            task,
            module,
            source,
            lambda: attempt.run.open_sandbox(task),
            timeout=attempt.grading_seconds,
        )
    attempt.conclude(assessment)


def end2end(task: Task, attempt: Attempt, sandbox: Sandbox, agent: Agent) -> None:
    """The agent reconstructs; the array is on the right side of every boundary, or not."""
    from pytest_imaging101.scoring.drift import explained
    from pytest_imaging101.scoring.reconstruction import check_grader_inputs, score_reconstruction

    check_grader_inputs(task)
    delivered = attempt.work(agent, sandbox)
    path = task.output.file
    submitted = delivered.get(path)
    assessment = score_reconstruction(task, submitted, delivered.missing.get(path, ""))
    if submitted is not None and not assessment.passed:
        with attempt.computing():
            assessment = explained(task, submitted, assessment)
    attempt.draw(submitted)
    attempt.run_pipeline_again(submitted)
    attempt.conclude(assessment)
