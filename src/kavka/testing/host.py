"""The process that runs the plugin's brokers: it obeys the process of the tests, and ends with it.

    python -c "from kavka.testing.host import main; main()" DESCRIPTOR PARENT LOG_LEVEL

DESCRIPTOR is one end of a socket pair. A call comes as (number, cluster, method, arguments, named arguments), its
result goes as (number, is an error, value); both pickled, between two processes of one user and one interpreter.
"""

from __future__ import annotations

import contextlib
import gc
import logging
import os
import pickle
import select
import sys
import threading
import traceback
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from kavka.testing.attached import AttachedCluster
from kavka.testing.hosted_cluster import HostedCluster
from kavka.testing.secured import SecurityOptions

_FORMAT = "%(asctime)s.%(msecs)03d %(levelname)-7s %(threadName)s %(name)s %(message)s"


class Host:
    """The clusters of this process."""

    def __init__(self) -> None:
        """Start with none."""
        self._clusters: dict[int, HostedCluster | AttachedCluster] = {}

    def call(self, number: int, method: str, args: list[Any], named: dict[str, Any]) -> Any:
        """Call a method of a cluster, of its helpers, or of this object. Raise what it raises."""
        if method == "open":
            return self.open(number, *args, **named)
        if method == "attach":
            return self.attach(number, *args)
        cluster = self._clusters[number]
        if method == "close":
            del self._clusters[number]
            cluster.close()
            return None
        owner, _, name = method.rpartition(".")
        target: Any = {"": cluster, "helpers": cluster.helpers, "secured": cluster.secured}[owner]
        return getattr(target, name)(*args, **named)

    def open(
        self, number: int, path: str, security: dict[str, Any], **options: Any
    ) -> dict[str, Any]:
        """Start a cluster, and return its facts."""
        cluster = HostedCluster(Path(path), security=SecurityOptions(**security), **options)
        self._clusters[number] = cluster
        return {**cluster.facts(), "pid": os.getpid()}

    def attach(self, number: int, settings: dict[str, str]) -> dict[str, Any]:
        """Connect to a cluster that runs, and return its facts."""
        self._clusters[number] = cluster = AttachedCluster(settings)
        return cluster.facts()


def main() -> None:
    """Obey until the other end of the socket is closed, or the parent has ended."""
    descriptor, parent, level = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
    _end_with(parent)
    logging.basicConfig(
        stream=sys.stderr, level=level.upper(), format=_FORMAT, datefmt="%H:%M:%S", force=True
    )
    gc.collect()
    gc.freeze()
    with Connection(descriptor) as connection:
        _obey(connection)
    sys.stderr.flush()
    # Threads of brokers and clients have nothing left to do, and nothing to say.
    os._exit(0)


def _obey(connection: Connection) -> None:
    host = Host()
    while True:
        try:
            number, cluster, method, args, named = connection.recv()
        except (EOFError, OSError):
            return
        try:
            result = number, False, host.call(cluster, method, args, named)
        except Exception as error:  # noqa: BLE001 - it is sent to the caller
            result = number, True, _portable(error)
        with contextlib.suppress(BrokenPipeError):
            connection.send(result)


def _portable(error: Exception) -> Exception:
    """Return the error in a form that the other process can read."""
    text = "".join(traceback.format_exception(error))
    logging.getLogger(__name__).debug("a call failed\n%s", text)
    try:
        found = pickle.loads(pickle.dumps(error))
    except Exception:  # noqa: BLE001 - a class that cannot be pickled may raise anything
        found = None
    if isinstance(found, Exception) and str(found) == str(error):
        return found
    return RuntimeError(f"{type(error).__name__}: {error}")


def _end_with(parent: int) -> None:
    """End when the process of the tests ends, even if its end of the socket lives on in a child of it."""
    if not hasattr(os, "pidfd_open"):
        return
    try:
        descriptor = os.pidfd_open(parent)
    except OSError:
        os._exit(1)

    def wait() -> None:
        poll = select.poll()
        poll.register(descriptor, select.POLLIN)
        poll.poll()
        os._exit(1)

    threading.Thread(target=wait, name="parent", daemon=True).start()
