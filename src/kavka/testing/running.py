"""A cluster without pytest: for unittest, notebooks, scripts."""

from __future__ import annotations

import atexit
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from kavka.testing.cluster import Cluster
from kavka.testing.host_process import HostProcess


@contextmanager
def running_cluster(
    *, directory: Path | str | None = None, log_level: str = "info", **options: Any
) -> Iterator[Cluster]:
    """Run a cluster in a process beside this one, for the time of a `with`.

    `options` are those of `Cluster`: `brokers`, `settings`, `users`, `tls`, `client_certificates`, `authorization`.
    Data and the log, `brokers.log`, are in `directory`, or in one that is removed at the end.
    """
    with tempfile.TemporaryDirectory(prefix="kavka-testing-") as temporary:
        path = Path(temporary if directory is None else directory).absolute()
        path.mkdir(parents=True, exist_ok=True)
        host = HostProcess(path / "brokers.log", log_level)
        atexit.register(host.end)  # for a `with` that is never left: unittest's, after Ctrl-C
        try:
            yield Cluster(host, path / "data", **options)
        finally:
            atexit.unregister(host.end)
            host.end()
