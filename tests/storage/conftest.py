"""The fixture of this folder: a log directory."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from support.storage_bench import LogBench


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[LogBench]:
    """A log directory of its own."""
    bench = LogBench(tmp_path / "data")
    yield bench
    bench.close()
