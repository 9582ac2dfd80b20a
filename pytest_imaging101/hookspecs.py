"""Hooks that a conftest.py or another plugin may implement to bring its own agents, sandboxes and judges."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pytest_imaging101.agents.base import Agent
    from pytest_imaging101.models.base import Model
    from pytest_imaging101.outcome import Outcome
    from pytest_imaging101.record import Attempt
    from pytest_imaging101.sandboxes.base import Sandbox
    from pytest_imaging101.scoring.judge import Judge


@pytest.hookspec(firstresult=True)
def pytest_imaging101_make_agent(name: str, model: Model | None, attempt: Attempt) -> Agent | None:
    """The agent called ``name`` (``--framework``) for an attempt, or None if this implementation has none.

    ``model`` is None for the built-in models. Put the agent's version into its name where results depend on it.
    """


@pytest.hookspec(firstresult=True)
def pytest_imaging101_make_sandbox(attempt: Attempt) -> Sandbox | None:
    """An open, empty sandbox for an attempt, or None to leave it to ``--sandbox``."""


@pytest.hookspec(firstresult=True)
def pytest_imaging101_make_judge(attempt: Attempt) -> Judge | None:
    """The judge of a plan, or None to leave it to ``--judge-model``."""


@pytest.hookspec
def pytest_imaging101_outcome(outcome: Outcome) -> None:
    """Called once an attempt's outcome is written, in the process that made it."""
