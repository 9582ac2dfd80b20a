"""What goes here: everything between the files of data/ and the quantity that the forward model predicts."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray


def load_scan(data_dir: str) -> dict[str, Any]:
    """`counts` (rows, columns) int32 and the imaging parameters, under the names that they have in data/."""
    folder = Path(data_dir)
    with np.load(folder / "raw_data.npz", allow_pickle=False) as stored:
        counts = stored["counts"]
    return {"counts": counts, **json.loads((folder / "meta_data.json").read_text(encoding="utf-8"))}


def counts_to_rate(counts: ArrayLike, exposure_s: float, dark_rate_per_s: float) -> NDArray[np.float64]:
    """Photon rate in photon/s, the shape of counts; negative where noise makes it so."""
    if exposure_s <= 0:
        raise ValueError(f"exposure_s is {exposure_s}; it must be positive")
    return np.asarray(counts, dtype=float) / exposure_s - dark_rate_per_s
