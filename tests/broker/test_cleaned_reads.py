"""A consumer that reads while the cleaner swaps the segment that it reads."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from kavka.broker.broker import Broker
from kavka.broker.environment import OsEnvironment
from kavka.ids import TopicPartition
from kavka.net.peer import Peer
from kavka.storage.compaction.cleanable_log import log_dirtiness
from kavka.storage.compaction.cleaning_pass import CleanerLimits, CleaningPass
from kavka.storage.disk.os_disk import OsDisk, OsFile
from kavka.wire.messages.create_topics import (
    CreateTopicsRequest,
    CreateTopicsRequestConfig,
    CreateTopicsRequestTopic,
)
from kavka.wire.messages.fetch import FetchRequest, FetchRequestPartition, FetchRequestTopic
from kavka.wire.records.batch import BatchBuilder, decode_records
from kavka.wire.records.control import ControlType, EndMarker, encode_end_marker
from kavka.wire.records.header import assign, read_header, walk_complete
from support.cold_files import ProbedFile

TP = TopicPartition("t", 0)
PRODUCER = 7
LARGE = 20_000


class ColdFile(ProbedFile):
    """A file of which batches can be found at once, and not sent."""

    def is_cached(self, length: int, position: int) -> bool:
        return length < LARGE


class InterruptedDisk(OsDisk):
    """A disk whose files are cold; what is set as `next_read` happens before the next read in the pool."""

    next_read: Callable[[], Awaitable[None]] | None = None

    def open(self, path: str, *, create: bool = False, private: bool = False) -> OsFile:
        return ColdFile(os.open(path, os.O_RDWR | (os.O_CREAT if create else 0), 0o644))

    async def run(self, work: Callable[..., Any], *args: Any) -> Any:
        happens = self.next_read
        if happens is not None and getattr(work, "__name__", "") == "read_at":
            self.next_read = None
            await happens()
        return await super().run(work, *args)


def append(replica: Any, *, transactional: bool) -> None:
    now_ms = 1_700_000_000_000
    builder = BatchBuilder()
    builder.append(b"key", b"aborted" * LARGE if transactional else b"good", now_ms)
    batch = builder.build(
        producer_id=PRODUCER if transactional else -1,
        producer_epoch=0 if transactional else -1,
        base_sequence=0 if transactional else -1,
        transactional=transactional,
        base_offset=replica.log.log_end_offset,
        leader_epoch=0,
    )
    replica.log.append(batch, [read_header(batch)], 0)
    replica.note_written()


def abort(replica: Any) -> None:
    marker = EndMarker(ControlType.ABORT, 0)
    batch = encode_end_marker(marker, PRODUCER, 0, 1_700_000_000_000)
    header = assign(batch, read_header(batch), replica.log.log_end_offset, 0)
    replica.log.append(batch, [header], 0)
    replica.note_written()


async def spend_freely(count: int) -> bool:
    return True


async def committed(peer: Peer, offset: int) -> tuple[list[tuple[int, bytes | None]], int]:
    """Read as a consumer does with read_committed; return offsets and values, and how many bytes came."""
    asked = FetchRequestPartition(partition=0, fetch_offset=offset, partition_max_bytes=1 << 20)
    topics = [FetchRequestTopic(topic="t", partitions=[asked])]
    response = await peer.send(FetchRequest(isolation_level=1, topics=topics), 11)
    found = response.responses[0].partitions[0]
    assert found.error_code == 0
    data = bytes(found.records or b"")
    aborted = {row.producer_id for row in found.aborted_transactions or ()}
    seen = []
    for header in walk_complete(data):
        if header.is_control or (header.is_transactional and header.producer_id in aborted):
            continue
        seen += [(record.offset, record.value) for record in decode_records(data, header)]
    return seen, len(data)


def test_aborted_records_stay_hidden_when_their_segment_is_cleaned_while_it_is_read(
    tmp_path: Path,
) -> None:
    async def story(broker: Broker, peer: Peer, disk: InterruptedDisk) -> None:
        config = CreateTopicsRequestConfig(name="cleanup.policy", value="compact")
        topic = CreateTopicsRequestTopic(
            name="t", num_partitions=1, replication_factor=1, configs=[config]
        )
        await peer.send(CreateTopicsRequest(topics=[topic], timeout_ms=30_000))
        replica: Any = broker.replica_manager.find(TP)
        append(replica, transactional=True)
        abort(replica)
        append(replica, transactional=False)
        log = replica.log
        log.producers.expire(2_000_000_000_000, 1)  # or its last batch would stay

        async def clean() -> None:
            log.roll()
            limits = CleanerLimits(1 << 20, 0.9, 1 << 16, spend_freely)
            found = await log_dirtiness(log, replica.partition.last_stable_offset)
            await CleaningPass(log, found, limits).run()
            log.cleaner_offset = log.log_end_offset

        async def clean_twice() -> None:
            await clean()  # the records go
            append(replica, transactional=False)
            await clean()  # the index forgets them
            assert not log.aborted_transactions(0, 4)

        disk.next_read = clean_twice
        seen, size = await committed(peer, 0)
        assert log.replacements == 2
        assert (seen, size) == ([], 0)
        seen, _ = await committed(peer, 0)
        assert seen == [(3, b"good")]

    async def life() -> None:
        environment = OsEnvironment()
        environment.disk = disk = InterruptedDisk(threads=2)
        texts = {
            "listeners": "PLAINTEXT://127.0.0.1:0",
            "log.dirs": str(tmp_path / "data"),
            "log.cleaner.enable": "false",
        }
        broker = Broker(texts, environment)
        (endpoint,) = await broker.start()
        try:
            peer = await Peer.connect(environment.network, "127.0.0.1", endpoint.port)
            try:
                await story(broker, peer, disk)
            finally:
                peer.close()
        finally:
            await broker.stop()

    asyncio.run(life())
