"""Volumes of an engine: a workspace's own, and copies of environments that all sandboxes share."""

from __future__ import annotations

import hashlib
import tarfile
import tempfile
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pytest_imaging101.faults import SandboxFault
from pytest_imaging101.sandboxes.docker_engine import Engine, engine_faults
from pytest_imaging101.sandboxes.environment import cache_folder

_CACHE_LABEL = "imaging101.cache"
# Parts of a Python that programs do not need: installed packages (this project may be among them), its own tests.
_LEFT_OUT = ("site-packages", "dist-packages", "test", "idlelib", "turtledemo", "ensurepip")


def provide_volume(engine: Engine, image: str, source: Path, target: str) -> str:
    """A volume with a copy of a folder of this host, made once; a second, empty volume says that it is whole."""
    from filelock import FileLock

    key = hashlib.sha256(f"{source}\0{target}\0{_made(source)}".encode()).hexdigest()[:20]
    name, whole = f"imaging101-{key}", f"imaging101-{key}-whole"
    if _exists(engine, name) and _exists(engine, whole):
        return name
    locks = cache_folder() / "volumes"
    try:
        locks.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise SandboxFault(f"{locks} cannot be made: {error}") from error
    with FileLock(locks / f"{key}.lock"):
        if not (_exists(engine, name) and _exists(engine, whole)):
            labels = {_CACHE_LABEL: str(source)}
            make_volume(engine, name, labels)
            with tempfile.TemporaryFile() as archive:
                _pack(source, archive)
                fill_volume(engine, image, name, target, archive)
            make_volume(engine, whole, labels)
    return name


def make_volume(engine: Engine, name: str, labels: Mapping[str, str]) -> None:
    """Make a volume; one of that name that is there stays as it is."""
    engine.ask("making a volume", engine.api.create_volume, name, labels=dict(labels))


def fill_volume(engine: Engine, image: str, volume: str, target: str, archive: Any) -> None:
    """Unpack an archive in a volume, through a container that is never started."""
    name = f"imaging101-fill-{uuid.uuid4().hex}"
    archive.seek(0)
    try:
        with engine_faults(f"filling volume {volume}"):
            config = engine.api.create_host_config(
                network_mode="none", mounts=[volume_mount(volume, target, read_only=False)]
            )
            engine.api.create_container(
                image, ["true"], name=name, host_config=config, user="0:0", use_config_proxy=False
            )
            engine.api.put_archive(name, target, archive)
    finally:
        engine.remove_container(name)


def volume_mount(volume: str, target: str, *, read_only: bool = True) -> Any:
    """A mount of a volume."""
    from docker.types import Mount

    return Mount(target, volume, type="volume", read_only=read_only, no_copy=True)


def _exists(engine: Engine, volume: str) -> bool:
    from docker.errors import NotFound

    try:
        engine.ask("asking after a volume", engine.api.inspect_volume, volume)
    except SandboxFault as fault:
        if isinstance(fault.__cause__, NotFound):
            return False
        raise
    return True


def _made(source: Path) -> int:
    return source.stat().st_mtime_ns


def _pack(source: Path, archive: Any) -> None:
    def chosen(entry: tarfile.TarInfo) -> tarfile.TarInfo | None:
        parts = Path(entry.name).parts
        # An environment's own packages are what it is for: only those of the interpreter stay behind.
        if "pyvenv.cfg" not in kept and any(part in _LEFT_OUT for part in parts[:3]):
            return None
        entry.uid = entry.gid = 0
        entry.uname = entry.gname = ""
        entry.mode |= 0o444 | (0o111 if entry.isdir() or entry.mode & 0o100 else 0)
        return entry

    kept = {path.name for path in source.iterdir()} if source.is_dir() else set()
    try:
        with tarfile.open(fileobj=archive, mode="w") as tar:
            tar.add(source, arcname=".", filter=chosen)
    except OSError as error:
        raise SandboxFault(f"{source} cannot be packed for the engine: {error}") from error
