"""What a sandbox costs an attempt: start, put a file, run `true`, get the file, close; exit 1 if a goal is missed.

    python benchmarks/sandbox_cost.py [--rounds N] [bubblewrap] [docker] [local]

Without names, every kind that can be had here is measured. Warm: the environment is built and the code is loaded.
Medians are shown; the goal is for the best round, the one that other processes of the machine disturbed least.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

from pytest_imaging101.faults import UsageError
from pytest_imaging101.sandboxes.base import Resources
from pytest_imaging101.sandboxes.choose import Backend, choose_backend, open_sandbox
from pytest_imaging101.sandboxes.environment import Environment, provide_environment

GOALS_MS = {"bubblewrap": 60.0, "docker": 1500.0, "local": 60.0}
STEPS = ("start", "put", "true", "get", "close")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("kinds", nargs="*", metavar="kind", help=", ".join(GOALS_MS))
    asked = parser.parse_args()
    if unknown := set(asked.kinds) - set(GOALS_MS):
        parser.error(f"no such sandbox: {', '.join(sorted(unknown))}")
    environment = provide_environment(["numpy>=1.26"], progress=print)
    print(f"milliseconds, median of {asked.rounds}")
    print(
        f"{'sandbox':<12}"
        + "".join(f"{step:>8}" for step in STEPS)
        + f"{'all':>8}{'best':>8}{'goal':>8}  verdict"
    )
    missed = [
        kind
        for kind in asked.kinds or GOALS_MS
        if not measured(kind, environment, asked.rounds, bool(asked.kinds))
    ]
    sys.exit(f"goal missed: {', '.join(missed)}" if missed else 0)


def measured(kind: str, environment: Environment, rounds: int, required: bool) -> bool:
    """Measure a kind and print its line; whether it meets its goal. One that is not here meets it unless required."""
    try:
        backend = choose_backend(kind)
    except UsageError as error:
        print(f"{kind:<12}  not measured: {error}")
        return not required
    one_round(backend, environment)
    seconds = [one_round(backend, environment) for _ in range(rounds)]
    medians = [1000 * statistics.median(step) for step in zip(*seconds, strict=True)]
    totals = [1000 * sum(steps) for steps in seconds]
    best = min(totals)
    met = best <= GOALS_MS[kind]
    figures = "".join(f"{figure:8.1f}" for figure in (*medians, statistics.median(totals), best))
    print(f"{kind:<12}{figures}{GOALS_MS[kind]:8.0f}  {'met' if met else 'MISSED'}")
    return met


def one_round(backend: Backend, environment: Environment) -> Sequence[float]:
    """Seconds of each step."""
    seconds: list[float] = []

    def timed(step: Callable[[], Any]) -> Any:
        started = time.perf_counter()
        result = step()
        seconds.append(time.perf_counter() - started)
        return result

    sandbox = timed(lambda: open_sandbox(backend, environment, Resources()))
    try:
        timed(lambda: sandbox.put({"data/file.txt": b"contents"}))
        done = timed(lambda: sandbox.run("true", timeout=60))
        content = timed(lambda: sandbox.get("data/file.txt", 100))
        if done.exit_code or content != b"contents":
            sys.exit(f"{backend.name} does not work: {done.output}")
    finally:
        timed(sandbox.close)
    return seconds


if __name__ == "__main__":
    main()
