"""kazoo's own tests against a served registry: a pytest plugin, and the run of it.

kazoo's harness starts an ensemble of Apache ZooKeeper; the plugin gives it one process of ours instead. Three modules
that only TLS and leak tests need, and that are not installed, are replaced: by empty ones, and by the one function that
tests of leaks call.
"""

from __future__ import annotations

import gc
import sys
import tempfile
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from kavka_compat.served import Served
from kavka_compat.suites import run_suite

_ABSENT = ("OpenSSL", "jks", "objgraph")


def run(modules: list[str], directory: Path) -> dict[str, str]:
    """Run modules of `kazoo.tests`; return `PASSED`, `FAILED` or another outcome by test."""
    return run_suite(
        "kazoo_suite",
        [f"kazoo.tests.{name}" for name in modules],
        directory,
        directory / "report.txt",
        prefix="::",
        timeout_s=90,
        options=["--import-mode=importlib", "--pyargs"],
        environment={"ZOOKEEPER_VERSION": "3.9.3"},
    )


class _Member:
    """A server of the ensemble, as kazoo's tests use it."""

    def __init__(self, served: Served) -> None:
        self._served = served
        self.address = self.secure_address = served.connect
        self.client_port = served.port

    @property
    def running(self) -> bool:
        return self._served.process.alive()

    def run(self) -> None:
        if not self.running:
            self._served.start()

    def stop(self) -> None:
        if self.running:
            self._served.process.stop()


class _Ensemble(list[_Member]):
    """An ensemble, as kazoo's tests use it."""

    def start(self) -> None:
        for member in self:
            member.run()

    def stop(self) -> None:
        for member in self:
            member.stop()

    def terminate(self) -> None:
        self.stop()

    def get_logs(self) -> Iterator[str]:
        return iter(())


def _count(name: str) -> int:
    """Return how many objects of a type are alive, as `objgraph.count` does."""
    return sum(type(found).__name__ == name for found in gc.get_objects())


def pytest_configure(config: Any) -> None:
    """Serve, and let kazoo's harness find it."""
    for name in _ABSENT:
        if name not in sys.modules:
            sys.modules[name] = types.ModuleType(name)
    vars(sys.modules["objgraph"]).setdefault("count", _count)
    from kazoo.testing import harness

    directory = Path(tempfile.mkdtemp(prefix="kazoo-suite-"))
    served = Served(directory, {"4lw.commands.whitelist": "*"})
    served.start()
    ensemble = _Ensemble([_Member(served)])
    harness.get_global_cluster = lambda: ensemble
    config.add_cleanup(ensemble.stop)
