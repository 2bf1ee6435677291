"""A broker behind injected faults, and settings for its clients."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from support.faulty_broker import FaultyBroker


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[FaultyBroker]:
    """A broker with the topic `t` of one partition."""
    made = FaultyBroker(tmp_path / "data")
    made.create("t")
    yield made
    made.close()


@pytest.fixture
def settings() -> dict[str, Any]:
    """Settings that lose no time."""
    return {
        "bootstrap.servers": "broker:9092",
        "retry.backoff.ms": 1,
        "retry.backoff.max.ms": 5,
        "reconnect.backoff.ms": 1,
        "reconnect.backoff.max.ms": 5,
    }
