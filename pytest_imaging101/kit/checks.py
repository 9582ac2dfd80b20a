"""Every check that a task must pass to be accepted, in the order in which a table shows them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

from pytest_imaging101.faults import TaskFault
from pytest_imaging101.kit import (
    answers,
    documents,
    fixtures_quality,
    grading,
    interfaces,
    layout,
    reproduction,
    tests_quality,
    traps,
    visibility,
)
from pytest_imaging101.kit.finding import Unit, Verdict
from pytest_imaging101.kit.subject import Subject
from pytest_imaging101.task import Task

Look = Callable[[Subject], Verdict]

# Without these nothing else can be looked at.
FIRST: tuple[tuple[str, str, Look], ...] = (
    ("layout", "layout", layout.layout),
    ("arrays", "layout", layout.arrays),
)
QUICK: tuple[tuple[str, str, Look], ...] = (
    ("sizes", "layout", layout.sizes),
    ("requirements", "layout", layout.requirements),
    ("canary", "layout", layout.canary),
    ("finished", "layout", layout.finished),
    ("readme_data", "documents", documents.readme_data),
    ("readme_boundaries", "documents", documents.readme_boundaries),
    ("metadata", "documents", documents.metadata),
    ("rubric", "documents", documents.rubric),
    ("design", "interfaces", interfaces.design),
    ("plain_modules", "interfaces", interfaces.plain_modules),
    ("no_private_content", "visibility", visibility.no_private_content),
    ("no_truth_values", "visibility", visibility.no_truth_values),
    ("no_telling_words", "visibility", visibility.no_telling_words),
    ("tests_stay_within_design", "tests", tests_quality.tests_stay_within_design),
    ("every_function_tested", "tests", tests_quality.every_function_tested),
    ("every_test_asserts", "tests", tests_quality.every_test_asserts),
    ("hidden_fixtures", "tests", fixtures_quality.hidden_fixtures),
    ("fixtures_read", "tests", fixtures_quality.fixtures_read),
    ("traps_file", "traps", traps.traps_file),
    ("stored_figures", "answers", reproduction.stored_figures),
    ("reference_margins", "answers", answers.reference_margins),
    ("phantom_asymmetric", "answers", answers.phantom_asymmetric),
    ("trivial_miss", "answers", answers.trivial_miss),
    ("misplaced_miss", "answers", answers.misplaced_miss),
    ("drifts_miss", "answers", answers.drifts_miss),
)
# These run the task's own code in sandboxes.
RUNS: tuple[tuple[str, str, Look], ...] = (
    ("reference_run", "reproduction", reproduction.reference_run),
    ("generated", "reproduction", reproduction.generated),
    ("notebook", "reproduction", reproduction.notebook),
    ("naive_room", "answers", answers.naive_room),
)


def first_units() -> list[Unit]:
    """The checks without which no other makes sense."""
    return [Unit(*entry) for entry in FIRST]


def other_units(task: Task) -> list[Unit]:
    """Everything else; one unit for each built-in model, module and trap."""
    units = [Unit(*entry) for entry in (*QUICK, *RUNS)]
    units += [
        Unit(f"exam_{model}", "exams", partial(grading.exam, model=model)) for model in grading.EXPECTED
    ]
    units += [
        Unit(f"wrong_values_noticed[{m}]", "tests", partial(tests_quality.wrong_values_noticed, module=m))
        for m in task.modules
    ]
    return [*units, *_trap_units(task)]


def _trap_units(task: Task) -> Iterator[Unit]:
    try:
        found = traps.read_traps(task)
    except TaskFault:  # the check of the file says it
        return
    for trap in found:
        yield Unit(f"trap[{trap.id}]", "traps", partial(traps.trap_noticed, trap=trap))
