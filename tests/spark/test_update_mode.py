"""Output mode update, exactly once, by the example of the Spark page: killed before and after a batch is written."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from confluent_kafka import Producer

from kavka_compat.ours import run_kavka
from support.spark.killing import committed
from support.spark.topic_filling import make_topic

pytestmark = [pytest.mark.spark, pytest.mark.compat, pytest.mark.timeout(300)]

BATCHES = 5


def run(
    bootstrap: str, directory: Path, moment: str, number: int
) -> subprocess.CompletedProcess[str]:
    job = [sys.executable, str(Path(__file__).with_name("update_mode_job.py")), bootstrap]
    return subprocess.run(
        [*job, str(directory), moment, str(number)],
        capture_output=True,
        text=True,
        check=False,
        start_new_session=True,
    )


@pytest.mark.parametrize("moment", ["before", pytest.param("after", marks=pytest.mark.long)])
def test_each_update_is_there_once_when_the_job_is_killed(tmp_path: Path, moment: str) -> None:
    with run_kavka(tmp_path / "broker", {}) as broker:
        make_topic(broker, "in", 2)
        make_topic(broker, "counts", 1)
        producer = Producer({"bootstrap.servers": broker.bootstrap})
        for number in range(20 * BATCHES):
            producer.produce("in", str(number), partition=number % 2)
        assert producer.flush(30) == 0
        del producer  # it would continue to look for the broker
        killed = run(broker.bootstrap, tmp_path, moment, 3)
        assert killed.returncode == -9, killed.stderr[-2000:]
        again = run(broker.bootstrap, tmp_path, "no", 0)
        assert again.returncode == 0, again.stderr[-2000:]
        found = committed(broker.bootstrap, "counts", 1)
    # Each batch has each key four times.
    expected = [
        (b"%d" % key, b"%d" % (4 * batch)) for batch in range(1, BATCHES + 1) for key in range(5)
    ]
    assert sorted(found) == sorted(expected)
