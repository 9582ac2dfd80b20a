"""The agents that come with the package, by the name of a model or of ``--framework``."""

from __future__ import annotations

from pytest_imaging101.agents.base import Agent
from pytest_imaging101.agents.builtin import NaiveAgent, NopAgent, OracleAgent
from pytest_imaging101.agents.react import ReactAgent
from pytest_imaging101.faults import UsageError
from pytest_imaging101.model_config import BUILT_IN
from pytest_imaging101.models.base import Model
from pytest_imaging101.task import Task

FRAMEWORKS = ("react",)


def make_agent(
    framework: str, model_name: str, model: Model | None, task: Task, context_tokens: int
) -> Agent:
    """The agent for a model: the built-in models are agents of their own, others are driven by a framework."""
    if model_name == "oracle":
        return OracleAgent(task)
    if model_name == "naive":
        return NaiveAgent(task)
    if model_name == "nop":
        return NopAgent()
    if model is None:
        raise UsageError(
            f"the fixture 'model' gave None for {model_name}, which the agent {framework} cannot ask"
        )
    if framework != "react":
        raise UsageError(f"--framework {framework}: no such agent; there is {', '.join(FRAMEWORKS)}")
    return ReactAgent(model, context_tokens)


def agent_identity(framework: str, model_name: str) -> str:
    """Name and version, for an attempt's key."""
    if model_name in BUILT_IN:
        return f"{model_name}/1"
    return f"{framework}/{ReactAgent.version}" if framework == "react" else f"{framework}/"
