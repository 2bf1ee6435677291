"""Three brokers in this process; kafka-python, whose import gives a deprecation warning on this Python."""

from __future__ import annotations

import importlib
import warnings
from pathlib import Path

import pytest

from support.cluster import Run, run_in

with warnings.catch_warnings():
    # kafka-python reads its schemas in a way that Python 3.11 deprecates.
    warnings.simplefilter("ignore", DeprecationWarning)
    for name in (
        "kafka.partitioner.default",
        "kafka.coordinator.assignors.sticky.sticky_assignor",
        "kafka.protocol.consumer.group",
        "kafka.protocol.consumer.metadata",
    ):
        importlib.import_module(name)


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """Return what runs a story on three brokers; keyword arguments are settings with `__` for dots."""
    return run_in(tmp_path)
