"""Models behind an HTTP endpoint: a competent one, one with a wrong idea, and endpoints that do not work."""

from __future__ import annotations

import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.models.fake_endpoint import FakeEndpoint, hangs, refuses, says
from tests.plugin.runs import junit_cases, outcomes
from tests.scripted_model import ScriptedModel

TASKS = Path(__file__).parents[2] / "tasks"
CT = TASKS / "ct_fan_beam"

Examine = Callable[..., pytest.RunResult]


@pytest.fixture
def examine(pytester: pytest.Pytester) -> Examine:
    """Examine a model of an endpoint over the tasks of this checkout."""

    def start(base_url: str, *args: str, tasks: Path = TASKS) -> pytest.RunResult:
        return pytester.runpytest_subprocess(
            f"--tasks={tasks}", f"--base-url={base_url}", "--output=out", "--junitxml=j.xml", *args
        )

    return start


def test_a_competent_model_passes_every_item_of_a_task(examine: Examine, pytester: pytest.Pytester) -> None:
    with FakeEndpoint(ScriptedModel(CT)) as endpoint:
        result = examine(endpoint.base_url, "--model=scripted", "-k", "ct_fan_beam", "-n", "2")
    result.assert_outcomes(passed=8)
    assert result.ret == 0
    found = outcomes(pytester.path / "out")
    for one in found.values():
        assert one["stop"] == "submitted"
        assert one["usage"]["calls"] == one["iterations"] > 0
        assert one["usage"]["prompt_tokens"] == 12 * one["iterations"]
        assert not one["usage"]["estimated"]
        assert one["clocks"]["attempt_seconds"] > 0
    assert found["planning"]["judge"] == "llm:scripted"
    assert found["planning"]["judge_usage"]["calls"] == 3
    _, properties = junit_cases(pytester.path / "j.xml")["end2end[L2]"]
    assert int(properties["tokens"]) > 0
    assert float(properties["seconds"]) > 0


def test_one_wrong_convention_fails_for_its_reason(examine: Examine, pytester: pytest.Pytester) -> None:
    traps = tomllib.loads((CT / "evaluation/traps.toml").read_text(encoding="utf-8"))["trap"]
    trap = next(trap for trap in traps if trap["id"] == "parker_fan_sign")
    mistake = {edit["find"]: edit["replace"] for edit in trap["edits"]}
    with FakeEndpoint(ScriptedModel(CT, mistake)) as endpoint:
        result = examine(endpoint.base_url, "--model=scripted", "-k", "ct_fan_beam and (L3 or solvers)")
    result.assert_outcomes(failed=2)
    found = outcomes(pytester.path / "out")
    assert "rel_l2" in found["end2end[L3]"]["reason"]
    assert found["function[solvers]"]["scores"]["tests_passed_fraction"] < 1
    assert {one["stop"] for one in found.values()} == {"submitted"}


def test_hard_coded_answers_to_the_visible_fixtures_fail_on_the_hidden_ones(
    examine: Examine, pytester: pytest.Pytester, toy_tasks: Path
) -> None:
    cheat = (
        "import numpy as np\n"
        "def invert(y):\n"
        "    return np.load('evaluation/fixtures/solvers/invert.npz')['x']\n"
    )
    wanted = (toy_tasks / "toy/src/solvers.py").read_text(encoding="utf-8")
    with FakeEndpoint(ScriptedModel(toy_tasks / "toy", {wanted: cheat})) as endpoint:
        result = examine(endpoint.base_url, "--model=m", "-k", "solvers", tasks=toy_tasks)
    result.assert_outcomes(failed=1)
    assert outcomes(pytester.path / "out")["function[solvers]"]["scores"]["hidden_fraction"] == 0


def test_a_limit_ends_the_attempt_and_what_is_there_is_graded(
    examine: Examine, pytester: pytest.Pytester, toy_tasks: Path
) -> None:
    steps = len(ScriptedModel(toy_tasks / "toy").files("an end2end prompt"))
    with FakeEndpoint(ScriptedModel(toy_tasks / "toy")) as endpoint:
        result = examine(
            endpoint.base_url, "--model=m", "--level=L1", f"--max-iterations={steps}", tasks=toy_tasks
        )
    result.assert_outcomes(passed=1)
    assert outcomes(pytester.path / "out")["end2end[L1]"]["stop"] == "iterations"


def test_done_without_the_deliverable_is_answered_once(
    examine: Examine, pytester: pytest.Pytester, toy_tasks: Path
) -> None:
    with FakeEndpoint(lambda request, headers: says("Action: DONE")) as endpoint:
        examine(endpoint.base_url, "--model=m", "--level=L1", tasks=toy_tasks).assert_outcomes(failed=1)
        assert len(endpoint.requests) == 2
        assert "output/reconstruction.npy is not there" in endpoint.bodies[1]["messages"][-1]["content"]


def test_prose_without_an_action_ends_as_a_format_error(
    examine: Examine, pytester: pytest.Pytester, toy_tasks: Path
) -> None:
    with FakeEndpoint(lambda request, headers: says("I think it is solved.")) as endpoint:
        examine(endpoint.base_url, "--model=m", "--level=L1", tasks=toy_tasks).assert_outcomes(failed=1)
    assert outcomes(pytester.path / "out")["end2end[L1]"]["stop"] == "format_error"


def test_an_endpoint_that_never_answers_is_a_fault_and_no_miss(
    examine: Examine, pytester: pytest.Pytester, toy_tasks: Path
) -> None:
    with FakeEndpoint(lambda request, headers: hangs()) as endpoint:
        examine(
            endpoint.base_url,
            "--model=m",
            "--level=L1",
            "--attempt-timeout=2",
            "--retries=0",
            tasks=toy_tasks,
        ).assert_outcomes(errors=1)
    fault = outcomes(pytester.path / "out")["end2end[L1]"]["fault"]
    assert fault["kind"].startswith("endpoint")


def test_nobody_there_is_an_error_with_the_way_out(
    examine: Examine, pytester: pytest.Pytester, toy_tasks: Path
) -> None:
    with FakeEndpoint() as endpoint:
        url = endpoint.base_url
    result = examine(url, "--model=m", "--level=L1", "--retries=0", tasks=toy_tasks)
    result.assert_outcomes(errors=1)
    assert result.ret == 1
    fault = outcomes(pytester.path / "out")["end2end[L1]"]["fault"]
    assert fault["kind"].startswith("endpoint")
    assert url in fault["message"]
    assert "--base-url" in fault["message"]
    assert "Traceback" not in result.stdout.str()


@pytest.mark.parametrize(
    ("reply", "kind", "said"),
    [
        (refuses(401, "Incorrect API key provided"), "endpoint.key_refused", "API_KEY"),
        (
            refuses(404, "The model `m` does not exist", code="model_not_found"),
            "endpoint.model_not_found",
            "m",
        ),
        (
            refuses(429, "You exceeded your current quota", code="insufficient_quota"),
            "endpoint.quota_spent",
            "quota",
        ),
    ],
)
def test_what_no_retry_can_cure_ends_the_model_at_once(
    examine: Examine, pytester: pytest.Pytester, toy_tasks: Path, reply: object, kind: str, said: str
) -> None:
    with FakeEndpoint(lambda request, headers: reply) as endpoint:
        result = examine(endpoint.base_url, "--model=m", "--api-key=sk-very-secret", tasks=toy_tasks)
        assert len(endpoint.requests) == 1
    result.assert_outcomes(errors=6)
    found = outcomes(pytester.path / "out")
    kinds = sorted(one["fault"]["kind"] for one in found.values())
    assert kinds == sorted([kind, *["not_tried"] * 5])
    assert any(said in one["fault"]["message"] for one in found.values())
    everything = result.stdout.str() + "".join(
        file.read_text(errors="replace") for file in (pytester.path / "out").rglob("*") if file.is_file()
    )
    assert "sk-very-secret" not in everything


def test_a_key_on_the_command_line_works_and_earns_a_warning(
    examine: Examine, pytester: pytest.Pytester, toy_tasks: Path
) -> None:
    with FakeEndpoint(ScriptedModel(toy_tasks / "toy")) as endpoint:
        result = examine(
            endpoint.base_url, "--model=m", "--level=L1", "--api-key=sk-typed", "-n", "1", tasks=toy_tasks
        )
        assert {request.headers["authorization"] for request in endpoint.requests} == {"Bearer sk-typed"}
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["imaging101: warning: --api-key: the key is visible*"])


def test_a_key_from_the_environment_reaches_no_worker_and_no_sandbox(
    pytester: pytest.Pytester, toy_tasks: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytester.makeconftest(
        """
        import os
        import pytest

        @pytest.fixture
        def agent(agent, sandbox):
            assert "sk-hidden" not in " ".join(os.environ.values())
            assert "sk-hidden" not in sandbox.run("env; cat /proc/*/environ", timeout=30).output
            return agent
        """
    )
    monkeypatch.setenv("API_KEY", "sk-hidden")
    with FakeEndpoint(ScriptedModel(toy_tasks / "toy")) as endpoint:
        monkeypatch.setenv("BASE_URL", endpoint.base_url)
        result = pytester.runpytest_subprocess(f"--tasks={toy_tasks}", "--model=m", "--level=L1", "-n", "1")
        assert {request.headers["authorization"] for request in endpoint.requests} == {"Bearer sk-hidden"}
    result.assert_outcomes(passed=1)


def test_config_llm_supplies_url_key_and_parameters(
    pytester: pytest.Pytester, toy_tasks: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MY_KEY", "sk-from-variable")
    with FakeEndpoint(ScriptedModel(toy_tasks / "toy")) as endpoint:
        (pytester.path / "config_llm.yaml").write_text(
            "models:\n"
            "  org/m:free:\n"
            f"    base_url: {endpoint.base_url}\n"
            "    api_key_env: MY_KEY\n"
            "    temperature: 0.25\n"
            "    extra_body: {top_k: 7}\n"
            "    prices_usd_per_million: [1000000, 0]\n"
        )
        result = pytester.runpytest_subprocess(
            f"--tasks={toy_tasks}", "--model=org/m:free", "--level=L1", "--output=out"
        )
        request = endpoint.requests[0]
    result.assert_outcomes(passed=1)
    assert request.headers["authorization"] == "Bearer sk-from-variable"
    assert (request.json["model"], request.json["temperature"], request.json["top_k"]) == (
        "org/m:free",
        0.25,
        7,
    )
    usage = outcomes(pytester.path / "out")["end2end[L1]"]["usage"]
    assert usage["cost_usd"] == pytest.approx(usage["prompt_tokens"])
