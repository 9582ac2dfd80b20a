"""Whose a container is, and whether that process is dead."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from pytest_imaging101.sandboxes.owner import is_dead, owner_labels


def test_a_process_that_ended_unnoticed_by_its_parent_owns_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    monkeypatch.setattr(os, "getpid", lambda: child.pid)
    labels = owner_labels("run")
    assert not is_dead(labels)
    assert child.stdin is not None
    child.stdin.close()
    while Path(f"/proc/{child.pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z":
        pass
    assert is_dead(labels)
    child.wait()
    assert is_dead(labels)
