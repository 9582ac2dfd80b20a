"""The commands ``imaging101 new-task`` and ``imaging101 validate-task``."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

import click

from pytest_imaging101.faults import UsageError
from pytest_imaging101.task import DOMAINS, TASK_FILE

_TASKS = click.option(
    "--tasks",
    type=click.Path(path_type=Path),
    help="Folder of task folders (default: ./tasks, else the bundled ones).",
)


@click.command("new-task")
@click.argument("name")
@click.option("--domain", required=True, type=click.Choice(DOMAINS), help="One of the six domains.")
@click.option(
    "--tasks",
    type=click.Path(path_type=Path),
    default=Path("tasks"),
    show_default=True,
    help="Where it is made.",
)
def new_task_command(name: str, domain: str, tasks: Path) -> None:
    """Make a task folder to start from: a toy deconvolution, marked draft, that already validates."""
    from pytest_imaging101.kit.new import new_task

    task = new_task(name, domain, tasks)
    where = "" if tasks == Path("tasks") else f" --tasks {tasks}"
    click.echo(f"made {task.folder}; docs/add-a-task.md says how to go on")
    click.echo(f"check it with: imaging101 validate-task {name}{where}")


@click.command("validate-task")
@click.argument("names", nargs=-1)
@click.option("--all", "every", is_flag=True, help="Every task of the folder, drafts too.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of tables.")
@click.option("-n", "workers", type=click.IntRange(1), default=1, show_default=True, help="Checks at a time.")
@click.option("--force", is_flag=True, help="Look again at tasks that were accepted and have not changed.")
@click.option(
    "--check", "only", multiple=True, help="This check, these (trap), or this group alone; repeatable."
)
@click.option("--sandbox", default="auto", show_default=True, help="Where a task's code runs, as for pytest.")
@_TASKS
def validate_task_command(
    names: tuple[str, ...],
    every: bool,
    as_json: bool,
    workers: int,
    force: bool,
    only: tuple[str, ...],
    sandbox: str,
    tasks: Path | None,
) -> None:
    """Look at tasks with everything that a task must pass to be accepted; exit code 1 if anything is wrong."""
    from rich.console import Console

    from pytest_imaging101.collection import tasks_folder
    from pytest_imaging101.kit.table import print_reports, progress_line, to_json
    from pytest_imaging101.kit.validate import validate
    from pytest_imaging101.sandboxes.choose import choose_backend

    folders = _chosen_folders(names, every, tasks_folder(tasks, Path.cwd()))
    backend = choose_backend(sandbox)
    for warning in backend.warnings:
        click.echo(f"warning: {warning}", err=True)
    reports = validate(
        folders,
        backend,
        workers=workers,
        force=force,
        only=only,
        progress=lambda finding: click.echo(progress_line(finding), err=True),
    )
    if as_json:
        click.echo(to_json(reports))
    else:
        print_reports(Console(), reports)
    sys.exit(0 if all(report.accepted for report in reports) else 1)


def _chosen_folders(names: Sequence[str], every: bool, tasks: Path) -> list[Path]:
    known = sorted(file.parent for file in tasks.glob(f"*/{TASK_FILE}"))
    if every == bool(names):
        raise UsageError("name tasks, or say --all")
    if every:
        return known
    by_name = {folder.name: folder for folder in known}
    for name in names:
        if name not in by_name:
            raise UsageError(f"{name}: no such task in {tasks}; there are {', '.join(by_name) or 'none'}")
    return [by_name[name] for name in names]
