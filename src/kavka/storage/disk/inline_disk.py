"""A disk for work that is in the pool already: what it is asked to run there is done at once."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from kavka.io import Disk

T = TypeVar("T")


class InlineDisk:
    """Calls another disk on the caller's thread, which may block."""

    def __init__(self, disk: Disk) -> None:
        """Call `disk`."""
        self.open = disk.open
        self.list = disk.list
        self.exists = disk.exists
        self.is_directory = disk.is_directory
        self.make_directories = disk.make_directories
        self.rename = disk.rename
        self.remove = disk.remove
        self.remove_tree = disk.remove_tree
        self.sync_directory = disk.sync_directory
        self.lock = disk.lock
        self.usage = disk.usage
        self.open_files_limit = disk.open_files_limit

    async def run(self, work: Callable[..., T], *args: Any) -> T:
        """Call the function now."""
        return work(*args)


def finish(coroutine: Coroutine[Any, Any, T]) -> T:
    """Return the outcome of a coroutine that waits for nothing but an inline disk. It blocks."""
    try:
        coroutine.send(None)
    except StopIteration as done:
        outcome: T = done.value
        return outcome
    coroutine.close()
    raise AssertionError("work on an inline disk has waited for something else")
