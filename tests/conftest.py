"""Fixtures that every test may use; they live in `tests/compat/kavka_compat/fixtures.py`."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent / "compat"))

pytest_plugins = ["kavka_compat.fixtures"]

_SLOW = ("compat", "spark", "simulation", "chaos")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Run slow tests last, so that a plain mistake shows in the first minute."""
    items.sort(key=lambda item: any(item.get_closest_marker(name) for name in _SLOW))
