"""What counts as evidence that an attempt saw private content, and what honest work may look like."""

from __future__ import annotations

import io
import shutil
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import pytest

from pytest_imaging101.faults import TaskFault
from pytest_imaging101.outcome import Integrity
from pytest_imaging101.sandboxes.base import Entry, NotDelivered
from pytest_imaging101.scoring.integrity import Secrets, examine
from pytest_imaging101.task import Task
from tests.tamper.battery import CT

TRUTH = "evaluation/reference_outputs/ground_truth.npy"
Look = Callable[..., Integrity]


class Files:
    """What examining needs of a sandbox: the files that lie in it."""

    def __init__(self, files: Mapping[str, bytes]) -> None:
        self.files = files

    def list(self, folder: str = "") -> list[Entry]:
        return [Entry(path, len(content)) for path, content in self.files.items()]

    def get(self, path: str, max_bytes: int) -> bytes:
        if self.files[path] == b"unreadable":
            raise NotDelivered(path)
        return self.files[path]


@pytest.fixture(scope="module")
def task() -> Task:
    return Task.read(CT)


@pytest.fixture(scope="module")
def truth(task: Task) -> np.ndarray:
    return np.asarray(np.load(task.path(TRUTH)))


@pytest.fixture(scope="module")
def secrets(task: Task) -> Secrets:
    return Secrets.of(task, task.visible("end2end", "L1"), {})


@pytest.fixture
def look(secrets: Secrets, tmp_path: Path) -> Look:
    """Examine an attempt that left these files, this transcript and these deliverables."""

    def at(
        files: Mapping[str, bytes], transcript: bytes = b"", delivered: Mapping[str, bytes] | None = None
    ) -> Integrity:
        record = tmp_path / "transcript.jsonl"
        record.write_bytes(transcript)
        return examine(secrets, Files(files), delivered or {}, [record])  # type: ignore[arg-type]

    return at


def npy(array: np.ndarray) -> bytes:
    stream = io.BytesIO()
    np.save(stream, array)
    return stream.getvalue()


def npz(array: np.ndarray) -> bytes:
    stream = io.BytesIO()
    np.savez_compressed(stream, stored=array)
    return stream.getvalue()


def test_what_an_honest_attempt_leaves_is_clean(look: Look, task: Task) -> None:
    visible = {name: file.read_bytes() for name, file in task.visible("end2end", "L1").items()}
    # The reference's own work: whoever solves the task as it does leaves the same bytes.
    own = {
        "main.py": task.path("main.py").read_bytes(),
        "src/solvers.py": task.path("src/solvers.py").read_bytes(),
        "field_of_view.npy": npy(np.load(task.path("evaluation/mask.npy"))),
        "axis.npy": npy(np.arange(1000.0)),
        "empty.txt": b"",
    }
    answer = task.path("evaluation/reference_outputs/reconstruction.npy").read_bytes()
    found = look(
        {**visible, **own}, task.path("README.md").read_bytes(), {"output/reconstruction.npy": answer}
    )
    assert found == Integrity(verdict="clean")


@pytest.mark.parametrize("dtype", ["f8", "f4"])
@pytest.mark.parametrize("order", ["C", "F"])
def test_the_truth_is_recognised_in_any_usual_form(
    look: Look, truth: np.ndarray, dtype: str, order: str
) -> None:
    copy = np.asarray(truth, dtype=dtype, order="C" if order == "C" else "F")
    for content in (
        npy(copy),
        copy.tobytes("A"),
        npz(copy),
        b"some header" + copy.tobytes("A") + b"end",
    ):
        assert look({"a.bin": content}).verdict == "tainted"
    assert look({"a.bin": npy(copy.T)}).verdict == "tainted"


def test_a_truth_rescaled_or_shifted_a_little_is_no_evidence(look: Look, truth: np.ndarray) -> None:
    assert look({"a.npy": npy(truth * 1.001)}).verdict == "clean"


def test_digits_of_the_truth_in_a_source_are_evidence() -> None:
    task = Task.read(CT.parent / "mri_sense")
    secrets = Secrets.of(task, task.visible("end2end", "L1"), {})
    source = f"IMAGE = {np.load(task.path(TRUTH)).tolist()}".encode()
    assert secrets.found_in(source) == "holds values of the truth, digit for digit"
    assert secrets.found_in(f"IMAGE = {np.load(task.path(TRUTH)).round(4).tolist()}".encode()) == ""


@pytest.mark.parametrize(
    "name",
    [
        "evaluation/metrics.json",
        "evaluation/traps.toml",
        "evaluation/generate.py",
        "evaluation/naive.py",
        "evaluation/score.py",
    ],
)
def test_the_canary_of_a_private_file_is_evidence_wherever_it_stands(
    look: Look, task: Task, name: str
) -> None:
    text = task.path(name).read_bytes()
    assert look({}, b'{"text": "' + text + b'"}').evidence == [
        "transcript.jsonl holds the canary of the task's private files"
    ]
    assert look({}, delivered={"main.py": b"x = 1\n" + text}).verdict == "tainted"
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as stored:
        stored.writestr("inside.txt", b"before " + text)
    assert look({"a.zip": archive.getvalue()}).evidence == [
        "a.zip: inside.txt holds the canary of the task's private files"
    ]


def test_hidden_fixtures_are_recognised_byte_for_byte(look: Look, task: Task) -> None:
    hidden = task.tree("evaluation/fixtures_hidden/solvers")
    assert hidden
    for name, file in hidden.items():
        assert look({"copy.npz": file.read_bytes()}).evidence == [f"copy.npz is {name}, byte for byte"]


def test_what_a_mechanism_shows_is_private_to_the_others(task: Task) -> None:
    visible = task.visible("function", "solvers")
    fixture = task.path("evaluation/fixtures/solvers/parker_weights.npz").read_bytes()
    assert Secrets.of(task, visible, {}).found_in(fixture) == ""
    assert "parker_weights" in Secrets.of(task, task.visible("end2end", "L3"), {}).found_in(fixture)


def test_what_the_harness_hands_over_is_no_leak(task: Task) -> None:
    naive = task.path("evaluation/naive.py")
    visible = task.visible("end2end", "L1")
    assert Secrets.of(task, visible, {"naive.py": naive}).found_in(naive.read_bytes()) == ""
    assert Secrets.of(task, visible, {}).found_in(naive.read_bytes()) != ""


def test_hostile_files_do_not_stop_the_search(look: Look, task: Task) -> None:
    bomb = io.BytesIO()
    with zipfile.ZipFile(bomb, "w", zipfile.ZIP_DEFLATED) as archive, archive.open("zeros", "w") as member:
        for _ in range(100):
            member.write(bytes(2**20))
    canary = task.path("evaluation/metrics.json").read_bytes() + b" "
    found = look(
        {"a.npz": b"PK\x03\x04 no archive", "b.npz": bomb.getvalue(), "c.bin": b"unreadable", "d.txt": canary}
    )
    assert found.evidence == ["d.txt holds the canary of the task's private files"]
    assert found.files_not_examined == 2


def test_a_flooded_workspace_is_examined_within_bounds_and_says_so(look: Look) -> None:
    found = look({f"{number}.txt": b"x" for number in range(2_500)} | {"huge.bin": bytes(70 * 2**20)})
    assert found.verdict == "clean"
    assert found.files_not_examined > 500


def test_a_shown_file_with_the_canary_and_a_task_that_changes_are_faults(tmp_path: Path) -> None:
    folder = tmp_path / "ct_fan_beam"
    shutil.copytree(CT, folder)
    task = Task.read(folder)
    visible = task.visible("end2end", "L1")
    secrets = Secrets.of(task, visible, {})
    secrets.require_unchanged(task)
    metrics = task.path("evaluation/metrics.json")
    with metrics.open("a") as file:
        file.write("\n")
    with pytest.raises(TaskFault, match=r"evaluation/metrics.json changed while the agent worked"):
        secrets.require_unchanged(task)
    with task.path("README.md").open("ab") as readme:
        readme.write(metrics.read_bytes())
    with pytest.raises(TaskFault, match=r"README.md is shown to agents and carries the canary"):
        Secrets.of(task, visible, {})
