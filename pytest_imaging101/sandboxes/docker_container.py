"""One container with its walls up, which lives no longer than the connection to the warden in it."""

from __future__ import annotations

import json
import queue
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import Any

from pytest_imaging101.faults import SandboxFault
from pytest_imaging101.sandboxes.base import Resources
from pytest_imaging101.sandboxes.docker_engine import Engine, Stream, engine_faults
from pytest_imaging101.sandboxes.docker_programs import Programs

# The warden has this long to kill a command's processes; it gives up sooner itself, and says so.
_PATIENCE_SECONDS = 20.0
_START_SECONDS = 60.0
_CPUS = 2
# What the init and the warden need beside the commands.
_OWN_MEMORY_BYTES = 48 * 2**20
_OWN_PROCESSES = 16
# A folder of these names is closed to others in many images, and interpreters lie below them on many hosts.
_HOMES = ("root", "home")


@dataclass(frozen=True)
class Layout:
    """What a container is made of: image, mounts (the SDK's), temporary file systems, and the commands' user.

    ``new_workspace``: whether the workspace is a new volume, which must be given to that user.
    """

    image: str
    mounts: Sequence[Any]
    temporary: Mapping[str, str]
    user: str
    new_workspace: bool = False


class Container:
    """A running container in which commands are executed one after the other.

    The main program is the warden (inside/warden.py), whose stdin is this object's connection: when the harness
    dies, be it by SIGKILL, the engine closes it, the warden ends, and the kernel ends everything else.
    """

    def __init__(
        self, engine: Engine, name: str, labels: Mapping[str, str], layout: Layout, resources: Resources
    ) -> None:
        self.engine = engine
        self.name = name
        self.user = layout.user
        self.broken_limit = ""
        self.dead = False
        self.notify: Callable[[], None] = _nothing
        self._lines: queue.SimpleQueue[str] = queue.SimpleQueue()
        self._rest = b""
        self._sending = threading.Lock()
        self._warden: Stream | None = None
        try:
            self._start(labels, layout, resources)
        except BaseException:
            # Name and labels are the engine's before anything else is, so a start that is cut short is found too.
            self.remove()
            raise

    def _start(self, labels: Mapping[str, str], layout: Layout, resources: Resources) -> None:
        api = self.engine.api
        with engine_faults(f"making a container of image {layout.image}"):
            config = api.create_host_config(**_walls(layout, resources))
            api.create_container(
                layout.image,
                Programs()(
                    "warden", json.dumps(asdict(resources)), layout.user if layout.new_workspace else ""
                ),
                name=self.name,
                labels=dict(labels),
                user="0:0",
                hostname="sandbox",
                working_dir="/",
                entrypoint=[],
                healthcheck={"test": ["NONE"]},
                stdin_open=True,
                host_config=config,
                # Else the proxies of the user's own settings are put into its environment, passwords and all.
                use_config_proxy=False,
            )
        with engine_faults("starting a container"):
            parameters = {"stdin": 1, "stdout": 1, "stderr": 1, "stream": 1}
            self._warden = Stream(api.attach_socket(self.name, parameters), self._hear, self._lose)
            api.start(self.name)
        if (said := self._answer(_START_SECONDS)) != "ready":
            raise SandboxFault(
                f"the environment's Python does not run in image {layout.image}; build one that fits with "
                "'imaging101 sandbox build'",
                evidence=f"{said}\n{self._rest.decode(errors='replace')}",
            )

    def begin(self) -> None:
        """A command is about to start."""
        self.broken_limit = ""
        self._tell("begin")
        if self._answer(_PATIENCE_SECONDS) != "begun":
            self._end()
            raise SandboxFault(f"container {self.name} does not answer")

    def kill_all(self) -> str:
        """Kill every process of the command and return when all are dead; the limit that was broken, or "".

        Raises SandboxFault if that cannot be brought about; the container is killed as a whole then.
        """
        if self.dead:
            return self.broken_limit
        self._tell("kill")
        word, _, limit = self._answer(_PATIENCE_SECONDS).partition(" ")
        if word != "gone":
            self._end()
            return self.broken_limit
        return "" if limit == "none" else limit

    def ran_out_of_memory(self) -> bool:
        """Whether the engine's record of a dead container says so. Read before the container is removed."""
        state = self.engine.ask("asking after a container", self.engine.api.inspect_container, self.name)
        return bool(state["State"].get("OOMKilled"))

    def remove(self) -> None:
        """Kill and remove the container, whatever state it is in; may be called twice."""
        self.dead = True
        try:
            self.engine.remove_container(self.name)
        finally:
            if self._warden is not None:
                self._warden.close()

    def _end(self) -> None:
        self.dead = True
        self.engine.kill_container(self.name)

    def _tell(self, order: str) -> None:
        assert self._warden is not None
        with self._sending, suppress(OSError):  # a dead one does not answer, which is noticed
            self._warden.send(order.encode() + b"\n")

    def _answer(self, seconds: float) -> str:
        try:
            return self._lines.get(timeout=seconds)
        except queue.Empty:
            return "silence"

    def _hear(self, chunk: bytes) -> None:
        *lines, self._rest = (self._rest + chunk).split(b"\n")
        for line in lines:
            text = line.decode(errors="replace")
            if text.startswith("limit "):
                self.broken_limit = text.removeprefix("limit ")
                self.notify()
            else:
                self._lines.put(text)

    def _lose(self) -> None:
        self.dead = True
        self._lines.put("the connection has ended")
        self.notify()


def _nothing() -> None:
    pass


def _walls(layout: Layout, resources: Resources) -> dict[str, Any]:
    """Everything that keeps a command in."""
    memory = resources.memory_bytes + _OWN_MEMORY_BYTES
    return {
        "network_mode": "none",
        "dns": ["127.0.0.1"],  # else the host's name servers are written into the container
        "read_only": True,
        "init": True,
        "mounts": list(layout.mounts),
        "tmpfs": dict(layout.temporary),
        "shm_size": resources.memory_bytes // 4,
        "cap_drop": ["ALL"],
        # The warden's alone, to end the commands' processes and to see how much they have written: commands run as
        # another user, who has none of these and cannot get them.
        "cap_add": ["KILL", "DAC_READ_SEARCH", *(["CHOWN"] if layout.new_workspace else [])],
        "security_opt": ["no-new-privileges"],
        "pids_limit": resources.processes + _OWN_PROCESSES,
        "mem_limit": memory,
        "memswap_limit": memory,
        "cpu_period": 100_000,
        "cpu_quota": _CPUS * 100_000,
        # Named, since what engines take by themselves can be more than the host allows.
        "ulimits": [{"Name": "nofile", "Soft": 4096, "Hard": 4096}],
        "log_config": {"Type": "none", "Config": {}},
    }


def homes_below(paths: Sequence[str]) -> dict[str, str]:
    """Temporary file systems that stand in for the homes which some paths lead through, so that anyone may pass."""
    tops = {path.split("/")[1] for path in paths}
    return {f"/{top}": "rw,noexec,nosuid,nodev,size=64k,mode=0755" for top in tops if top in _HOMES}
