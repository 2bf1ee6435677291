"""`python -m kavka_fuzz.measured_broker FILE server-start ...`: a broker that says how long its loop's iterations were.

It is `kavka server-start` with one thing around it: the processor time of the main thread between two calls of
`select`, the longest of which stands in FILE, in nanoseconds, until the other side writes 0.
"""

from __future__ import annotations

import mmap
import selectors
import struct
import sys
import time
from importlib import import_module
from pathlib import Path
from typing import Any

LAYOUT = struct.Struct("<q")


def measure(path: Path) -> None:
    """Have every selector of this process note the longest iteration of its loop in the file."""
    with path.open("r+b") as file:
        shared = mmap.mmap(file.fileno(), LAYOUT.size)
    select = selectors.EpollSelector.select
    began: int | None = None

    def measured(self: selectors.EpollSelector, timeout: float | None = None) -> Any:
        nonlocal began
        if began is not None:
            spent = time.thread_time_ns() - began
            if spent > LAYOUT.unpack_from(shared)[0]:
                LAYOUT.pack_into(shared, 0, spent)
        ready = select(self, timeout)
        began = time.thread_time_ns()
        return ready

    selectors.EpollSelector.select = measured  # type: ignore


if __name__ == "__main__":
    measure(Path(sys.argv[1]))
    from kavka.broker.requests.background_imports import deferred_modules
    from kavka.cli.main import main

    for name in (
        deferred_modules()
    ):  # what a broker imports when it is first asked for is not what is measured
        import_module(name)
    sys.argv[1:] = sys.argv[2:]
    sys.exit(main())
