"""How well the convention-drift diagnosis does on every task: what it names right, what it takes for a drift wrongly.

Usage: ``python benchmarks/drift.py [--task NAME ...] [--no-traps] [--json FILE]``. Goals: at least 90 % of the drifts
named right, no false alarm over noise, blur and wrong solvers, under a second for an image of 256 x 256.

Each drift that a task's ``metrics.json`` declares is applied to the reference's reconstruction; each trap of
``traps.toml`` is applied to a copy of the reference's sources, whose pipeline is run. Traps without a ``drift`` are
wrong solvers: what is named there is listed apart, for a human to decide whether the trap or the diagnosis is right.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import ndimage

from pytest_imaging101.outcome import Drift
from pytest_imaging101.scoring.arrays import NotComparable
from pytest_imaging101.scoring.drift import diagnose_reconstruction
from pytest_imaging101.scoring.reconstruction import boundaries, compare, read_truth
from pytest_imaging101.task import Task

Array = NDArray[Any]

TASKS = Path(__file__).parents[1] / "tasks"
RUN_SECONDS = 600


@dataclass(frozen=True)
class Result:
    """One array that was diagnosed; ``wanted`` is empty where nothing should be named."""

    task: str
    kind: str
    what: str
    wanted: str
    named: str
    sentence: str
    seconds: float

    @property
    def right(self) -> bool:
        return matches(self.wanted, self.named, self.sentence) if self.wanted else not self.named


def matches(wanted: str, named: str, sentence: str) -> bool:
    """Whether a diagnosis is the drift that a task names: ``flip``, ``scale 2pi``."""
    kind, _, value = wanted.partition(" ")
    kinds = {"rotation", "transpose"} if kind == "rotate" else {kind}
    return bool(kinds & set(named.split("+"))) and value.replace("pi", "π") in sentence


def drifts(name: str, array: Array) -> Iterator[tuple[str, Array]]:
    """An array with one declared drift, in its variants; what has no variants here raises KeyError."""
    axes = [axis for axis, length in enumerate(array.shape) if length > 1]
    # Of a table of different quantities only the axis along them can be turned.
    if array.shape[0] <= 4:
        axes = axes[1:] or axes
    variants: dict[str, Callable[[], Iterator[tuple[str, Array]]]] = {
        "flip": lambda: ((f"axis {axis}", np.flip(array, axis)) for axis in axes),
        "transpose": lambda: iter([("", np.swapaxes(array, axes[-2], axes[-1]))]),
        "rotation": lambda: ((f"{90 * k}", np.rot90(array, k, tuple(axes[-2:]))) for k in (1, 3)),
        "sign": lambda: iter([("", -array)]),
        "scale": lambda: ((f"{factor:g}", factor * array) for factor in scales(array)),
        "conjugate": lambda: iter([("", array.conj())]),
        "fftshift": lambda: iter([("", np.fft.fftshift(array, axes))]),
        "shift": lambda: (
            (f"{size:+g} px, axis {axis}", moved(array, size, axis)) for size in (-1, 0.5, 1) for axis in axes
        ),
        "square": lambda: iter([("", np.abs(array) ** 2)]),
        "root": lambda: iter([("", np.sqrt(np.abs(array)))]),
        "reciprocal": lambda: iter([("", 1 / array)]),
        "log": lambda: iter([("", np.log(array))]),
        "exp": lambda: iter([("", np.exp(array))]),
        "offset": lambda: iter([("mean", array - array.mean())]),
        "phase": lambda: iter([("i", 1j * array)]),
        "magnitude": lambda: iter([("", np.abs(array))]),
    }
    yield from variants[name]()


def scales(array: Array) -> list[float]:
    return [
        2 * np.pi,
        1 / np.pi,
        np.pi / 180,
        1e-3,
        1e6,
        2.0,
        float(np.sqrt(array.shape[-1])),
        1 / array.size,
    ]


def moved(array: Array, pixels: float, axis: int) -> Array:
    shift = [pixels if k == axis else 0 for k in range(array.ndim)]
    if np.iscomplexobj(array):
        return moved(array.real, pixels, axis) + 1j * moved(array.imag, pixels, axis)
    return np.asarray(ndimage.shift(array, shift, order=1, mode="nearest"))


def mutants(truth: Array, reference: Array) -> Iterator[tuple[str, Array]]:
    """Wrong answers that no change of convention mends."""
    rng = np.random.default_rng(101)
    spread = float(truth.std())
    sigmas = (0, *(1,) * (truth.ndim - 1)) if truth.shape[0] <= 4 and truth.ndim > 1 else (1,) * truth.ndim
    for share in (0.03, 0.1, 0.2, 0.5, 1.0, 3.0):
        noise = rng.normal(size=truth.shape) + (
            1j * rng.normal(size=truth.shape) if np.iscomplexobj(truth) else 0
        )
        yield f"noise {share:g}", reference + share * spread * noise
        yield f"speckle {share:g}", reference * (1 + share * noise)
    for width in (0.5, 0.8, 1.2, 2.0, 4.0):
        smooth = parts(truth, lambda part, w=width: ndimage.gaussian_filter(part, [w * s for s in sigmas]))
        yield f"blur {width:g}", smooth
        yield (
            f"blur {width:g} of the reference",
            parts(reference, lambda part, w=width: ndimage.gaussian_filter(part, [w * s for s in sigmas])),
        )
        yield f"blur {width:g} and noise", smooth + 0.05 * spread * rng.normal(size=truth.shape)
    yield "median", parts(reference, lambda part: ndimage.median_filter(part, [1 + 4 * s for s in sigmas]))
    yield "one-sided blur", parts(truth, lambda part: ndimage.uniform_filter1d(part, 5, origin=2))
    yield (
        "edges",
        parts(reference, lambda part: part - ndimage.gaussian_filter(part, [3 * s for s in sigmas])),
    )
    size = np.abs(reference)
    phase = reference / np.where(size > 0, size, 1)
    yield "compressed contrast", phase * size**0.7 * size.max() ** 0.3
    yield "thresholded", phase * np.maximum(size - 0.2 * size.max(), 0)
    yield "clipped", phase * np.minimum(size, 0.6 * size.max())
    yield "quantised", phase * np.round(size / size.max() * 4) / 4 * size.max()
    ramp = np.linspace(0.5, 1.5, truth.shape[-1])
    yield "shading", reference * ramp
    yield "tilt", reference + spread * (ramp - 1) * 2
    yield "half missing", reference * (ramp > 1)
    yield "zeros", np.zeros_like(truth)
    yield "constant", np.full_like(truth, truth.mean())
    yield "mean profile", np.broadcast_to(truth.mean(axis=-1, keepdims=True), truth.shape) + 0 * truth
    yield "noise alone", spread * rng.normal(size=truth.shape) + truth.mean()


def parts(array: Array, change: Callable[[Array], Array]) -> Array:
    """A real operation on a real array, or on both parts of a complex one."""
    return change(array.real) + 1j * change(array.imag) if np.iscomplexobj(array) else change(array)


def misses(task: Task, array: Array, truth: Array) -> bool:
    """Whether an array misses the task's boundaries."""
    metrics = task.metrics()
    if array.shape != truth.shape or np.iscomplexobj(array) != np.iscomplexobj(truth):
        return True
    try:
        figures = compare(array, truth, metrics, task.path("evaluation"))
    except NotComparable:
        return True
    return not all(one.met(figures[one.name]) for one in boundaries(metrics))


def diagnosed(task: Task, kind: str, what: str, wanted: str, array: Array) -> Result:
    array = np.ascontiguousarray(array)
    started = time.process_time()
    found: Drift | None = diagnose_reconstruction(task, array) if np.isfinite(array).all() else None
    seconds = time.process_time() - started
    return Result(
        task.name, kind, what, wanted, found.name if found else "", found.sentence if found else "", seconds
    )


def examine_arrays(task: Task) -> Iterator[Result]:
    truth = read_truth(task)
    reference = np.load(task.path("evaluation/reference_outputs/reconstruction.npy"))
    for name in task.metrics().get("drift") or ():
        for variant, array in drifts(name, reference):
            if misses(task, array, truth):
                yield diagnosed(task, "drift", f"{name} {variant}".strip(), name, array)
    for what, array in mutants(truth, reference):
        if misses(task, array, truth):
            yield diagnosed(task, "mutant", what, "", array)


def examine_runs(task: Task) -> Iterator[Result]:
    """The naive method and every trap, each run in a folder of its own."""
    truth = read_truth(task)
    naive = run(task, "evaluation/naive.py", {})
    if naive is not None and misses(task, naive, truth):
        yield diagnosed(task, "mutant", "naive method", "", naive)
    for trap in tomllib.loads(task.text("evaluation/traps.toml"))["trap"]:
        edited: dict[str, str] = {}
        for edit in trap["edits"]:
            text = edited.get(edit["file"]) or task.text(edit["file"])
            edited[edit["file"]] = text.replace(edit["find"], edit["replace"])
        array = run(task, "main.py", edited)
        wanted = trap.get("drift", "")
        if array is not None and misses(task, array, truth):
            yield diagnosed(task, "trap" if wanted else "other trap", trap["id"], wanted, array)


def run(task: Task, script: str, edited: dict[str, str]) -> Array | None:
    """What a script of the task leaves as its reconstruction; None where it leaves nothing."""
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch) / task.name
        ignored = shutil.ignore_patterns("evaluation", "notebooks", "__pycache__")
        shutil.copytree(task.folder, folder, ignore=ignored)
        if script.startswith("evaluation/"):
            shutil.copy(task.path(script), folder / "naive.py")
            script = "naive.py"
        else:  # the reference compares itself with the truth
            shutil.copytree(task.path("evaluation"), folder / "evaluation")
        for name, text in edited.items():
            (folder / name).write_text(text, encoding="utf-8")
        done = subprocess.run(
            [sys.executable, "-B", script], cwd=folder, timeout=RUN_SECONDS, capture_output=True, check=False
        )
        output = folder / task.output.file
        if not output.is_file() or done.returncode:
            return None
        array = np.load(output, allow_pickle=False)
    return array if np.isfinite(array).all() else None


def report(results: list[Result]) -> bool:
    """Print what was found; whether the goals are met."""
    wanted = [one for one in results if one.wanted]
    right = [one for one in wanted if one.right]
    alarms = [one for one in results if one.kind == "mutant" and not one.right]
    print(f"{'task':24} {'drifts named':>13} {'traps named':>12} {'mutants':>8} {'alarms':>7} {'longest':>8}")
    for task in sorted({one.task for one in results}):
        mine = [one for one in results if one.task == task]
        cells = [
            f"{sum(one.right for one in mine if one.kind == kind)}/{sum(one.kind == kind for one in mine)}"
            for kind in ("drift", "trap")
        ]
        mutants_here = [one for one in mine if one.kind == "mutant"]
        print(
            f"{task:24} {cells[0]:>13} {cells[1]:>12} {len(mutants_here):>8} "
            f"{sum(not one.right for one in mutants_here):>7} {max(one.seconds for one in mine):>7.2f}s"
        )
    undeclared = [one for one in results if one.kind == "other trap" and one.named]
    for title, chosen in (
        ("not named, or named wrongly", [one for one in wanted if not one.right]),
        ("false alarms", alarms),
        ("traps that declare no drift and have one", undeclared),
    ):
        print(f"\n{title}: {len(chosen)}")
        for one in chosen:
            aim = f" (wanted {one.wanted})" if one.wanted else ""
            print(f"  {one.task}: {one.what}{aim}: {one.sentence or 'nothing'}")
    share = len(right) / len(wanted) if wanted else 1.0
    print(f"\nnamed right: {len(right)} of {len(wanted)}, {100 * share:.0f} % (goal 90 %)")
    print(f"false alarms: {len(alarms)} of {sum(one.kind == 'mutant' for one in results)} (goal 0)")
    print(f"slowest diagnosis {max((one.seconds for one in results), default=0.0):.2f} s")
    print(f"an image of 256 x 256 with nothing to find: {big_image_seconds():.2f} s")
    return share >= 0.9 and not alarms


def big_image_seconds() -> float:
    """The search alone on an image in which no change helps, which is where it looks longest."""
    from pytest_imaging101.scoring.grader.case import Case
    from pytest_imaging101.scoring.grader.conventions import search

    rng = np.random.default_rng(1)
    truth = ndimage.gaussian_filter(rng.normal(size=(256, 256)), 2)
    started = time.process_time()
    search(Case(truth, truth + truth.std() * rng.normal(size=truth.shape)))
    return time.process_time() - started


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--task", action="append", help="only this task; may be given again")
    parser.add_argument("--no-traps", action="store_true", help="only what needs no run of a pipeline")
    parser.add_argument("--json", type=Path, help="write every single result to this file")
    given = parser.parse_args()
    folders = [TASKS / name for name in given.task] if given.task else sorted(TASKS.iterdir())
    results: list[Result] = []
    for folder in folders:
        if not (folder / "task.toml").is_file():
            continue
        task = Task.read(folder)
        results += examine_arrays(task)
        if not given.no_traps:
            results += examine_runs(task)
    if given.json:
        given.json.write_text(json.dumps([asdict(one) for one in results], indent=1), encoding="utf-8")
    return 0 if report(results) else 1


if __name__ == "__main__":
    raise SystemExit(main())
