"""Task environments: built once, whole or not at all, and with a sentence where that fails."""

from __future__ import annotations

import shutil
import threading
from collections import namedtuple
from pathlib import Path

import pytest
from filelock import FileLock

from pytest_imaging101.faults import EnvironmentFault
from pytest_imaging101.sandboxes.environment import (
    Environment,
    cache_folder,
    environment_key,
    is_ready,
    provide_environment,
)

Usage = namedtuple("Usage", "total used free")


def test_two_who_want_the_same_get_one_that_is_built_once(tmp_path: Path) -> None:
    half_made = tmp_path / "environments" / key_of([]) / "lib" / "left.txt"
    half_made.parent.mkdir(parents=True)
    half_made.touch()
    built: list[Environment] = []
    said: list[str] = []

    def want() -> None:
        built.append(provide_environment([], tmp_path, said.append))

    threads = [threading.Thread(target=want) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    first, second = built
    assert first == second
    assert is_ready([], tmp_path)
    assert sorted(word.split()[0] for word in said) == ["building", "waiting"]
    assert {"numpy", "pytest", "python"} <= set(first.versions())
    assert not half_made.exists()
    assert list(first.root.rglob("numpy/__pycache__/__init__.*.pyc")), (
        "compiled, since nobody can do it later"
    )


def key_of(requirements: list[str]) -> str:
    return environment_key(["numpy", "pytest>=8", *requirements])


def test_a_ready_one_takes_no_lock_and_builds_nothing(environment: Environment) -> None:
    said: list[str] = []
    with FileLock(environment.root.with_suffix(".lock")):
        assert provide_environment([" numpy>=1.26 ", "numpy>=1.26"], progress=said.append) == environment
    assert said == []


def test_the_key_follows_what_is_installed_and_not_the_order() -> None:
    assert environment_key(["a", "b"]) == environment_key(["b", "a"]) != environment_key(["a", "b>=2"])


def test_a_requirement_that_cannot_be_had_is_named_and_nothing_is_left(tmp_path: Path) -> None:
    with pytest.raises(
        EnvironmentFault, match="because of iniconfig>=9999; change that line of requirements"
    ) as caught:
        provide_environment(["iniconfig>=9999", "packaging"], tmp_path)
    assert "iniconfig" in caught.value.evidence
    assert [path.suffix for path in (tmp_path / "environments").iterdir()] == [".lock"]


def test_a_line_that_is_no_requirement_is_named(tmp_path: Path) -> None:
    with pytest.raises(EnvironmentFault, match="cannot be built"):
        provide_environment(["packaging=>1"], tmp_path)


def test_a_full_disk_is_said_before_the_build(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda _: Usage(2**40, 2**40, 5 * 2**20))
    with pytest.raises(EnvironmentFault, match=r"has 5 MiB left.*IMAGING101_CACHE"):
        provide_environment([], tmp_path)


def test_a_cache_that_cannot_be_written_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("IMAGING101_CACHE", str(tmp_path / "file"))
    assert cache_folder() == tmp_path / "file"
    with pytest.raises(EnvironmentFault, match=r"no environment can be built in .*IMAGING101_CACHE"):
        provide_environment([])


def test_one_whose_python_is_gone_is_built_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = tmp_path / "environments" / key_of([])
    (root / "bin").mkdir(parents=True)
    (root / "environment.json").write_text("{}")
    (root / "bin" / "python").symlink_to(tmp_path / "gone")
    monkeypatch.setattr(shutil, "disk_usage", lambda _: Usage(0, 0, 0))  # ends the build at its first step
    with pytest.raises(EnvironmentFault, match="0 MiB left"):
        provide_environment([], tmp_path)
    assert not root.exists()
    assert not is_ready([], tmp_path)


def test_versions_that_cannot_be_read_say_what_to_delete(tmp_path: Path) -> None:
    (tmp_path / "environment.json").write_text("[]")
    with pytest.raises(EnvironmentFault, match=f"delete {tmp_path}"):
        Environment(tmp_path / "python", tmp_path, "key").versions()
