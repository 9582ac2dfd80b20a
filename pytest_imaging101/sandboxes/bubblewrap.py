"""The bubblewrap sandbox: each command in namespaces of its own, without network and without the host's files."""

from __future__ import annotations

import builtins
import os
import re
import socket
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path

from pytest_imaging101.faults import SandboxFault
from pytest_imaging101.sandboxes import launch
from pytest_imaging101.sandboxes.availability import NOT_INSTALLED, find_bwrap
from pytest_imaging101.sandboxes.base import Completed, Entry, Resources
from pytest_imaging101.sandboxes.environment import Environment
from pytest_imaging101.sandboxes.mounts import ENVIRONMENT, ISOLATION, python_mounts, system_mounts
from pytest_imaging101.sandboxes.namespace import Namespace
from pytest_imaging101.sandboxes.process import Command, Stop, run_command
from pytest_imaging101.sandboxes.scratch import Scratch
from pytest_imaging101.sandboxes.tagged import TAG
from pytest_imaging101.sandboxes.watchdog import Watchdog
from pytest_imaging101.sandboxes.workspace import Workspace

_SCRIPT = "/run/command"
_PATH = f"{ENVIRONMENT}/bin:{launch.SYSTEM_PATH}"


class BubblewrapSandbox:
    """A workspace on the host that commands see as /workspace, and nothing else of the host.

    Each ``run`` is one bubblewrap with a process namespace of its own: a child left in the background dies with
    the command that started it. Files in /workspace and /tmp stay for the next command. Raises SandboxFault.
    """

    backend: str = "bubblewrap"
    warnings: tuple[str, ...] = ()

    def __init__(self, environment: Environment, resources: Resources) -> None:
        program = find_bwrap()
        if program is None:
            raise SandboxFault(NOT_INSTALLED)
        self._resources = resources
        self._scratch = Scratch()
        self._workspace = Workspace(self._scratch)
        self._watchdog = Watchdog(resources, (self._scratch.workspace, self._scratch.temporary))
        self._stop = Stop()
        try:
            self._options = [str(program), *ISOLATION, *_mounts(self._scratch, environment, resources)]
        except OSError as error:
            self._scratch.remove()
            raise SandboxFault(f"the sandbox cannot be laid out: {error}") from error

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
        """Run a shell text or an argument list in /workspace."""
        extra, descriptors = launch.with_channel(environment, channel)
        with self._stop, ExitStack() as stack:
            self._scratch.restore()
            mounts: builtins.list[str] = []
            if isinstance(command, str):
                script = stack.enter_context(self._scratch.script(command))
                mounts = ["--ro-bind", str(script), _SCRIPT]
                command = [launch.shell(), _SCRIPT]
            tag = self._scratch.new_tag()
            namespace = stack.enter_context(Namespace(tag))
            arguments = [
                *(*self._options, *mounts, *namespace.options()),
                *("--remount-ro", "/", "--remount-ro", "/dev", "--chdir", "/workspace"),
                # The tag is for bubblewrap alone: a harness that dies while it starts can leave one behind that
                # has not come to starting anything, and the next run finds it by that.
                *("--unsetenv", TAG, "--"),
                *launch.limited(command, self._resources, limit_processes=_counts_by_namespace()),
            ]
            start = Command(
                arguments=arguments,
                environment={
                    **launch.variables(_PATH, home="/workspace", temporary="/tmp", extra=extra),
                    TAG: tag,
                },
                folder=self._scratch.root,
                timeout=timeout,
                output_bytes=self._resources.output_bytes,
                stdin=stdin,
                descriptors=(*descriptors, namespace.writer),
            )
            return run_command(start, namespace, self._watchdog, self._stop)

    def close(self) -> None:
        """Kill what runs and delete the workspace."""
        self._stop.request()
        self._scratch.remove()


def _mounts(scratch: Scratch, environment: Environment, resources: Resources) -> list[str]:
    # Python last: it can lie below the host's /tmp.
    return [
        *system_mounts(scratch.own),
        *("--perms", "1777", "--size", str(resources.memory_bytes // 4), "--tmpfs", "/dev/shm"),
        *("--bind", str(scratch.workspace), "/workspace"),
        *("--bind", str(scratch.temporary), "/tmp"),
        *python_mounts(environment.python, environment.root, scratch.own),
    ]


def _counts_by_namespace() -> bool:
    """Whether the kernel counts a user's processes by user namespace (Linux 5.14), not over the whole machine."""
    return tuple(map(int, re.findall(r"\d+", os.uname().release)[:2])) >= (5, 14)
