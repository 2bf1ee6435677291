"""An installation without the compiled kernel says so: once in a program, and at the start of a broker."""

import subprocess
import sys

PROGRAM = """
import asyncio, sys
sys.modules["kavka.wire.records._kernel"] = None  # as where no compiler was
import logging
logging.basicConfig(level=logging.WARNING)
import tempfile
from pathlib import Path
from kavka.client import Producer
from kavka.testing.local_cluster import LocalCluster

async def use(servers):
    for _ in range(3):
        async with Producer({"bootstrap.servers": servers}):
            pass

with tempfile.TemporaryDirectory() as path, LocalCluster(Path(path), brokers=1) as cluster:
    asyncio.run(use(cluster.bootstrap_servers))
"""


def test_the_missing_kernel_is_said_once_by_a_broker_and_once_by_a_program() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    said = [line for line in done.stderr.splitlines() if "compiled kernel not found" in line]
    assert [line.split(":")[1] for line in said] == ["kavka.broker.broker", "kavka.client.client"]
    assert "install a wheel" in said[0]


def test_a_kernel_in_python_that_was_asked_for_is_not_mentioned() -> None:
    program = "from kavka.wire.records import kernel; print(kernel.NAME, repr(kernel.SLOW_BECAUSE))"
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        env={"KAVKA_PURE": "1", "PYTHONPATH": ":".join(sys.path)},
    )
    assert done.stdout == "python ''\n", done.stderr
