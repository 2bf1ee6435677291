"""The disk of the simulation: what a crash may take, and what it may never take."""

from __future__ import annotations

import asyncio
import errno
import random
from collections.abc import Awaitable, Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kavka.io import Disk
from kavka.simulation.disk import ProcessDisk, SimDisk
from kavka.simulation.inode import PAGE
from kavka.simulation.loop import SimLoop
from kavka.simulation.process import Process, ProcessCrashed
from support.examples import examples


def disk_of(seed: int = 0) -> tuple[SimDisk, ProcessDisk]:
    loop = SimLoop()
    disk = SimDisk(loop, random.Random(seed))
    loop.close()
    return disk, ProcessDisk(disk, Process("p", loop))


def door_again(disk: SimDisk) -> ProcessDisk:
    return disk.for_process(Process("q", disk.loop))


def run(seed: int, use: Callable[[SimDisk, ProcessDisk], Awaitable[None]]) -> None:
    loop = SimLoop()
    disk = SimDisk(loop, random.Random(seed))
    process_disk = disk.for_process(Process("p", loop))
    try:
        loop.run(_call(use, disk, process_disk))
    finally:
        loop.close()


async def _call(
    use: Callable[[SimDisk, ProcessDisk], Awaitable[None]], disk: SimDisk, process_disk: ProcessDisk
) -> None:
    await use(disk, process_disk)


def test_it_is_a_disk() -> None:
    _, process_disk = disk_of()
    disk: Disk = process_disk
    disk.make_directories("/a/b")
    disk.open("/a/b/f", create=True).write_at(b"hello", 2)
    assert disk.open("/a/b/f").read_at(100, 0) == b"\0\0hello"
    assert disk.list("/a") == ["b"]
    assert disk.is_directory("/a/b")
    assert not disk.is_directory("/a/b/f")
    disk.rename("/a/b", "/a/c")
    assert disk.list("/a/c") == ["f"]
    disk.remove_tree("/a/c")
    assert disk.list("/a") == []
    assert not disk.exists("/a/c/f")


def test_a_missing_file_and_a_missing_directory_are_said() -> None:
    _, process_disk = disk_of()
    with pytest.raises(FileNotFoundError, match="/x"):
        process_disk.open("/x")
    with pytest.raises(FileNotFoundError):
        process_disk.open("/no/where", create=True)
    with pytest.raises(FileNotFoundError):
        process_disk.list("/no")
    with pytest.raises(IsADirectoryError):
        process_disk.open("/")


def test_a_removed_file_stays_readable_where_it_is_open() -> None:
    _, process_disk = disk_of()
    file = process_disk.open("/f", create=True)
    file.write_at(b"abc", 0)
    process_disk.remove("/f")
    assert file.read_at(3, 0) == b"abc"


def test_the_death_of_a_process_loses_nothing() -> None:
    disk, process_disk = disk_of()
    process_disk.open("/f", create=True).write_at(b"abc", 0)
    process_disk._process.end(killed=True)
    assert door_again(disk).open("/f").read_at(3, 0) == b"abc"


def test_a_dead_process_can_do_no_io() -> None:
    _, process_disk = disk_of()
    file = process_disk.open("/f", create=True)
    process_disk._process.end(killed=True)
    with pytest.raises(ProcessCrashed):
        file.write_at(b"abc", 0)
    with pytest.raises(ProcessCrashed):
        process_disk.list("/")


@settings(max_examples=examples(200), deadline=None)
@given(
    seed=st.integers(0, 1 << 30),
    synced=st.lists(st.binary(min_size=1, max_size=300), max_size=8),
    unsynced=st.lists(st.binary(min_size=1, max_size=3000), max_size=8),
)
def test_a_host_crash_never_takes_what_was_synced(
    seed: int, synced: list[bytes], unsynced: list[bytes]
) -> None:
    disk, process_disk = disk_of(seed)
    file = process_disk.open("/f", create=True)
    process_disk.sync_directory("/")
    position = 0
    for data in synced:
        file.write_at(data, position)
        position += len(data)
    file.sync()
    for data in unsynced:
        file.write_at(data, position)
        position += len(data)
    disk.crash()
    durable = b"".join(synced)
    left = door_again(disk).open("/f").read_at(1 << 20, 0)
    assert left[: len(durable)] == durable
    written = durable + b"".join(unsynced)
    assert len(left) <= len(written)
    pages = range(0, len(left), PAGE)
    assert all(
        kept in (meant, 0)
        for page in pages
        for kept, meant in zip(left[page : page + PAGE], written[page : page + PAGE], strict=False)
    )


def test_crashes_tear_writes_lose_pages_and_keep_all() -> None:
    seen = set()
    for seed in range(80):
        disk, process_disk = disk_of(seed)
        file = process_disk.open("/f", create=True)
        process_disk.sync_directory("/")
        for number in range(1, 5):
            file.write_at(bytes([number]) * PAGE, (number - 1) * PAGE)
        disk.crash()
        left = door_again(disk).open("/f").read_at(1 << 20, 0)
        if not left:
            seen.add("nothing")
        elif len(left) == 4 * PAGE and 0 not in left:
            seen.add("all")
        elif 0 in left:
            seen.add("hole")
        elif len(left) % PAGE:
            seen.add("torn")
    assert seen == {"nothing", "all", "hole", "torn"}


def test_a_failed_sync_forgets_and_the_next_one_lies() -> None:
    disk, process_disk = disk_of()
    file = process_disk.open("/f", create=True)
    process_disk.sync_directory("/")
    file.write_at(b"abc", 0)
    disk.faults.sync_error = 1.0
    with pytest.raises(OSError, match="Input/output"):
        file.sync()
    disk.faults.sync_error = 0.0
    file.sync()
    assert file.read_at(3, 0) == b"abc"
    disk.crash()
    assert door_again(disk).open("/f").read_at(3, 0) == b""


def test_names_that_were_not_synced_may_go_and_renames_may_be_undone() -> None:
    seen = set()
    for seed in range(40):
        disk, process_disk = disk_of(seed)
        process_disk.open("/old", create=True)
        process_disk.sync_directory("/")
        process_disk.open("/fresh", create=True)
        process_disk.rename("/old", "/new")
        disk.crash()
        seen.add(tuple(door_again(disk).list("/")))
    assert seen == {("old",), ("fresh", "old"), ("fresh", "new")}


def test_synced_names_stay() -> None:
    for seed in range(20):
        disk, process_disk = disk_of(seed)
        process_disk.make_directories("/d")
        file = process_disk.open("/d/tmp", create=True)
        file.write_at(b"x", 0)
        file.sync()
        process_disk.rename("/d/tmp", "/d/checkpoint")
        process_disk.sync_directory("/d")
        disk.crash()
        assert door_again(disk).open("/d/checkpoint").read_at(1, 0) == b"x"


def test_a_full_disk_takes_a_part_and_says_so() -> None:
    disk, process_disk = disk_of()
    disk.faults.capacity_bytes = 10
    file = process_disk.open("/f", create=True)
    file.write_at(b"12345678", 0)
    with pytest.raises(OSError, match="No space left") as caught:
        file.write_at(b"12345678", 8)
    assert caught.value.errno == errno.ENOSPC
    assert file.size() <= 10
    assert process_disk.usage("/") == (10, 10 - file.size())


def test_bytes_flip_on_read_and_at_rest() -> None:
    disk, process_disk = disk_of()
    file = process_disk.open("/f", create=True)
    file.write_at(bytes(100), 0)
    file.sync()
    disk.faults.read_flip = 1.0
    assert sum(map(int.bit_count, file.read_at(100, 0))) == 1
    disk.faults.read_flip = 0.0
    assert file.read_at(100, 0) == bytes(100)
    inode = disk.names["/f"]
    assert inode is not None
    inode.flip(50, 3)
    assert file.read_at(100, 0)[50] == 8


def test_cold_ranges_are_warm_after_reading() -> None:
    disk, process_disk = disk_of()
    file = process_disk.open("/f", create=True)
    file.write_at(bytes(3 * PAGE), 0)
    assert file.is_cached(3 * PAGE, 0)
    file.sync()
    disk.evict_cached_pages()
    assert not file.is_cached(1, 0)
    file.read_at(PAGE, 0)
    assert file.is_cached(PAGE, 0)
    assert not file.is_cached(1, PAGE)


def test_a_process_can_die_in_the_middle_of_a_write() -> None:
    disk, process_disk = disk_of(3)
    file = process_disk.open("/f", create=True)
    file.write_at(b"first", 0)
    process_disk._process.writes_left = 0
    with pytest.raises(ProcessCrashed):
        file.write_at(b"second" * 100, 5)
    left = door_again(disk).open("/f")
    assert 5 <= left.size() < 605
    assert left.read_at(5, 0) == b"first"


def test_a_lock_belongs_to_one_process_until_it_dies() -> None:
    disk, process_disk = disk_of()
    lock = process_disk.lock("/.lock")
    other = door_again(disk)
    with pytest.raises(BlockingIOError, match="p has the lock"):
        other.lock("/.lock")
    lock.release()
    other.lock("/.lock")
    other._process.end(killed=True)
    process_disk.lock("/.lock")


def test_work_in_the_pool_takes_time_and_continues_without_a_waiting_caller() -> None:
    async def use(disk: SimDisk, process_disk: ProcessDisk) -> None:
        file = process_disk.open("/f", create=True)
        task = asyncio.ensure_future(process_disk.run(file.write_at, b"abc", 0))
        await asyncio.sleep(0)
        assert file.size() == 0
        task.cancel()
        await asyncio.sleep(1)
        assert file.size() == 3
        started = disk.loop.time()
        assert await process_disk.run(file.read_at, 3, 0) == b"abc"
        assert disk.loop.time() > started
        with pytest.raises(FileNotFoundError):
            await process_disk.run(process_disk.open, "/missing")

    run(0, use)
