"""kafkajs, a client for Node: codecs, groups, transactions and administration, where the machine has node and npm."""

from __future__ import annotations

from pathlib import Path

import pytest

from kavka_compat.programs import insist_all_is_well, install_node

pytestmark = [pytest.mark.compat, pytest.mark.long, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def program() -> list[str]:
    """The command of the installed program."""
    return install_node(Path(__file__).parent / "kafkajs", "kafkajs")


@pytest.mark.parametrize("brokers", [1, 3])
def test_every_step_of_kafkajs_succeeds(program: list[str], brokers: int, tmp_path: Path) -> None:
    insist_all_is_well(program, brokers, tmp_path)
