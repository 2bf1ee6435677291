"""segmentio/kafka-go, a Go client of its own make, where the machine has Go."""

from __future__ import annotations

from pathlib import Path

import pytest

from kavka_compat.programs import build_go, insist_all_is_well

pytestmark = [pytest.mark.compat, pytest.mark.long, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def program() -> Path:
    """The compiled program."""
    return build_go(Path(__file__).parent / "kafka_go", "kafka-go")


@pytest.mark.parametrize("brokers", [1, 3])
def test_every_step_of_kafka_go_succeeds(program: Path, brokers: int, tmp_path: Path) -> None:
    insist_all_is_well([program], brokers, tmp_path)
