"""The files in which a broker keeps a topic, and the page cache of these files."""

from __future__ import annotations

import os
from pathlib import Path

from kavka.storage.disk.linux_calls import cached_pages
from kavka_compat.brokers import Broker

SIDES = ("apache", "kavka")
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


def log_files(broker: Broker, topic: str) -> list[Path]:
    """Return the segments of all partitions, by partition and base offset."""
    return sorted(broker.log_directory.glob(f"{topic}-*/*.log"))


def drop_page_cache(files: list[Path]) -> None:
    """Write the files to the disk and drop their pages from memory, so that the next read is cold.

    Raise RuntimeError if the kernel counts more than a hundredth of their pages as cached afterwards.
    """
    cached = total = 0
    for path in files:
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)  # dirty pages are not dropped
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
            size = os.fstat(descriptor).st_size
            cached += max(cached_pages(descriptor, 0, size), 0)  # -1 where the kernel cannot count
            total += -(-size // _PAGE_BYTES)
        finally:
            os.close(descriptor)
    if cached > total / 100:
        raise RuntimeError(
            f"{cached} of {total} pages are still cached: this read would not be cold"
        )
