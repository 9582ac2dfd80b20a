"""Fixtures of an attempt; a conftest.py overrides any of them by a fixture of the same name."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pytest_imaging101.agents.base import Agent
    from pytest_imaging101.models.base import Model
    from pytest_imaging101.record import Attempt
    from pytest_imaging101.run import Run
    from pytest_imaging101.sandboxes.base import Sandbox
    from pytest_imaging101.scoring.judge import Judge
    from pytest_imaging101.task import Task

RUN: pytest.StashKey[Run] = pytest.StashKey()
"""Where a process keeps its part in the run."""


@pytest.fixture
def task(request: pytest.FixtureRequest) -> Task:
    """The task that the item is about."""
    task: Task = request.node.planned.task
    return task


@pytest.fixture
def attempt(request: pytest.FixtureRequest) -> Attempt:
    """The attempt: its brief, budget and record."""
    from pytest_imaging101.record import Attempt

    item, run = request.node, request.config.stash[RUN]
    item.attempt = Attempt(item.planned, run.item(item.planned, item.nodeid), run, item.retry)
    run.check_not_stopped(item.planned.model)
    begun: Attempt = item.attempt
    return begun


@pytest.fixture
def sandbox(request: pytest.FixtureRequest, task: Task, attempt: Attempt) -> Iterator[Sandbox]:
    """A sandbox that holds exactly the files which this item may see."""
    planned = attempt.planned
    made = request.config.hook.pytest_imaging101_make_sandbox(attempt=attempt)
    box: Sandbox = made or attempt.run.open_sandbox(task)
    try:
        attempt.use(box)
        box.put(dict(task.visible(planned.mechanism, planned.part)))
        yield attempt.run.slots.sandbox(box, attempt.waited)
    finally:
        box.close()


@pytest.fixture
def model(attempt: Attempt) -> Model | None:
    """The model that the agent asks, or None for the built-in ones, which submit files."""
    return attempt.run.model(attempt.planned, attempt.waited)


@pytest.fixture
def agent(request: pytest.FixtureRequest, task: Task, attempt: Attempt, model: Model | None) -> Agent:
    """The agent that works on the attempt."""
    from pytest_imaging101.agents.registry import make_agent

    settings = attempt.run.settings
    made: Agent | None = request.config.hook.pytest_imaging101_make_agent(
        name=settings.agent, model=model, attempt=attempt
    )
    return made or make_agent(settings.agent, attempt.planned.model, model, task, settings.context_tokens)


@pytest.fixture
def judge(request: pytest.FixtureRequest, attempt: Attempt) -> Judge:
    """The judge of a plan: a model with the task's rubric, or the deterministic check of the same rubric."""
    made: Judge | None = request.config.hook.pytest_imaging101_make_judge(attempt=attempt)
    return made or attempt.run.judge(attempt.planned, attempt.spend_on_judging, attempt.waited)
