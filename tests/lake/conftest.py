"""A lake in a directory of its own."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.lake import Lake


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return Lake(tmp_path / "warehouse")
