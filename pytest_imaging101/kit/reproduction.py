"""Checks that what is stored can be made again: data, reference outputs, and the notebook's run."""

from __future__ import annotations

import io
import json
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_imaging101.kit.finding import Verdict, counted
from pytest_imaging101.kit.subject import Ran, Subject, files_of
from pytest_imaging101.scoring.reconstruction import compare, score_reconstruction

if TYPE_CHECKING:
    from numpy.typing import NDArray

GENERATE_SECONDS = 240.0
NOTEBOOK_SECONDS = 60.0
_NOTEBOOK_PATIENCE = 300.0
MOST_SECONDS = 60.0

_HERE = Path(__file__).parent / "inside"
_MADE = ("data/", "evaluation/fixtures/", "evaluation/fixtures_hidden/", "evaluation/reference_outputs/")
_NOTEBOOK_PACKAGES = ("nbclient>=0.10", "nbformat>=5.10", "ipykernel>=6.29")
# Relative to an array's largest value: what another CPU or BLAS may change.
_FLOAT_TOLERANCE = {2: 2e-3, 4: 1e-5, 8: 1e-6, 16: 1e-6}
# Share of whole numbers that rounding elsewhere may change by one.
_INTEGER_SHARE = 1e-3
_RECONSTRUCTION_TOLERANCE = 1e-3


def generated(subject: Subject) -> Verdict:
    """``generate.py --out`` makes the stored arrays again, within tolerance, and no others."""
    task = subject.task
    stored = {
        name: file.read_bytes()
        for name, file in {**task.tree("data"), **task.tree("evaluation")}.items()
        if name.startswith(_MADE)
    }
    files, started = files_of(task.folder), time.monotonic()
    # Made elsewhere: what it reads by mistake is not there to be found.
    sources = {name: file for name, file in files.items() if name not in stored}
    ran = subject.run(
        ["python", "evaluation/generate.py", "--out", "made"],
        sources,
        [f"made/{name}" for name in stored],
        timeout=GENERATE_SECONDS,
        memory_gib=max(4.0, task.limits.memory_gib),
    )
    if ran.completed.exit_code != 0:
        return Verdict("", (f"generate.py failed: {ran.ending}",))
    made = {name.removeprefix("made/"): content for name, content in ran.files.items()}
    problems = [f"generate.py does not make {name}" for name in stored if name not in made]
    for name, content in made.items():
        problems += [
            f"{name}: {what} than generate.py makes it"
            for what in file_differences(name, stored[name], content)
        ]
    return Verdict(f"{counted(len(made), 'file')}, {time.monotonic() - started:.0f} s", tuple(problems))


def file_differences(name: str, stored: bytes, made: bytes) -> Iterator[str]:
    """In which way a stored file is other than one that was made again."""
    if stored == made:
        return
    if name.endswith((".npy", ".npz")):
        old, new = _arrays(stored), _arrays(made)
        if set(old) != set(new):
            yield f"has other keys ({', '.join(sorted(set(old) ^ set(new)))})"
        for key in sorted(set(old) & set(new)):
            if what := array_difference(old[key], new[key]):
                yield f"{key or 'the array'} {what}"
    elif name.endswith(".json"):
        if not _alike(json.loads(stored), json.loads(made)):
            yield "has other values"
    else:
        yield "has another text"


def array_difference(stored: NDArray[Any], made: NDArray[Any]) -> str:
    """In which way two arrays differ beyond what another machine explains; empty if not at all."""
    import numpy as np

    if stored.shape != made.shape or stored.dtype != made.dtype:
        return f"is {stored.dtype} {stored.shape} instead of {made.dtype} {made.shape}, other"
    if stored.dtype.kind in "fc":
        size = stored.dtype.itemsize // (2 if stored.dtype.kind == "c" else 1)
        scale = float(np.abs(made[np.isfinite(made)]).max(initial=0.0))
        error = np.abs(np.where(stored == made, 0, stored - made))
        worst = float(np.nan_to_num(error, nan=0.0 if _same_nans(stored, made) else np.inf).max(initial=0.0))
        within = worst <= _FLOAT_TOLERANCE.get(size, 1e-6) * scale
        return "" if within else f"is off by up to {worst / (scale or 1):.1e} of its largest value, other"
    share = float(np.mean(stored != made))
    return "" if share <= _INTEGER_SHARE else f"differs in {share:.1%} of its values, other"


def _same_nans(a: NDArray[Any], b: NDArray[Any]) -> bool:
    import numpy as np

    return bool(np.array_equal(np.isnan(a), np.isnan(b)))


def _arrays(content: bytes) -> dict[str, NDArray[Any]]:
    import numpy as np

    loaded = np.load(io.BytesIO(content), allow_pickle=False)
    if isinstance(loaded, np.ndarray):
        return {"": loaded}
    return {key: loaded[key] for key in loaded.files}


def _alike(a: Any, b: Any) -> bool:
    if isinstance(a, Mapping) and isinstance(b, Mapping):
        return a.keys() == b.keys() and all(_alike(a[key], b[key]) for key in a)
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(map(_alike, a, b))
    if isinstance(a, float) or isinstance(b, float):
        return bool(abs(a - b) <= 1e-6 * max(abs(a), abs(b), 1e-12))
    return bool(a == b)


def reference_run(subject: Subject) -> Verdict:
    """main.py meets the boundaries, writes the stored reconstruction, and is quick and small enough."""
    import numpy as np

    task = subject.task
    target = task.output.file
    files = subject.pipeline_files() | {"measure.py": _HERE / "measure.py"}
    ran = subject.run(["python", "measure.py", "main.py"], files, [target])
    if ran.completed.exit_code != 0 or target not in ran.files:
        return Verdict("", (f"main.py failed: {_last_words(ran)}",))
    took, seconds = _took(ran), _own_seconds(ran)
    limit = min(MOST_SECONDS, task.limits.command_seconds / 2)
    problems = []
    if seconds > limit:
        problems.append(f"main.py takes {seconds:.1f} s; it must take less than {limit:g} s")
    if took["mib"] > task.limits.memory_gib * 1024:
        problems.append(f"main.py takes {took['mib']:.0f} MiB; the limit is {task.limits.memory_gib:g} GiB")
    assessment = score_reconstruction(task, ran.files[target])
    if not assessment.passed:
        problems.append(f"main.py's reconstruction misses: {assessment.reason}")
    made = np.load(io.BytesIO(ran.files[target]), allow_pickle=False)
    stored = np.load(task.path("evaluation/reference_outputs/reconstruction.npy"), allow_pickle=False)
    error = (
        float(np.linalg.norm(made - stored) / np.linalg.norm(stored))
        if made.shape == stored.shape
        else np.inf
    )
    if not error <= _RECONSTRUCTION_TOLERANCE:
        problems.append(
            f"reference_outputs/reconstruction.npy is not what main.py writes (differs by {error:.1e})"
        )
    return Verdict(f"{seconds:.1f} s, {took['mib']:.0f} MiB", tuple(problems))


def stored_figures(subject: Subject) -> Verdict:
    """reference_outputs/metrics.json and the first baseline of metrics.json say what the reference scores."""
    import numpy as np

    task = subject.task
    outputs = task.path("evaluation/reference_outputs")
    answer, truth = (np.load(outputs / f"{name}.npy") for name in ("reconstruction", "ground_truth"))
    metrics = task.metrics()
    figures = compare(answer, truth, metrics, task.path("evaluation"))
    stored = json.loads((outputs / "metrics.json").read_text(encoding="utf-8"))
    baseline = next(iter(metrics.get("baseline") or [{}]))
    problems = [
        *_wrong_figures("reference_outputs/metrics.json", stored, figures, 1e-3),
        *_wrong_figures("the first baseline of metrics.json", baseline, figures, 2e-2),
    ]
    judged = [key.removesuffix("_boundary") for key in metrics if key.endswith("_boundary")]
    problems += [f"reference_outputs/metrics.json lacks {name}" for name in judged if name not in stored]
    return Verdict(
        ", ".join(f"{name} {figures[name]:.4g}" for name in judged if name in figures), tuple(problems)
    )


def _wrong_figures(
    where: str, said: Mapping[str, Any], true: Mapping[str, float], tolerance: float
) -> Iterator[str]:
    for name, value in said.items():
        if (
            name in true
            and isinstance(value, int | float)
            and abs(value - true[name]) > tolerance * abs(true[name])
        ):
            yield f"{where} says {name} {value:g}, the reference scores {true[name]:.4g}"


def notebook(subject: Subject) -> Verdict:
    """The notebook is stored without outputs and runs in under a minute."""
    task = subject.task
    name = f"notebooks/{task.name}.ipynb"
    cells = json.loads(task.text(name)).get("cells", [])
    code = [cell for cell in cells if cell.get("cell_type") == "code"]
    problems = []
    if any(cell.get("outputs") or cell.get("execution_count") for cell in code):
        problems.append(f"{name} is stored with outputs; clear them")
    if not code:
        return Verdict("", (*problems, f"{name} has no code"))
    scripts = {"execute_notebook.py": _HERE / "notebook.py", "measure.py": _HERE / "measure.py"}
    ran = subject.run(
        ["python", "measure.py", "execute_notebook.py", name, str(int(_NOTEBOOK_PATIENCE))],
        files_of(task.folder) | scripts,
        timeout=_NOTEBOOK_PATIENCE,
        extra=_NOTEBOOK_PACKAGES,
        memory_gib=max(4.0, task.limits.memory_gib),
    )
    if ran.completed.exit_code != 0:
        return Verdict(counted(len(code), "cell"), (*problems, f"{name} does not run: {_last_words(ran)}"))
    seconds = _own_seconds(ran)
    if seconds > NOTEBOOK_SECONDS:
        problems.append(f"{name} takes {seconds:.0f} s; it must take less than {NOTEBOOK_SECONDS:g} s")
    return Verdict(f"{counted(len(code), 'cell')}, {seconds:.0f} s", tuple(problems))


def _last_words(ran: Ran) -> str:
    """What a script said last; the last line is the measurement's, unless a limit ended it all."""
    lines = ran.completed.output.strip().splitlines()[:-1]
    return ran.completed.killed_by or (lines[-1] if lines else f"exit code {ran.completed.exit_code}")


def _took(ran: Ran) -> dict[str, float]:
    """What measure.py says in its last line."""
    took: dict[str, float] = json.loads(ran.completed.output.strip().splitlines()[-1])
    return took


def _own_seconds(ran: Ran) -> float:
    """Seconds that a script took itself: on a busy machine the clock runs on while it waits."""
    took = _took(ran)
    return min(took["seconds"], took["cpu"])
