"""`.kafka_cleanshutdown`: the promise of a broker that stopped in order that no recovery is needed."""

from __future__ import annotations

import json

from kavka.io import Disk
from kavka.storage.checkpoint.files import replace_file

CLEAN_SHUTDOWN = ".kafka_cleanshutdown"


def write_clean_shutdown(disk: Disk, directory: str, broker_epoch: int) -> None:
    """Leave the marker, as the very last act on the directory. It blocks."""
    content = json.dumps({"version": 0, "brokerEpoch": broker_epoch}, separators=(",", ":"))
    replace_file(disk, f"{directory}/{CLEAN_SHUTDOWN}", content.encode())


def take_clean_shutdown(disk: Disk, directory: str) -> bool:
    """Return whether the marker was there, and remove it durably, before anything is written. It blocks."""
    path = f"{directory}/{CLEAN_SHUTDOWN}"
    if not disk.exists(path):
        return False
    disk.remove(path)
    disk.sync_directory(directory)
    return True
