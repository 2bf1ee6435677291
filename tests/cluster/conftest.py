"""The fixture of this folder: three brokers in this process."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.cluster import Run, run_in


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """Return what runs a story on three brokers; keyword arguments are settings with `__` for dots."""
    return run_in(tmp_path)
