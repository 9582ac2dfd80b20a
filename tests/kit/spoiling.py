"""Ways to spoil a good task, each a defect that somebody would make."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
Spoil = Callable[[Path], object]

TRUTH = "evaluation/reference_outputs/ground_truth.npy"
RECONSTRUCTION = "evaluation/reference_outputs/reconstruction.npy"


def replaced(name: str, old: str, new: str) -> Spoil:
    """Replace a text that stands in a file; it must stand there."""

    def spoil(folder: Path) -> None:
        text = (folder / name).read_text(encoding="utf-8")
        assert old in text, (name, old)
        (folder / name).write_text(text.replace(old, new), encoding="utf-8")

    return spoil


def appended(name: str, text: str) -> Spoil:
    """Add a text at a file's end, making the file if it is not there."""

    def spoil(folder: Path) -> None:
        old = (folder / name).read_text(encoding="utf-8") if (folder / name).exists() else ""
        (folder / name).write_text(old + text, encoding="utf-8")

    return spoil


def removed(name: str) -> Spoil:
    return lambda folder: (folder / name).unlink()


def with_json(name: str, **changes: Any) -> Spoil:
    """Set keys of a JSON file; None removes one."""

    def spoil(folder: Path) -> None:
        content = json.loads((folder / name).read_text(encoding="utf-8")) | changes
        kept = {key: value for key, value in content.items() if value is not None}
        (folder / name).write_text(json.dumps(kept), encoding="utf-8")

    return spoil


def with_array(name: str, make: Callable[[Array], Array], source: str = TRUTH) -> Spoil:
    """Save an array made from another one, under a file's name."""

    def spoil(folder: Path) -> None:
        array = make(np.load(folder / source))
        if name.endswith(".npz"):
            np.savez_compressed(folder / name, image=array)
        else:
            np.save(folder / name, array)

    return spoil


def with_fixture(name: str, change: Callable[[dict[str, Array]], dict[str, Array]]) -> Spoil:
    """Change the arrays of an npz file."""

    def spoil(folder: Path) -> None:
        with np.load(folder / name) as stored:
            arrays = {key: stored[key] for key in stored.files}
        np.savez_compressed(folder / name, **change(arrays))

    return spoil


def copied(source: str, target: str) -> Spoil:
    return lambda folder: (folder / target).write_bytes((folder / source).read_bytes())


def both(*spoils: Spoil) -> Spoil:
    return lambda folder: [spoil(folder) for spoil in spoils]
