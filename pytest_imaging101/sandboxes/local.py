"""The local sandbox: a workspace of its own, and for the rest the host as it is; its warnings say so."""

from __future__ import annotations

import builtins
import os
import signal
import socket
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path

from pytest_imaging101.faults import SandboxFault
from pytest_imaging101.sandboxes import launch
from pytest_imaging101.sandboxes.base import Completed, Entry, Resources
from pytest_imaging101.sandboxes.environment import Environment
from pytest_imaging101.sandboxes.process import Command, Stop, run_command
from pytest_imaging101.sandboxes.scratch import Scratch
from pytest_imaging101.sandboxes.tagged import TAG, kill_tagged
from pytest_imaging101.sandboxes.watchdog import Watchdog
from pytest_imaging101.sandboxes.workspace import Workspace

WARNINGS = (
    "local sandbox: commands run as you and can reach the network",
    "local sandbox: commands can read and change what you can, the tasks' answers and the environment included",
    "local sandbox: a process that detaches itself and clears its environment variables outlives its command",
    "local sandbox: commands outlive a harness that is killed, until the next run removes them",
)
_UNWATCHED = "local sandbox: this system has no /proc, so memory and processes are not limited"


class LocalSandbox:
    """A workspace and a cleared environment on the host itself, for where nothing better can be had.

    It promises what the others do about files, output, time limits and clearing up; ``warnings`` names what it
    cannot. Raises SandboxFault.
    """

    backend: str = "local"

    def __init__(self, environment: Environment, resources: Resources) -> None:
        self.warnings: tuple[str, ...] = WARNINGS if os.path.isdir("/proc/self") else (*WARNINGS, _UNWATCHED)
        self._resources = resources
        self._scratch = Scratch()
        self._workspace = Workspace(self._scratch)
        self._watchdog = Watchdog(resources, (self._scratch.workspace, self._scratch.temporary))
        self._stop = Stop()
        self._path = f"{environment.python.parent}:{launch.SYSTEM_PATH}"

    def put(self, files: Mapping[str, bytes | Path]) -> None:
        """Write files into the workspace."""
        self._workspace.put(files)

    def get(self, path: str, max_bytes: int) -> bytes:
        """Contents of a regular file."""
        return self._workspace.get(path, max_bytes)

    def list(self, folder: str = "") -> builtins.list[Entry]:
        """Regular files below a folder."""
        return self._workspace.list(folder)

    def run(
        self,
        command: str | Sequence[str],
        *,
        timeout: float,
        stdin: bytes | None = None,
        environment: Mapping[str, str] | None = None,
        channel: socket.socket | None = None,
    ) -> Completed:
        """Run a shell text or an argument list in the workspace."""
        extra, descriptors = launch.with_channel(environment, channel)
        with self._stop, ExitStack() as stack:
            self._scratch.restore()
            tag = self._scratch.new_tag()
            if isinstance(command, str):
                command = [launch.shell(), str(stack.enter_context(self._scratch.script(command)))]
            start = Command(
                arguments=launch.limited(command, self._resources, limit_processes=False),
                environment=launch.variables(
                    self._path,
                    home=str(self._scratch.workspace),
                    temporary=str(self._scratch.temporary),
                    extra={**extra, TAG: tag},
                ),
                folder=self._scratch.workspace,
                timeout=timeout,
                output_bytes=self._resources.output_bytes,
                stdin=stdin,
                descriptors=descriptors,
            )
            return run_command(start, _Session(tag), self._watchdog, self._stop)

    def close(self) -> None:
        """Kill what runs and delete the workspace."""
        self._stop.request()
        self._scratch.remove()


class _Session:
    """The processes of one command: its process group, and what has left that but still carries the tag."""

    def __init__(self, tag: str) -> None:
        self._tag = tag
        self._process: subprocess.Popen[bytes] | None = None

    def attach(self, process: subprocess.Popen[bytes]) -> None:
        """Take hold of the shell, which leads a session and a group of its own."""
        self._process = process

    def watched(self) -> int | None:
        """The shell."""
        return self._process.pid if self._process else None

    def kill(self) -> None:
        """Kill the group, then whatever else carries the tag."""
        if self._process is not None:
            # The shell has not been waited for, so its number, which is the group's, is still its own.
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self._process.pid, signal.SIGKILL)
        if not kill_tagged(self._tag):
            raise SandboxFault("processes of a command were still alive 10 s after SIGKILL")

    def exit_code(self, returncode: int, output: str) -> int:
        """As the system says."""
        return returncode
