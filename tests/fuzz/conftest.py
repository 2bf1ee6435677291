"""Lets tests import `kavka_fuzz`, and run it as a program."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from kavka_fuzz.target import Target


@pytest.fixture
def target(tmp_path: Path) -> Iterator[Target]:
    """Run a broker, a real process, that is measured."""
    running = Target(tmp_path)
    yield running
    running.end()
