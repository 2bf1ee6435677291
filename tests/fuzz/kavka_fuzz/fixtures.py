"""The pytest fixture `target`: a broker in a process of its own, which is measured."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from kavka_fuzz.target import Target


@pytest.fixture
def target(tmp_path: Path) -> Iterator[Target]:
    """Run a broker, a real process, that is measured."""
    from kavka_fuzz.target import Target  # only here: it needs other people's clients

    running = Target(tmp_path)
    yield running
    running.end()
