"""The memory that this process may use, by the machine and its control groups."""

from __future__ import annotations

import os
from collections.abc import Iterator

_CGROUPS = "/sys/fs/cgroup"


def memory_bytes() -> int:
    """Return how much memory the machine has, or what the control groups of this process allow, if that is less."""
    found = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    for path in _memory_limits():
        try:
            with open(path) as file:
                text = file.read().strip()
        except OSError:
            continue  # no such group, or one that is not ours to see
        if text.isdigit():  # else "max"
            found = min(found, int(text))
    return found


def _memory_limits() -> Iterator[str]:
    """Yield where control groups say their bound: of version 1, and of version 2 for each group above this process."""
    yield f"{_CGROUPS}/memory/memory.limit_in_bytes"
    yield f"{_CGROUPS}/memory.max"
    try:
        with open("/proc/self/cgroup") as file:
            lines = file.read().splitlines()
    except OSError:
        return
    for line in lines:
        number, _controllers, group = line.split(":", 2)
        if number != "0":
            continue
        while group.strip("/"):
            yield f"{_CGROUPS}{group}/memory.max"
            group = group.rpartition("/")[0]
