"""Which sandbox a run gets, and what it is told where that is not the one it wants."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_imaging101.faults import SandboxFault, UsageError
from pytest_imaging101.sandboxes.availability import find_bwrap, remedy
from pytest_imaging101.sandboxes.base import Resources
from pytest_imaging101.sandboxes.choose import Backend, choose_backend, open_sandbox
from pytest_imaging101.sandboxes.environment import Environment

FORBIDDEN = """#!/bin/sh
[ $1 = --version ] && { echo bubblewrap 0.11.0; exit; }
echo bwrap: setting up uid map: Permission denied >&2
exit 1
"""


@pytest.fixture
def forbidden_bubblewrap(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A system whose bubblewrap is installed and new enough, and may not do what it is for."""
    program = tmp_path / "bwrap"
    program.write_text(FORBIDDEN)
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")


def test_auto_takes_bubblewrap_where_it_works_and_no_engine_answers() -> None:
    assert choose_backend("auto") == choose_backend("bubblewrap") == Backend("bubblewrap")


def test_local_is_taken_when_asked_for() -> None:
    assert choose_backend("local") == Backend("local")


@pytest.mark.usefixtures("forbidden_bubblewrap")
def test_auto_falls_back_to_local_and_says_why() -> None:
    backend = choose_backend("auto")
    (warning,) = backend.warnings
    assert backend.name == "local"
    assert warning.startswith(
        "no isolation: the local sandbox is used, because bubblewrap cannot make a sandbox"
    )
    assert "setting up uid map: Permission denied" in warning
    assert "no container engine answers" in warning


@pytest.mark.usefixtures("forbidden_bubblewrap")
def test_bubblewrap_asked_for_by_name_is_never_replaced() -> None:
    with pytest.raises(UsageError, match=r"bubblewrap cannot make a sandbox here .*uid map.*: "):
        choose_backend("bubblewrap")


@pytest.mark.usefixtures("forbidden_bubblewrap")
def test_a_sandbox_that_cannot_start_is_a_fault(environment: Environment) -> None:
    sandbox = open_sandbox("bubblewrap", environment, Resources())
    with pytest.raises(SandboxFault, match="could not start") as caught:
        sandbox.run("true", timeout=60)
    sandbox.close()
    assert "setting up uid map" in caught.value.evidence


def test_a_system_bubblewrap_that_is_too_old_is_passed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "bwrap"
    program.write_text("#!/bin/sh\necho bubblewrap 0.4.1\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    assert find_bwrap() != program
    program.write_text("#!/bin/sh\necho bubblewrap 0.8.0\n")
    assert find_bwrap() == program


@pytest.mark.parametrize(
    ("setting", "value", "word"),
    [
        ("kernel/apparmor_restrict_unprivileged_userns", "1", "sudo sysctl -w kernel.apparmor_restrict"),
        ("kernel/unprivileged_userns_clone", "0", "kernel.unprivileged_userns_clone=1"),
        ("user/max_user_namespaces", "0", "user.max_user_namespaces=15000"),
        ("user/max_user_namespaces", "9000", "seccomp=unconfined"),
    ],
)
def test_the_remedy_is_that_for_the_setting_that_forbids(
    tmp_path: Path, setting: str, value: str, word: str
) -> None:
    file = tmp_path / setting
    file.parent.mkdir()
    file.write_text(f"{value}\n")
    assert word in remedy(tmp_path)


def test_docker_asked_for_by_name_is_never_replaced() -> None:
    with pytest.raises(UsageError, match="--sandbox docker: no container engine answers"):
        choose_backend("docker")


def test_an_image_that_is_named_is_wanted_even_by_auto() -> None:
    with pytest.raises(UsageError, match="--sandbox auto: no container engine answers"):
        choose_backend("auto", "my/image:1")


def test_auto_takes_docker_where_an_engine_answers_and_the_image_is_there(docker: Backend) -> None:
    assert choose_backend("auto") == choose_backend("docker") == docker


@pytest.mark.usefixtures("docker")
def test_an_image_that_is_not_there_is_never_pulled_and_the_remedy_is_said() -> None:
    with pytest.raises(UsageError, match="has no image no/such:1: build it with 'imaging101 sandbox build'"):
        choose_backend("docker", "no/such:1")


def test_an_unknown_name_lists_the_known() -> None:
    with pytest.raises(UsageError, match=r"--sandbox chroot: there is no such .* auto, docker, bubblewrap"):
        choose_backend("chroot")
