"""Known ways to cheat, each through a real run: none passes, none becomes a fault, each is stopped by what should."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

import pytest

from pytest_imaging101.sandboxes.local import WARNINGS
from tests.models.fake_endpoint import FakeEndpoint
from tests.tamper.attack import LEAK, Attack
from tests.tamper.battery import (
    ALL,
    ANSWERS,
    MODULES,
    PLANS,
    RECONSTRUCTIONS,
    Result,
    quoting_judge,
    run_attacks,
)

Run = Callable[..., list[Result]]


@pytest.fixture
def run(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, backend: str) -> Run:
    """Run attacks on the backend under test."""

    def start(attacks: Sequence[Attack], *more: str, **settings: str) -> list[Result]:
        return run_attacks(pytester, monkeypatch, backend, attacks, *more, **settings)

    return start


def held(result: Result) -> bool:
    """Whether an attack ended as a miss for the reason expected, with nothing leaked and nothing run on the host."""
    outcome = result.outcome
    return (
        outcome["verdict"] == "failed"
        and re.search(result.attack.reason, outcome["reason"]) is not None
        and outcome["integrity"]["verdict"] == "clean"
        and f"{LEAK}" not in result.transcript
        and not (result.task / "pwned").exists()
    )


def held_without_isolation(result: Result) -> bool:
    """What can be expected of an attack in a sandbox without walls: see Attack.local."""
    outcome, expected = result.outcome, result.attack.local
    if not set(WARNINGS) <= set(outcome["warnings"]):
        return False
    if expected == "tainted":
        tainted = outcome["integrity"]["verdict"] == "tainted" and outcome["integrity"]["evidence"]
        return bool(tainted) and outcome["verdict"] == "failed" and outcome["reason"].startswith("tainted: ")
    if expected == "ungraded":
        return outcome["verdict"] == "ungraded" and "changed while the agent worked" in outcome["reason"]
    return expected == "declared" or held(result)


def escaped(results: Sequence[Result], backend: str) -> str:
    """The attacks that did not end as they should, a line each."""
    good = held_without_isolation if backend == "local" else held
    return "\n".join(str(result) for result in results if not good(result))


def test_no_reconstruction_passes_by_a_trick(run: Run, backend: str) -> None:
    assert not (found := escaped(run(RECONSTRUCTIONS), backend)), found


def test_no_module_passes_by_a_trick(run: Run, backend: str) -> None:
    results = run(MODULES)
    assert not (found := escaped(results, backend)), found
    (answers,) = [result for result in results if result.attack is ANSWERS]
    assert [check["name"] for check in answers.outcome["checks"] if check["passed"]] == []


def test_no_plan_passes_by_a_trick_before_the_rubric(run: Run, backend: str) -> None:
    assert not (found := escaped(run(PLANS, "--judge-model=rubric"), backend)), found


def test_no_plan_talks_a_model_into_passing_it(run: Run, backend: str) -> None:
    with FakeEndpoint(quoting_judge) as endpoint:
        results = run([ALL["prompt_injection"]], base_url=endpoint.base_url)
        assert not (found := escaped(results, backend)), found
    assert results[0].outcome["judge"] == "llm:attacker"


def test_every_attack_says_what_it_aims_at_and_what_stops_it() -> None:
    assert len(ALL) == len(RECONSTRUCTIONS) + len(MODULES) + len(PLANS) >= 25
    for attack in ALL.values():
        assert attack.aims_at, attack.name
        assert attack.stopped_by, attack.name
