"""A task's own ``score.py``: trusted code of the task that adds figures to the built-in ones."""

from __future__ import annotations

import importlib.util
import json
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_imaging101.faults import Fault, GraderFault, TaskFault
from pytest_imaging101.scoring.arrays import NotComparable

if TYPE_CHECKING:
    from numpy.typing import NDArray


def load_own_score(folder: Path) -> Any | None:
    """The task's ``score.py`` as a module, or None where there is none. Raises TaskFault if it is broken."""
    path = folder / "score.py"
    if not path.is_file():
        return None
    spec = importlib.util.spec_from_file_location(f"imaging101_score_{folder.parent.name}", path)
    if spec is None or spec.loader is None:
        raise TaskFault("score.py cannot be loaded")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # where dataclasses look their own module up
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        raise TaskFault(
            f"score.py cannot be imported ({error!r})", evidence=traceback.format_exc()
        ) from error
    if not callable(getattr(module, "score", None)):
        raise TaskFault("score.py has no function score(reconstruction, reference, meta)")
    return module


def call_own_score(
    own: Any, reconstruction: NDArray[Any], reference: NDArray[Any], folder: Path
) -> dict[str, float]:
    """The figures that ``score(reconstruction, reference, meta)`` returns.

    Raises NotComparable for its ValueError (this array, though finite and of the right shape, cannot be compared),
    GraderFault for everything else that goes wrong in it.
    """
    score: Callable[..., Any] = own.score
    meta = _meta(folder.parent / "data" / "meta_data.json")
    try:
        returned = score(reconstruction.copy(), reference.copy(), meta)
    except ValueError as error:
        raise NotComparable(f"score.py: {error}") from error
    except Fault:
        raise
    except Exception as error:
        raise GraderFault(f"score.py failed ({error!r})", evidence=traceback.format_exc()) from error
    try:
        return {str(name): float(value) for name, value in returned.items()}
    except (AttributeError, TypeError, ValueError) as error:
        raise GraderFault(f"score.py returned {returned!r:.200}; it must return names and numbers") from error


def _meta(path: Path) -> dict[str, Any]:
    if not path.is_file():
        return {}
    try:
        loaded = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise TaskFault(f"data/meta_data.json cannot be read ({error})") from error
    return loaded if isinstance(loaded, dict) else {}
