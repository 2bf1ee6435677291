"""The fixture of this folder; what it gives is in `storage_bench`."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from storage_bench import LogBench


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[LogBench]:
    """A log directory of its own."""
    bench = LogBench(tmp_path / "data")
    yield bench
    bench.close()
