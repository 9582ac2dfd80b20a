"""Imaging-101 as a pytest plugin: every (task, mechanism, level) is one pytest item."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pytest

__version__ = "0.1.0"


def pytest_addoption(pluginmanager: pytest.PytestPluginManager) -> None:
    """Make ``-p pytest_imaging101`` mean the same as ``-p imaging101``, the entry point's name."""
    pluginmanager.load_setuptools_entrypoints("pytest11", name="imaging101")
