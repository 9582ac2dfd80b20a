"""The local sandbox in what every system has, for Windows: a workspace of its own, and else the host as it is."""

from __future__ import annotations

import builtins
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_imaging101.faults import SandboxFault
from pytest_imaging101.sandboxes import launch
from pytest_imaging101.sandboxes.base import Completed, Entry, Resources
from pytest_imaging101.sandboxes.environment import Environment
from pytest_imaging101.sandboxes.output import HeadAndTail
from pytest_imaging101.sandboxes.portable_files import PortableWorkspace, remove_folder
from pytest_imaging101.sandboxes.process import FLOOD_BYTES, with_sign

if TYPE_CHECKING:
    from filelock import BaseFileLock

PREFIX = "imaging101-local-"
WARNINGS = (
    "local sandbox: commands run as you and can reach the network",
    "local sandbox: commands can read and change what you can, the tasks' answers and the environment included",
    "local sandbox on Windows: memory, processes, file size and disk are not limited",
    "local sandbox on Windows: what a command leaves in the background outlives it, and all outlive a killed harness",
)
_PERIOD_SECONDS = 0.05
_DRAIN_SECONDS = 2.0
_CHUNK = 2**16
# What a program needs to start at all on Windows.
_FROM_WINDOWS = (
    "SYSTEMROOT",
    "WINDIR",
    "COMSPEC",
    "PATHEXT",
    "NUMBER_OF_PROCESSORS",
    "PROCESSOR_ARCHITECTURE",
)


class PortableSandbox:
    """Files, output and time limits as every sandbox has them; ``warnings`` names what it cannot promise.

    A lock beside its folder ends with this process, so that what a dead run left is told from what is in use.
    It cannot join two sandboxes, so modules are not graded in it. Raises SandboxFault.
    """

    backend: str = "local"
    warnings: tuple[str, ...] = WARNINGS

    def __init__(self, environment: Environment, resources: Resources) -> None:
        self._resources = resources
        self._root = Path(tempfile.gettempdir()) / f"{PREFIX}{uuid.uuid4().hex}"
        self._lock = _lock_of(self._root)
        self._workspace, self._temporary = PortableWorkspace(self._root / "workspace"), self._root / "tmp"
        try:
            self._lock.acquire()
            self._root.mkdir(mode=0o700)
            self._temporary.mkdir()
        except OSError as error:
            raise SandboxFault(f"no sandbox folder can be made in {self._root.parent}: {error}") from error
        self._workspace.restore()
        self._path = os.pathsep.join([str(environment.python.parent), *_system_folders()])
        self._closed = threading.Event()
        self._running = threading.Lock()

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
        if channel is not None:
            raise SandboxFault(
                "the local sandbox of this system cannot join two sandboxes; use Docker or WSL 2"
            )
        with self._running, ExitStack() as stack:
            if self._closed.is_set():
                raise SandboxFault("a command was given to a sandbox that is closed")
            self._workspace.restore()
            if isinstance(command, str):
                command = stack.enter_context(self._script(command))
            # Windows looks a program up by this process's PATH, not by the one that the command gets.
            if (program := shutil.which(command[0], path=self._path)) is None:
                said = f"{command[0]}: not found\n"
                return Completed(127, said, len(said), False, False, 0.0)
            started = time.monotonic()
            output = HeadAndTail(self._resources.output_bytes)
            process = self._start([program, *command[1:]], stdin is not None, environment)
            streams = [threading.Thread(target=_read, args=(process, output), daemon=True)]
            streams += [threading.Thread(target=_feed, args=(process, stdin or b""), daemon=True)]
            for stream in streams:
                stream.start()
            try:
                killed_by = self._until_end(process, started + timeout, output)
            finally:
                _kill_tree(process)
            for stream in streams:
                stream.join(_DRAIN_SECONDS)  # longer only if a process that outlives it holds the other end
        if killed_by == "closed":
            raise SandboxFault("the sandbox was closed while a command ran in it")
        return Completed(
            exit_code=-9 if killed_by else with_sign(process.returncode),
            output=output.text(),
            output_bytes=output.total,
            truncated=output.truncated,
            timed_out=killed_by == "timeout",
            seconds=time.monotonic() - started,
            killed_by=killed_by,
        )

    def close(self) -> None:
        """Kill what runs and delete the workspace."""
        self._closed.set()
        try:
            with self._running:
                remove_folder(self._root)
        except OSError as error:
            raise SandboxFault(f"the sandbox's folder {self._root} cannot be deleted: {error}") from error
        finally:
            _release(self._lock)

    def _until_end(self, process: subprocess.Popen[bytes], deadline: float, output: HeadAndTail) -> str:
        """Why the process must be ended: the limit's name, "closed", or "" because it has ended by itself."""
        while process.poll() is None:
            if self._closed.is_set():
                return "closed"
            if time.monotonic() >= deadline:
                return "timeout"
            if output.total > FLOOD_BYTES:
                return "output"
            with suppress(subprocess.TimeoutExpired):
                process.wait(_PERIOD_SECONDS)
        return ""

    def _start(
        self, arguments: Sequence[str], has_input: bool, extra: Mapping[str, str] | None
    ) -> subprocess.Popen[bytes]:
        home, temporary = str(self._workspace.root), str(self._temporary)
        from_windows = {name: os.environ[name] for name in _FROM_WINDOWS if name in os.environ}
        places = {"USERPROFILE": home, "TEMP": temporary, "TMP": temporary}
        variables = launch.variables(
            self._path,
            home=home,
            temporary=temporary,
            extra={**from_windows, **places, **(extra or {})},
        )
        try:
            return subprocess.Popen(
                arguments,
                cwd=self._workspace.root,
                env=variables,
                stdin=subprocess.PIPE if has_input else subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                start_new_session=True,  # means nothing on Windows
            )
        except OSError as error:
            raise SandboxFault(f"the command could not be started: {error}") from error

    @contextmanager
    def _script(self, text: str) -> Iterator[builtins.list[str]]:
        """A file that a shell runs: a command line has little room."""
        shell, ending = _shell()
        file = self._root / f"command-{uuid.uuid4().hex}{ending}"
        file.write_bytes(text.encode("utf-8", "replace") + b"\n")
        try:
            yield [*shell, str(file)]
        finally:
            file.unlink(missing_ok=True)


@contextmanager
def abandoned_portable() -> Iterator[list[Path]]:
    """Folders of these sandboxes whose owner is dead, locked against other cleaners until the block ends."""
    from filelock import Timeout

    with ExitStack() as stack:
        folders = []
        for root in sorted(Path(tempfile.gettempdir()).glob(f"{PREFIX}*")):
            if not root.is_dir():  # a lock
                continue
            lock = _lock_of(root)
            with suppress(Timeout, OSError):
                lock.acquire(timeout=0)
                stack.callback(_release, lock)
                if root.is_dir():  # its owner has not removed it meanwhile
                    folders.append(root)
        yield folders


def _lock_of(root: Path) -> BaseFileLock:
    from filelock import FileLock

    return FileLock(f"{root}.lock", thread_local=False)


def _release(lock: BaseFileLock) -> None:
    lock.release()
    with suppress(OSError):
        Path(lock.lock_file).unlink()


def _system_folders() -> list[str]:
    if sys.platform == "win32":
        root = os.environ.get("SYSTEMROOT", "C:\\Windows")
        return [f"{root}\\System32", root]
    return launch.SYSTEM_PATH.split(os.pathsep)


def _shell() -> tuple[list[str], str]:
    """What runs a text, and how the text's file must be called: bash where there is one, since agents write for it."""
    if sys.platform != "win32":
        return [launch.shell()], ""
    bash = shutil.which("bash")
    # The one among Windows' own programs starts Linux, where the workspace has another path.
    if bash and "system32" not in bash.lower():
        return [bash], ""
    return ["cmd.exe", "/d", "/c"], ".cmd"


def _read(process: subprocess.Popen[bytes], output: HeadAndTail) -> None:
    if process.stdout is not None:
        with process.stdout as stream:
            while chunk := os.read(stream.fileno(), _CHUNK):
                output.add(chunk)


def _feed(process: subprocess.Popen[bytes], content: bytes) -> None:
    if process.stdin is not None:
        # It may not want all of it.
        with suppress(OSError), process.stdin as stream:
            stream.write(content)


def _kill_tree(process: subprocess.Popen[bytes]) -> None:
    """Kill a process that still runs, with what descends from it."""
    if process.poll() is not None:
        return
    if sys.platform == "win32":
        subprocess.run(["taskkill", "/F", "/T", "/PID", str(process.pid)], capture_output=True, check=False)
    else:
        os.killpg(process.pid, signal.SIGKILL)
    process.kill()
    process.wait()
