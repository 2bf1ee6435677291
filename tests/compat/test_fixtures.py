"""The machinery of this folder itself: brokers start, tools reach them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
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


TIED = """
import subprocess, sys
from kavka_compat.processes import end_with_parent
child = [sys.executable, "-c", "import signal; print('waits', flush=True); signal.pause()"]
subprocess.run(child, start_new_session=True, preexec_fn=end_with_parent())
"""


def test_a_child_may_end_with_a_parent_that_is_killed() -> None:
    command, paths = [sys.executable, "-c", TIED], {"PYTHONPATH": os.pathsep.join(sys.path)}
    parent = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=os.environ | paths)
    assert parent.stdout is not None
    assert parent.stdout.readline() == "waits\n"
    parent.kill()
    assert parent.wait() == -signal.SIGKILL
    # The child has the pipe open until it ends.
    assert parent.stdout.read() == ""
    parent.stdout.close()
