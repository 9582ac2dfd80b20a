"""What runs that were killed left behind: found by what says that its owner is dead, and nothing of a live run."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass

from pytest_imaging101.faults import EnvironmentFault, SandboxFault
from pytest_imaging101.sandboxes.docker_leftovers import abandoned
from pytest_imaging101.sandboxes.environment import half_built_environments, remove_environment
from pytest_imaging101.sandboxes.portable import abandoned_portable
from pytest_imaging101.sandboxes.portable_files import remove_folder
from pytest_imaging101.sandboxes.scratch import abandoned_folders, remove_tree
from pytest_imaging101.sandboxes.tagged import kill_tagged


@dataclass(frozen=True)
class Leftover:
    """One thing that a dead owner left: its kind and name, and why it is still there after a try to remove it."""

    kind: str
    name: str
    trouble: str = ""


def reap(*, dry_run: bool = False) -> list[Leftover]:
    """Remove what dead owners of this user left, of every kind; ``dry_run`` only says what would be removed.

    What cannot be removed is left for the next time: it is no fault of the run that is starting.
    """
    return [*_containers(dry_run), *_sandboxes(dry_run), *_environments(dry_run)]


def remove_leftovers() -> int:
    """Remove what dead owners left; how much there was."""
    return sum(not leftover.trouble for leftover in reap())


def _containers(dry_run: bool) -> Iterator[Leftover]:
    """Containers and volumes on the engine of DOCKER_HOST, before the folders that they have mounted."""
    for one in abandoned():
        trouble = ""
        if not dry_run:
            try:
                one.remove()
            except SandboxFault as fault:
                trouble = fault.message
        yield Leftover(one.kind, one.name, trouble)


def _sandboxes(dry_run: bool) -> Iterator[Leftover]:
    """Folders whose lock nobody holds, and the processes that carry their name."""
    if sys.platform == "win32":
        yield from _portable_sandboxes(dry_run)
        return
    with abandoned_folders() as folders:
        for folder in folders:
            trouble = ""
            if not dry_run:
                if not kill_tagged(folder.name):
                    trouble = "processes of it are still alive"
                try:
                    remove_tree(folder)
                except OSError as error:
                    trouble = str(error)
            yield Leftover("sandbox", str(folder), trouble)


def _portable_sandboxes(dry_run: bool) -> Iterator[Leftover]:
    """The same where folders are all that can be found."""
    with abandoned_portable() as folders:
        for folder in folders:
            trouble = ""
            if not dry_run:
                try:
                    remove_folder(folder)
                except OSError as error:
                    trouble = str(error)
            yield Leftover("sandbox", str(folder), trouble)


def _environments(dry_run: bool) -> Iterator[Leftover]:
    """Environments that are not whole and that nobody is building."""
    with half_built_environments() as roots:
        for root in roots:
            trouble = ""
            if not dry_run:
                try:
                    remove_environment(root)
                except EnvironmentFault as fault:
                    trouble = fault.message
            yield Leftover("half-built environment", str(root), trouble)
