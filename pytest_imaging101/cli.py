"""The ``imaging101`` command: what is not a test run."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import click

from pytest_imaging101 import __version__
from pytest_imaging101.faults import Fault, UsageError
from pytest_imaging101.kit.commands import new_task_command, validate_task_command


class _Sentences(click.Group):
    """Turns our own errors into one sentence and an exit code: 4 for usage, as pytest has it, 1 for faults."""

    def invoke(self, context: click.Context) -> object:
        try:
            return super().invoke(context)
        except UsageError as error:
            click.echo(f"Error: {error}", err=True)
            sys.exit(4)
        except Fault as fault:
            click.echo(f"Error: {fault.kind}: {fault}", err=True)
            sys.exit(1)


@click.group(cls=_Sentences)
@click.version_option(__version__, prog_name="imaging101")
def main() -> None:
    """Work with tasks and results of the benchmark; attempts themselves are run by pytest."""


main.add_command(new_task_command)
main.add_command(validate_task_command)


@main.command()
@click.argument("run_folder", type=click.Path(path_type=Path))
def report(run_folder: Path) -> None:
    """Make a run's reports again from its attempts: results.jsonl, summary.json, junit.xml, and the summary.

    Works on a run that was killed: attempts in flight are shown as interrupted.
    """
    from pytest_imaging101.reporting.report import rebuild
    from pytest_imaging101.reporting.terminal import summary_lines

    summary = rebuild(run_folder)
    width = shutil.get_terminal_size((100, 24)).columns
    for line in summary_lines(summary, run_folder, width=width):
        click.echo(line)


@main.command()
@click.option("--dry-run", is_flag=True, help="Only say what would be removed.")
def reap(dry_run: bool) -> None:
    """Remove what killed runs left on this machine: sandboxes with their processes, half-built environments.

    Nothing that a live run owns is touched. A run does the same when it starts.
    """
    from pytest_imaging101.sandboxes.leftovers import reap as remove

    leftovers = remove(dry_run=dry_run)
    for leftover in leftovers:
        if leftover.trouble:
            click.echo(f"Error: {leftover.kind} {leftover.name} is still there: {leftover.trouble}", err=True)
        else:
            click.echo(f"{'would remove' if dry_run else 'removed'} {leftover.kind} {leftover.name}")
    if not leftovers:
        click.echo("nothing was left behind")
    if any(leftover.trouble for leftover in leftovers):
        sys.exit(1)


@main.group()
def sandbox() -> None:
    """What sandboxes need on this machine."""


@sandbox.command()
@click.option("--tag", help="Name of the image (default: the one that runs take).")
@click.option("--base", metavar="IMAGE", help="Image to build on, instead of the Dockerfile's own.")
def build(tag: str | None, base: str | None) -> None:
    """Build the image of Docker sandboxes on the engine of DOCKER_HOST."""
    from pytest_imaging101.sandboxes.choose import DEFAULT_IMAGE
    from pytest_imaging101.sandboxes.docker_image import build_image

    name = tag or DEFAULT_IMAGE
    build_image(name, base, click.echo)
    click.echo(f"built {name}")


@main.command()
@click.argument("path", type=click.Path(path_type=Path))
def schema(path: Path) -> None:
    """Write the JSON Schema of an attempt's outcome.json."""
    from pytest_imaging101.reporting.schema import write_schema

    write_schema(path)
    click.echo(f"wrote {path}")
