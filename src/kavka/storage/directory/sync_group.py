"""Syncs of many logs at once: a stop writes the files of all of them, then syncs all.

    member   write ---.          .--- rename ---.               .--- done
    member   write ---+-- sync --+--- rename ---+-- directories +--- done
    member   write ---'          '--- rename ---'               '--- done

A file system writes its journal once for all that happened before. With a sync after each log's writes, and another
after its renames, it would write the journal again for each log.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Final, NamedTuple

from kavka.io import Disk, File

_CALLS: Final = 8
_MAX_MEMBERS_IN_ONE_CALL: Final = 16
"""Some calls of the pool at least, so that its threads wait for the medium together; then as many as it takes."""


class _Wanted(NamedTuple):
    """The logs that a member wants to be synced, and the future that ends with it."""

    files: Sequence[File]
    directories: Sequence[str]
    done: asyncio.Future[None]


class SyncGroup:
    """Syncs for its members when all of them wait for it."""

    def __init__(self, disk: Disk) -> None:
        """Create an empty group."""
        self._disk = disk
        self._members = 0
        self._waiting: list[_Wanted] = []
        self._tasks: set[asyncio.Task[None]] = set()

    @contextmanager
    def member(self) -> Iterator[None]:
        """Belong to the group: the syncs of the others wait until this member syncs, or leaves."""
        self._members += 1
        try:
            yield
        finally:
            self._members -= 1
            self._begin_if_all_wait()

    async def sync(self, files: Sequence[File] = (), directories: Sequence[str] = ()) -> None:
        """Return when open files and directories are on the medium. Raise the OSError of the first that fails."""
        wanted = _Wanted(files, directories, asyncio.get_running_loop().create_future())
        self._waiting.append(wanted)
        self._begin_if_all_wait()
        try:
            await wanted.done
        finally:
            if wanted in self._waiting:  # cancelled before the sync began
                self._waiting.remove(wanted)

    def _begin_if_all_wait(self) -> None:
        if self._waiting and len(self._waiting) == self._members:
            wanted, self._waiting = self._waiting, []
            task = asyncio.get_running_loop().create_task(self._sync_all(wanted))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _sync_all(self, wanted: list[_Wanted]) -> None:
        """Sync for members; those go on together, so that what they write next meets no sync of another."""
        try:
            outcomes = await self._outcomes(wanted)
            for each, error in zip(wanted, outcomes, strict=True):
                if each.done.done():
                    continue
                if error is None:
                    each.done.set_result(None)
                else:
                    each.done.set_exception(error)
        finally:
            for each in wanted:
                each.done.cancel()  # of those that are done, nothing

    async def _outcomes(self, wanted: list[_Wanted]) -> list[OSError | None]:
        size = min(_MAX_MEMBERS_IN_ONE_CALL, -(-len(wanted) // _CALLS))
        parts = [wanted[at : at + size] for at in range(0, len(wanted), size)]
        disk = self._disk
        if len(parts) > 1:
            await asyncio.gather(*(disk.run(_start_writeback, part) for part in parts))
        synced = await asyncio.gather(
            *(disk.run(_sync, disk.sync_directory, part) for part in parts)
        )
        return [outcome for part in synced for outcome in part]


def _start_writeback(wanted: Sequence[_Wanted]) -> None:
    """Start the writeback of all files: a sync then finds their blocks allocated."""
    for each in wanted:
        for file in each.files:
            file.start_writeback()


def _sync(sync_directory: Callable[[str], None], wanted: Sequence[_Wanted]) -> list[OSError | None]:
    """Sync for some members; return the error of each. It blocks."""
    return [_sync_one(sync_directory, each) for each in wanted]


def _sync_one(sync_directory: Callable[[str], None], wanted: _Wanted) -> OSError | None:
    try:
        for file in wanted.files:
            file.sync()
        for path in wanted.directories:
            sync_directory(path)
    except OSError as error:
        return error
    return None
