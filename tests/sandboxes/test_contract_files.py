"""What every backend promises about files: in, out, and nothing followed, opened or left that should not be."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from pytest_imaging101.faults import SandboxFault
from pytest_imaging101.sandboxes.base import Entry, NotDelivered, Sandbox
from pytest_imaging101.sandboxes.choose import Backend

MakeSandbox = Callable[..., Sandbox]

SECONDS = 60.0


def test_files_and_contents_go_in_and_come_out(sandbox: Sandbox, tmp_path: Path) -> None:
    source = tmp_path / "array.bin"
    source.write_bytes(bytes(range(256)) * 1000)
    sandbox.put({"data/raw/array.bin": source, "note.txt": b"caf\xc3\xa9"})
    done = sandbox.run(
        "cat note.txt; wc -c < data/raw/array.bin; mkdir out; cp data/raw/array.bin out/", timeout=SECONDS
    )
    assert done.output == "café256000\n"
    assert sandbox.get("out/array.bin", 10**6) == source.read_bytes()
    assert sandbox.list() == [
        Entry("data/raw/array.bin", 256000),
        Entry("note.txt", 5),
        Entry("out/array.bin", 256000),
    ]
    assert sandbox.list("out") == [Entry("out/array.bin", 256000)]


def test_a_file_put_again_is_replaced(sandbox: Sandbox) -> None:
    sandbox.put({"a.txt": b"long contents"})
    sandbox.put({"a.txt": b"short"})
    assert sandbox.get("a.txt", 100) == b"short"


@pytest.mark.parametrize("path", ["../x", "a/../../x", "/etc/x", "", ".", "a\0b", ".."])
def test_paths_that_leave_the_workspace_are_refused(sandbox: Sandbox, path: str) -> None:
    with pytest.raises(ValueError, match="not a path inside the workspace"):
        sandbox.put({path: b""})
    with pytest.raises(NotDelivered, match="not a path inside the workspace"):
        sandbox.get(path, 10)


def test_a_link_to_a_folder_outside_is_never_followed(sandbox: Sandbox, tmp_path: Path) -> None:
    (tmp_path / "secret.txt").write_text("secret")
    sandbox.run(["ln", "-s", str(tmp_path), "away"], timeout=SECONDS)
    sandbox.run(["ln", "-s", str(tmp_path / "new"), "dangling"], timeout=SECONDS)
    for path in ("away/planted.txt", "dangling/planted.txt"):
        with pytest.raises(ValueError, match="link"):
            sandbox.put({path: b"x"})
    with pytest.raises(NotDelivered, match="link"):
        sandbox.get("away/secret.txt", 100)
    assert sandbox.list("away") == sandbox.list() == []
    assert [file.name for file in tmp_path.iterdir()] == ["secret.txt"]


def test_a_link_in_the_place_of_a_file_is_replaced_and_not_followed(sandbox: Sandbox, tmp_path: Path) -> None:
    target = tmp_path / "target.txt"
    target.write_text("untouched")
    sandbox.run(["ln", "-s", str(target), "answer.txt"], timeout=SECONDS)
    with pytest.raises(NotDelivered, match="is a link"):
        sandbox.get("answer.txt", 100)
    sandbox.put({"answer.txt": b"mine"})
    assert target.read_text() == "untouched"
    assert sandbox.get("answer.txt", 100) == b"mine"


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        ("mkfifo x", "a named pipe"),
        ("mkdir x", "a folder"),
        ("ln -s nowhere x", "a link"),
        ("python -c 'import socket; socket.socket(socket.AF_UNIX).bind(\"x\")'", "a socket"),
        ("truncate -s 40G x", "42,949,672,960 bytes, more than the 1,000 allowed"),
        ("true", "not there"),
    ],
)
def test_only_regular_files_within_their_limit_are_delivered(
    make_sandbox: MakeSandbox, make: str, reason: str
) -> None:
    sandbox = make_sandbox(file_bytes=2**40)
    assert sandbox.run(make, timeout=SECONDS).exit_code == 0
    with pytest.raises(NotDelivered, match=reason):
        sandbox.get("x", 1000)


def test_a_name_that_is_no_text_is_listed_as_one(sandbox: Sandbox) -> None:
    sandbox.run("touch $'bad\\xff'", timeout=SECONDS)
    assert sandbox.list() == [Entry("bad\ufffd", 0)]


def test_a_folder_in_the_way_is_the_agents_error_and_no_fault(sandbox: Sandbox) -> None:
    sandbox.put({"plan/design.md": b""})
    with pytest.raises(ValueError, match="plan cannot be written: a folder of that name is there"):
        sandbox.put({"plan": b""})
    with pytest.raises(ValueError, match="a file or a link stands where a folder is needed"):
        sandbox.put({"plan/design.md/x": b""})


def test_a_host_file_that_is_missing_is_a_fault(sandbox: Sandbox, tmp_path: Path) -> None:
    with pytest.raises(SandboxFault, match=r"missing\.npy cannot be copied"):
        sandbox.put({"x": tmp_path / "missing.npy"})


def test_a_workspace_made_unusable_is_usable_for_the_next_command(sandbox: Sandbox) -> None:
    sandbox.put({"kept.txt": b"kept"})
    sandbox.run("chmod 0 . $TMPDIR", timeout=SECONDS)
    assert sandbox.get("kept.txt", 10) == b"kept"
    assert sandbox.run("cat kept.txt && touch new", timeout=SECONDS).output == "kept"


def test_temporary_files_stay_for_the_next_command(sandbox: Sandbox) -> None:
    sandbox.run("echo kept > $TMPDIR/note", timeout=SECONDS)
    assert sandbox.run("cat $TMPDIR/note", timeout=SECONDS).output == "kept\n"
    assert sandbox.list() == []


def test_close_removes_whatever_there_is_and_may_be_called_twice(
    make_sandbox: MakeSandbox, chosen: Backend
) -> None:
    sandbox = make_sandbox()
    folder = host_folder(sandbox) if chosen.shares_files else Path("not on this host")
    assert folder.is_dir() == chosen.shares_files
    sandbox.put({"shut/a": b""})
    # Deeper than Python recurses, and far longer than a path may be.
    nest = "import os\nfor _ in range(1100):\n    os.mkdir('d' * 99)\n    os.chdir('d' * 99)\n"
    assert sandbox.run(["python", "-c", nest], timeout=SECONDS).exit_code == 0
    sandbox.run("chmod 0 shut; ln -s / root", timeout=SECONDS)
    sandbox.close()
    sandbox.close()
    assert not folder.exists()
    for use in (lambda: sandbox.run("true", timeout=SECONDS), lambda: sandbox.put({"x": b""}), sandbox.list):
        with pytest.raises(SandboxFault, match="closed"):
            use()


def host_folder(sandbox: Sandbox) -> Path:
    """Where the workspace lies on the host: found by a file put into it, as someone who cleans up would."""
    word = f"looked-for-{os.urandom(8).hex()}"
    sandbox.put({word: b""})
    (found,) = Path(os.environ.get("TMPDIR", "/tmp")).glob(f"imaging101-*/workspace/{word}")
    found.unlink()
    assert found.parent.parent.stat().st_mode & 0o777 == 0o700
    return found.parent.parent
