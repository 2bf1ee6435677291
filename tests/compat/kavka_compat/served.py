"""Our served registry as a real process."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from kavka_compat.ours import kavka_command
from kavka_compat.processes import Running, free_port

_READY = re.compile(r"kavka zookeeper ready: [\d.]+:(\d+) in [\d.]+ s")


@dataclass
class Served:
    """A registry on a port; `start` after `process.kill()` serves the same directory on the same port."""

    directory: Path
    settings: Mapping[str, str]
    port: int = 0
    starts: int = 0
    host: str = "127.0.0.1"
    within: Sequence[str] = ()
    """Words in front of the command, where it has a machine of its own."""

    def start(self) -> None:
        """Start the process, and return when it says that it is ready."""
        self.launch()
        try:
            line = self.process.wait_for("ready: ", 30)
            ready = _READY.search(line)
            assert ready is not None, f"the ready line has another form: {line!r}"
        except BaseException:
            self.process.kill()
            raise
        self.port = int(ready[1])

    def launch(self) -> None:
        """Start the process; it is not ready yet."""
        chosen = {
            "dataDir": str(self.directory / "registry"),
            "clientPort": str(self.port),
            "clientPortAddress": self.host,
            "maxClientCnxns": "0",
            **self.settings,
        }
        overrides = [word for item in chosen.items() for word in ("--override", "=".join(item))]
        command = [*self.within, *kavka_command("zookeeper-server-start", *overrides)]
        self.starts += 1
        self.process = Running(command, self.directory / f"registry-{self.starts}.out")

    @property
    def connect(self) -> str:
        """The value for `zookeeper.connect`."""
        return f"{self.host}:{self.port}"


@contextmanager
def run_served(directory: Path, settings: Mapping[str, str] | None = None) -> Iterator[Served]:
    """Run a registry for the body of a `with`."""
    directory.mkdir(parents=True, exist_ok=True)
    # A port of its own choice could be taken by another when the test starts it again.
    served = Served(directory, settings or {}, free_port())
    served.start()
    try:
        yield served
    finally:
        if served.process.alive():
            assert served.process.stop() == 0, served.process.text()
