"""Checks of the boundaries: the reference is inside by a clear margin, and every wrong answer clearly outside."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from pytest_imaging101.kit.drift import named_by_diagnosis
from pytest_imaging101.kit.finding import Verdict
from pytest_imaging101.kit.subject import Subject, arrays_of, as_npy
from pytest_imaging101.scoring.own_score import load_own_score
from pytest_imaging101.scoring.reconstruction import Boundary, boundaries, read_truth, score_reconstruction
from pytest_imaging101.task import Task

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from pytest_imaging101.outcome import Assessment

# The reference uses at most this share of what a boundary allows; a wrong answer exceeds it by this factor.
REFERENCE_ROOM = 0.95
WRONG_ROOM = 1.05
# An error boundary beyond this many times the reference's error, or a similarity below this share, is loose.
LOOSE_ERROR = 3.0
LOOSE_SIMILARITY = {"ncc": 0.9, "cncc": 0.9, "ssim": 0.9}
LOOSE_OTHER = 0.5
# A truth that differs less than this from its mirror image (relative to its own variation) is symmetric.
LEAST_ASYMMETRY = 0.1


def used_share(boundary: Boundary, figure: float) -> float:
    """How much of what a boundary allows a figure uses: above 1 it misses. Infinite for NaN."""
    if math.isnan(figure):
        return math.inf
    if boundary.direction == "max":
        return (
            figure / boundary.value if boundary.value > 0 else (1.0 if figure <= boundary.value else math.inf)
        )
    if boundary.value < 1 and figure <= 1:  # similarities: their distance from 1 is what matters
        return (1 - figure) / (1 - boundary.value)
    return boundary.value / figure if figure > 0 else math.inf


def reference_margins(subject: Subject) -> Verdict:
    """The reference passes every boundary by a clear margin, and no boundary is loose."""
    task = subject.task
    assessment = score_reconstruction(task, _stored_reference(task))
    problems = [] if assessment.passed else [f"the reference misses: {assessment.reason}"]
    shares = []
    for boundary in boundaries(task.metrics()):
        figure = assessment.scores[boundary.name]
        share = used_share(boundary, figure)
        shares.append((share, boundary.name))
        if REFERENCE_ROOM < share <= 1:
            problems.append(
                f"{boundary.name}: the reference ({figure:.4g}) passes too narrowly ({boundary.value:g})"
            )
        if _loose(boundary, figure):
            problems.append(
                f"{boundary.name}: the boundary {boundary.value:g} is loose, the reference reaches {figure:.4g}"
            )
    closest = max(shares)
    return Verdict(f"uses {closest[0]:.0%} of {closest[1]}'s limit", tuple(problems))


def _loose(boundary: Boundary, figure: float) -> bool:
    if boundary.direction == "max":
        return boundary.value > LOOSE_ERROR * figure
    return boundary.value < LOOSE_SIMILARITY.get(boundary.name, LOOSE_OTHER) * figure


def trivial_miss(subject: Subject) -> Verdict:
    """No answer passes that needs no inversion: constants, noise, profiles, blobs, the measurements resized."""
    from pytest_imaging101.kit.wrong import trivial_answers

    truth = read_truth(subject.task)
    return _all_miss(subject.task, trivial_answers(truth, _measured(subject.task)))


def misplaced_miss(subject: Subject) -> Verdict:
    """The truth flipped, transposed, shifted, scaled or negated misses, unless ``align`` says that it may not."""
    from pytest_imaging101.kit.wrong import drifted

    task, truth = subject.task, read_truth(subject.task)
    answers = [one for name in _drifts_that_must_miss(task) for one in drifted(truth, name)]
    return _all_miss(task, iter(answers))


def drifts_miss(subject: Subject) -> Verdict:
    """Every drift that metrics.json declares is a miss, and the diagnosis names it."""
    from pytest_imaging101.kit.wrong import KNOWN_DRIFTS, drifted

    task, truth = subject.task, read_truth(subject.task)
    declared = task.metrics().get("drift") or []
    problems = [
        f"metrics.json: drift {name!r} is unknown; known are {', '.join(KNOWN_DRIFTS)}"
        for name in declared
        if name not in KNOWN_DRIFTS
    ]
    named, count = 0, 0
    for name in (one for one in declared if one in KNOWN_DRIFTS):
        for label, answer in drifted(truth, name):
            count += 1
            submitted = as_npy(answer)
            if score_reconstruction(task, submitted).passed:
                problems.append(f"drift {name}: the truth {label} passes")
            elif named_by_diagnosis(task, submitted):
                named += 1
            else:
                problems.append(f"drift {name}: the diagnosis does not name the truth {label}")
    return Verdict(f"{count} drifts, {named} named", tuple(problems))


def phantom_asymmetric(subject: Subject) -> Verdict:
    """The truth differs clearly from each of its mirror images and from itself turned or transposed."""
    import numpy as np

    from pytest_imaging101.kit.wrong import drifted

    task = subject.task
    if _free_length(task):
        return Verdict("a list")
    truth = read_truth(task)
    variation = float(np.linalg.norm(truth - truth.mean()))
    images = [one for name in ("flip", "transpose", "rotation") for one in drifted(truth, name)]
    differences = [
        (float(np.linalg.norm(image - truth)) / variation if variation else 0.0, label)
        for label, image in images
    ]
    problems = tuple(
        f"the truth is symmetric: {label} it differs by {difference:.1%} of its variation only"
        for difference, label in differences
        if difference < LEAST_ASYMMETRY
    )
    least = min(differences, default=(math.inf, ""))
    return Verdict(f"{least[0]:.0%} {least[1]}", problems)


def naive_room(subject: Subject) -> Verdict:
    """naive.py's answer misses with room."""
    task = subject.task
    files = dict(task.visible("end2end", "L1")) | {"naive.py": task.path("evaluation/naive.py")}
    ran = subject.run(["python", "naive.py"], files, [task.output.file])
    answer = ran.files.get(task.output.file)
    if answer is None:
        return Verdict("", (f"naive.py leaves no {task.output.file}: {ran.ending}",))
    share, name = worst_miss(task, score_reconstruction(task, answer))
    problems = (
        ()
        if share >= WRONG_ROOM
        else (f"naive.py uses only {share:.0%} of what {name} allows; it must clearly miss",)
    )
    return Verdict(f"{share:.2g} x {name}'s limit", problems)


def _all_miss(task: Task, answers: Iterator[tuple[str, NDArray[Any]]]) -> Verdict:
    nearest: tuple[float, str, str] = (math.inf, "", "none")
    problems = []
    for label, answer in answers:
        share, name = worst_miss(task, score_reconstruction(task, as_npy(answer)))
        nearest = min(nearest, (share, name, label))
        if share <= 1:
            problems.append(f"the answer '{label}' passes; the boundaries are loose or the truth too plain")
        elif share < WRONG_ROOM:
            problems.append(
                f"the answer '{label}' misses too narrowly ({name}: {share:.0%} of what is allowed)"
            )
    factor = "inf" if math.isinf(nearest[0]) else f"{nearest[0]:.2g}"
    return Verdict(f"{nearest[2]}: {factor} x {nearest[1]}'s limit", tuple(problems))


def worst_miss(task: Task, assessment: Assessment) -> tuple[float, str]:
    """The boundary that an answer misses by most, and how far."""
    judged: Sequence[Boundary] = boundaries(task.metrics())
    if not assessment.scores:  # not comparable at all
        return math.inf, judged[0].name
    return max((used_share(b, assessment.scores[b.name]), b.name) for b in judged)


def _drifts_that_must_miss(task: Task) -> list[str]:
    metrics = task.metrics()
    if _free_length(task):
        return []
    allowed = {str(step).partition(":")[0] for step in metrics.get("align") or []}
    removed = {
        "scale": {"scale", "sign"},
        "flux": {"scale", "sign"},
        "shift": {"shift"},
        "magnitude": {"sign", "conjugate"},
        "global_phase": {"sign"},
    }
    dropped = {drift for step in allowed for drift in removed.get(step, set())}
    return [name for name in ("flip", "transpose", "shift", "scale", "sign") if name not in dropped]


def _free_length(task: Task) -> bool:
    """Whether answers are lists of any length, whose order has no meaning."""
    own = load_own_score(task.path("evaluation"))
    return own is not None and None in tuple(getattr(own, "SHAPE", ()))


def _measured(task: Task) -> dict[str, NDArray[Any]]:
    return {
        key or file.name: array
        for file in task.tree("data").values()
        if file.suffix in (".npy", ".npz")
        for key, array in arrays_of(file).items()
    }


def _stored_reference(task: Task) -> bytes:
    return task.path("evaluation/reference_outputs/reconstruction.npy").read_bytes()
