"""pytest's hooks, a few lines each: they hand over and hold no logic."""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pytest_imaging101 import collection, fixtures, hookspecs, options
from pytest_imaging101.faults import UsageError
from pytest_imaging101.options import Settings
from pytest_imaging101.task import Task

if TYPE_CHECKING:
    from pytest_imaging101.models.base import ModelSettings
    from pytest_imaging101.session import BenchmarkSession

SETTINGS: pytest.StashKey[Settings] = pytest.StashKey()
SESSION: pytest.StashKey[BenchmarkSession] = pytest.StashKey()
TASKS: pytest.StashKey[Sequence[Task]] = pytest.StashKey()
TAKEN: pytest.StashKey[Sequence[str]] = pytest.StashKey()


def pytest_addhooks(pluginmanager: pytest.PytestPluginManager) -> None:
    pluginmanager.add_hookspecs(hookspecs)


def pytest_addoption(parser: pytest.Parser) -> None:
    options.add_long_options(parser)


@pytest.hookimpl(trylast=True)
def pytest_load_initial_conftests(early_config: pytest.Config, parser: pytest.Parser) -> None:
    early_config.stash[TAKEN] = options.add_short_options(parser)


def pytest_configure(config: pytest.Config) -> None:
    for name, meaning in collection.MARKERS.items():
        config.addinivalue_line("markers", f"{name}: {meaning} (imaging101)")
    try:
        if not options.benchmark_asked_for(config):
            options.refuse_lone_options(config)
            return
        _configure_benchmark(config)
    except UsageError as error:
        raise pytest.UsageError(str(error)) from error


def _configure_benchmark(config: pytest.Config) -> None:
    invocation = config.invocation_params.dir
    settings = options.read_settings(
        config,
        lambda asked: collection.tasks_folder(asked, invocation),
        known_models=_told_by_controller(config),
    )
    config.stash[SETTINGS] = settings
    if config.args_source is not pytest.Config.ArgsSource.ARGS:
        config.args = [str(settings.tasks)]
    config.args = collection.resolve_arguments(config.args, settings.tasks, invocation)
    worker = hasattr(config, "workerinput")
    tasks = [] if worker else collection.check_tasks(config.args, settings, invocation)
    config.stash[TASKS] = tasks
    config.option.collectonly = options.dry_run(config)
    config.pluginmanager.register(fixtures, "imaging101-fixtures")
    if config.option.collectonly:
        return
    from pytest_imaging101.session import BenchmarkSession

    config.stash[SESSION] = BenchmarkSession.open(config, settings, tasks)
    config.stash[fixtures.RUN] = config.stash[SESSION].run


def _told_by_controller(config: pytest.Config) -> Mapping[str, ModelSettings] | None:
    workerinput = getattr(config, "workerinput", None)
    if workerinput is None:
        return None
    from pytest_imaging101.run import settings_of_models

    return settings_of_models(workerinput["imaging101"])


def pytest_unconfigure(config: pytest.Config) -> None:
    if session := config.stash.get(SESSION, None):
        session.close()


def pytest_report_header(config: pytest.Config) -> list[str]:
    if (settings := config.stash.get(SETTINGS, None)) is None:
        return []
    from pytest_imaging101.header import header_lines

    session = config.stash.get(SESSION, None)
    return header_lines(settings, config.stash[TAKEN], session, config.stash[TASKS])


def pytest_ignore_collect(collection_path: Path) -> bool | None:
    # A task folder holds tests and modules for graders, none of which pytest may collect by itself.
    folder = collection_path.parent
    inside = (folder / "task.toml").is_file() and (folder / "evaluation").is_dir()
    return True if inside and collection_path.name != "task.toml" else None


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> pytest.Collector | None:
    settings = parent.config.stash.get(SETTINGS, None)
    if settings is None or file_path.name != "task.toml":
        return None
    return collection.collect_task_file(file_path, parent, settings)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if settings := config.stash.get(SETTINGS, None):
        collection.deselect_other_shards(config, items, settings)
    if session := config.stash.get(SESSION, None):
        session.deselect_finished(config, items)


def pytest_collection_finish(session: pytest.Session) -> None:
    if benchmark := session.config.stash.get(SESSION, None):
        benchmark.planned_here(session.items)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_node_collection_finished(node: Any, ids: list[str]) -> None:
    if benchmark := node.config.stash.get(SESSION, None):
        benchmark.planned_by_workers(ids)


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    if benchmark := node.config.stash.get(SESSION, None):
        node.workerinput["imaging101"] = benchmark.run.for_workers()


def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> bool | None:
    benchmark = item.config.stash.get(SESSION, None)
    if benchmark is None or not isinstance(item, collection.AttemptItem):
        return None
    from pytest_imaging101.retrying import run_with_retries

    return run_with_retries(item, nextitem, benchmark.run.settings.retries)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    benchmark = item.config.stash.get(SESSION, None)
    if benchmark is None or not isinstance(item, collection.AttemptItem):
        return (yield)
    ungraded = benchmark.settle(item, call)
    report = yield
    if ungraded:
        benchmark.mark_report(call, report)
    benchmark.describe(item, report)
    return report


@pytest.hookimpl(tryfirst=True)
def pytest_report_teststatus(
    report: pytest.CollectReport | pytest.TestReport, config: pytest.Config
) -> tuple[str, str, str] | None:
    if SESSION not in config.stash or not isinstance(report, pytest.TestReport):
        return None
    return config.stash[SESSION].status(report)


@pytest.hookimpl(optionalhook=True)
def pytest_handlecrashitem(crashitem: str, report: pytest.TestReport, sched: Any) -> None:
    if benchmark := sched.config.stash.get(SESSION, None):
        benchmark.worker_crashed(crashitem, report)


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    if benchmark := session.config.stash.get(SESSION, None):
        benchmark.finish(session)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    if benchmark := config.stash.get(SESSION, None):
        benchmark.print_summary(terminalreporter)
