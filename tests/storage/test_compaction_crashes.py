"""A pass of the cleaner that ends at any of its changes to the disk, by a kill or by the loss of power."""

from __future__ import annotations

import asyncio

import pytest

from kavka.ids import TopicPartition
from kavka.simulation.environment import SimEnvironment
from kavka.simulation.world import World
from kavka.storage.directory.log_directory import LogDirectory
from kavka.storage.log.log import Log
from kavka.storage.log_config import LogConfig
from kavka.wire.records.batch import Record
from support.compaction_bench import (
    Producer,
    Written,
    clean,
    end_transaction,
    records,
    survivors,
    write,
)

CONFIG = LogConfig(
    segment_bytes=700, index_interval_bytes=150, cleanup_policy=frozenset({"compact"})
)
TP = TopicPartition("t", 0)
BATCHES = 22
STEP = 8
"""Each test tries one of so many changes: two in `make test`, all of them in `make long`."""


async def _open(
    environment: SimEnvironment, *, recovery_point: int = 0
) -> tuple[LogDirectory, Log]:
    directory = LogDirectory(environment.disk, environment.clock, environment.random, "/data")
    await directory.open()
    return directory, await Log.open(directory, TP, CONFIG, recovery_point=recovery_point)


async def _fill(log: Log, written: Written) -> None:
    aborting = Producer(9, 0, 0, True)
    for index in range(BATCHES):
        key = b"key %d" % (index % 6)
        write(log, written, [(key, b"%d" % index)], 1000 + index, Producer(7, 0, index))
        if index % 10 == 3:
            write(log, written, [(key, b"aborted")], 1000 + index, aborting)
            end_transaction(log, written, aborting, 1000 + index, commits=False)
    log.roll()
    await log.flush()


def _live(writes: int, *, loses_power: bool) -> tuple[Written, dict[int, Record], list[str], bool]:
    """Fill a log, clean it until the `writes`-th change of the disk; return what the next life finds."""
    world = World(writes)
    node = world.node("one")
    written = Written()
    found: dict[int, Record] = {}
    names: list[str] = []
    ended = False

    async def first(environment: SimEnvironment) -> None:
        nonlocal ended
        _, log = await _open(environment)
        await _fill(log, written)
        node.kill_in_write(writes)
        await clean(log)
        ended = True
        await asyncio.sleep(3600)  # virtual time

    async def second(environment: SimEnvironment) -> None:
        directory, log = await _open(environment, recovery_point=BATCHES)
        assert log.recovery.damage is None
        found.update(records(log, committed=True))
        names.extend(environment.disk.list(log.path))
        bases = [segment.base_offset for segment in log.segments]
        assert bases == sorted(set(bases))
        await clean(log)
        assert records(log, committed=True) == survivors(written.committed(), log.log_end_offset)
        await directory.wait_for_tasks()
        await log.close()
        await directory.close(is_clean=True)

    async def play() -> None:
        process = node.start(first)
        done = asyncio.ensure_future(process.ended)
        await asyncio.wait([done], timeout=60)
        if loses_power:
            node.lose_power()
        else:
            node.kill()
        await node.start(second).ended

    world.run(play())
    assert not world.failures, world.failures
    return written, found, names, ended


@pytest.mark.slow
@pytest.mark.parametrize(
    ("loses_power", "first"),
    [
        pytest.param(False, 0, id="killed"),
        pytest.param(True, 1, id="power lost"),
        *(
            pytest.param(loses_power, first, id=f"{end}, from {first} on", marks=pytest.mark.long)
            for loses_power, end in ((False, "killed"), (True, "power lost"))
            for first in range(STEP)
            if first != int(loses_power)
        ),
    ],
)
def test_whatever_change_of_the_disk_was_the_last_nothing_that_counts_is_lost(
    loses_power: bool, first: int
) -> None:
    changed = set()
    writes = first
    ended = False
    while not ended:
        written, found, names, ended = _live(writes, loses_power=loses_power)
        committed = written.committed()
        least = survivors(committed, max(committed) + 1)
        assert least.items() <= found.items() <= committed.items(), f"after {writes} writes"
        assert not [name for name in names if name.endswith((".cleaned", ".swap", ".deleted"))]
        changed.add(len(found))
        writes += STEP
    assert writes > 30
    # Some ended before the first segment was replaced, some in between, some after the last one.
    assert {len(committed), len(least)} <= changed
    assert len(changed) > 3
