"""The sandbox for Windows, in what of it runs everywhere: files, output, limits, and what a dead run left."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from pytest_imaging101.faults import SandboxFault
from pytest_imaging101.sandboxes.base import Entry, NotDelivered, Resources
from pytest_imaging101.sandboxes.environment import Environment
from pytest_imaging101.sandboxes.portable import PREFIX, PortableSandbox, abandoned_portable

SECONDS = 60.0


@pytest.fixture(autouse=True)
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder for temporary files that no other run on this machine knows of."""
    folder = tmp_path / "tmp"
    folder.mkdir()
    monkeypatch.setenv("TMPDIR", str(folder))
    monkeypatch.setattr("tempfile.tempdir", None)
    return folder


@pytest.fixture
def sandbox(environment: Environment) -> Iterator[PortableSandbox]:
    opened = PortableSandbox(environment, Resources(output_bytes=1000))
    yield opened
    opened.close()


def test_files_go_in_and_come_out(sandbox: PortableSandbox, tmp_path: Path) -> None:
    source = tmp_path / "array.bin"
    source.write_bytes(bytes(range(256)))
    sandbox.put({"data/raw/array.bin": source, "note.txt": b"caf\xc3\xa9"})
    sandbox.put({"note.txt": b"short"})
    done = sandbox.run("cat note.txt; mkdir out; cp data/raw/array.bin out/", timeout=SECONDS)
    assert (done.output, done.exit_code) == ("short", 0)
    assert sandbox.get("out/array.bin", 1000) == source.read_bytes()
    assert sandbox.list("out") == [Entry("out/array.bin", 256)]
    assert [entry.path for entry in sandbox.list()] == ["data/raw/array.bin", "note.txt", "out/array.bin"]


@pytest.mark.parametrize(
    "path", ["../x", "a/../../x", "/etc/x", "", ".", "a\0b", "C:/x", "a\\..\\x", "a:stream"]
)
def test_paths_that_leave_the_workspace_are_refused(sandbox: PortableSandbox, path: str) -> None:
    with pytest.raises(ValueError, match="not a path inside the workspace"):
        sandbox.put({path: b""})
    with pytest.raises(NotDelivered, match="not a path inside the workspace"):
        sandbox.get(path, 10)


def test_links_are_never_followed(sandbox: PortableSandbox, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "secret.txt").write_text("secret")
    sandbox.run(["ln", "-s", str(outside), "away"], timeout=SECONDS)
    sandbox.run(["ln", "-s", str(outside / "secret.txt"), "link.txt"], timeout=SECONDS)
    with pytest.raises(ValueError, match="link"):
        sandbox.put({"away/planted.txt": b"x"})
    for path in ("away/secret.txt", "link.txt", "away"):
        with pytest.raises(NotDelivered):
            sandbox.get(path, 100)
    assert sandbox.list() == sandbox.list("away") == []
    sandbox.put({"link.txt": b"mine"})
    assert sandbox.get("link.txt", 10) == b"mine"
    assert (outside / "secret.txt").read_text() == "secret"


def test_what_is_no_file_within_its_limit_is_not_delivered(sandbox: PortableSandbox) -> None:
    sandbox.run("mkdir folder; mkfifo pipe; printf 12345 > five", timeout=SECONDS)
    for path, reason in {
        "folder": "not a regular file",
        "pipe": "not a regular file",
        "five": "5 bytes, more than the 4",
        "none": "not there",
        "five/none": "cannot be read|not there",
    }.items():
        with pytest.raises(NotDelivered, match=reason):
            sandbox.get(path, 4)
    with pytest.raises(ValueError, match="folder"):
        sandbox.put({"folder": b"x"})
    with pytest.raises(ValueError, match="stands where a folder"):
        sandbox.put({"five/x": b"x"})


def test_a_command_gets_input_variables_and_the_environments_python(
    sandbox: PortableSandbox, environment: Environment, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("API_KEY", "secret")
    program = (
        "import os, sys; print(sys.prefix, os.environ.get('API_KEY'), os.environ['X'], sys.stdin.read())"
    )
    done = sandbox.run(["python", "-c", program], timeout=SECONDS, stdin=b"in", environment={"X": "x"})
    assert done.output == f"{environment.root} None x in\n"
    assert sandbox.run("cat; echo end", timeout=SECONDS).output == "end\n"
    assert sandbox.run("exit 7", timeout=SECONDS).exit_code == 7
    assert sandbox.run(["no-such-program"], timeout=SECONDS).exit_code == 127
    # Input that nobody reads is no trouble.
    assert sandbox.run(["true"], timeout=SECONDS, stdin=b"x" * 10**6).exit_code == 0


def test_a_command_that_takes_too_long_is_killed_with_its_children(
    sandbox: PortableSandbox, alive: Callable[[str], list[int]], marker: str
) -> None:
    done = sandbox.run(f"echo begun; bash -c 'sleep 600; :' {marker} & sleep 600", timeout=1.0)
    assert (done.timed_out, done.killed_by, done.output) == (True, "timeout", "begun\n")
    assert done.exit_code < 0
    deadline = time.monotonic() + 20
    while alive(marker) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert alive(marker) == []


def test_output_is_kept_as_head_and_tail(sandbox: PortableSandbox) -> None:
    done = sandbox.run("echo head; head -c 1000000 /dev/zero; echo tail", timeout=SECONDS)
    assert done.truncated
    assert done.output_bytes == 1_000_010
    assert done.output.startswith("head")
    assert done.output.endswith("tail\n")
    assert len(done.output) < 1100


def test_it_says_that_it_cannot_join_two_sandboxes(sandbox: PortableSandbox) -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs, pytest.raises(SandboxFault, match="cannot join two sandboxes"):
        sandbox.run(["true"], timeout=SECONDS, channel=theirs)


def test_close_ends_what_runs_and_leaves_nothing(sandbox: PortableSandbox, temporary: Path) -> None:
    errors: list[Exception] = []

    def work() -> None:
        try:
            sandbox.run("touch started; chmod 500 .; sleep 600", timeout=600)
        except SandboxFault as fault:
            errors.append(fault)

    thread = threading.Thread(target=work)
    thread.start()
    while not sandbox.list():
        time.sleep(0.005)
    sandbox.close()
    thread.join(SECONDS)
    assert "closed while a command ran" in str(errors[0])
    assert list(temporary.iterdir()) == []
    with pytest.raises(SandboxFault, match="closed"):
        sandbox.run("true", timeout=SECONDS)
    sandbox.close()


def test_what_a_killed_run_left_is_told_from_what_is_in_use(
    sandbox: PortableSandbox, environment: Environment, temporary: Path
) -> None:
    program = """
import sys
from pathlib import Path
from pytest_imaging101.sandboxes.base import Resources
from pytest_imaging101.sandboxes.environment import Environment
from pytest_imaging101.sandboxes.portable import PortableSandbox
sandbox = PortableSandbox(Environment(Path("python"), Path("."), ""), Resources())
print("ready", flush=True)
input()
"""
    other = subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert other.stdout is not None
    assert other.stdout.readline() == b"ready\n"
    before = {path for path in temporary.glob(f"{PREFIX}*") if path.is_dir()}
    assert len(before) == 2
    with abandoned_portable() as folders:
        assert folders == []
    other.kill()
    other.communicate()
    with abandoned_portable() as folders:
        assert len(folders) == 1
        assert folders[0] in before
    assert sandbox.run(["true"], timeout=SECONDS).exit_code == 0
    assert os.path.isdir(temporary)
