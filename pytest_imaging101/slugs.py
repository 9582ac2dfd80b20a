"""Names of models and items as short ASCII text that is safe in file names, node ids and junit."""

from __future__ import annotations

import hashlib
import re

MAX_LENGTH = 80


def slug(text: str) -> str:
    """ASCII letters, digits, dot, hyphen and underscore; a short hash is added where something was lost.

    Equal texts give equal slugs and different texts different ones, so that ``org/m`` and ``org-m`` stay apart.
    """
    clean = re.sub(r"[^A-Za-z0-9._-]+", "-", text).strip("-.")[:MAX_LENGTH]
    if clean == text:
        return clean
    return f"{clean}-{hashlib.sha256(text.encode('utf-8', 'replace')).hexdigest()[:6]}".lstrip("-")
