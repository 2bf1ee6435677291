"""The machinery of this folder itself: brokers start, tools reach them."""

from __future__ import annotations

from pathlib import Path

import pytest

from kavka_compat.apache import ApacheKafka

pytestmark = pytest.mark.compat


@pytest.mark.parametrize("mode", ["kraft", "zookeeper"])
def test_kafka_39_starts_in_both_modes(mode: str, tmp_path: Path) -> None:
    kafka = ApacheKafka("3.9")
    with kafka.run_broker(tmp_path, mode) as broker:
        created = kafka.check(
            "kafka-topics", "--bootstrap-server", broker.bootstrap, "--create", "--topic", "t"
        )
        assert created.out == "Created topic t.\n"
        assert (broker.log_directory / "t-0").is_dir()
    assert not broker.process.alive()
