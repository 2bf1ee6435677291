"""Syncs of a group: nothing is synced before all members have written, and each gets its own error."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from kavka.ids import TopicId, TopicPartition
from kavka.storage.checkpoint.leader_epochs import LEADER_EPOCHS
from kavka.storage.directory.log_directory import LogDirectory
from kavka.storage.directory.sync_group import SyncGroup
from kavka.storage.disk.os_disk import OsDisk, OsFile
from kavka.storage.log_config import LogConfig
from kavka.storage.store.log_store import LogStore
from support.storage_bench import SeededChance, TurnedClock, add

TOPIC_ID = TopicId(bytes(range(16)))
CONFIG = LogConfig()
COUNT = 20


class NotedFile(OsFile):
    """A file of `NotedDisk`."""

    def __init__(self, fd: int, name: str, disk: NotedDisk) -> None:
        super().__init__(fd)
        self._name = name
        self._disk = disk

    def start_writeback(self) -> None:
        self._disk.calls.append(("start", self._name))
        super().start_writeback()

    def sync(self) -> None:
        self._disk.calls.append(("sync", self._name))
        if self._name == self._disk.broken:
            raise OSError(5, "the medium is worn out", self._name)
        super().sync()


class NotedDisk(OsDisk):
    """A disk that notes writebacks, syncs and renames in their order."""

    def __init__(self) -> None:
        super().__init__(threads=4)
        self.calls: list[tuple[str, str]] = []
        self.broken = ""

    def open(self, path: str, *, create: bool = False, private: bool = False) -> NotedFile:
        plain = super().open(path, create=create, private=private)
        return NotedFile(plain.fileno(), "/".join(Path(path).parts[-2:]), self)

    def rename(self, old: str, new: str) -> None:
        self.calls.append(("rename", "/".join(Path(new).parts[-2:])))
        super().rename(old, new)

    def sync_directory(self, path: str) -> None:
        self.calls.append(("directory", Path(path).name))
        super().sync_directory(path)


def run(story: Callable[[NotedDisk], Awaitable[None]]) -> None:
    async def with_a_disk() -> None:
        disk = NotedDisk()
        await story(disk)
        disk.close()

    asyncio.run(with_a_disk())


def store_over(disk: NotedDisk, path: Path) -> LogStore:
    directory = LogDirectory(disk, TurnedClock(), SeededChance(), str(path / "data"))
    return LogStore([directory], lambda topic: CONFIG)


def files(disk: NotedDisk, path: Path, count: int) -> list[NotedFile]:
    return [disk.open(str(path / str(number)), create=True) for number in range(count)]


def test_nothing_is_synced_before_all_members_wait(tmp_path: Path) -> None:
    async def story(disk: NotedDisk) -> None:
        group, may_go_on = SyncGroup(disk), asyncio.Event()
        one, other = files(disk, tmp_path, 2)

        async def late() -> None:
            with group.member():
                await may_go_on.wait()
                assert disk.calls == []
                await group.sync([other])

        async def early() -> None:
            with group.member():
                await group.sync([one])

        tasks = [asyncio.create_task(late()), asyncio.create_task(early())]
        for _ in range(5):
            await asyncio.sleep(0)
        may_go_on.set()
        await asyncio.gather(*tasks)
        assert sorted(kind for kind, _ in disk.calls) == ["start", "start", "sync", "sync"]
        assert disk.calls[0][0] == disk.calls[1][0] == "start"

    run(story)


def test_member_that_leaves_or_is_cancelled_holds_up_no_other(tmp_path: Path) -> None:
    async def story(disk: NotedDisk) -> None:
        group = SyncGroup(disk)
        one, other = files(disk, tmp_path, 2)

        async def member(file: NotedFile | None) -> None:
            with group.member():
                if file is None:
                    await asyncio.sleep(0)
                else:
                    await group.sync([file])

        async def idle() -> None:
            with group.member():
                await asyncio.Event().wait()

        waiting = asyncio.create_task(idle())
        cancelled = asyncio.create_task(member(one))
        tasks = [asyncio.create_task(member(file)) for file in (other, None)]
        for _ in range(5):
            await asyncio.sleep(0)
        assert disk.calls == []
        for task in (cancelled, waiting):
            task.cancel()
        await asyncio.gather(*tasks)
        assert [kind for kind, _ in disk.calls] == ["sync"]

    run(story)


def test_a_failed_sync_is_raised_to_its_own_member(tmp_path: Path) -> None:
    async def story(disk: NotedDisk) -> None:
        group = SyncGroup(disk)
        opened = files(disk, tmp_path, 3)
        disk.broken = f"{tmp_path.name}/1"

        async def member(file: NotedFile) -> None:
            with group.member():
                await group.sync([file])

        outcomes = await asyncio.gather(*map(member, opened), return_exceptions=True)
        assert [type(outcome) for outcome in outcomes] == [type(None), OSError, type(None)]

    run(story)


def test_a_stop_syncs_all_files_before_it_renames_any_and_directories_at_the_end(
    tmp_path: Path,
) -> None:
    async def story(disk: NotedDisk) -> None:
        store = store_over(disk, tmp_path)
        await store.open()
        for number in range(COUNT):
            log = await store.create(TopicPartition("t", number), TOPIC_ID, CONFIG)
            log.assign_epoch(3, 0)
            add(log)
        disk.calls.clear()
        await store.close({})
        of_logs = [
            (kind, name)
            for kind, name in disk.calls
            if name.startswith("t-") and not name.endswith(".snapshot")
        ]
        kinds = [kind for kind, _ in of_logs]
        order = list(dict.fromkeys(kinds))
        assert order == ["start", "sync", "rename", "directory"]
        assert kinds == sorted(kinds, key=order.index)
        renamed = {name for kind, name in of_logs if kind == "rename"}
        assert renamed == {f"t-{number}/{LEADER_EPOCHS}" for number in range(COUNT)}
        assert kinds.count("directory") == COUNT

    run(story)


def test_a_sync_that_fails_at_a_stop_leaves_no_marker_of_a_clean_one(tmp_path: Path) -> None:
    async def story(disk: NotedDisk) -> None:
        store = store_over(disk, tmp_path)
        await store.open()
        for number in range(COUNT):
            add(await store.create(TopicPartition("t", number), TOPIC_ID, CONFIG))
        disk.broken = "t-7/00000000000000000000.log"
        (directory,) = store.directories
        await store.close({})
        assert directory.failure is not None
        assert ".kafka_cleanshutdown" not in os.listdir(directory.path)

    run(story)


@pytest.mark.parametrize("size", [0, 100_000])
def test_writeback_begins_of_files_of_any_size(tmp_path: Path, size: int) -> None:
    disk = OsDisk()
    file = disk.open(str(tmp_path / "file"), create=True)
    file.write_at(bytes(size), 0)
    file.start_writeback()
    file.sync()
    assert file.size() == size
    file.close()
