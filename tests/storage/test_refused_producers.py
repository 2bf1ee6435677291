"""Idempotent producers with several batches in flight, while a broker begins to lead: nothing is lost or out of order.

The batches that follow one that was refused for a moment must not be told that they are out of order (decision 012).
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from kavka.broker.partitions.replica import Replica
from kavka.broker.partitions.traffic import TopicTraffic
from kavka.core.partition import Partition, PartitionState
from kavka.core.recent_refusals import REMEMBERED_MS
from kavka.errors import ErrorCode
from kavka.ids import BrokerId, LeaderEpoch
from kavka.wire.records.batch import BatchBuilder
from support.storage_bench import TP, LogBench

HERE, OTHER = BrokerId(1), BrokerId(2)
ACKS_ALL, VERSION = -1, 9
TAKEN, NOT_LEADER = ErrorCode.NONE, ErrorCode.NOT_LEADER_OR_FOLLOWER
OUT_OF_ORDER, NOT_ENOUGH = (
    ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
    ErrorCode.NOT_ENOUGH_REPLICAS,
)


class Place:
    """A replica, and a producer that sends it records one by one."""

    def __init__(self, bench: LogBench, replica: Replica) -> None:
        self.bench = bench
        self.replica = replica
        self._epoch = -1

    def elect(self, leader: BrokerId, in_sync: tuple[BrokerId, ...] = (HERE, OTHER)) -> None:
        self._epoch += 1
        state = PartitionState(
            leader, LeaderEpoch(self._epoch), self._epoch, in_sync, (HERE, OTHER)
        )
        assert self.replica.partition.apply_state(state, 0) is ErrorCode.NONE
        self.replica.role_changed()

    def send(self, sequence: int, producer_id: int = 7) -> ErrorCode:
        builder = BatchBuilder()
        builder.append(None, b"%d" % sequence, self.bench.clock.now)
        batch = builder.build(producer_id=producer_id, producer_epoch=0, base_sequence=sequence)
        return self.replica.append(bytearray(batch), ACKS_ALL, VERSION).error


@asynccontextmanager
async def place(path: Path) -> AsyncIterator[Place]:
    bench = LogBench(path)
    async with bench.log() as log:
        partition = Partition(TP, HERE, log_start_offset=0, log_end_offset=0, high_watermark=0)
        yield Place(bench, Replica(partition, log, bench.clock, lambda _: None, TopicTraffic()))


def test_batches_behind_one_that_came_too_early_come_again_in_order(tmp_path: Path) -> None:
    async def story() -> None:
        async with place(tmp_path) as p:
            p.elect(HERE)
            assert p.send(0) is TAKEN
            p.elect(OTHER)
            assert p.send(1) is NOT_LEADER
            p.elect(HERE)
            assert [p.send(2), p.send(3)] == [NOT_LEADER, NOT_LEADER]
            assert [p.send(1), p.send(2), p.send(3)] == [TAKEN, TAKEN, TAKEN]
            assert p.send(5) is OUT_OF_ORDER

    asyncio.run(story())


def test_the_first_batches_of_a_producer_keep_their_order_at_a_failover(tmp_path: Path) -> None:
    async def story() -> None:
        async with place(tmp_path) as p:
            p.elect(OTHER)
            assert p.send(0) is NOT_LEADER
            p.elect(HERE)
            assert (
                p.send(1) is NOT_LEADER
            )  # taken, it would have made a late repetition of the first
            assert [p.send(0), p.send(1)] == [TAKEN, TAKEN]

    asyncio.run(story())


def test_a_real_gap_is_refused_after_two_seconds(tmp_path: Path) -> None:
    async def story() -> None:
        async with place(tmp_path) as p:
            p.elect(HERE)
            assert p.send(0) is TAKEN
            p.elect(OTHER)
            assert p.send(1) is NOT_LEADER
            p.elect(HERE)
            assert p.send(2) is NOT_LEADER
            p.bench.clock.now += REMEMBERED_MS
            assert p.send(2) is OUT_OF_ORDER

    asyncio.run(story())


def test_others_are_not_held_back(tmp_path: Path) -> None:
    async def story() -> None:
        async with place(tmp_path) as p:
            p.elect(HERE)
            assert p.send(0, producer_id=8) is TAKEN
            p.elect(OTHER)
            assert p.send(0) is NOT_LEADER
            p.elect(HERE)
            assert p.send(2, producer_id=8) is OUT_OF_ORDER
            assert p.send(5, producer_id=9) is TAKEN  # its state may have expired

    asyncio.run(story())


def test_a_lack_of_replicas_that_passes_is_treated_alike(tmp_path: Path) -> None:
    async def story() -> None:
        async with place(tmp_path) as p:
            p.replica.partition.min_insync_replicas = 2
            p.elect(HERE)
            assert p.send(0) is TAKEN
            p.elect(HERE, (HERE,))
            assert p.send(1) is NOT_ENOUGH
            p.elect(HERE)
            assert [p.send(2), p.send(1), p.send(2)] == [NOT_ENOUGH, TAKEN, TAKEN]

    asyncio.run(story())


@pytest.mark.parametrize("records", [b"", b"\x00" * 30, b"\xff" * 80], ids=["none", "few", "noise"])
def test_what_cannot_be_read_is_refused_just_so(tmp_path: Path, records: bytes) -> None:
    async def story() -> None:
        async with place(tmp_path) as p:
            p.elect(OTHER)
            assert p.replica.append(bytearray(records), ACKS_ALL, VERSION).error is NOT_LEADER

    asyncio.run(story())
