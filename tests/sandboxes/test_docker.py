"""What Docker alone promises, and what is said where its engine fails."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import threading
import uuid
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from pytest_imaging101.faults import SandboxFault
from pytest_imaging101.sandboxes.base import Resources
from pytest_imaging101.sandboxes.choose import DEFAULT_IMAGE, Backend, choose_backend
from pytest_imaging101.sandboxes.docker import DockerSandbox
from pytest_imaging101.sandboxes.docker_engine import Engine, EngineHung
from pytest_imaging101.sandboxes.docker_image import build_image
from pytest_imaging101.sandboxes.docker_leftovers import abandoned
from pytest_imaging101.sandboxes.environment import Environment
from pytest_imaging101.sandboxes.owner import owner_labels

SECONDS = 60.0

pytestmark = pytest.mark.usefixtures("docker")


@pytest.fixture
def engine(docker: Backend) -> Iterator[Engine]:
    with closing(Engine()) as engine:
        yield engine


@pytest.fixture(params=[True, False], ids=["mounted", "sent"])
def sandbox(
    request: pytest.FixtureRequest, docker: Backend, environment: Environment
) -> Iterator[DockerSandbox]:
    with closing(
        DockerSandbox(DEFAULT_IMAGE, environment, Resources(), shares_files=request.param, run="my-run")
    ) as sandbox:
        yield sandbox


def own_container(engine: Engine, pid: int | None = None) -> Any:
    """The engine's record of the one container that a process owns."""
    filters = {"label": f"imaging101.pid={pid or os.getpid()}"}
    (found,) = engine.api.containers(filters=filters)
    return engine.api.inspect_container(found["Id"])


def test_the_walls_are_up(sandbox: DockerSandbox, engine: Engine) -> None:
    assert sandbox.run("true", timeout=SECONDS).exit_code == 0
    record = own_container(engine)
    walls = record["HostConfig"]
    assert (walls["NetworkMode"], walls["ReadonlyRootfs"], walls["Init"]) == ("none", True, True)
    assert walls["CapDrop"] == ["ALL"]
    assert walls["SecurityOpt"] == ["no-new-privileges"]
    assert 0 < walls["PidsLimit"] < 300
    assert 0 < walls["Memory"] == walls["MemorySwap"] < 5 * 2**30
    assert walls["CpuQuota"] == 2 * walls["CpuPeriod"]
    labels = record["Config"]["Labels"]
    assert labels["imaging101.run"] == "my-run"
    assert {"imaging101.pid", "imaging101.start", "imaging101.boot", "imaging101.host"} < set(labels)


def test_commands_have_no_capability_and_cannot_get_one(sandbox: DockerSandbox) -> None:
    status = sandbox.run("cat /proc/self/status", timeout=SECONDS).output
    seen = dict(line.split(":\t", 1) for line in status.splitlines())
    assert seen["CapEff"] == seen["CapPrm"] == seen["CapAmb"] == "0" * 16
    assert seen["NoNewPrivs"] == "1"
    assert seen["Uid"].split() == ["1000"] * 4 or os.geteuid() != 0


def test_only_the_workspace_and_temporary_places_can_be_written_to(sandbox: DockerSandbox) -> None:
    program = """
import os
for folder, folders, files in os.walk("/"):
    folders[:] = [name for name in folders if os.path.join(folder, name) not in ("/proc", "/usr", "/sys")]
    try:
        os.mkdir(os.path.join(folder, "planted"))
        print(folder)
    except OSError:
        pass
"""
    done = sandbox.run(["python", "-c", program], timeout=SECONDS)
    # The last is where a command's text is put if it has to be sent.
    assert {"/workspace", "/tmp", "/dev/shm"} <= set(done.output.split()) | {"/dev/mqueue"}
    assert set(done.output.split()) <= {"/workspace", "/tmp", "/dev/shm", "/dev/mqueue", "/run/imaging101"}


def test_nothing_of_the_hosts_settings_is_written_into_the_container(
    sandbox: DockerSandbox, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    proxies = {"proxies": {"default": {"httpProxy": "http://user:password@proxy:1"}}}
    (tmp_path / "config.json").write_text(json.dumps(proxies))
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path))
    done = sandbox.run("env; cat /etc/resolv.conf /proc/self/environ", timeout=SECONDS)
    assert "password" not in done.output
    assert "nameserver 127.0.0.1" in done.output
    assert "imaging101-sandbox" not in done.output


def test_a_command_cannot_end_or_trace_the_warden(sandbox: DockerSandbox) -> None:
    program = (
        "import os, signal\n"
        "for pid in map(int, filter(str.isdigit, os.listdir('/proc'))):\n"
        "    if pid != os.getpid() and b'warden' in open(f'/proc/{pid}/cmdline', 'rb').read():\n"
        "        for attempt in (lambda: os.kill(pid, signal.SIGKILL), lambda: open(f'/proc/{pid}/mem', 'rb+')):\n"
        "            try: attempt()\n"
        "            except PermissionError: print('refused')\n"
    )
    assert set(sandbox.run(["python", "-c", program], timeout=SECONDS).output.split()) == {"refused"}


def test_a_container_that_is_killed_is_a_fault_and_the_next_command_has_a_new_one(
    sandbox: DockerSandbox, engine: Engine, alive: Callable[[str], list[int]], marker: str
) -> None:
    sandbox.put({"kept.txt": b"kept"})
    faults: list[SandboxFault] = []

    def work() -> None:
        try:
            sandbox.run(f"bash -c 'sleep 600; :' {marker}", timeout=SECONDS)
        except SandboxFault as fault:
            faults.append(fault)

    thread = threading.Thread(target=work)
    thread.start()
    while not alive(marker):
        pass
    engine.api.kill(own_container(engine)["Id"])
    thread.join()
    assert "the container ended under a command" in faults[0].message
    assert sandbox.run("cat kept.txt", timeout=SECONDS).output == "kept"


def test_a_start_that_is_cut_short_leaves_no_container(
    environment: Environment, engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The name is decided before the engine is asked, so there is something to remove it by."""
    sandbox = DockerSandbox(DEFAULT_IMAGE, environment, Resources(), shares_files=True)

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(sandbox._engine.api, "start", interrupted)
    with pytest.raises(KeyboardInterrupt):
        sandbox.run("true", timeout=SECONDS)
    assert engine.api.containers(all=True, filters={"label": f"imaging101.pid={os.getpid()}"}) == []
    sandbox.close()


def test_an_image_without_what_is_needed_is_a_fault_that_says_so(
    environment: Environment, engine: Engine
) -> None:
    name = f"imaging101-test-{uuid.uuid4().hex}"
    engine.api.import_image_from_data(b"\0" * 10240, repository=name, tag="empty")
    try:
        with (
            closing(DockerSandbox(f"{name}:empty", environment, Resources(), shares_files=True)) as sandbox,
            pytest.raises(SandboxFault),
        ):
            sandbox.run("true", timeout=SECONDS)
    finally:
        engine.api.remove_image(f"{name}:empty", force=True)


def test_an_image_built_on_another_base_works(engine: Engine) -> None:
    tag = f"imaging101-test-{uuid.uuid4().hex}:1"
    said: list[str] = []
    build_image(tag, DEFAULT_IMAGE, said.append)
    try:
        assert any("Successfully built" in line for line in said)
        assert choose_backend("docker", tag) == Backend("docker", image=tag)
    finally:
        engine.api.remove_image(tag, force=True)


def test_an_engine_that_hangs_is_a_fault_after_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """It takes connections and never says a word."""
    with socket.create_server(("127.0.0.1", 0), backlog=64) as server:
        monkeypatch.setenv("DOCKER_HOST", f"tcp://127.0.0.1:{server.getsockname()[1]}")
        with pytest.raises(SandboxFault, match="connecting"):
            Engine(1)


def test_what_can_be_asked_again_is_asked_again(engine: Engine) -> None:
    from requests.exceptions import ReadTimeout

    answers: list[Any] = [ReadTimeout("slow"), ReadTimeout("slow"), "there"]

    def call() -> Any:
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    assert engine.ask("asking", call) == "there"
    answers += [ReadTimeout("slow")] * 3
    with pytest.raises(EngineHung, match="did not answer within its time while asking"):
        engine.ask("asking", call)


def labelled(engine: Engine, **changes: str) -> str:
    labels = owner_labels("test") | {f"imaging101.{name}": value for name, value in changes.items()}
    return str(engine.api.create_container(DEFAULT_IMAGE, ["true"], labels=labels)["Id"])


def test_containers_are_removed_by_their_owner_and_nothing_else(engine: Engine) -> None:
    """Process number, start time and boot together: a number alone is given to others later."""
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    mine = labelled(engine)
    dead = [
        labelled(engine, pid=str(ended.pid)),
        labelled(engine, start="1"),
        labelled(engine, boot="another"),
    ]
    elsewhere = labelled(engine, host="another", pid=str(ended.pid))
    try:
        for one in abandoned():
            one.remove()
        left = {
            one["Id"] for one in engine.api.containers(all=True, filters={"label": "imaging101.run=test"})
        }
        assert left & {mine, elsewhere, *dead} == {mine, elsewhere}
    finally:
        for container in (mine, elsewhere, *dead):
            engine.remove_container(container)
