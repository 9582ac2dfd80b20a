"""Each deliberate defect in a good task is refused, with a sentence that names it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pytest_imaging101.kit import (
    answers,
    documents,
    fixtures_quality,
    interfaces,
    layout,
    tests_quality,
    traps,
)
from pytest_imaging101.kit import reproduction as again
from pytest_imaging101.kit import visibility as sight
from pytest_imaging101.kit.finding import Verdict
from pytest_imaging101.kit.subject import Subject
from tests.kit.conftest import Looking
from tests.kit.spoiling import (
    RECONSTRUCTION,
    TRUTH,
    Spoil,
    appended,
    both,
    copied,
    removed,
    replaced,
    with_array,
    with_fixture,
    with_json,
)

Look = Callable[[Subject], Verdict]

FIXTURES, HIDDEN = "evaluation/fixtures", "evaluation/fixtures_hidden"
METRICS, META, TRAPS = "evaluation/metrics.json", "data/meta_data.json", "evaluation/traps.toml"
SOLVER_TESTS = "evaluation/tests/test_solvers.py"
NO_ASSERTION = "\n\ndef test_it_runs():\n    tikhonov_deconvolve(np.ones((3, 4)), np.ones((3, 4)), 1.0)\n"


def _same_shapes(folder: Path) -> None:
    for file in (folder / HIDDEN / "solvers").iterdir():
        seen = dict(np.load(folder / FIXTURES / "solvers" / file.name))
        np.savez_compressed(file, **{key: value * 2 for key, value in seen.items()})


def _linked(folder: Path) -> None:
    (folder / "data/more.npy").symlink_to(folder / TRUTH)


DEFECTS: dict[str, tuple[Spoil, Look, str]] = {
    # layout
    "a file is missing": (removed("plan/approach.md"), layout.layout, "plan/approach.md is missing"),
    "a stray folder": (lambda f: (f / "notes").mkdir(), layout.layout, "notes does not belong in a task"),
    "a link": (_linked, layout.layout, "data/more.npy is a link"),
    "src is a package": (appended("src/__init__.py", ""), layout.layout, "src/__init__.py must not exist"),
    "an array is a pickle": (
        with_array("data/extra.npy", lambda a: np.array([{"a": 1}], dtype=object)),
        layout.arrays,
        "data/extra.npy cannot be read without pickles",
    ),
    "a file is a pickle": (
        appended("data/extra.pkl", "x"),
        layout.arrays,
        "data/extra.pkl is neither text nor",
    ),
    "the truth is not finite": (
        with_array(TRUTH, lambda a: a * np.nan),
        layout.arrays,
        "ground_truth.npy holds values that are not finite",
    ),
    "too much data": (
        with_array("data/extra.npy", lambda a: np.random.default_rng(1).random(140_000)),
        layout.sizes,
        "data/ has 1.0",
    ),
    "a pinned version": (
        replaced("requirements.txt", "numpy>=1.26", "numpy==1.26.4"),
        layout.requirements,
        "'numpy==1.26.4' is no lower bound",
    ),
    "one more package in tier 1": (
        appended("requirements.txt", "torch>=2\n"),
        layout.requirements,
        "of a tier 1 task is exactly",
    ),
    "a private file without the canary": (
        replaced("evaluation/naive.py", "imaging101-canary-", "canary "),
        layout.canary,
        "evaluation/naive.py has no canary",
    ),
    "finished but for its explanations": (
        replaced("task.toml", "draft = true", ""),
        layout.finished,
        "README.md still has the skeleton's line",
    ),
    # documents
    "README forgets a unit": (
        replaced("README.md", "| int32 | photon | N |", "| int32 | | N |"),
        documents.readme_data,
        "does not say the unit of `counts`",
    ),
    "README forgets a key": (
        with_fixture("data/raw_data.npz", lambda a: a | {"flat_field": np.ones((64, 48))}),
        documents.readme_data,
        "does not name the key `flat_field`",
    ),
    "README forgets a parameter": (
        with_json(META, gain=2.0),
        documents.readme_data,
        "does not name the imaging parameter `gain`",
    ),
    "README states another boundary": (
        replaced("README.md", "<= 0.24", "<= 0.25"),
        documents.readme_boundaries,
        "does not state rel_l2's boundary 0.24",
    ),
    "a solver's setting in the meta data": (
        with_json(META, reconstruction={"n_iterations": 200}),
        documents.metadata,
        "'n_iterations' is a setting of a solver",
    ),
    "README gives the algorithm": (
        lambda f: appended("README.md", (f / "plan/approach.md").read_text())(f),
        documents.rubric,
        "README, used as a plan, already meets every item of inverse_solver",
    ),
    "the plan does not say how strong": (
        replaced(
            "plan/approach.md", "Choose lambda so that the residual has chi2 of about one per pixel.", ""
        ),
        documents.rubric,
        "does not meet strength (inverse_solver)",
    ),
    # interfaces
    "another signature": (
        replaced("plan/design.md", "def blur(image, transfer):", "def blur(transfer, image):"),
        interfaces.design,
        "physics_model.blur is (transfer, image) in design.md and (image, transfer) in src",
    ),
    "a function that is not stated": (
        appended("src/solvers.py", "\n\ndef wiener(x):\n    return x\n"),
        interfaces.design,
        "design.md does not state wiener",
    ),
    "a function that is not there": (
        replaced("src/physics_model.py", "def blur_adjoint(", "def _adjoint("),
        interfaces.design,
        "does not define blur_adjoint",
    ),
    "a class": (
        appended("src/solvers.py", "\n\nclass Solver:\n    pass\n"),
        interfaces.plain_modules,
        "public class Solver",
    ),
    "main.py looks at the truth": (
        appended("main.py", f"\nTRUTH = np.load('{TRUTH}')\n"),
        interfaces.plain_modules,
        "main.py speaks of evaluation/",
    ),
    # visibility
    "the truth's file in data/": (
        copied(TRUTH, "data/extra.npy"),
        sight.no_private_content,
        "data/extra.npy, which agents see, has the content of evaluation/reference_outputs/ground_truth.npy",
    ),
    "the truth in data/, turned and scaled": (
        with_array("data/extra.npz", lambda a: 3 * a.T[::-1] + 1),
        sight.no_truth_values,
        "data/extra.npz: image is, up to orientation, scale and offset, ground_truth.npy",
    ),
    "the truth in data/, reordered": (
        with_array("data/extra.npz", lambda a: np.sort(a.ravel())[:2500].astype(np.float32), RECONSTRUCTION),
        sight.no_truth_values,
        "data/extra.npz: image holds 81% of the values of reconstruction.npy",
    ),
    "the answer in a fixture": (
        with_array(f"{FIXTURES}/solvers/more.npz", lambda a: a, RECONSTRUCTION),
        sight.no_truth_values,
        "reconstruction.npy",
    ),
    "the truth in a name": (
        with_fixture("data/raw_data.npz", lambda a: a | {"phantom": np.ones(3)}),
        sight.no_telling_words,
        "the name 'phantom' speaks of truth",
    ),
    "the canary in a comment": (
        lambda f: appended("src/solvers.py", (f / TRAPS).read_text().splitlines()[0])(f),
        sight.no_telling_words,
        "src/solvers.py, which agents see, says 'imaging101-canary'",
    ),
    # tests
    "a test that asserts nothing": (
        appended(SOLVER_TESTS, NO_ASSERTION),
        tests_quality.every_test_asserts,
        "test_it_runs asserts nothing",
    ),
    "a function without a test": (
        appended("src/solvers.py", "\n\ndef wiener(x):\n    return x\n"),
        tests_quality.every_function_tested,
        "test_solvers.py never calls wiener",
    ),
    "a test that needs another module": (
        appended(SOLVER_TESTS, "\nfrom src.physics_model import blur\n"),
        tests_quality.tests_stay_within_design,
        "test_solvers.py imports src.physics_model",
    ),
    "a test of what nobody stated": (
        appended(
            "evaluation/tests/test_physics_model.py",
            "\nfrom src.physics_model import PADDING\nprint(PADDING)\n",
        ),
        tests_quality.tests_stay_within_design,
        "uses physics_model.PADDING, which design.md does not state",
    ),
    "a hidden fixture equal to the visible one": (
        copied(f"{FIXTURES}/physics_model/blur.npz", f"{HIDDEN}/physics_model/blur.npz"),
        fixtures_quality.hidden_fixtures,
        "physics_model/blur.npz: the hidden fixture equals the visible one",
    ),
    "a hidden fixture with other keys": (
        with_fixture(f"{HIDDEN}/physics_model/blur.npz", lambda a: a | {"more": np.ones(2)}),
        fixtures_quality.hidden_fixtures,
        "visible and hidden differ in keys (more)",
    ),
    "hidden fixtures of the same shapes": (
        _same_shapes,
        fixtures_quality.hidden_fixtures,
        "every hidden fixture of solvers has the shapes of the visible one",
    ),
    "a fixture that nobody reads": (
        copied(f"{FIXTURES}/solvers/tikhonov_deconvolve.npz", f"{FIXTURES}/solvers/forgotten.npz"),
        fixtures_quality.fixtures_read,
        "never reads the fixture forgotten.npz",
    ),
    # answers
    "a symmetric phantom": (
        with_array(TRUTH, lambda a: a + a[:, ::-1]),
        answers.phantom_asymmetric,
        "the truth is symmetric: flipped along axis 1",
    ),
    "a loose boundary": (
        with_json(METRICS, rel_l2_boundary=0.9),
        answers.reference_margins,
        "rel_l2: the boundary 0.9 is loose",
    ),
    "a boundary that the reference hardly meets": (
        with_json(METRICS, rel_l2_boundary=0.215),
        answers.reference_margins,
        "rel_l2: the reference (0.2132) passes too narrowly (0.215)",
    ),
    "boundaries that a constant meets": (
        with_json(METRICS, ncc_boundary=0.3, cncc_boundary=None, nrmse_boundary=None, rel_l2_boundary=None),
        answers.trivial_miss,
        "the answer 'constant' passes",
    ),
    "boundaries that do not see the scale": (
        with_json(METRICS, nrmse_boundary=None, rel_l2_boundary=None),
        answers.misplaced_miss,
        "the answer 'times 2' passes",
    ),
    "a declared drift that is aligned away": (
        with_json(METRICS, align=["scale"], nrmse_boundary=None, rel_l2_boundary=None),
        answers.drifts_miss,
        "drift scale: the truth times 2 passes",
    ),
    "stored figures of another day": (
        with_json("evaluation/reference_outputs/metrics.json", rel_l2=0.15),
        again.stored_figures,
        "reference_outputs/metrics.json says rel_l2 0.15, the reference scores 0.2132",
    ),
    # traps
    "a trap whose edit does not apply": (
        replaced(TRAPS, 'find = "np.exp(-2j * np.pi * phase)"', 'find = "np.exp(-2j * pi * phase)"'),
        traps.traps_file,
        "trap displacement_sign: 'np.exp(-2j * pi * phase)' stands 0 times",
    ),
    "a trap whose edit applies twice": (
        replaced(TRAPS, 'find = "np.exp(-2j * np.pi * phase)"', 'find = "np.pi"'),
        traps.traps_file,
        "trap displacement_sign: 'np.pi' stands",
    ),
    "too few traps": (
        lambda f: (f / TRAPS).write_text("".join((f / TRAPS).read_text().partition("[[trap]]")[0:1])),
        traps.traps_file,
        "has 0 traps; a task has at least 4",
    ),
}


@pytest.mark.parametrize("defect", DEFECTS)
def test_a_defect_is_refused_by_a_sentence_that_names_it(defect: str, demo: Path, looking: Looking) -> None:
    spoil, look, said = DEFECTS[defect]
    assert look(looking.at(demo)).problems == ()
    spoil(demo)
    problems = look(looking.at(demo)).problems
    assert [problem for problem in problems if said in problem], problems


def _noticed(subject: Subject) -> Verdict:
    trap = next(trap for trap in traps.read_traps(subject.task) if trap.id == "displacement_sign")
    return traps.trap_noticed(subject, trap)


def _solver_values(subject: Subject) -> Verdict:
    return tests_quality.wrong_values_noticed(subject, "solvers")


SHAPE_ALONE = '''"""Tests that look at the shape alone."""

import numpy as np
import pytest

from src.solvers import tikhonov_deconvolve


def test_tikhonov_deconvolve():
    assert tikhonov_deconvolve(np.ones((3, 4)), np.ones((3, 4)), 1.0).shape == (3, 4)
'''

RUN_DEFECTS: dict[str, tuple[Spoil, Look, str]] = {
    "a trap that nobody notices": (
        replaced(TRAPS, 'replace = "np.exp(2j * np.pi * phase)"', 'replace = "np.exp(-2j * np.pi * phase) "'),
        _noticed,
        "trap displacement_sign: no unit test notices it",
    ),
    "tests that only look at the shape": (
        lambda f: (f / SOLVER_TESTS).write_text(SHAPE_ALONE),
        _solver_values,
        "test_solvers.py passes when tikhonov_deconvolve returns its first array",
    ),
    "data that cannot be made again": (
        replaced("evaluation/generate.py", "default_rng(SEED)", "default_rng(SEED + 1)"),
        again.generated,
        "data/raw_data.npz: counts differs in",
    ),
    "a naive method that passes": (
        lambda f: (f / "evaluation/naive.py").write_text(_standing_alone(f)),
        answers.naive_room,
        "it must clearly miss",
    ),
    "a reconstruction of another day": (
        with_array(RECONSTRUCTION, lambda a: 1.01 * a, RECONSTRUCTION),
        again.reference_run,
        "reconstruction.npy is not what main.py writes",
    ),
    "a reference that does not end": (
        both(
            replaced("main.py", "    OUTPUT.mkdir(", "    while True:\n        pass\n    OUTPUT.mkdir("),
            replaced("task.toml", "command_seconds = 60", "command_seconds = 2"),
        ),
        again.reference_run,
        "main.py failed: timeout",
    ),
    "a notebook that does not run": (
        replaced("notebooks/demo.ipynb", "load_scan(str(task", "load_scam(str(task"),
        again.notebook,
        "notebooks/demo.ipynb does not run: NameError",
    ),
    "a notebook stored with outputs": (
        replaced("notebooks/demo.ipynb", '"execution_count": null', '"execution_count": 1'),
        again.notebook,
        "is stored with outputs",
    ),
}


def _standing_alone(folder: Path) -> str:
    """The reference pipeline as one file."""
    parts = [
        (folder / f"src/{name}.py").read_text() for name in ("preprocessing", "physics_model", "solvers")
    ]
    main = (folder / "main.py").read_text().replace("    show_images(", "    (lambda *a: None)(")
    lines = [line for part in (*parts, main) for line in part.splitlines()]
    kept = [line for line in lines if not line.startswith(("from src", "from __future__"))]
    return "from __future__ import annotations\n" + "\n".join(kept) + "\n"


@pytest.mark.parametrize("defect", RUN_DEFECTS)
def test_a_defect_that_shows_when_it_runs_is_refused(defect: str, demo: Path, looking: Looking) -> None:
    spoil, look, said = RUN_DEFECTS[defect]
    spoil(demo)
    problems: tuple[Any, ...] = look(looking.at(demo)).problems
    assert [problem for problem in problems if said in problem], problems


def test_a_reference_that_takes_too_long_is_refused(
    demo: Path, looking: Looking, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(again, "MOST_SECONDS", 0.01)
    (problem,) = again.reference_run(looking.at(demo)).problems
    assert "it must take less than 0.01 s" in problem
