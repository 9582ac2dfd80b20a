"""Which grader gave a verdict: a hash of everything that grades."""

from __future__ import annotations

import hashlib
from functools import cache
from pathlib import Path


@cache
def grader_version() -> str:
    """Twelve hexadecimal digits over every file of this package's ``scoring`` folder."""
    folder = Path(__file__).parent
    digest = hashlib.sha256()
    for file in sorted(folder.rglob("*")):
        if file.suffix in (".py", ".md"):
            digest.update(file.relative_to(folder).as_posix().encode() + b"\0" + file.read_bytes())
    return digest.hexdigest()[:12]
