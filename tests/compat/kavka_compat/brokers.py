"""A running broker, kavka's or Apache Kafka's, for tests and benchmarks."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from kavka_compat.processes import Running


@dataclass(frozen=True)
class Broker:
    """A broker with id 0 that listens on 127.0.0.1."""

    name: str
    """`kavka`, or `apache-` and the release."""
    port: int
    process: Running
    log_directory: Path
    """Its only `log.dirs`."""

    @property
    def bootstrap(self) -> str:
        """The value for `bootstrap.servers`."""
        return f"127.0.0.1:{self.port}"

    @property
    def metrics_url(self) -> str:
        """The address of its metrics, once it serves them. Raise ProcessDied when it does not."""
        line = self.process.wait_for("metrics served url=", 30)
        return line.partition("url=")[2].split()[0]

    @property
    def is_kavka(self) -> bool:
        """Return whether the broker is ours."""
        return self.name == "kavka"
