"""The cleaner of a broker: logs are cleaned in the background when due, and failures are left alone and reported."""

from __future__ import annotations

import asyncio
import errno
import os
from pathlib import Path
from typing import Any

import pytest

from kavka.errors import ErrorCode
from kavka.ids import TopicPartition
from kavka.storage.disk.os_disk import OsDisk, OsFile
from kavka.storage.log.log import Log
from support.one_broker import Run, Served
from support.produce import batch
from support.waiting import until

COMPACTED = {
    "cleanup.policy": "compact",
    "segment.bytes": "500",
    "min.cleanable.dirty.ratio": "0.1",
}
QUICK = {"log__cleaner__backoff__ms": "20"}


async def write(served: Served, topic: str, count: int, keys: int = 4, age_ms: int = 0) -> None:
    """Write batches of one record."""
    for index in range(count):
        timestamp_ms = served.broker.clock.now_ms() - age_ms
        key = b"key %d" % (index % keys)
        records = batch(b"value %d" % index, key=key, timestamp_ms=timestamp_ms)
        response = await served.produce_bytes(topic, records)
        assert response.error_code == ErrorCode.NONE


async def read(served: Served, topic: str) -> list[int]:
    """Return the offsets of all records; a response ends with a segment."""
    log = log_of(served, topic)
    found: list[int] = []
    offset = log.log_start_offset
    while offset < log.log_end_offset:
        records = await served.read(topic, offset)
        if not records and offset < log.log_start_offset:
            offset = log.log_start_offset  # retention, which has a duty of its own, was here first
            continue
        found += [record.offset for record in records]
        assert found
        offset = found[-1] + 1
    return found


def log_of(served: Served, topic: str) -> Log:
    log: Log = served.broker.replica_manager.find(TopicPartition(topic, 0)).log
    return log


def is_clean(log: Log) -> bool:
    return log.cleaner_offset == log.segments[-1].base_offset


@pytest.mark.slow
def test_a_compacted_topic_is_cleaned_and_the_checkpoint_says_so(run: Run, tmp_path: Path) -> None:
    async def story(served: Served) -> None:
        await served.create("t", **COMPACTED)
        await served.create("kept", **(COMPACTED | {"cleanup.policy": "delete"}))
        await write(served, "t", 40)
        await write(served, "kept", 40)
        log = log_of(served, "t")
        await until(lambda: is_clean(log))
        await until(lambda: served.broker.cleaner.counts.passes == 1)
        active = log.segments[-1].base_offset
        assert await read(served, "t") == [*range(active - 4, 40)]
        assert len(await read(served, "kept")) == 40
        checkpoint = Path(log.directory.path) / "cleaner-offset-checkpoint"
        await until(lambda: checkpoint.exists())
        assert checkpoint.read_text() == f"0\n1\nt 0 {log.cleaner_offset}\n"
        assert served.broker.cleaner.counts.recopy_percent < 60

    run(story, **QUICK)


def test_no_log_is_cleaned_where_the_cleaner_is_off(run: Run) -> None:
    async def story(served: Served) -> None:
        await served.create("t", **COMPACTED)
        await write(served, "t", 40)
        assert served.broker.cleaner is None
        assert served.broker._cleaner_timer is None  # nor will it begin
        assert len(await read(served, "t")) == 40

    run(story, log__cleaner__enable="false", **QUICK)


@pytest.mark.slow
def test_a_damaged_log_is_left_alone_until_it_is_another_one(run: Run) -> None:
    async def story(served: Served) -> None:
        await served.create("bad", **COMPACTED)
        await served.create("good", **COMPACTED)
        await write(served, "bad", 40)
        log = log_of(served, "bad")
        log.segments[1].data.file().write_at(b"\xff", 75)
        await write(served, "good", 40)
        await until(lambda: served.broker.cleaner is not None)
        cleaner = served.broker.cleaner
        await until(lambda: TopicPartition("bad", 0) in cleaner.uncleanable)
        assert "checksum" in cleaner.uncleanable[TopicPartition("bad", 0)]
        await until(lambda: is_clean(log_of(served, "good")))
        await served.broker.replica_manager.stop(TopicPartition("bad", 0), -2, delete=True)
        await until(lambda: not cleaner.uncleanable)

    run(story, **QUICK)


@pytest.mark.slow
def test_a_broker_stops_at_once_though_the_throttle_holds_a_pass_back(run: Run) -> None:
    async def story(served: Served) -> None:
        await served.create("t", **COMPACTED)
        await write(served, "t", 40)
        log = log_of(served, "t")
        await until(lambda: log.is_being_cleaned)
        started = asyncio.get_running_loop().time()
        await served.broker.cleaner.stop()
        assert asyncio.get_running_loop().time() - started < 5
        assert not log.is_being_cleaned
        assert not [name for name in log.directory.disk.list(log.path) if "cleaned" in name]
        assert len(await read(served, "t")) == 40

    run(story, log__cleaner__io__max__bytes__per__second="10", **QUICK)


class FullDisk(OsDisk):
    """A disk without room for the cleaned segments of the topic `full`."""

    def open(self, path: str, *, create: bool = False, private: bool = False) -> OsFile:
        if "/full-0/" in path and path.endswith(".cleaned"):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), path)
        return super().open(path, create=create, private=private)


@pytest.mark.slow
def test_a_log_without_room_for_its_segments_keeps_no_other_from_being_cleaned(run: Run) -> None:
    async def story(served: Served) -> None:
        await served.create("full", **COMPACTED)
        await served.create("other", **COMPACTED)
        disk: Any = log_of(served, "full").directory.disk
        disk.open = FullDisk(threads=1).open
        await write(served, "other", 20)
        await write(served, "full", 60)  # the dirtier one
        await write(served, "other", 20, keys=20)
        other = log_of(served, "other")
        await until(lambda: is_clean(other))
        assert log_of(served, "full").cleaner_offset is None
        assert log_of(served, "full").directory.failure is None
        assert len(await read(served, "full")) == 60

    run(story, **QUICK)


@pytest.mark.slow
def test_retention_and_compaction_go_together(run: Run) -> None:
    async def story(served: Served) -> None:
        # With a ratio the last segment might be too small a part of a log whose keys all differ.
        policy = {"cleanup.policy": "compact,delete", "min.cleanable.dirty.ratio": "0"}
        policy["retention.bytes"] = "1200"
        await served.create("t", **(COMPACTED | policy))
        await write(served, "t", 100, keys=1000)
        log = log_of(served, "t")
        await until(lambda: is_clean(log))
        assert len(await read(served, "t")) == 100  # each key is its own last
        await served.broker.replica_manager.delete_old_segments()
        assert log.log_start_offset > 50
        await write(served, "t", 100, keys=1000)
        await until(lambda: is_clean(log))
        assert len(await read(served, "t")) >= 100

    run(story, **QUICK)


@pytest.mark.slow
def test_a_record_is_compacted_at_the_latest_after_the_maximum_lag(run: Run) -> None:
    async def story(served: Served) -> None:
        lag = {"min.cleanable.dirty.ratio": "1", "max.compaction.lag.ms": "60000"}
        await served.create("t", **(COMPACTED | lag | {"segment.bytes": "100000"}))
        await write(served, "t", 10, keys=1, age_ms=120_000)
        log = log_of(served, "t")
        await write(served, "t", 1)  # the segment is too old for it
        assert len(log.segments) == 2
        await until(lambda: is_clean(log))
        assert await read(served, "t") == [9, 10]

    run(story, **QUICK)


@pytest.mark.slow
def test_a_log_that_moves_is_cleaned_when_it_is_in_its_place(run: Run, tmp_path: Path) -> None:
    async def story(served: Served) -> None:
        await served.create("t", **(COMPACTED | {"cleanup.policy": "delete"}))
        await write(served, "t", 40)
        replica = served.replica(TopicPartition("t", 0))
        rate = {"replica.alter.log.dirs.io.max.bytes.per.second": "1"}
        served.broker.context.effective_configs.put_broker(rate, default=False)
        here, log = replica.log.directory.path, replica.log
        (there,) = {f"{tmp_path}/one", f"{tmp_path}/two"} - {here}
        moves = served.broker.alter_log_dirs
        assert await moves.move(replica, there) is ErrorCode.NONE
        served.broker.dynamic_configs.topic_configured("t", COMPACTED)
        await until(lambda: served.broker.cleaner is not None)
        began_ms = served.broker.cleaner.counts.last_round_ms
        await until(lambda: served.broker.cleaner.counts.last_round_ms > began_ms)
        assert log.cleaner_offset is None
        assert not log.is_being_cleaned
        assert await moves.move(replica, here) is ErrorCode.NONE
        await until(lambda: is_clean(log))

    run(story, log__dirs=f"{tmp_path}/one,{tmp_path}/two", **QUICK)
