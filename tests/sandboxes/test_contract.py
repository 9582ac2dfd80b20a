"""What every backend promises about commands. Where `local` cannot, it must have said so in its warnings."""

from __future__ import annotations

import signal
import socket
import subprocess
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from pytest_imaging101.faults import SandboxFault
from pytest_imaging101.sandboxes.base import Completed, Entry, Sandbox
from pytest_imaging101.sandboxes.environment import Environment
from tests.sandboxes.detached import DETACHED

Alive = Callable[[str], list[int]]
MakeSandbox = Callable[..., Sandbox]

# Long for a command that takes milliseconds: it is there to end a test that hangs, and no test depends on it.
SECONDS = 60.0


def admits(sandbox: Sandbox, what: str) -> bool:
    """Whether a backend has warned that it does not keep this promise; only `local` may."""
    return sandbox.backend == "local" and any(what in warning for warning in sandbox.warnings)


# The world around a command


def test_no_variable_of_the_host_is_seen(sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (
        "OPENAI_API_KEY",
        "API_KEY",
        "PYTEST_ADDOPTS",
        "PYTEST_XDIST_WORKER",
        "COV_CORE_SOURCE",
        "ANY",
    ):
        monkeypatch.setenv(name, "of-the-host")
    output = sandbox.run("env", timeout=SECONDS, environment={"ADDED": "by the caller"}).output
    assert "of-the-host" not in output
    assert "ADDED=by the caller\n" in output
    seen = dict(line.split("=", 1) for line in output.splitlines())
    assert {"PAGER": "cat", "GIT_TERMINAL_PROMPT": "0", "OMP_NUM_THREADS": "2"}.items() <= seen.items()


def test_plain_python_is_the_environments(sandbox: Sandbox, environment: Environment) -> None:
    done = sandbox.run(
        "python -c 'import numpy; print(numpy.__version__)'; pytest --version", timeout=SECONDS
    )
    versions = environment.versions()
    assert done.output == f"{versions['numpy']}\npytest {versions['pytest']}\n"


def test_pytest_inside_runs_as_if_nothing_were_outside(sandbox: Sandbox) -> None:
    sandbox.put({"test_it.py": b"def test_it(): pass\n"})
    done = sandbox.run("python -m pytest -q -p no:cacheprovider", timeout=SECONDS)
    assert (done.exit_code, "1 passed" in done.output) == (0, True)
    assert sandbox.list() == [Entry("test_it.py", 20)]


def test_there_is_no_network(sandbox: Sandbox) -> None:
    connect = "import socket, sys; socket.create_connection(('127.0.0.1', int(sys.argv[1])), 5)"
    with socket.create_server(("127.0.0.1", 0)) as server:
        done = sandbox.run(["python", "-c", connect, str(server.getsockname()[1])], timeout=SECONDS)
    assert done.exit_code != 0 or admits(sandbox, "network")


def test_files_of_the_host_are_not_seen(sandbox: Sandbox, environment: Environment, tmp_path: Path) -> None:
    (tmp_path / "secret.txt").write_text("secret")
    places = [
        tmp_path,
        Path(__file__).parent,
        environment.root.parent,
        Path.home() / ".config",
        Path("/var/log"),
    ]
    done = sandbox.run(["ls", *map(str, places)], timeout=SECONDS)
    seen = [place for place in places if f"'{place}'" not in done.output]
    assert not seen or admits(sandbox, "answers")
    assert sandbox.run("hostname", timeout=SECONDS).output == "sandbox\n" or admits(
        sandbox, "read and change"
    )


def test_no_answer_and_nothing_of_the_project_is_anywhere(
    sandbox: Sandbox, environment: Environment, make_sandbox: MakeSandbox
) -> None:
    """Neither the checkout, nor another attempt's files, nor an environment but its own."""
    if admits(sandbox, "answers"):
        return
    other = make_sandbox()
    other.put({"of-another-attempt.txt": b""})
    other.run("touch $TMPDIR/of-another-attempt.txt", timeout=SECONDS)
    names = [
        *("ground_truth*", "pytest_imaging101*", "fixtures_hidden", "task.toml", "of-another-attempt.txt"),
        *(key.name for key in environment.root.parent.iterdir() if key != environment.root),
    ]
    tests = " -o ".join(f"-name '{name}'" for name in names)
    done = sandbox.run(f"find / -path /proc -prune -o \\( {tests} \\) -print 2>/dev/null", timeout=SECONDS)
    assert done.output == ""


def test_processes_of_the_host_are_not_seen(sandbox: Sandbox, marker: str) -> None:
    program = (
        "import os; print(*[open(f'/proc/{p}/cmdline').read() for p in os.listdir('/proc') if p.isdigit()])"
    )
    with subprocess.Popen(["sh", "-c", "read line", marker], stdin=subprocess.PIPE):
        done = sandbox.run(["python", "-c", program], timeout=SECONDS)
    assert marker not in done.output or admits(sandbox, "run as you")


def test_the_clock_is_the_hosts_and_runs(sandbox: Sandbox) -> None:
    before = time.time()
    done = sandbox.run(["python", "-c", "import time; print(time.time())"], timeout=SECONDS)
    assert before <= float(done.output) <= time.time()


def test_the_environment_cannot_be_changed(sandbox: Sandbox) -> None:
    done = sandbox.run("touch $(dirname $(command -v python))/planted; echo $?", timeout=SECONDS)
    if admits(sandbox, "environment included"):
        sandbox.run("rm $(dirname $(command -v python))/planted", timeout=SECONDS)
    else:
        assert "Read-only file system\n1" in done.output


# How commands end


@pytest.mark.parametrize("code", [0, 1, 7, 127])
def test_exit_codes_are_the_commands_own(sandbox: Sandbox, code: int) -> None:
    assert sandbox.run(f"exit {code}", timeout=SECONDS).exit_code == code
    assert sandbox.run(["bash", "-c", f"exit {code}"], timeout=SECONDS).exit_code == code


def test_a_death_by_signal_is_a_negative_exit_code(sandbox: Sandbox) -> None:
    assert sandbox.run("python -c 'import os; os.abort()'", timeout=SECONDS).exit_code == -signal.SIGABRT
    done = sandbox.run(["bash", "-c", "kill -KILL $$"], timeout=SECONDS)
    assert (done.exit_code, done.killed_by) == (-signal.SIGKILL, "")


def test_a_program_that_is_not_there_is_a_result_and_no_fault(sandbox: Sandbox) -> None:
    done = sandbox.run(["no-such-program"], timeout=SECONDS)
    assert (done.exit_code, "no-such-program: not found" in done.output) == (127, True)


def test_every_process_is_gone_after_a_time_limit(sandbox: Sandbox, alive: Alive, marker: str) -> None:
    done = run_into_time_limit(sandbox, DETACHED.format(word=marker) + "sleep 600", "started\n")
    assert (done.timed_out, done.killed_by, done.exit_code) == (True, "timeout", -signal.SIGKILL)
    assert alive(marker) == []


def test_every_process_is_gone_after_the_command_ends_by_itself(
    sandbox: Sandbox, alive: Alive, marker: str
) -> None:
    done = sandbox.run(DETACHED.format(word=marker), timeout=SECONDS)
    assert (done.exit_code, done.output) == (0, "started\n")
    assert alive(marker) == []


def run_into_time_limit(sandbox: Sandbox, command: str, printed: str) -> Completed:
    """Run a command that never ends, with a limit that this machine, busy as it may be, gets it going in."""
    for seconds in (1.0, 5.0, 25.0):
        done = sandbox.run(command, timeout=seconds)
        if done.output == printed:
            break
    assert done.output == printed
    assert done.seconds < seconds + 10
    return done


def test_a_child_in_the_background_does_not_hold_the_command_open(sandbox: Sandbox) -> None:
    done = sandbox.run("sleep 600 & echo hi", timeout=SECONDS)
    assert (done.output, done.timed_out) == ("hi\n", False)


def test_close_ends_a_command_that_another_thread_waits_for(
    sandbox: Sandbox, alive: Alive, marker: str
) -> None:
    faults: list[SandboxFault] = []

    def work() -> None:
        try:
            sandbox.run(f"bash -c 'sleep 600; :' {marker}", timeout=SECONDS)
        except SandboxFault as fault:
            faults.append(fault)

    thread = threading.Thread(target=work)
    thread.start()
    while not alive(marker):
        time.sleep(0.01)
    sandbox.close()
    assert alive(marker) == []
    thread.join()
    assert "closed while a command ran" in faults[0].message


# What goes in and comes out


def test_stdin_is_empty_unless_given(sandbox: Sandbox) -> None:
    assert sandbox.run("cat; python -i", timeout=SECONDS).timed_out is False
    assert sandbox.run(["wc", "-c"], timeout=SECONDS, stdin=b"x" * 10**6).output.strip() == "1000000"
    assert sandbox.run("head -c 1", timeout=SECONDS, stdin=b"x" * 10**6).output == "x"


def test_a_command_may_be_longer_than_an_argument(sandbox: Sandbox) -> None:
    text = f"cat > big.txt <<'EOF'\n{'0123456789' * 20_000}\nEOF\nwc -c < big.txt"
    assert sandbox.run(text, timeout=SECONDS).output.strip() == "200001"


def test_both_streams_come_in_the_order_written(sandbox: Sandbox) -> None:
    program = "import sys\nfor i in range(3):\n print(i)\n print('e', i, file=sys.stderr)"
    assert sandbox.run(["python", "-c", program], timeout=SECONDS).output == "0\ne 0\n1\ne 1\n2\ne 2\n"


def test_what_was_printed_before_a_time_limit_is_there(sandbox: Sandbox) -> None:
    command = "python -c \"import time; print('so far'); time.sleep(600)\""
    assert run_into_time_limit(sandbox, command, "so far\n").timed_out


def test_binary_output_is_text_with_replacements(sandbox: Sandbox) -> None:
    assert sandbox.run(r"printf 'a\xff\xfe\x00b'", timeout=SECONDS).output == "a\ufffd\ufffd\0b"


def test_standard_input_can_be_closed(sandbox: Sandbox) -> None:
    done = sandbox.run("exec <&-; python -c 'import sys; print(sys.stdin)'; cat; echo on", timeout=SECONDS)
    assert done.output.startswith("None\n")
    assert done.output.endswith("on\n")


def test_a_flood_of_output_is_kept_as_head_and_tail_in_little_memory(make_sandbox: MakeSandbox) -> None:
    sandbox = make_sandbox(output_bytes=10_000)
    Path("/proc/self/clear_refs").write_text("5")  # resets the peak
    before = peak_bytes()
    done = sandbox.run("echo first; head -c 1000000000 /dev/zero | tr '\\0' x; echo last", timeout=SECONDS)
    assert peak_bytes() - before < 20 * 2**20
    assert (done.output_bytes, done.truncated, done.exit_code) == (1_000_000_011, True, 0)
    assert done.output.startswith("first\nxxx")
    assert done.output.endswith("xlast\n")
    assert "999,990,011 bytes left out" in done.output
    assert len(done.output) < 10_100


def peak_bytes() -> int:
    status = Path("/proc/self/status").read_text()
    return int(status.split("VmHWM:")[1].split()[0]) * 1024


def test_a_channel_joins_harness_and_command(sandbox: Sandbox) -> None:
    ours, theirs = socket.socketpair()
    echo = (
        "import os, socket\n"
        "channel = socket.socket(fileno=int(os.environ['IMAGING101_CHANNEL']))\n"
        "while data := channel.recv(100):\n"
        "    channel.sendall(data.upper())\n"
        "    if data == b'end': break\n"
    )
    heard: list[bytes] = []

    def talk() -> None:
        for word in (b"hello", b"end"):
            ours.sendall(word)
            heard.append(ours.recv(100))
        heard.append(ours.recv(100))

    with ours, theirs:
        thread = threading.Thread(target=talk)
        thread.start()
        assert sandbox.run(["python", "-c", echo], timeout=SECONDS, channel=theirs).exit_code == 0
        theirs.close()  # the caller's own end, and the only one that is still open
        thread.join()
    assert heard == [b"HELLO", b"END", b""]


# Limits


def test_memory_of_all_processes_together_is_limited(
    make_sandbox: MakeSandbox, alive: Alive, marker: str
) -> None:
    sandbox = make_sandbox(memory_bytes=200 * 2**20)
    hold = f"python -c 'import time; x = bytearray(120 << 20); time.sleep(600)' {marker}"
    assert sandbox.run(f"{hold} & {hold}", timeout=SECONDS).killed_by == "memory"
    assert alive(marker) == []


def test_memory_that_processes_share_counts_once(make_sandbox: MakeSandbox) -> None:
    sandbox = make_sandbox(memory_bytes=200 * 2**20)
    program = (
        "import os, time\n"
        "x = b'x' * (100 << 20)\n"
        "child = os.fork()\n"
        "time.sleep(1)\n"  # the harness looks ten times a second
        "child and os.waitpid(child, 0)\n"
    )
    done = sandbox.run(["python", "-c", program], timeout=SECONDS)
    assert (done.killed_by, done.exit_code) == ("", 0)


def test_an_allocation_beyond_all_hope_is_a_memory_error_in_the_program(make_sandbox: MakeSandbox) -> None:
    done = make_sandbox(memory_bytes=2**28).run("python -c 'bytearray(1 << 34)'", timeout=SECONDS)
    assert (done.exit_code, done.killed_by, "MemoryError" in done.output) == (1, "", True)


def test_the_number_of_processes_is_limited(make_sandbox: MakeSandbox, alive: Alive, marker: str) -> None:
    """By the kernel, which refuses one more, or by the harness, which ends them all."""
    many = (
        "import subprocess, sys\n"
        "for _ in range(80): subprocess.Popen(['bash', '-c', 'sleep 600; :', sys.argv[1]])\n"
        "subprocess.run(['sleep', '600'])"
    )
    done = make_sandbox(processes=40).run(["python", "-c", many, marker], timeout=SECONDS)
    assert done.killed_by == "processes" or "Resource temporarily unavailable" in done.output
    assert alive(marker) == []


def test_a_fork_bomb_goes_off_and_the_next_command_runs(
    make_sandbox: MakeSandbox, alive: Alive, marker: str
) -> None:
    """`local` ends it as soon as it is seen; elsewhere the kernel holds it at the limit until the time is up."""
    sandbox = make_sandbox(processes=60)
    bomb = "import os, sys\nwhile True:\n    try: os.fork()\n    except OSError: pass"
    done = sandbox.run(["python", "-c", bomb, marker], timeout=3)
    assert done.killed_by in ("processes", "timeout")
    assert alive(marker) == []
    assert sandbox.run("echo on", timeout=SECONDS).output == "on\n"


def test_a_memory_bomb_goes_off_and_the_next_command_runs(make_sandbox: MakeSandbox) -> None:
    sandbox = make_sandbox(memory_bytes=200 * 2**20)
    bomb = "import time\nheld = []\nwhile True:\n    held.append(b'x' * (4 << 20)); time.sleep(0.01)"
    assert sandbox.run(["python", "-c", bomb], timeout=SECONDS).killed_by == "memory"
    assert sandbox.run("echo on", timeout=SECONDS).output == "on\n"


def test_the_size_of_a_file_is_limited(make_sandbox: MakeSandbox) -> None:
    sandbox = make_sandbox(file_bytes=2**20)
    assert sandbox.run("head -c 3000000 /dev/zero > big", timeout=SECONDS).exit_code != 0
    assert sandbox.list() == [Entry("big", 2**20)]


def test_the_disk_is_limited_and_can_be_cleared_again(make_sandbox: MakeSandbox) -> None:
    sandbox = make_sandbox(disk_bytes=30 * 2**20)
    fill = "for i in $(seq 60); do head -c 1000000 /dev/zero > {}/$i; done; sleep 600"
    assert sandbox.run(fill.format("$TMPDIR"), timeout=SECONDS).killed_by == "disk"
    assert sandbox.run("touch more; sleep 0.5; rm $TMPDIR/*", timeout=SECONDS).killed_by == ""
    assert sandbox.run("mkdir d; " + fill.format("d"), timeout=SECONDS).killed_by == "disk"


def test_many_small_files_use_up_the_disk_too(make_sandbox: MakeSandbox) -> None:
    done = make_sandbox(disk_bytes=10 * 2**20).run(
        "python -c \"import time; [open(str(i), 'w').close() for i in range(3000)]; time.sleep(600)\"",
        timeout=SECONDS,
    )
    assert done.killed_by == "disk"
