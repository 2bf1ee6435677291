"""IBM Sarama, the Go client, with the protocol of a chosen release, where the machine has Go."""

from __future__ import annotations

from pathlib import Path

import pytest

from kavka_compat.programs import build_go, insist_all_is_well

pytestmark = [pytest.mark.compat, pytest.mark.long, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def program() -> Path:
    """The compiled program."""
    return build_go(Path(__file__).parent / "sarama", "sarama")


@pytest.mark.parametrize("brokers", [1, 3])
@pytest.mark.parametrize("version", ["0.11.0.0", "2.1.0", "newest"])
def test_every_step_of_sarama_succeeds(
    program: Path, version: str, brokers: int, tmp_path: Path
) -> None:
    insist_all_is_well([program], brokers, tmp_path, version)
