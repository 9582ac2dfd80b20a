"""Slugs are safe everywhere and keep different names apart."""

from __future__ import annotations

import re

import pytest

from pytest_imaging101.slugs import slug

NAMES = [
    "org/m:free",
    "org-m-free",
    "hf.co/a/b:Q3_K_M",
    "modèle",
    "模型",
    "a b",
    "..",
    "-",
    "x" * 300,
    "../../etc",
]


@pytest.mark.parametrize("name", NAMES)
def test_a_slug_is_short_ascii_and_no_path(name: str) -> None:
    assert re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,90}", slug(name))


def test_different_names_have_different_slugs() -> None:
    assert len({slug(name) for name in NAMES}) == len(NAMES)


def test_a_clean_name_is_kept() -> None:
    assert slug("gpt-4o_mini.2") == "gpt-4o_mini.2"
