"""A disk that fails while cleaned segments are swapped in: clients get a retriable error, and nothing worse."""

from __future__ import annotations

import asyncio
import errno
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kavka.broker.broker import Broker
from kavka.broker.environment import OsEnvironment
from kavka.errors import ErrorCode
from kavka.ids import TopicPartition
from kavka.net.peer import Peer
from kavka.storage.compaction.cleanable_log import log_dirtiness
from kavka.storage.compaction.cleaning_pass import CleanerLimits, CleaningPass
from kavka.storage.disk.os_disk import OsDisk, OsFile
from kavka.storage.failures import LogDirectoryFailed
from kavka.storage.log.log import Log
from kavka.wire.messages.create_topics import (
    CreateTopicsRequest,
    CreateTopicsRequestConfig,
    CreateTopicsRequestTopic,
)
from kavka.wire.messages.delete_records import (
    DeleteRecordsRequest,
    DeleteRecordsRequestPartition,
    DeleteRecordsRequestTopic,
)
from kavka.wire.messages.fetch import FetchRequest, FetchRequestPartition, FetchRequestTopic
from kavka.wire.messages.list_offsets import (
    ListOffsetsRequest,
    ListOffsetsRequestPartition,
    ListOffsetsRequestTopic,
)
from kavka.wire.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochRequestPartition,
    OffsetForLeaderEpochRequestTopic,
)
from support.cold_files import ProbedFile
from support.produce import batch, produce, produce_request

TP = TopicPartition("t", 0)
NOW_MS = 1_700_000_000_000
NEVER = -1
STEPS = 9
"""Calls of the pool in one swap, and the first of the next."""
PATIENCE_S = 60


class ColdFile(ProbedFile):
    """A file whose bytes are read in the pool."""

    def is_cached(self, length: int, position: int) -> bool:
        return False


class SwapDisk(OsDisk):
    """A disk that reports each call of the pool while segments are swapped, and may fail in one of them."""

    is_cold = False
    swapping: asyncio.Task[Any] | None = None
    fails_at = NEVER
    steps = 0

    def __init__(self) -> None:
        super().__init__(threads=2)
        self.before_step: Callable[[], None] = lambda: None

    def open(self, path: str, *, create: bool = False, private: bool = False) -> OsFile:
        if not self.is_cold:
            return super().open(path, create=create, private=private)
        return ColdFile(os.open(path, os.O_RDWR | (os.O_CREAT if create else 0), 0o644))

    async def run(self, work: Callable[..., Any], *args: Any) -> Any:
        if self.swapping is None or asyncio.current_task() is not self.swapping:
            return await super().run(work, *args)
        step, self.steps = self.steps, self.steps + 1
        self.before_step()
        for _ in range(5):
            await asyncio.sleep(0)
        if step == self.fails_at:
            raise OSError(errno.EIO, "Input/output error")
        return await super().run(work, *args)


def records(index: int) -> bytearray:
    value = b"value %d" % index * 20
    return batch(value, key=b"key %d" % (index % 3), timestamp_ms=NOW_MS + index)


def questions(offset: int) -> list[tuple[Any, int]]:
    """Return what clients ask of the partition, each with its version."""
    fetched = FetchRequestPartition(partition=0, fetch_offset=offset, partition_max_bytes=1 << 20)
    topics = [FetchRequestTopic(topic="t", partitions=[fetched])]
    asked: list[tuple[Any, int]] = [
        (FetchRequest(isolation_level=level, topics=topics), 11) for level in (0, 1)
    ]
    for timestamp, version in ((NOW_MS + offset, 7), (-3, 7), (-2, 7), (NOW_MS + offset, 0)):
        row = ListOffsetsRequestPartition(partition_index=0, timestamp=timestamp)
        topic = ListOffsetsRequestTopic(name="t", partitions=[row])
        asked.append((ListOffsetsRequest(replica_id=-1, topics=[topic]), version))
    epoch = OffsetForLeaderEpochRequestPartition(partition=0, leader_epoch=0)
    of_epoch = OffsetForLeaderEpochRequestTopic(topic="t", partitions=[epoch])
    asked.append((OffsetForLeaderEpochRequest(replica_id=-1, topics=[of_epoch]), 3))
    asked.append((produce_request("t", [(0, records(offset))]), 9))
    start = DeleteRecordsRequestPartition(partition_index=0, offset=0)
    deleted = DeleteRecordsRequestTopic(name="t", partitions=[start])
    asked.append((DeleteRecordsRequest(topics=[deleted], timeout_ms=30_000), 2))
    return asked


def error_of(response: Any) -> ErrorCode:
    """Return the partition's error of any of the responses."""
    topics = getattr(response, "responses", None) or response.topics
    rows = getattr(topics[0], "partition_responses", None) or topics[0].partitions
    return ErrorCode.of(rows[0].error_code)


class Clients:
    """Connections on which all questions are asked at each step, and what they heard."""

    def __init__(self, peers: list[Peer]) -> None:
        self.peers = peers
        self.asked: list[asyncio.Task[tuple[str, ErrorCode]]] = []

    def ask_all(self) -> None:
        step = len(self.asked) // len(self.peers)
        for peer, (request, version) in zip(self.peers, questions(step % 5), strict=True):
            self.asked.append(asyncio.create_task(self._ask(peer, request, version)))

    async def _ask(self, peer: Peer, request: Any, version: int) -> tuple[str, ErrorCode]:
        return type(request).__name__, error_of(await peer.send(request, version))

    async def heard(self) -> list[tuple[str, ErrorCode]]:
        async with asyncio.timeout(PATIENCE_S):
            return await asyncio.gather(*self.asked)


async def clean(log: Log, disk: SwapDisk, stable: int) -> None:
    """Compact the log once; a disk that fails ends it."""
    swap = log.replacement.swap

    async def watched(*args: Any) -> bool:
        disk.swapping = asyncio.current_task()
        try:
            return await swap(*args)
        finally:
            disk.swapping = None

    log.replacement.swap = watched  # type: ignore[assignment, method-assign]

    async def spend_freely(_count: int) -> bool:
        return True

    log.roll()
    found = await log_dirtiness(log, stable)
    try:
        await CleaningPass(log, found, CleanerLimits(1 << 20, 0.9, 1 << 16, spend_freely)).run()
    except LogDirectoryFailed:
        assert disk.fails_at != NEVER


async def story(broker: Broker, peers: list[Peer], disk: SwapDisk) -> int:
    """Fill a topic, swap its segments under load, and return how many steps the swap took."""
    config = [
        CreateTopicsRequestConfig(name="cleanup.policy", value="compact,delete"),
        CreateTopicsRequestConfig(name="segment.bytes", value="600"),
    ]
    for name in ("in-the-registrys-directory", "t"):
        topic = CreateTopicsRequestTopic(
            name=name, num_partitions=1, replication_factor=1, configs=config
        )
        await peers[0].send(CreateTopicsRequest(topics=[topic], timeout_ms=30_000))
    for index in range(30):
        response = await produce(peers[0], TP, records(index))
        assert response.error_code == ErrorCode.NONE
    replica: Any = broker.replica_manager.find(TP)
    assert replica.log.path.endswith("/data/t-0")
    clients = Clients(peers)
    disk.before_step = clients.ask_all
    await clean(replica.log, disk, replica.partition.last_stable_offset)
    clients.ask_all()
    for question, code in await clients.heard():
        assert code is ErrorCode.NONE or code.retriable, (question, code)
    return disk.steps


@pytest.mark.slow
@pytest.mark.parametrize("is_cold", [False, True])
@pytest.mark.parametrize("fails_at", [NEVER, *range(STEPS)])
def test_a_swap_that_fails_has_clients_ask_again(
    tmp_path: Path, fails_at: int, is_cold: bool
) -> None:
    async def life() -> None:
        environment = OsEnvironment()
        environment.disk = disk = SwapDisk()
        disk.is_cold, disk.fails_at = is_cold, fails_at
        texts = {
            "listeners": "PLAINTEXT://127.0.0.1:0",
            "log.dirs": f"{tmp_path}/registry,{tmp_path}/data",
            "log.cleaner.enable": "false",
            "log.retention.check.interval.ms": "3600000",
        }
        broker = Broker(texts, environment)
        (endpoint,) = await broker.start()
        peers = [
            await Peer.connect(environment.network, "127.0.0.1", endpoint.port)
            for _ in questions(0)
        ]
        try:
            steps = await story(broker, peers, disk)
            assert fails_at >= steps or fails_at == NEVER or steps == fails_at + 1
        finally:
            for peer in peers:
                peer.close()
            await broker.stop()

    asyncio.run(life())
