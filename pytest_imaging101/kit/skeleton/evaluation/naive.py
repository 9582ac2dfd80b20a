"""What goes here: the obvious wrong or weak method, standing alone; here the picture as it was taken.

{{canary}}
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np


def main() -> None:
    meta = json.loads(Path("data/meta_data.json").read_text(encoding="utf-8"))
    with np.load("data/raw_data.npz", allow_pickle=False) as stored:
        rate = stored["counts"] / meta["exposure_s"] - meta["dark_rate_per_s"]
    shift = [round(-d / meta["pixel_mm"]) for d in meta["displacement_mm"]]
    Path("output").mkdir(exist_ok=True)
    np.save("output/reconstruction.npy", np.roll(rate, shift, axis=(0, 1)))


if __name__ == "__main__":
    main()
