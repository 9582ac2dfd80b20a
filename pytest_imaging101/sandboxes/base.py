"""What every sandbox promises: files in, commands run, files out, nothing left behind."""

from __future__ import annotations

import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol


@dataclass(frozen=True)
class Completed:
    """How a command ended.

    ``output`` is stdout and stderr in the order written, decoded with replacement, head and tail if
    ``truncated``; ``output_bytes`` is how much there was. ``exit_code`` is negative for a signal, also where a
    shell said so with 128 + signal; 127 for a program that is not there. ``killed_by`` names the limit that
    ended it ("timeout", "memory", "output", "processes", "disk"), empty if none.
    """

    exit_code: int
    output: str
    output_bytes: int
    truncated: bool
    timed_out: bool
    seconds: float
    killed_by: str = ""


@dataclass(frozen=True)
class Entry:
    """A regular file in the workspace: path relative to it, with forward slashes, and size in bytes."""

    path: str
    size: int


@dataclass(frozen=True)
class Resources:
    """What one sandbox may use."""

    memory_bytes: int = 4 * 2**30
    processes: int = 256
    file_bytes: int = 2 * 2**30
    disk_bytes: int = 4 * 2**30
    output_bytes: int = 100_000


class NotDelivered(Exception):
    """A file asked for is not there as a regular file within its limit; the sentence says which and why."""


class Sandbox(Protocol):
    """A place that holds an agent's work. All paths are relative to the workspace, with forward slashes."""

    backend: str
    warnings: tuple[str, ...]

    def put(self, files: Mapping[str, bytes | Path]) -> None:
        """Write files (contents, or the host file to copy) into the workspace, making folders as needed.

        Raises SandboxFault if they cannot be written, ValueError for a path that leaves the workspace or that
        something lies in the way of (a link, a folder): the agent's doing, no fault.
        """

    def run(
        self,
        command: str | Sequence[str],
        *,
        timeout: float,
        stdin: bytes | None = None,
        environment: Mapping[str, str] | None = None,
        channel: socket.socket | None = None,
    ) -> Completed:
        """Run a shell text or an argument list in the workspace; every process of it is gone on return.

        ``stdin`` is /dev/null if None. ``environment`` adds variables. ``channel`` is a connected stream socket
        that the command finds as the file descriptor named by the variable IMAGING101_CHANNEL.
        Raises SandboxFault if the command could not be started.
        """

    def get(self, path: str, max_bytes: int) -> bytes:
        """Contents of a regular file. Raises NotDelivered for anything else, and for links on the way."""

    def list(self, folder: str = "") -> list[Entry]:
        """Every regular file below a folder, sorted by path; links are neither followed nor listed."""

    def close(self) -> None:
        """Kill what runs and delete what is left; may be called twice."""
