"""A start imports what a lone broker needs for its first record, and the rest follows while there are no requests."""

from __future__ import annotations

import gc
import subprocess
import sys
from contextlib import closing
from itertools import pairwise
from pathlib import Path

from kavka.broker.requests.background_imports import deferred_modules, import_in_background
from kavka.broker.requests.served_apis import SUPPORTED_APIS, handler_module
from kavka.simulation.loop import SimLoop
from kavka.wire.messages.metadata import MetadataRequest
from support.one_broker import Run, Served

MAX_MODULES = 414
"""Of all that a start loads, the interpreter's own included; 414 are needed; packages count as well."""
FORBIDDEN = {
    "argparse",
    "crc32c",
    "dataclasses",
    "email",
    "importlib.metadata",
    "kazoo",
    "numpy",
    "pyarrow",
    "shutil",
    "urllib.parse",
    "zipfile",
    "kavka.broker.coordination.group_coordinators",
    "kavka.broker.coordination.transaction_marker_manager",
    "kavka.broker.metrics",
    "kavka.broker.control.producer_ids",
    "kavka.broker.replication",
    "kavka.broker.coordination.transaction_coordinators",
    "kavka.broker.coordination.verification",
    "kavka.client",
    "kavka.core.follower",
    "kavka.core.group",
    "kavka.core.transaction",
    "kavka.net.peer",
    "kavka.net.tls",
    "kavka.registry.registry_server",
    "kavka.registry.zookeeper",
    "kavka.testing",
    *map(handler_module, SUPPORTED_APIS),
}

SERVER = """
import os, signal, sys
from kavka.cli.commands import server_start

class Output:
    def write(self, text):
        if "ready:" in text:
            print(*sys.modules, file=sys.stderr)
            os.kill(os.getpid(), signal.SIGTERM)
    def flush(self):
        pass

sys.stdout = Output()
overrides = ["--override", "listeners=PLAINTEXT://127.0.0.1:0", "--override", "kavka.log.level=ERROR"]
sys.exit(server_start.main([*overrides, "--override", f"log.dirs={sys.argv[1]}"]))
"""


def test_a_start_loads_no_more_than_a_lone_broker_needs(tmp_path: Path) -> None:
    command = [sys.executable, "-c", SERVER, str(tmp_path / "data")]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    loaded = set(done.stderr.split())
    assert "kavka.broker.broker" in loaded
    assert loaded & FORBIDDEN == set()
    assert len(loaded) <= MAX_MODULES


def test_what_was_left_out_can_be_imported_piece_by_piece() -> None:
    says = f"""
import importlib, sys
for name in {deferred_modules()!r}:
    importlib.import_module(name)
import kavka.broker.requests.dispatcher
print(*sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", says], capture_output=True, text=True, check=True)
    assert set(deferred_modules()) <= set(done.stdout.split())


def test_the_rest_is_imported_while_the_broker_is_idle_only() -> None:
    loop = SimLoop()
    imported: list[float] = []

    def requests_received() -> int:
        """Say that one came each millisecond of the first ten seconds, and one more after a minute."""
        return min(int(loop.time() * 1000), 10_000) + (loop.time() > 60)

    async def test() -> None:
        await import_in_background(requests_received, lambda name: imported.append(loop.time()))
        gc.unfreeze()

    with closing(loop):
        loop.run(test())
    assert len(imported) == len(deferred_modules())
    assert 10 < imported[0] < 12
    assert min(after - before for before, after in pairwise(imported)) > 0.019


def test_the_dispatcher_counts_requests(run: Run) -> None:
    async def test(served: Served) -> None:
        before = served.broker.dispatcher.requests_received()
        await served.send(MetadataRequest())
        assert served.broker.dispatcher.requests_received() == before + 1

    run(test)
