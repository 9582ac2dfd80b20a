"""What runs that were killed left behind: found by their folders' locks and removed, and nothing of a live run."""

from __future__ import annotations

from contextlib import suppress

from pytest_imaging101.sandboxes.scratch import abandoned_folders, remove_tree
from pytest_imaging101.sandboxes.tagged import kill_tagged


def remove_leftovers() -> int:
    """Remove the sandboxes of this user whose harness is dead, processes and folders; how many there were.

    A folder that cannot be removed is left for the next time: it is no fault of the run that is starting.
    """
    removed = 0
    with abandoned_folders() as folders:
        for folder in folders:
            kill_tagged(folder.name)
            with suppress(OSError):
                remove_tree(folder)
                removed += 1
    return removed
