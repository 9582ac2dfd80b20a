"""Containers and volumes whose owner is dead, told by their labels; environments that volumes hold are kept."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from pytest_imaging101.faults import SandboxFault
from pytest_imaging101.sandboxes.docker_engine import Engine
from pytest_imaging101.sandboxes.owner import LABEL, is_dead

_LOOK_SECONDS = 10
# A container that has ended is of no use to anybody. Whether an owner on another host lives cannot be known, but
# one that does removes it within moments.
_LONG_AGO = timedelta(hours=1)


@dataclass(frozen=True)
class Abandoned:
    """A container or a volume of a dead owner."""

    kind: str
    name: str
    engine: Engine

    def remove(self) -> None:
        """Remove it, whatever runs in it. Raises SandboxFault."""
        if self.kind == "container":
            self.engine.remove_container(self.name)
        else:
            self.engine.remove_volume(self.name)


def abandoned() -> Iterator[Abandoned]:
    """What dead owners left on the engine, containers before the volumes that they hold; nothing without an engine."""
    if not engine_is_named():
        return
    try:
        engine = Engine(_LOOK_SECONDS)
    except SandboxFault:
        return
    try:
        containers = engine.ask(
            "listing containers", engine.api.containers, all=True, filters={"label": LABEL}
        )
        gone = {one["Names"][0].lstrip("/"): one for one in containers if _is_abandoned(engine, one)}
        yield from (Abandoned("container", name, engine) for name in gone)
        volumes = engine.ask("listing volumes", engine.api.volumes, filters={"label": LABEL})["Volumes"] or []
        for volume in volumes:
            if volume["Name"] in gone or is_dead(volume["Labels"]):
                yield Abandoned("volume", volume["Name"], engine)
    except SandboxFault:  # it has stopped answering, and what is on it waits for the next time
        return
    finally:
        engine.close()


def engine_is_named() -> bool:
    """Whether there is any sign of an engine; looking costs nothing where there is none."""
    return bool(os.environ.get("DOCKER_HOST")) or os.name == "nt" or os.path.exists("/var/run/docker.sock")


def _is_abandoned(engine: Engine, container: Mapping[str, Any]) -> bool:
    if is_dead(container["Labels"]):
        return True
    if container["State"] not in ("exited", "dead"):
        return False
    with suppress(SandboxFault, ValueError, KeyError):
        state = engine.ask("asking after a container", engine.api.inspect_container, container["Id"])["State"]
        ended = datetime.fromisoformat(state["FinishedAt"][:19]).replace(tzinfo=UTC)
        return datetime.now(UTC) - ended > _LONG_AGO
    return False
