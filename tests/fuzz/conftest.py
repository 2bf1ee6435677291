"""A broker in a process of its own, which is measured."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from kavka_fuzz.target import Target


@pytest.fixture
def target(tmp_path: Path) -> Iterator[Target]:
    """Run a broker, a real process, that is measured."""
    running = Target(tmp_path)
    yield running
    running.end()
