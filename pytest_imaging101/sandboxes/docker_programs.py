"""The programs of inside/ as command lines that carry their own text, so that an image need not hold them."""

from __future__ import annotations

import base64
import io
import zipfile
from pathlib import Path

from pytest_imaging101.sandboxes.mounts import ENVIRONMENT

PYTHON = f"{ENVIRONMENT}/bin/python"

_PACKAGE = Path(__file__).parents[1]
# What the programs import, all of it from the standard library alone.
_FILES = (
    *("__init__.py", "faults.py", "sandboxes/__init__.py", "sandboxes/base.py"),
    *("sandboxes/watchdog.py", "sandboxes/workspace.py", "sandboxes/inside/__init__.py"),
    *("sandboxes/inside/warden.py", "sandboxes/inside/files.py", "sandboxes/inside/channel.py"),
)
_START = """\
import base64, os, runpy, sys
held = os.memfd_create("programs")
os.write(held, base64.b64decode(sys.argv[1]))
sys.argv = sys.argv[2:]
sys.path.insert(0, f"/proc/self/fd/{held}")
runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
"""


class Programs:
    """Command lines that start a program of inside/ with the environment's interpreter and nothing of its packages."""

    def __init__(self) -> None:
        archive = io.BytesIO()
        with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as file:
            for name in _FILES:
                file.write(_PACKAGE / name, f"{_PACKAGE.name}/{name}")
        self._text = base64.b64encode(archive.getvalue()).decode()

    def __call__(self, name: str, *arguments: str) -> list[str]:
        """The command line of a program with arguments."""
        module = f"{_PACKAGE.name}.sandboxes.inside.{name}"
        return [PYTHON, "-I", "-S", "-c", _START, self._text, module, *arguments]
