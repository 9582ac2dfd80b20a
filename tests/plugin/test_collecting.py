"""Task folders become pytest items: ids, markers, selection, and a sentence for each mistake."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.toy import make_toy_task

Collect = Callable[..., list[str]]

ALL_ITEMS = [
    "tasks/toy/task.toml::planning",
    "tasks/toy/task.toml::function[physics_model]",
    "tasks/toy/task.toml::function[solvers]",
    "tasks/toy/task.toml::end2end[L1]",
    "tasks/toy/task.toml::end2end[L2]",
    "tasks/toy/task.toml::end2end[L3]",
]


@pytest.fixture
def collect(pytester: pytest.Pytester, toy_tasks: Path) -> Collect:
    """Ids that a command line collects, with the toy task as the only one."""

    def ids(*args: str) -> list[str]:
        result = pytester.runpytest_subprocess(f"--tasks={toy_tasks}", "--collect-only", "-q", *args)
        return [line for line in result.outlines if "::" in line and not line.startswith("ERROR")]

    return ids


def test_every_mechanism_level_and_module_is_an_item(collect: Collect) -> None:
    assert collect("--model=oracle") == ALL_ITEMS


def test_several_models_and_epochs_extend_the_id(collect: Collect) -> None:
    found = collect("--model=oracle", "--model=nop", "--epochs=2", "--level=L1")
    assert found == [
        f"tasks/toy/task.toml::end2end[L1-{model}-epoch{epoch}]"
        for model in ("oracle", "nop")
        for epoch in (1, 2)
    ]


@pytest.mark.parametrize(
    ("args", "count"),
    [
        (("--mechanism=plan",), 1),
        (("--mechanism=end_to_end",), 3),
        (("--mechanism=planning,function",), 3),
        (("--level=l2",), 1),
        (("--target-function=solvers",), 1),
        (("--task=toy", "--imaging101-level=L1"), 1),
        (("-k", "toy and L3"), 1),
        (("-m", "physics and function"), 2),
        (("-m", "easy and tier1 and not end2end"), 3),
        (("-k", "oracle"), 6),
    ],
)
def test_items_are_selected(collect: Collect, args: tuple[str, ...], count: int) -> None:
    assert len(collect("--model=oracle", *args)) == count


def test_an_id_as_printed_can_be_typed_wherever_the_tasks_lie(collect: Collect) -> None:
    assert collect("--model=oracle", "tasks/toy/task.toml::end2end[L2]") == [
        "tasks/toy/task.toml::end2end[L2]"
    ]


def test_shards_are_disjoint_and_complete(collect: Collect) -> None:
    shards = [collect("--model=oracle", f"--shard={index}/4") for index in (1, 2, 3, 4)]
    assert sorted(found for shard in shards for found in shard) == sorted(ALL_ITEMS)
    assert {len(shard) for shard in shards} == {1, 2}


def test_without_a_model_no_task_is_collected(pytester: pytest.Pytester, toy_tasks: Path) -> None:
    pytester.makepyfile(test_own="def test_own(): pass")
    result = pytester.runpytest_subprocess("-q", "--collect-only", str(toy_tasks), "test_own.py")
    result.stdout.fnmatch_lines(["*test_own.py::test_own"])
    result.stdout.no_fnmatch_line("*toy*")


def test_with_a_model_and_no_path_the_projects_own_tests_are_left_alone(
    pytester: pytest.Pytester, toy_tasks: Path
) -> None:
    pytester.makepyfile(test_own="def test_own(): pass")
    pytester.makeini("[pytest]\ntestpaths = test_own.py\n")
    result = pytester.runpytest_subprocess("-q", "--collect-only", "--model=oracle", f"--tasks={toy_tasks}")
    result.stdout.fnmatch_lines(["tasks/toy/task.toml::planning"])
    result.stdout.no_fnmatch_line("*test_own*")


def test_a_variable_called_model_alone_does_not_start_the_benchmark(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, collect: Collect
) -> None:
    pytester.makepyfile(test_own="def test_own(): pass")
    monkeypatch.setenv("MODEL", "oracle")
    pytester.runpytest_subprocess().assert_outcomes(passed=1)
    assert collect() == ALL_ITEMS  # --tasks asks for the benchmark, MODEL says by whom


def test_settings_come_from_line_then_environment_then_ini(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, collect: Collect
) -> None:
    pytester.makeini("[pytest]\nimaging101_model = oracle\nimaging101_level = L1\n")
    assert collect() == ["tasks/toy/task.toml::end2end[L1]"]
    monkeypatch.setenv("IMAGING101_LEVEL", "L2")
    assert collect() == ["tasks/toy/task.toml::end2end[L2]"]
    assert collect("--level=L3") == ["tasks/toy/task.toml::end2end[L3]"]


def test_the_dry_run_names_endpoint_and_environment_and_makes_nothing(
    pytester: pytest.Pytester, toy_tasks: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache = pytester.path / "cache"
    monkeypatch.setenv("IMAGING101_CACHE", str(cache))
    result = pytester.runpytest_subprocess(
        f"--tasks={toy_tasks}", "--model=some", "--base-url=http://127.0.0.1:9/v1", "--dry-run"
    )
    result.stdout.fnmatch_lines(
        [
            "imaging101: model some: http://127.0.0.1:9/v1, without a key",
            "*environment numpy>=1.26: to be built*",
        ]
    )
    assert result.ret == 0
    assert not cache.exists()
    assert not (pytester.path / "reports").exists()


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (("--model=orcale",), "Did you mean oracle?"),
        (("--model=oracle", "--level=L4"), "'L4' cannot be used: must be one of L1, L2, L3"),
        (("--model=",), "must be a name"),
        (("--model=oracle", "--output="), "must name a folder"),
        (("--model=oracle", "--output=a", "--resume=b"), "--resume goes on in the folder of its run"),
        (("--model=oracle", "--attempt-timeout=inf"), "30 days"),
        (("--model=oracle", "--epochs=99999999"), "from 1 to 1000"),
        (("--model=replay:nowhere",), "needs the folder of a run"),
        (("--level=L1",), "--level asks for the benchmark, but no --model says whom to examine"),
        (("--model=oracle", "--mechanism=plannning"), "did you mean planning?"),
        (("--model=oracle", "--task=toi"), "Did you mean toy?"),
        (
            ("--model=oracle", "--target-function=solver"),
            "no task has it; modules are physics_model, solvers",
        ),
        (("--model=oracle", "--tasks=nowhere"), "nowhere is not a folder"),
        (("--model=oracle", "--epochs=0"), "from 1 to 1000"),
        (("--model=oracle", "--max-tokens=0"), "must be greater than zero"),
        (("--model=oracle", "--max-cost=cheap"), "it is not a number"),
        (("--model=oracle", "--shard=3/2"), "must be I/N"),
        (("--model=oracle", "--config-llm=missing.yaml"), "missing.yaml is not a file"),
        (("--model=oracle", "--sandbox=jail"), "jail"),
        (("--model=oracle", "--resume=nowhere"), "nowhere"),
        (("--model=oracle", "tasks/none/task.toml"), "not found: tasks/none/task.toml"),
    ],
)
def test_a_mistake_gives_one_sentence_and_exit_code_4(
    pytester: pytest.Pytester, toy_tasks: Path, args: tuple[str, ...], said: str
) -> None:
    result = pytester.runpytest_subprocess(f"--tasks={toy_tasks}", *args)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    errors = [line for line in result.errlines + result.outlines if line.startswith("ERROR")]
    assert len(errors) == 1
    assert said in errors[0]
    assert "Traceback" not in result.stdout.str() + result.stderr.str()
    assert not (pytester.path / "reports").exists()


def test_a_broken_task_stops_the_run_before_it_starts(pytester: pytest.Pytester, toy_tasks: Path) -> None:
    broken = make_toy_task(toy_tasks / "broken") / "task.toml"
    broken.write_text(broken.read_text().replace("tier = 1", "tier = 7"))
    result = pytester.runpytest_subprocess(f"--tasks={toy_tasks}", "--model=oracle", "-n", "2")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([f"ERROR: {broken}: tier is 7; it must be one of 1, 2, 3"])


def test_a_broken_config_names_file_and_setting(pytester: pytest.Pytester, toy_tasks: Path) -> None:
    (pytester.path / "config_llm.yaml").write_text("models:\n  m:\n    base_ulr: http://x\n")
    result = pytester.runpytest_subprocess(f"--tasks={toy_tasks}", "--model=m")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(
        ["ERROR: *config_llm.yaml: model 'm' has an unknown setting 'base_ulr'; *base_url?"]
    )


def test_short_options_give_way_to_other_plugins_and_conftests(
    pytester: pytest.Pytester, toy_tasks: Path
) -> None:
    pytester.makeconftest("def pytest_addoption(parser): parser.addoption('--model')")
    pytester.makepyfile(test_own="def test_own(request): assert request.config.option.model == 'mine'")
    pytester.runpytest_subprocess("--model=mine").assert_outcomes(passed=1)
    result = pytester.runpytest_subprocess(
        f"--tasks={toy_tasks}", "--imaging101-model=oracle", "--collect-only"
    )
    result.stdout.fnmatch_lines(
        ["imaging101: *--model* belong to another plugin*--imaging101-model*", "*end2end[[]L1]*"]
    )


@pytest.mark.parametrize("name", ["imaging101", "pytest_imaging101"])
def test_both_names_load_the_plugin_where_autoloading_is_off(
    pytester: pytest.Pytester, toy_tasks: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    result = pytester.runpytest_subprocess(
        "-p", name, f"--tasks={toy_tasks}", "--model=oracle", "--collect-only", "-q"
    )
    result.stdout.fnmatch_lines(ALL_ITEMS)


def test_switched_off_it_leaves_nothing_behind(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(test_own="def test_own(): pass")
    pytester.runpytest_subprocess("-p", "no:imaging101").assert_outcomes(passed=1)
    assert (
        "unrecognized arguments"
        in pytester.runpytest_subprocess("-p", "no:imaging101", "--model=x").stderr.str()
    )


def test_a_users_fixtures_of_the_same_names_are_not_ours(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(test_own="def test_own(judge): pass")
    result = pytester.runpytest_subprocess()
    result.stdout.fnmatch_lines(["*fixture 'judge' not found*"])
