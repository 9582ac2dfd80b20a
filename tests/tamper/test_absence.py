"""Nothing private of any task is in a sandbox that holds an agent: by hash, by canary, by values of the truth."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from pytest_imaging101.sandboxes.base import Resources, Sandbox
from pytest_imaging101.sandboxes.choose import open_sandbox
from pytest_imaging101.sandboxes.environment import Environment, provide_environment
from pytest_imaging101.sandboxes.local import WARNINGS
from pytest_imaging101.scoring.integrity import Secrets, examine
from pytest_imaging101.task import LEVELS, Task

TASKS = Path(__file__).parents[2] / "tasks"
FOLDERS = sorted(file.parent for file in TASKS.glob("*/task.toml"))

# Looks at every file outside the workspace: for private ones by hash, where the size is that of one, and for the word
# with which every canary begins, in whatever is text.
WALK = """
import hashlib, json, os, sys
private = {int(size): hashes for size, hashes in json.load(sys.stdin).items()}
word, texts = b"imaging101-" + b"canary-", (".py", ".json", ".jsonl", ".toml", ".md", ".txt", ".ipynb", "")
apart = ("/proc", "/sys", "/dev", "/workspace")
count, found = 0, []
for folder, folders, files in os.walk("/"):
    folders[:] = [name for name in folders if os.path.join(folder, name) not in apart]
    for name in files:
        path = os.path.join(folder, name)
        count += 1
        try:
            size = os.lstat(path).st_size
            text = os.path.splitext(name)[1] in texts and size < 300_000
            if not os.path.isfile(path) or os.path.islink(path) or not (text or size in private):
                continue
            content = open(path, "rb").read()
        except OSError:
            continue
        if word in content or hashlib.sha256(content).hexdigest() in private.get(size, ()):
            found.append(path)
print(json.dumps({"files": count, "found": found}))
"""


def items(task: Task) -> Iterator[tuple[str, str | None]]:
    """Every mechanism with its levels or modules."""
    yield "planning", None
    for level in LEVELS:
        yield "end2end", level
    for module in task.modules:
        yield "function", module


@pytest.fixture(scope="module")
def environment() -> Environment:
    """Any will do for looking at files; the small one is there after the first run of the tests."""
    return provide_environment(["numpy>=1.26"])


@pytest.fixture
def sandbox(backend: str, environment: Environment) -> Iterator[Sandbox]:
    with closing(open_sandbox(backend, environment, Resources())) as opened:
        yield opened


@pytest.mark.parametrize("folder", FOLDERS, ids=[folder.name for folder in FOLDERS])
def test_a_workspace_holds_what_the_item_shows_and_nothing_private(
    folder: Path, backend: str, environment: Environment
) -> None:
    task = Task.read(folder)
    for mechanism, part in items(task):
        visible = task.visible(mechanism, part)
        secrets = Secrets.of(task, visible, {})
        assert secrets.canaries, "a task without a canary cannot show a leak"
        assert secrets.files
        with closing(open_sandbox(backend, environment, Resources())) as sandbox:
            sandbox.put(dict(visible))
            shown = sandbox.run(["find", ".", "-type", "f"], timeout=60).output.split()
            assert sorted(name.removeprefix("./") for name in shown) == sorted(visible), (mechanism, part)
            found = examine(secrets, sandbox, {}, [])
        assert (found.verdict, found.files_not_examined) == ("clean", 0), (mechanism, part, found.evidence)


def private_files() -> dict[int, list[str]]:
    """SHA-256 of every file of every task, by size."""
    found: dict[int, list[str]] = {}
    for folder in FOLDERS:
        for file in folder.rglob("*"):
            if file.is_file() and file.stat().st_size and "__pycache__" not in file.parts:
                content = file.read_bytes()
                found.setdefault(len(content), []).append(hashlib.sha256(content).hexdigest())
    return found


def test_nothing_of_any_task_lies_outside_the_workspace(sandbox: Sandbox, backend: str) -> None:
    if backend == "local":
        # It shows the host as it is, the tasks included, and says so.
        assert set(WARNINGS) <= set(sandbox.warnings)
        return
    evaluation = FOLDERS[0] / "evaluation"
    sandbox.put(
        {
            "a.txt": evaluation / "metrics.json",
            "b": evaluation / "reference_outputs/ground_truth.npy",
            "walk.py": WALK.encode(),
        }
    )
    private = json.dumps(private_files()).encode()
    done = sandbox.run("cp a.txt b /tmp; python walk.py", timeout=300, stdin=private)
    assert done.exit_code == 0, done.output
    seen = json.loads(done.output)
    assert seen["files"] > 100
    # What was put there for the walk to find, and nothing else.
    assert sorted(seen["found"]) == ["/tmp/a.txt", "/tmp/b"]
