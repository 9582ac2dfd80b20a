"""Command line, environment, ini file and config_llm.yaml, in that order, become one frozen Settings."""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import pytest

from pytest_imaging101.budget import Limits
from pytest_imaging101.faults import UsageError
from pytest_imaging101.model_config import model_table, resolve_models
from pytest_imaging101.models.base import ModelSettings
from pytest_imaging101.task import LEVELS, MECHANISMS

PREFIX = "imaging101"
MOST_SECONDS = 30 * 86400.0
MOST_EPOCHS = 1000
MECHANISM_SPELLINGS = {"plan": "planning", "end_to_end": "end2end"}


@dataclass(frozen=True)
class Option:
    """One setting: ``--NAME``, ``--imaging101-NAME``, ini key ``imaging101_NAME``, variable ``IMAGING101_NAME``."""

    name: str
    help: str
    convert: Callable[[str], Any] = str
    default: Any = None
    repeat: bool = False
    flag: bool = False
    environment: tuple[str, ...] = ()

    @property
    def dest(self) -> str:
        return f"{PREFIX}_{self.name.replace('-', '_')}"

    @property
    def variables(self) -> tuple[str, ...]:
        """Environment variables that set it, the more specific first."""
        return (self.dest.upper(), *self.environment)


def _positive(kind: Callable[[str], Any]) -> Callable[[str], Any]:
    def convert(text: str) -> Any:
        value = kind(text)
        if not value > 0:
            raise ValueError("must be greater than zero")
        return value

    return convert


def _seconds(text: str) -> float:
    if not 0 < (value := float(text)) <= MOST_SECONDS:
        raise ValueError(f"must be seconds, more than 0 and at most {MOST_SECONDS:.0f} (30 days)")
    return value


def _epochs(text: str) -> int:
    if not 1 <= (value := int(text)) <= MOST_EPOCHS:
        raise ValueError(f"must be a whole number from 1 to {MOST_EPOCHS}")
    return value


def _folder(text: str) -> Path:
    if not text.strip():
        raise ValueError("must name a folder")
    return Path(text)


def _model(text: str) -> str:
    if not text.strip() or not text.isprintable():
        raise ValueError("must be a name without control characters")
    return text


def _at_least_zero(text: str) -> int:
    if (value := int(text)) < 0:
        raise ValueError("must not be negative")
    return value


def _rate(text: str) -> float:
    if not 0.0 <= (value := float(text)) <= 1.0:
        raise ValueError("must lie between 0 and 1")
    return value


def _shard(text: str) -> tuple[int, int]:
    index, _, count = text.partition("/")
    if not (index.isdecimal() and count.isdecimal() and 1 <= int(index) <= int(count)):
        raise ValueError("must be I/N with 1 <= I <= N")
    return int(index), int(count)


def _mechanism(text: str) -> str:
    name = MECHANISM_SPELLINGS.get(text.lower(), text.lower())
    return _one_of(name, MECHANISMS, text)


def _level(text: str) -> str:
    return _one_of(text.upper(), LEVELS, text)


def _one_of(value: str, allowed: tuple[str, ...], typed: str) -> str:
    if value not in allowed:
        near = get_close_matches(typed.lower(), allowed, n=1)
        hint = f"; did you mean {near[0]}?" if near else ""
        raise ValueError(f"must be one of {', '.join(allowed)}{hint}")
    return value


OPTIONS = (
    Option(
        "model",
        "model to examine: a name that an endpoint knows, or built in: oracle, nop, naive, replay:DIR",
        _model,
        repeat=True,
        environment=("MODEL",),
    ),
    Option(
        "tasks", "folder of task folders (default: ./tasks, else those that come with the package)", _folder
    ),
    Option("mechanism", "planning (plan), function, end2end (end_to_end)", _mechanism, repeat=True),
    Option("level", "level of end2end: L1, L2, L3", _level, repeat=True),
    Option("task", "name of a task", repeat=True),
    Option("target-function", "module of the function mechanism, such as physics_model", repeat=True),
    Option("framework", "agent that works on the attempt", default="react"),
    Option("base-url", "URL of an OpenAI-compatible endpoint", environment=("BASE_URL",)),
    Option(
        "api-key", "its key; better given as API_KEY, since ps shows command lines", environment=("API_KEY",)
    ),
    Option("config-llm", "models by name: base_url, api_key ... (default: ./config_llm.yaml if there)", Path),
    Option("judge-model", "model that judges plans; 'rubric' for the deterministic check alone"),
    Option("output", "folder of this run's results (default: reports/<time>-<model>)", _folder),
    Option("resume", "folder of a run: do what it has no result for, or a fault, and add to it", _folder),
    Option("epochs", "attempts at each item", _epochs, default=1),
    Option("shard", "I/N: the I-th of N equal parts of the items", _shard),
    Option("sandbox", "auto, docker, bubblewrap or local", default="auto"),
    Option("docker-image", "image of Docker sandboxes (default: that of 'imaging101 sandbox build')"),
    Option("max-iterations", "steps of the agent in one attempt", _positive(int), default=50),
    Option("attempt-timeout", "seconds of one attempt", _seconds, default=3600.0),
    Option(
        "command-timeout",
        "seconds of one command, where the task allows no less",
        _seconds,
        default=600.0,
    ),
    Option("max-tokens", "tokens of one attempt, prompts and replies together", _positive(int)),
    Option("max-cost", "US dollars of one attempt, where prices are known", _positive(float)),
    Option("max-context", "tokens of conversation that the agent keeps", _positive(int), default=100_000),
    Option("retries", "times that an attempt which met a fault is tried again", _at_least_zero, default=1),
    Option("min-pass-rate", "pass rate from which the exit code is 0", _rate),
    Option("no-gate", "exit 0 although marks were missed; ungraded items still exit non-zero", flag=True),
    Option(
        "cpu-slots",
        "sandbox commands that compute at once, over all workers and runs of this machine (default: its cores)",
        _positive(int),
    ),
    Option(
        "model-slots",
        "calls of one model that are under way at once, over all workers and runs of this machine",
        _positive(int),
    ),
    Option("verify-pipeline", "run a submitted main.py again in a fresh sandbox, and compare", flag=True),
    Option("keep", "keep workspaces for inspection", flag=True),
    Option("dry-run", "list the items, endpoint and environments; call and install nothing", flag=True),
)


@dataclass(frozen=True)
class Settings:
    """Everything a run was asked for."""

    models: tuple[str, ...]
    model_settings: Mapping[str, ModelSettings]
    judge_model: str | None
    tasks: Path
    task_names: tuple[str, ...]
    mechanisms: tuple[str, ...]
    levels: tuple[str, ...]
    modules: tuple[str, ...]
    agent: str
    output: Path | None
    resume: Path | None
    epochs: int
    shard: tuple[int, int] | None
    sandbox: str
    docker_image: str | None
    limits: Limits
    context_tokens: int
    retries: int
    min_pass_rate: float | None
    gate: bool
    keep: bool
    cpu_slots: int | None
    model_slots: int | None
    verify_pipeline: bool
    warnings: tuple[str, ...] = field(default=())

    def model_parameters(self, model: str) -> dict[str, Any]:
        """What of a model's settings belongs to an attempt's key."""
        known = self.model_settings.get(model)
        return known.parameters() if known else {"name": model}


def add_long_options(parser: pytest.Parser) -> None:
    """Register ``--imaging101-*`` and the ini keys, which nobody else can own."""
    group = parser.getgroup(PREFIX, "imaging101: the computational-imaging benchmark")
    for option in OPTIONS:
        group.addoption(f"--{PREFIX}-{option.name}", **_attributes(option))
        parser.addini(option.dest, option.help, default=None)


def add_short_options(parser: pytest.Parser) -> list[str]:
    """Register the short names that no other plugin or conftest.py owns; returns those that one does.

    Called once every plugin and the initial conftest.py files are known, so that ours is the side that gives way.
    """
    group = parser.getgroup(PREFIX)
    taken = []
    for option in OPTIONS:
        try:
            group.addoption(f"--{option.name}", **_attributes(option))
        except (ValueError, argparse.ArgumentError):
            taken.append(f"--{option.name}")
    return taken


def _attributes(option: Option) -> dict[str, Any]:
    attributes: dict[str, Any] = {"dest": option.dest, "default": None, "help": option.help}
    if option.flag:
        return attributes | {"action": "store_const", "const": "yes"}
    attributes["metavar"] = option.name.upper().replace("-", "_")
    return attributes | ({"action": "append"} if option.repeat else {})


class _Values:
    """Looks an option up in command line, environment and ini file, in that order."""

    def __init__(self, config: pytest.Config) -> None:
        self.config = config
        self.typed = {option.dest: getattr(config.option, option.dest, None) for option in OPTIONS}

    def __getitem__(self, name: str) -> Any:
        option = next(option for option in OPTIONS if option.name == name)
        texts, source = self._texts(option)
        if option.flag:
            return _switch(texts[-1], source) if texts else False
        values = []
        for text in texts:
            try:
                values.append(option.convert(text))
            except ValueError as error:
                raise UsageError(f"{source}: {text!r} cannot be used: {_why(error)}") from error
        if option.repeat:
            return tuple(dict.fromkeys(values))
        return values[-1] if values else option.default

    def _texts(self, option: Option) -> tuple[list[str], str]:
        typed = self.typed[option.dest]
        if typed is not None:
            texts = typed if isinstance(typed, list) else [typed]
            # Words split at commas, which no name of a task, module, level or model holds.
            return (
                [part for text in texts for part in text.split(",")] if option.repeat else texts
            ), f"--{option.name}"
        for variable in option.variables:
            if value := os.environ.get(variable, "").strip():
                return (value.split(",") if option.repeat else [value]), f"environment variable {variable}"
        if value := (self.config.getini(option.dest) or "").strip():
            return (value.split(",") if option.repeat else [value]), f"ini key {option.dest}"
        return [], ""


def _switch(text: str, source: str) -> bool:
    if text.lower() not in ("1", "yes", "true", "on", "0", "no", "false", "off"):
        raise UsageError(f"{source}: {text!r} cannot be used: must be yes or no")
    return text.lower() in ("1", "yes", "true", "on")


def _why(error: ValueError) -> str:
    text = str(error)
    return "it is not a number" if "invalid literal" in text or "could not convert" in text else text


def benchmark_asked_for(config: pytest.Config) -> bool:
    """Whether this run is the benchmark: ``--model`` was given, by any source but a bare MODEL alone.

    A shell often has MODEL set for other programs; it names the model only where the command line already asks
    for the benchmark, by another option of ours or by the path of a task.
    """
    values = _Values(config)
    if (
        values.typed[f"{PREFIX}_model"]
        or os.environ.get("IMAGING101_MODEL")
        or config.getini(f"{PREFIX}_model")
    ):
        return True
    typed = any(value is not None for value in values.typed.values())
    return bool(os.environ.get("MODEL")) and (typed or any("task.toml" in arg for arg in config.args))


def refuse_lone_options(config: pytest.Config) -> None:
    """Raise UsageError where an option of ours was typed and no model: an ordinary test run was hardly meant."""
    typed = [
        f"--{option.name}" for option in OPTIONS if getattr(config.option, option.dest, None) is not None
    ]
    if typed:
        raise UsageError(f"{', '.join(typed)} asks for the benchmark, but no --model says whom to examine")


def read_settings(
    config: pytest.Config,
    tasks: Callable[[Path | None], Path],
    known_models: Mapping[str, ModelSettings] | None = None,
) -> Settings:
    """Settings of a benchmark run. Raises UsageError.

    ``tasks`` finds the task folder for what was asked; ``known_models`` is what an xdist worker was told by
    its controller, which alone reads keys.
    """
    values = _Values(config)
    invocation = config.invocation_params.dir
    models = values["model"]
    judge = values["judge-model"]
    if known_models is None:
        table = model_table(_absolute(values["config-llm"], invocation), invocation)
        wanted = [*models, *([judge] if judge and judge != "rubric" else [])]
        known_models = resolve_models(wanted, table, values["base-url"], values["api-key"])
    typed_key = values.typed[f"{PREFIX}_api_key"]
    if values["resume"] and values["output"]:
        raise UsageError("--resume goes on in the folder of its run, so it cannot be combined with --output")
    warnings = []
    unpriced = [name for name, entry in known_models.items() if entry.prices_usd_per_million is None]
    if values["max-cost"] and unpriced:
        warnings.append(f"--max-cost: no price is known for {', '.join(unpriced)}, so this limit cannot act")
    if typed_key and not hasattr(config, "workerinput"):
        warnings.append(
            "--api-key: the key is visible to everyone who may list processes; set API_KEY instead"
        )
    return Settings(
        models=models,
        model_settings=known_models,
        judge_model=judge,
        tasks=tasks(_absolute(values["tasks"], invocation)),
        task_names=values["task"],
        mechanisms=values["mechanism"],
        levels=values["level"],
        modules=values["target-function"],
        agent=values["framework"],
        output=_absolute(values["output"], invocation),
        resume=_absolute(values["resume"], invocation),
        epochs=values["epochs"],
        shard=values["shard"],
        sandbox=values["sandbox"],
        docker_image=values["docker-image"],
        limits=Limits(
            iterations=values["max-iterations"],
            attempt_seconds=values["attempt-timeout"],
            command_seconds=values["command-timeout"],
            tokens=values["max-tokens"],
            cost_usd=values["max-cost"],
        ),
        context_tokens=values["max-context"],
        retries=values["retries"],
        min_pass_rate=values["min-pass-rate"],
        gate=not values["no-gate"],
        keep=values["keep"],
        cpu_slots=values["cpu-slots"],
        model_slots=values["model-slots"],
        verify_pipeline=values["verify-pipeline"],
        warnings=tuple(warnings),
    )


def dry_run(config: pytest.Config) -> bool:
    """Whether only a listing is wanted."""
    return bool(config.option.collectonly) or bool(_Values(config)["dry-run"])


def _absolute(path: Path | None, base: Path) -> Path | None:
    # Never against pytest's rootdir: a value given after a space can itself move the rootdir.
    return None if path is None else base / path.expanduser()
