"""franz-go, the Go client: codecs, groups, transactions and administration, where the machine has Go."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from kavka_compat.artifacts import cache_directory
from kavka_compat.killable import run_killable

pytestmark = [pytest.mark.compat, pytest.mark.long, pytest.mark.timeout(600)]

_SOURCE = Path(__file__).parent / "go"


@pytest.fixture(scope="module")
def program() -> Path:
    """The compiled program; its modules come from the module proxy once."""
    go = shutil.which("go")
    if go is None:
        pytest.skip("franz-go needs `go`, which is not in the PATH")
    target = cache_directory("franz-go")
    target.mkdir(parents=True, exist_ok=True)
    environment = {**os.environ, "GOFLAGS": "-mod=readonly -buildvcs=false"}
    command = [go, "build", "-o", str(target / "franz"), "."]
    done = subprocess.run(
        command, cwd=_SOURCE, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return target / "franz"


@pytest.mark.parametrize("brokers", [1, 3])
def test_every_step_of_franz_go_succeeds(program: Path, brokers: int, tmp_path: Path) -> None:
    settings = {
        "group.initial.rebalance.delay.ms": "0",
        "offsets.topic.num.partitions": "4",
        "offsets.topic.replication.factor": str(brokers),
        "transaction.state.log.num.partitions": "4",
        "transaction.state.log.replication.factor": str(brokers),
        "transaction.state.log.min.isr": str(min(2, brokers)),
    }
    with run_killable(tmp_path, brokers, settings) as cluster:
        done = subprocess.run(
            [program, cluster.bootstrap], capture_output=True, text=True, timeout=400, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr
        assert done.stdout.endswith("all is well\n")
