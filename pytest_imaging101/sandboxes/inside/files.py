"""Puts, gets and lists a container's workspace from inside, with the same care as on a host.

One request a run, over stdin: a line of JSON, then the contents of the files to put one after the other. The reply is
a line of JSON, then the contents of the file that was asked for.
"""

from __future__ import annotations

import json
import os
import sys
from contextlib import suppress
from dataclasses import astuple, dataclass
from pathlib import Path
from typing import Any, BinaryIO

from pytest_imaging101.faults import SandboxFault
from pytest_imaging101.sandboxes.base import NotDelivered
from pytest_imaging101.sandboxes.workspace import Workspace

_ERRORS: dict[type[Exception], str] = {
    ValueError: "value",
    NotDelivered: "not_delivered",
    SandboxFault: "fault",
}


@dataclass(frozen=True)
class Folder:
    """A folder of this file system that belongs to this user, or that this user cannot have spoilt."""

    workspace: Path
    owner: int | None = None

    def restore(self) -> None:
        """Make it usable again after ``chmod 0``."""
        with suppress(PermissionError):
            os.chmod(self.workspace, 0o700)


def answer(request: dict[str, Any], contents: BinaryIO) -> tuple[dict[str, Any], bytes]:
    """Do what is asked; the reply and its contents."""
    workspace = Workspace(Folder(Path(request["folder"])))
    what = request["do"]
    try:
        if what == "put":
            for path, size in request["files"]:
                workspace.put({path: contents.read(size)})
            return {}, b""
        if what == "get":
            return {}, workspace.get(request["path"], request["max_bytes"])
        return {"entries": [astuple(entry) for entry in workspace.list(request["path"])]}, b""
    except tuple(_ERRORS) as error:
        return {"error": _ERRORS[type(error)], "message": str(error)}, b""


def main() -> None:
    stdin = sys.stdin.buffer
    reply, content = answer(json.loads(stdin.readline()), stdin)
    sys.stdout.buffer.write(json.dumps(reply | {"size": len(content)}).encode() + b"\n" + content)
    sys.stdout.buffer.flush()


if __name__ == "__main__":
    main()
