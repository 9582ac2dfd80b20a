"""Task environments: one virtual environment per set of requirements, built once with uv and then only read."""

from __future__ import annotations

import hashlib
import json
import os
import platform
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_imaging101.faults import EnvironmentFault

if TYPE_CHECKING:
    from filelock import BaseFileLock

CACHE_VARIABLE = "IMAGING101_CACHE"
GRADER_REQUIREMENTS = ("numpy", "pytest>=8")

# Written last: an environment that has it is whole.
_RECORD = "environment.json"
_NEEDED_BYTES = 2 * 2**30
_BUILD_SECONDS = 1800
_FORMAT = 1


@dataclass(frozen=True)
class Environment:
    """A ready environment: its interpreter and its folder on the host, and the key it is cached under."""

    python: Path
    root: Path
    key: str

    def versions(self) -> dict[str, str]:
        """Installed version by package, and ``python``'s own. Raises EnvironmentFault if the record is gone."""
        try:
            record = json.loads((self.root / _RECORD).read_text(encoding="utf-8"))
            return {str(name): str(version) for name, version in record["versions"].items()}
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise EnvironmentFault(
                f"{self.root / _RECORD} does not say what is installed ({error}); delete {self.root}, and the "
                "next run builds it again"
            ) from error


def provide_environment(
    requirements: Sequence[str],
    cache: Path | None = None,
    progress: Callable[[str], None] | None = None,
) -> Environment:
    """The environment for a set of requirements and what the graders need, built if it is not there yet.

    A ready one costs a look at two files and takes no lock; of those who want a missing one at the same time, one
    builds and the others wait. ``progress`` is told what takes time. Raises EnvironmentFault.
    """
    wanted = _with_graders_needs(requirements)
    environment = _environment(wanted, cache)
    if not _is_whole(environment):
        _build_under_lock(environment, wanted, progress or _say_nothing)
    return environment


def is_ready(requirements: Sequence[str], cache: Path | None = None) -> bool:
    """Whether ``provide_environment`` would find the environment already built."""
    return _is_whole(_environment(_with_graders_needs(requirements), cache))


@contextmanager
def half_built_environments(cache: Path | None = None) -> Iterator[list[Path]]:
    """Environments whose build was ended before it was done, locked against builders until the block ends."""
    from filelock import Timeout

    folder = (cache or cache_folder()) / "environments"
    with ExitStack() as stack:
        roots = []
        for record in sorted(root / _RECORD for root in folder.glob("*") if root.is_dir()):
            if record.is_file():
                continue
            # Being built at this moment, or in a cache that is not ours to write.
            with suppress(Timeout, OSError):
                stack.enter_context(_lock_of(record.parent).acquire(timeout=0))
                if record.parent.is_dir() and not record.is_file():
                    roots.append(record.parent)
        yield roots


def _lock_of(root: Path) -> BaseFileLock:
    from filelock import FileLock

    return FileLock(root.parent / f"{root.name}.lock")


def _with_graders_needs(requirements: Sequence[str]) -> tuple[str, ...]:
    return tuple(sorted({line.strip() for line in (*requirements, *GRADER_REQUIREMENTS) if line.strip()}))


def _environment(wanted: Sequence[str], cache: Path | None) -> Environment:
    key = environment_key(wanted)
    root = (cache or cache_folder()) / "environments" / key
    return Environment(python=_python(root), root=root, key=key)


def cache_folder() -> Path:
    """Where environments are kept: IMAGING101_CACHE, else the user's cache folder."""
    if chosen := os.environ.get(CACHE_VARIABLE):
        return Path(chosen).expanduser().absolute()
    from platformdirs import user_cache_path

    return user_cache_path("pytest-imaging101")


def environment_key(requirements: Sequence[str]) -> str:
    """Names an environment by its requirements, the Python that it is made from and the platform."""
    parts = {
        "format": _FORMAT,
        "requirements": sorted(requirements),
        "python": platform.python_version(),
        "base": str(Path(sys.executable).resolve()),
        "platform": [platform.system(), platform.machine(), *platform.libc_ver()],
    }
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:20]


def _python(root: Path) -> Path:
    return root / "Scripts" / "python.exe" if os.name == "nt" else root / "bin" / "python"


def _is_whole(environment: Environment) -> bool:
    """Whether it is whole, and the Python that its own is a link to still there."""
    return (environment.root / _RECORD).is_file() and environment.python.exists()


def _say_nothing(_: str) -> None:
    pass


def _build_under_lock(
    environment: Environment, wanted: Sequence[str], progress: Callable[[str], None]
) -> None:
    from filelock import Timeout

    folder = environment.root.parent
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock = _lock_of(environment.root)
        try:
            lock.acquire(timeout=0)
        except Timeout:
            progress(f"waiting for another process that builds the environment {environment.key}")
            lock.acquire(timeout=2 * _BUILD_SECONDS)
    except (OSError, Timeout) as error:
        raise EnvironmentFault(
            f"no environment can be built in {folder}: {error}; make it writable or name another folder with "
            f"{CACHE_VARIABLE}"
        ) from error
    try:
        if not _is_whole(environment):
            _build(environment, wanted, progress)
    finally:
        lock.release()


def _build(environment: Environment, wanted: Sequence[str], progress: Callable[[str], None]) -> None:
    root = environment.root
    remove_environment(root)  # half-made by a build that was killed, or made from a Python that is gone
    free = shutil.disk_usage(root.parent).free
    if free < _NEEDED_BYTES:
        raise EnvironmentFault(
            f"{root.parent} has {free >> 20} MiB left, and building an environment can take "
            f"{_NEEDED_BYTES >> 20}; free some space or name another folder with {CACHE_VARIABLE}"
        )
    progress(f"building the environment for {', '.join(wanted)}")
    try:
        uv = _Uv(root.parent, wanted)
        uv.run(
            "venv",
            "--relocatable",
            "--no-project",
            "--no-python-downloads",
            "--python",
            sys.executable,
            str(root),
        )
        install = ("pip", "install", "--python", str(environment.python))
        lines = root / "requirements.txt"
        lines.write_text("\n".join(wanted) + "\n", encoding="utf-8")
        # Copies, because a hard link would let whoever writes to the environment change uv's own cache.
        uv.run(*install, "--link-mode", "copy", "--compile-bytecode", "-r", str(lines))
        listed = uv.run("pip", "list", "--python", str(environment.python), "--format", "json")
        _write_record(root, wanted, listed)
    finally:
        if not _is_whole(environment):
            remove_environment(root)


def remove_environment(root: Path) -> None:
    """Delete the folder of an environment; its caller holds its lock. Raises EnvironmentFault."""
    try:
        shutil.rmtree(root)
    except FileNotFoundError:
        pass
    except OSError as error:
        raise EnvironmentFault(f"{root} cannot be removed: {error}; delete it by hand") from error


def _write_record(root: Path, wanted: Sequence[str], listed: str) -> None:
    versions = {package["name"]: package["version"] for package in json.loads(listed)}
    versions["python"] = platform.python_version()
    text = json.dumps({"requirements": list(wanted), "versions": versions}, indent=2)
    temporary = root / f"{_RECORD}.part"
    temporary.write_text(text + "\n", encoding="utf-8")
    temporary.replace(root / _RECORD)


class _Uv:
    """Runs uv, and turns its failures into faults that name the requirement and the way out."""

    def __init__(self, folder: Path, wanted: Sequence[str]) -> None:
        from uv import find_uv_bin

        try:
            self._program = find_uv_bin()
        except FileNotFoundError as error:
            raise EnvironmentFault(f"uv is not installed as it should be: {error}; pip install uv") from error
        self._folder = folder
        self._wanted = wanted

    def run(self, *arguments: str) -> str:
        """What uv prints. It runs where no project's settings apply; the user's own, an index say, do."""
        try:
            done = subprocess.run(
                [self._program, *arguments],
                cwd=self._folder,
                env=_variables(),
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                errors="replace",
                timeout=_BUILD_SECONDS,
            )
        except subprocess.TimeoutExpired as error:
            raise EnvironmentFault(
                f"uv {arguments[0]} did not end within {_BUILD_SECONDS} s for {', '.join(self._wanted)}; check "
                "the network and the package index"
            ) from error
        except OSError as error:
            raise EnvironmentFault(f"{self._program} cannot be run: {error}; pip install uv") from error
        if done.returncode:
            raise EnvironmentFault(self._sentence(done.stderr), evidence=done.stderr)
        return done.stdout

    def _sentence(self, log: str) -> str:
        culprits = [line for line in self._wanted if _names(log, line)]
        said = " ".join(log.split())[-300:]
        if culprits:
            return (
                f"the environment cannot be built because of {', '.join(culprits)}; change that line of "
                f"requirements.txt or make the package available to uv, which says: {said}"
            )
        return (
            f"the environment for {', '.join(self._wanted)} cannot be built; check the network, the package index "
            f"(UV_DEFAULT_INDEX) and the free space, uv says: {said}"
        )


def _names(log: str, requirement: str) -> bool:
    """Whether uv's log speaks of a requirement's package."""
    package = re.match(r"[\w.-]+", requirement)
    if package is None:
        return False
    return re.search(rf"(?<![\w.-]){re.escape(package[0])}(?![\w-])", log, re.IGNORECASE) is not None


def _variables() -> Mapping[str, str]:
    """The host's variables, less those that point uv at another environment or change how it speaks."""
    dropped = ("VIRTUAL_ENV", "CONDA_PREFIX", "UV_PYTHON", "UV_SYSTEM_PYTHON", "UV_PROJECT_ENVIRONMENT")
    kept = {name: value for name, value in os.environ.items() if name not in dropped}
    # pip trusts the system's certificates, which a proxy's may be among; uv does by the second of these names, and
    # by the first before it was renamed.
    certificates = {"UV_NATIVE_TLS": "1", "UV_SYSTEM_CERTS": "1"}
    return {**certificates, **kept, "NO_COLOR": "1", "UV_NO_PROGRESS": "1"}
