"""The registry's files on bad disks: what was acknowledged is there after every crash, or the start is refused."""

from __future__ import annotations

import asyncio
import os
import random
from functools import partial
from pathlib import Path
from typing import NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kavka.core.znode_access import OPEN, AclEntry
from kavka.core.znodes import (
    Changed,
    Create,
    Created,
    SetAccess,
    SetData,
    StoredNode,
    Txn,
    ZnodeTree,
)
from kavka.io import Disk
from kavka.registry.journal import CorruptRegistry, Journal
from kavka.registry.journal_format import (
    HEAD,
    Journaled,
    decode_snapshot,
    decode_transaction,
    encode_record,
    snapshot_parts,
)
from kavka.simulation.disk import SimDisk
from kavka.simulation.loop import SimLoop
from kavka.simulation.process import Process
from kavka.storage.disk.os_disk import OsDisk
from kavka.wire.crc32c import crc32c
from support.examples import examples

JOURNAL = "kavka-registry.journal"


async def opened(disk: Disk, directory: object) -> tuple[Journal, ZnodeTree]:
    journal = Journal(disk, str(directory))
    return journal, await journal.open()


def change(journal: Journal, tree: ZnodeTree, *operations: Create | SetData) -> None:
    txn = tree.prepare(operations, 0, 1)
    assert isinstance(txn, Txn)
    journal.append(txn)
    tree.apply(txn)


async def names_of(disk: Disk, directory: object) -> list[str]:
    journal, tree = await opened(disk, directory)
    journal.close()
    return tree.children("/") or []


async def grown(disk: Disk, directory: object, syncs: list[list[str]]) -> list[int]:
    """Write nodes, those of a list with one sync; return where each record begins, and the last one ends."""
    journal, tree = await opened(disk, directory)
    file = disk.open(f"{directory}/{JOURNAL}")
    starts = [0]
    for names in syncs:
        for name in names:
            change(journal, tree, Create(f"/{name}"))
            starts.append(file.size())
        await journal.sync()
    journal.close()
    file.close()
    return starts


def damage(path: Path, position: int) -> None:
    data = bytearray(path.read_bytes())
    data[position] ^= 0x10
    path.write_bytes(data)


@pytest.mark.parametrize("where", ["length", "checksum", "payload", "last byte"])
def test_damage_before_an_acknowledged_transaction_stops_the_start(
    tmp_path: Path, where: str
) -> None:
    async def story() -> None:
        starts = await grown(OsDisk(), tmp_path, [["a"], ["b"], ["c"], ["d"]])
        position = {
            "length": starts[1] + 2,
            "checksum": starts[1] + 5,
            "payload": starts[1] + 12,
            "last byte": starts[2] - 1,
        }[where]
        damage(tmp_path / JOURNAL, position)
        before = (tmp_path / JOURNAL).read_bytes()
        words = f"damaged at byte {starts[1]}, after transaction 1, .* up to 3 at least; restore"
        with pytest.raises(CorruptRegistry, match=words):
            await opened(OsDisk(), tmp_path)
        assert (tmp_path / JOURNAL).read_bytes() == before

    asyncio.run(story())


def test_what_the_refusal_says_gives_up_the_rest(tmp_path: Path) -> None:
    async def story() -> None:
        starts = await grown(OsDisk(), tmp_path, [["a"], ["b"], ["c"]])
        damage(tmp_path / JOURNAL, starts[1] + 9)
        with pytest.raises(CorruptRegistry) as refused:
            await opened(OsDisk(), tmp_path)
        command = str(refused.value).rpartition(": ")[2]
        assert command == f"truncate -s {starts[1]} {tmp_path / JOURNAL}"
        os.truncate(tmp_path / JOURNAL, starts[1])
        assert await names_of(OsDisk(), tmp_path) == ["a"]

    asyncio.run(story())


def test_a_torn_record_before_a_whole_one_of_the_same_sync_is_a_torn_tail(tmp_path: Path) -> None:
    async def story() -> None:
        starts = await grown(OsDisk(), tmp_path, [["a"], ["b", "c", "d"]])
        damage(tmp_path / JOURNAL, starts[1] + 9)
        assert await names_of(OsDisk(), tmp_path) == ["a"]
        assert (tmp_path / JOURNAL).stat().st_size == starts[1]

    asyncio.run(story())


def test_damage_in_what_the_snapshot_holds_is_refused_only_for_what_it_lacks(
    tmp_path: Path,
) -> None:
    async def story() -> None:
        starts = await grown(OsDisk(), tmp_path, [["a"], ["b"]])
        whole = (tmp_path / JOURNAL).read_bytes()
        journal, tree = await opened(OsDisk(), tmp_path)
        await journal.write_snapshot(tree)
        journal.close()
        (tmp_path / JOURNAL).write_bytes(whole)  # the rename of the new journal was undone
        damage(tmp_path / JOURNAL, starts[0] + 9)
        assert await names_of(OsDisk(), tmp_path) == ["a", "b"]

    asyncio.run(story())


def test_a_journal_without_its_snapshot_stops_the_start(tmp_path: Path) -> None:
    async def story() -> None:
        await grown(OsDisk(), tmp_path, [["a"]])
        journal, tree = await opened(OsDisk(), tmp_path)
        await journal.write_snapshot(tree)
        change(journal, tree, Create("/b"))
        await journal.sync()
        journal.close()
        (tmp_path / "kavka-registry.snapshot").unlink()
        with pytest.raises(CorruptRegistry, match=r"goes on with transaction 2, but .* end with 0"):
            await opened(OsDisk(), tmp_path)

    asyncio.run(story())


def test_a_journal_of_before_the_synced_number_is_read(tmp_path: Path) -> None:
    async def story() -> None:
        from crc32c import crc32c

        from kavka.registry.journal_format import HEAD

        payload = b'[1,7,[["c","/old","x",0]]]'
        (tmp_path / JOURNAL).write_bytes(HEAD.pack(len(payload), crc32c(payload)) + payload)
        assert await names_of(OsDisk(), tmp_path) == ["old"]

    asyncio.run(story())


def test_what_is_appended_during_a_fold_stays_and_the_journal_gets_short(tmp_path: Path) -> None:
    async def story() -> None:
        journal, tree = await opened(OsDisk(), tmp_path)
        for number in range(1000):
            change(journal, tree, Create(f"/n{number}", b"x" * 100))
        await journal.sync()
        long = (tmp_path / JOURNAL).stat().st_size
        folding = asyncio.ensure_future(journal.write_snapshot(tree))
        late = 0
        while not folding.done():
            change(journal, tree, SetData("/n0", b"late %d" % late), Create(f"/late-{late}"))
            late += 1
            await asyncio.sleep(0)
        await folding
        await journal.sync()
        journal.close()
        assert late > 3, "the fold gives way to others"
        assert (tmp_path / JOURNAL).stat().st_size < long / 2 + late * 200
        _, again = await opened(OsDisk(), tmp_path)
        assert dict(facts(again)) == dict(facts(tree))

    asyncio.run(story())


def facts(tree: ZnodeTree) -> list[tuple[str, StoredNode]]:
    return [(node.path, node) for node in tree.dump()]


def test_a_dump_shows_the_tree_of_its_call_whatever_happens_meanwhile() -> None:
    tree = ZnodeTree()

    def do(*operations: Create | SetData) -> None:
        txn = tree.prepare(operations, 0, 1)
        assert isinstance(txn, Txn)
        tree.apply(txn)

    do(Create("/a", b"1"), Create("/a/b"), Create("/c"))
    before = facts(tree)
    dump = tree.dump()
    parts = snapshot_parts(tree)
    do(SetData("/a", b"2"), Create("/a/d"), Create("/e"))
    assert [(node.path, node) for node in dump] == before
    frozen = decode_snapshot(b"".join(parts))
    assert (facts(frozen), frozen.zxid) == (before, 1)


@pytest.mark.parametrize(("count", "size"), [(0, 0), (1, 33_000), (5, 9), (2000, 50)])
def test_a_snapshot_in_parts_is_the_tree(count: int, size: int) -> None:
    tree = ZnodeTree()
    for number in range(count):
        txn = tree.prepare([Create(f"/n{number}", b"%c" % (65 + number % 26) * size)], 0, 1)
        assert isinstance(txn, Txn)
        tree.apply(txn)
    parts = list(snapshot_parts(tree))
    again = decode_snapshot(b"".join(parts))
    assert (facts(again), again.zxid) == (facts(tree), count)
    assert max(map(len, parts)) < 40_000


Step = tuple[str, int]
STEPS = st.lists(
    st.tuples(
        st.sampled_from(["append", "append", "sync", "fold", "fold and append"]),
        st.integers(1, 900),
    ),
    max_size=25,
)


class Sitting(NamedTuple):
    """The steps of one process, and its end: killed after a time, alone or with the whole machine."""

    steps: list[Step]
    killed_after_s: float
    is_power_lost: bool


@settings(max_examples=examples(150), deadline=None)
@given(
    seed=st.integers(0, 10_000),
    sittings=st.lists(
        st.builds(Sitting, STEPS, st.floats(0.001, 0.05), st.booleans()), min_size=1, max_size=5
    ),
)
def test_no_crash_takes_what_was_shown_or_hinders_the_start(
    seed: int, sittings: list[Sitting]
) -> None:
    loop = SimLoop()
    disk = SimDisk(loop, random.Random(seed))
    shown = [0]

    async def world() -> None:
        for number, sitting in enumerate([*sittings, Sitting([], 1.0, is_power_lost=False)]):
            process = Process(f"p{number}", loop)
            sat: list[asyncio.Task[None]] = []
            work = partial(sit, disk.for_process(process), sitting.steps, shown)
            process.enter(lambda work=work, sat=sat: sat.append(asyncio.ensure_future(work())))
            await asyncio.sleep(sitting.killed_after_s)  # virtual time
            if sat[0].done():
                sat[0].result()
            process.end(killed=True)
            if sitting.is_power_lost:
                disk.crash()
        assert sat[0].done()

    try:
        loop.run(world())
    finally:
        loop.close()


async def sit(disk: Disk, steps: list[Step], shown: list[int]) -> None:
    """Open the registry, hold it against all that was shown before, and take the steps."""
    disk.make_directories("/r")
    disk.sync_directory("/")
    journal, tree = await opened(disk, "/r")
    assert tree.zxid >= shown[-1]
    assert set(tree.children("/") or ()) == {f"n{zxid}" for zxid in range(1, tree.zxid + 1)}
    shown.append(tree.zxid)
    for step, size in steps:
        await take(journal, tree, step, size)
        if step == "sync":
            shown.append(tree.zxid)


async def take(journal: Journal, tree: ZnodeTree, step: str, size: int) -> None:
    if step == "append":
        change(journal, tree, Create(f"/n{tree.zxid + 1}", b"x" * size * 5))
    elif step == "sync":
        await journal.sync()
    else:
        folding = asyncio.ensure_future(journal.write_snapshot(tree))
        while step == "fold and append" and not folding.done():
            change(journal, tree, Create(f"/n{tree.zxid + 1}", b"x" * size))
            await asyncio.sleep(0.0003)  # virtual time
        await folding


@settings(max_examples=examples(150), deadline=None)
@given(
    syncs=st.lists(st.integers(1, 3), min_size=1, max_size=6),
    at=st.floats(0, 1, exclude_max=True),
    bit=st.integers(0, 7),
)
def test_a_flipped_bit_takes_the_last_sync_at_most_or_stops_the_start(
    syncs: list[int], at: float, bit: int
) -> None:
    loop = SimLoop()
    disk = SimDisk(loop, random.Random(1))
    process_disk = disk.for_process(Process("p", loop))
    process_disk.make_directories("/r")

    async def story() -> None:
        await grown(
            process_disk,
            "/r",
            [[f"{n}-{m}" for m in range(count)] for n, count in enumerate(syncs)],
        )
        file = disk.names[f"/r/{JOURNAL}"]
        assert file is not None
        file.flip(int(at * len(file.cached)), bit)
        try:
            left = len(await names_of(process_disk, "/r"))
        except CorruptRegistry:
            return
        assert sum(syncs[:-1]) <= left < sum(syncs)

    try:
        loop.run(story())
    finally:
        loop.close()


def bytes_written() -> int:
    """Return what this process has handed to write calls so far."""
    facts = dict(line.split(": ") for line in Path("/proc/self/io").read_text().splitlines())
    return int(facts["wchar"])


def modes(directory: Path) -> set[str]:
    return {oct(path.stat().st_mode & 0o777) for path in directory.iterdir()}


@pytest.mark.slow
def test_folding_costs_in_proportion_to_what_is_written(tmp_path: Path) -> None:
    """Six thousand nodes of 5 kB: each fold writes the whole tree, and they once wrote 5.7 GB."""

    async def main() -> None:
        disk = OsDisk()
        journal, tree = await opened(disk, tmp_path)
        before = bytes_written()
        for number in range(6000):
            change(journal, tree, Create(f"/{number}", b"x" * 5000))
            if journal.needs_snapshot:
                await journal.sync()
                await journal.write_snapshot(tree)
        journal.close()
        assert bytes_written() - before < 4 * 6000 * 5000
        journal, tree = await opened(disk, tmp_path)
        journal.close()
        assert len(tree.children("/") or []) == 6000

    asyncio.run(main())


def test_only_the_user_may_read_the_passwords_of_sessions(tmp_path: Path) -> None:
    (tmp_path / JOURNAL).write_bytes(b"")
    (tmp_path / JOURNAL).chmod(0o644)  # of an older version

    async def main() -> None:
        disk = OsDisk()
        journal, tree = await opened(disk, tmp_path)
        change(journal, tree, Create("/a"))
        await journal.sync()
        assert modes(tmp_path) == {"0o600"}
        await journal.write_snapshot(tree)
        journal.close()
        assert modes(tmp_path) == {"0o600"}

    asyncio.run(main())


def test_other_files_have_the_mode_that_the_umask_gives(tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        OsDisk().open(str(tmp_path / "00000000000000000000.log"), create=True).close()
    finally:
        os.umask(before)
    assert (tmp_path / "00000000000000000000.log").stat().st_mode & 0o777 == 0o640


def test_access_lists_are_kept_in_journal_and_snapshot(tmp_path: Path) -> None:
    closed = (AclEntry(31, "sasl", "kafka"), AclEntry(1, "world", "anyone"))

    async def story() -> None:
        journal, tree = await opened(OsDisk(), tmp_path)
        for operation in (
            Create("/a", b"1", access=closed),
            Create("/b"),
            SetAccess("/b", closed),
            SetAccess("/b", OPEN),
        ):
            txn = tree.prepare([operation], 0, 1)
            assert isinstance(txn, Txn)
            journal.append(txn)
            tree.apply(txn)
        await journal.sync()
        journal.close()
        journal, replayed = await opened(OsDisk(), tmp_path)
        assert facts(replayed) == facts(tree)
        await journal.write_snapshot(replayed)
        journal.close()
        _, loaded = await opened(OsDisk(), tmp_path)
        assert facts(loaded) == facts(tree)
        assert (loaded.access("/a"), loaded.access("/b")) == (closed, OPEN)
        assert loaded.access("/b") is OPEN

    asyncio.run(story())


def test_a_node_that_is_open_is_written_as_before_there_were_access_lists() -> None:
    txn = Txn(1, 5, (Created("/a", b"x", 0), Changed("/a", b"y", 1)))
    record = encode_record(Journaled(txn, 0))
    assert record[HEAD.size :] == b'[1,5,[["c","/a","x",0],["s","/a","y",1]],0]'
    assert decode_transaction(record[HEAD.size :]) == Journaled(txn, 0)


def test_a_snapshot_of_the_version_before_is_read() -> None:
    old = (
        b'{"version": 1, "zxid": 3, "nodes": [["/", null, [0, 0, 0, 0, 0, 1, 0, 0, 1, 2]], '
        b'["/a", "x", [2, 3, 7, 8, 1, 0, 0, 1, 0, 2]]], "sessions": []}'
    )
    tree = decode_snapshot(old)
    assert (tree.zxid, tree.data("/a"), tree.access("/a")) == (3, b"x", OPEN)


def test_files_of_a_newer_release_stop_the_start(tmp_path: Path) -> None:
    async def story() -> None:
        payload = b'[1,5,[["z","/a"]],0]'
        (tmp_path / JOURNAL).write_bytes(HEAD.pack(len(payload), crc32c(payload)) + payload)
        with pytest.raises(CorruptRegistry, match="of a newer release"):
            await opened(OsDisk(), tmp_path)
        payload = b'{"version": 3}'
        snapshot = tmp_path / "kavka-registry.snapshot"
        snapshot.write_bytes(HEAD.pack(len(payload), crc32c(payload)) + payload)
        with pytest.raises(CorruptRegistry, match="version 3"):
            await opened(OsDisk(), tmp_path)

    asyncio.run(story())
