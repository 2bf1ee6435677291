"""Verification of transactional batches while their coordinator, the partition or the log change."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from kavka.broker.configs.broker_config import Endpoint
from kavka.broker.metadata.cache import LiveBroker, PartitionMetadata, TopicMetadata
from kavka.broker.partitions.replica import AppendOutcome
from kavka.core.shards import partition_for
from kavka.errors import ErrorCode
from kavka.ids import NO_TOPIC_ID, BrokerId, TopicPartition
from kavka.wire.apis import ApiKey
from kavka.wire.codec import decode
from kavka.wire.frame import RequestHeader, decode_request_header, encode_response
from kavka.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResponsePartition,
    AddPartitionsToTxnResponseTopic,
    AddPartitionsToTxnResponseTransaction,
)
from kavka.wire.messages.alter_replica_log_dirs import (
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsRequestDir,
    AlterReplicaLogDirsRequestTopic,
)
from kavka.wire.messages.api_versions import ApiVersionsResponse, ApiVersionsResponseApi
from kavka.wire.messages.find_coordinator import FindCoordinatorRequest
from kavka.wire.messages.produce import ProduceResponsePartition
from kavka.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from kavka.wire.records.control import ControlType, EndMarker
from kavka.wire.records.header import read_header
from support.one_broker import Run, Served
from support.produce import batch as make_batch
from support.produce import produce, produce_request

NONE = ErrorCode.NONE
T = TopicPartition("t", 0)
PRODUCER_ID = 7
NOW_MS = 1_700_000_000_000
STRANGER = BrokerId(9)
DAY_MS = 24 * 60 * 60 * 1000
PATIENCE_S = 60


class Coordinator:
    """A broker that coordinates all transactions, with responses and times that the test chooses."""

    def __init__(self, broker: Any, *, is_mute: bool = False) -> None:
        self.broker = broker
        self.is_mute = is_mute
        self.is_asked = asyncio.Event()
        self.responses: asyncio.Queue[ErrorCode] = asyncio.Queue()
        self.topic_partition = T
        self.refuses_all = False
        self.requests: list[list[TopicPartition]] = []
        self._server: asyncio.Server | None = None
        self._served: list[asyncio.Task[Any]] = []

    async def start(self) -> None:
        """Listen, and let the broker know of it."""
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        port = self._server.sockets[0].getsockname()[1]
        endpoint = Endpoint("PLAINTEXT", "127.0.0.1", port, "PLAINTEXT")
        metadata = self.broker.metadata
        live = LiveBroker(STRANGER, (endpoint,), None, -1)
        metadata.brokers = {**metadata.brokers, STRANGER: live}
        self.lead(STRANGER)

    def lead(self, leader: BrokerId) -> None:
        """Set the coordinator in the broker's metadata."""
        partition_metadata = PartitionMetadata(leader, 0, (leader,), (leader,), 0)
        metadata = self.broker.metadata
        metadata.put_topic(TopicMetadata("__transaction_state", NO_TOPIC_ID, (partition_metadata,)))
        metadata.changed()

    async def stop(self) -> None:
        assert self._server is not None
        self._server.close()
        for task in self._served:
            task.cancel()
        await asyncio.gather(*self._served, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._served.append(task)
        try:
            while True:
                frame = await reader.readexactly(int.from_bytes(await reader.readexactly(4)))
                header = decode_request_header(frame)
                if self.is_mute:
                    self.is_asked.set()
                    continue
                response: Any = _versions()
                if header.api_key == ApiKey.ADD_PARTITIONS_TO_TXN:
                    self._note(frame, header)
                    self.is_asked.set()
                    response = self._answer(await self.responses.get())
                parts = encode_response(response, header.api_version, header.correlation_id)
                writer.writelines(parts)  # type: ignore[arg-type]
        except (asyncio.IncompleteReadError, ConnectionError):
            return
        finally:
            writer.transport.abort()

    def _note(self, frame: bytes, header: RequestHeader) -> None:
        """Remember which partitions a request is about."""
        body = memoryview(frame)[header.body_position :]
        request = decode(AddPartitionsToTxnRequest, header.api_version, body)
        self.requests.append(
            [
                TopicPartition(topic.name, partition)
                for transaction in request.transactions
                for topic in transaction.topics
                for partition in topic.partitions
            ]
        )

    def _answer(self, code: ErrorCode) -> AddPartitionsToTxnResponse:
        if self.refuses_all:
            return AddPartitionsToTxnResponse(error_code=code)
        row = AddPartitionsToTxnResponsePartition(
            partition_index=self.topic_partition.partition, partition_error_code=code
        )
        topic = AddPartitionsToTxnResponseTopic(
            name=self.topic_partition.topic, results_by_partition=[row]
        )
        return AddPartitionsToTxnResponse(
            error_code=NONE,
            results_by_transaction=[
                AddPartitionsToTxnResponseTransaction(transactional_id="x", topic_results=[topic])
            ],
        )


def _versions() -> ApiVersionsResponse:
    keys = ((ApiKey.API_VERSIONS, 3), (ApiKey.ADD_PARTITIONS_TO_TXN, 4))
    return ApiVersionsResponse(
        error_code=NONE,
        api_keys=[
            ApiVersionsResponseApi(api_key=key, min_version=0, max_version=newest)
            for key, newest in keys
        ],
    )


def batch(sequence: int = 0, epoch: int = 0) -> bytearray:
    return make_batch(
        b"a",
        timestamp_ms=NOW_MS,
        producer_id=PRODUCER_ID,
        producer_epoch=epoch,
        base_sequence=sequence,
        transactional=True,
    )


async def produce_in_transaction(served: Served, version: int = 9) -> ProduceResponsePartition:
    return await produce(
        served, TopicPartition("t", 0), batch(), version=version, transactional_id="x"
    )


def with_coordinator(
    run: Run, story: Any, *, is_mute: bool = False, partitions: int = 1, **settings: str
) -> None:
    """Run a story with the topic `t` and a coordinator elsewhere."""

    async def whole(served: Served) -> None:
        await served.create("t", partitions)
        await served.send(FindCoordinatorRequest(key="g"), 3)
        coordinator = Coordinator(served.broker, is_mute=is_mute)
        await coordinator.start()
        try:
            async with asyncio.timeout(PATIENCE_S):
                await story(served, coordinator)
        finally:
            await coordinator.stop()

    run(whole, offsets__topic__num__partitions="1", **settings)


def test_a_batch_is_answered_though_its_partition_is_deleted_meanwhile(run: Run) -> None:
    async def story(served: Served, coordinator: Coordinator) -> None:
        response = asyncio.ensure_future(produce_in_transaction(served))
        await coordinator.is_asked.wait()
        assert await served.broker.replica_manager.stop(T, -2, delete=True) is NONE
        coordinator.responses.put_nowait(NONE)
        assert (await response).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER

    with_coordinator(run, story)


def test_a_batch_is_answered_though_the_one_before_it_cannot_be_appended(run: Run) -> None:
    async def story(served: Served, coordinator: Coordinator) -> None:
        found = served.replica(T)
        appends = []
        for sequence in range(2):
            data = batch(sequence)
            # A read-only buffer: the offsets are to be patched in, a bug of the caller.
            records = memoryview(bytes(data)) if sequence == 0 else memoryview(data)
            append = served.broker.verifier.append(found, "x", read_header(data), (records, -1, 9))
            assert not isinstance(append, AppendOutcome)
            appends.append(append)
        coordinator.responses.put_nowait(NONE)
        first, second = await asyncio.gather(*appends)
        assert first.error is ErrorCode.UNKNOWN_SERVER_ERROR
        assert second.error is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER

    with_coordinator(run, story)


def test_first_batches_of_one_produce_request_are_verified_by_one_request(run: Run) -> None:
    async def story(served: Served, coordinator: Coordinator) -> None:
        batches = [(index, batch()) for index in range(3)]
        request = produce_request("t", batches, transactional_id="x")
        coordinator.responses.put_nowait(NONE)
        response = await served.send(request, 9)
        codes = [row.error_code for row in response.responses[0].partition_responses]
        assert codes == [NONE, NONE, NONE]
        assert coordinator.requests == [[TopicPartition("t", index) for index in range(3)]]

    with_coordinator(run, story, partitions=3)


def test_a_batch_that_waits_is_refused_when_the_broker_stops(run: Run) -> None:
    async def story(served: Served, coordinator: Coordinator) -> None:
        response = asyncio.ensure_future(produce_in_transaction(served))
        await coordinator.is_asked.wait()
        await served.broker.verifier.stop()
        assert (await response).error_code == ErrorCode.NOT_ENOUGH_REPLICAS
        assert (await produce_in_transaction(served)).error_code == ErrorCode.NOT_ENOUGH_REPLICAS

    with_coordinator(run, story)


def test_a_late_batch_does_not_pass_by_the_response_about_a_newer_epoch(run: Run) -> None:
    async def story(served: Served, coordinator: Coordinator) -> None:
        found = served.replica(T)
        appends = []
        for epoch in (1, 0):
            data = batch(epoch=epoch)
            # The newer one cannot be appended, so that the log knows nothing of its epoch.
            records = memoryview(bytes(data)) if epoch == 1 else memoryview(data)
            append = served.broker.verifier.append(found, "x", read_header(data), (records, -1, 12))
            assert not isinstance(append, AppendOutcome)
            appends.append(append)
        for code in (NONE, ErrorCode.PRODUCER_FENCED):
            coordinator.responses.put_nowait(code)
        newer, late = await asyncio.gather(*appends)
        assert newer.error is ErrorCode.UNKNOWN_SERVER_ERROR
        assert late.error is ErrorCode.INVALID_PRODUCER_EPOCH
        assert found.log.log_end_offset == 0

    with_coordinator(run, story)


@pytest.mark.parametrize("raises_epoch", [False, True])
def test_a_marker_that_may_end_what_is_added_has_the_leader_ask_again(
    raises_epoch: bool, run: Run
) -> None:
    async def story(served: Served, coordinator: Coordinator) -> None:
        response = asyncio.ensure_future(produce_in_transaction(served, 12))
        await coordinator.is_asked.wait()
        marker = EndMarker(ControlType.COMMIT, 0)
        found = served.broker.replica_manager.find(T)
        version = 2 if raises_epoch else 0  # of the transaction before, or perhaps of this one
        assert found.append_marker(PRODUCER_ID, 0, marker, version).error is NONE
        coordinator.responses.put_nowait(NONE)
        expected = NONE if raises_epoch else ErrorCode.NOT_ENOUGH_REPLICAS
        assert (await response).error_code == expected
        coordinator.responses.put_nowait(NONE)
        assert (await produce_in_transaction(served, 12)).error_code == NONE

    with_coordinator(run, story)


def test_what_was_asked_with_an_unknown_partition_may_be_sent_again(run: Run) -> None:
    offsets = TopicPartition("__consumer_offsets", partition_for("g", 1))

    async def story(served: Served, coordinator: Coordinator) -> None:
        for _ in range(2):
            coordinator.responses.put_nowait(ErrorCode.OPERATION_NOT_ATTEMPTED)
        assert (await produce_in_transaction(served)).error_code == ErrorCode.NOT_ENOUGH_REPLICAS
        coordinator.topic_partition = offsets
        assert await commit_offset(served) == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS

    with_coordinator(run, story)


@pytest.mark.parametrize("is_mute", [False, True])
@pytest.mark.parametrize("is_dead", [False, True])
def test_no_producer_waits_for_a_broker_that_coordinates_no_more(
    run: Run, is_dead: bool, is_mute: bool
) -> None:
    async def story(served: Served, coordinator: Coordinator) -> None:
        response = asyncio.ensure_future(produce_in_transaction(served))
        await coordinator.is_asked.wait()
        metadata = served.broker.metadata
        metadata.changed()  # of something else
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert not response.done()
        if is_dead:
            metadata.brokers = {k: v for k, v in metadata.brokers.items() if k != STRANGER}
            metadata.changed()
        else:
            coordinator.lead(served.broker.broker_id)
        found = await response
        assert found.error_code == ErrorCode.NOT_ENOUGH_REPLICAS
        assert served.broker.replica_manager.find(T).log.log_end_offset == 0

    with_coordinator(run, story, is_mute=is_mute)


def test_a_broker_that_coordinates_again_is_asked_again(run: Run) -> None:
    async def story(served: Served, coordinator: Coordinator) -> None:
        response = asyncio.ensure_future(produce_in_transaction(served))
        await coordinator.is_asked.wait()
        coordinator.lead(served.broker.broker_id)
        assert (await response).error_code == ErrorCode.NOT_ENOUGH_REPLICAS
        coordinator.lead(STRANGER)
        for _ in range(2):  # the first is for the connection that was given up
            coordinator.responses.put_nowait(NONE)
        assert (await produce_in_transaction(served)).error_code == NONE

    with_coordinator(run, story)


async def commit_offset(served: Served) -> int:
    row = TxnOffsetCommitRequestPartition(partition_index=0, committed_offset=5)
    request = TxnOffsetCommitRequest(
        transactional_id="x",
        group_id="g",
        producer_id=PRODUCER_ID,
        producer_epoch=0,
        topics=[TxnOffsetCommitRequestTopic(name="t", partitions=[row])],
    )
    response = await served.send(request, 3)
    code: int = response.topics[0].partitions[0].error_code
    return code


async def move(served: Served, topic_partition: TopicPartition, directories: list[Path]) -> None:
    """Bring the log of a partition into the directory where it is not."""
    replica = served.broker.replica_manager.find(topic_partition)
    before = replica.log
    (other,) = [path for path in directories if not before.path.startswith(f"{path}/")]
    topic = AlterReplicaLogDirsRequestTopic(
        name=topic_partition.topic, partitions=[topic_partition.partition]
    )
    asked = AlterReplicaLogDirsRequestDir(path=str(other), topics=[topic])
    client = await served.another()  # the first waits for its response
    response = await client.send(AlterReplicaLogDirsRequest(dirs=[asked]))
    assert response.results[0].partitions[0].error_code == NONE
    await asyncio.gather(*(m.task for m in served.broker.alter_log_dirs._moves.values()))
    assert replica.log is not before


def test_offsets_open_no_transaction_in_a_log_that_moved_while_they_were_verified(
    run: Run, tmp_path: Path
) -> None:
    directories = [tmp_path / "one", tmp_path / "two"]
    offsets = TopicPartition("__consumer_offsets", partition_for("g", 1))

    async def story(served: Served, coordinator: Coordinator) -> None:
        coordinator.topic_partition = offsets
        response = asyncio.ensure_future(commit_offset(served))
        await coordinator.is_asked.wait()
        await move(served, offsets, directories)
        coordinator.responses.put_nowait(NONE)
        assert await response == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        assert served.broker.replica_manager.find(offsets).log.log_end_offset == 0
        coordinator.responses.put_nowait(NONE)
        assert await commit_offset(served) == NONE

    with_coordinator(run, story, log__dirs=",".join(map(str, directories)))


@pytest.mark.parametrize(
    ("marker_epoch", "expected"),
    [(0, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS), (1, ErrorCode.INVALID_PRODUCER_EPOCH)],
)
def test_offsets_wait_or_are_fenced_when_a_marker_came_while_they_were_verified(
    run: Run, marker_epoch: int, expected: ErrorCode
) -> None:
    offsets = TopicPartition("__consumer_offsets", partition_for("g", 1))

    async def story(served: Served, coordinator: Coordinator) -> None:
        coordinator.topic_partition = offsets
        response = asyncio.ensure_future(commit_offset(served))
        await coordinator.is_asked.wait()
        marker = EndMarker(ControlType.ABORT, 0)
        found = served.broker.replica_manager.find(offsets)
        assert found.append_marker(PRODUCER_ID, marker_epoch, marker, 0).error is NONE
        coordinator.responses.put_nowait(NONE)
        assert await response == expected

    with_coordinator(run, story)


async def lead_again(served: Served, topic_partition: TopicPartition) -> None:
    """Lead a partition in the next epoch, after another leader had it and the log was cut back to its history."""
    replica = served.broker.replica_manager.find(topic_partition)
    await replica.log.truncate_fully_and_start_at(0)
    partition = replica.partition
    partition.leader_epoch += 1


def test_offsets_wait_when_the_group_was_coordinated_elsewhere_while_they_were_verified(
    run: Run,
) -> None:
    offsets = TopicPartition("__consumer_offsets", partition_for("g", 1))

    async def story(served: Served, coordinator: Coordinator) -> None:
        coordinator.topic_partition = offsets
        response = asyncio.ensure_future(commit_offset(served))
        await coordinator.is_asked.wait()
        await lead_again(served, offsets)
        coordinator.responses.put_nowait(NONE)
        assert await response == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS

    with_coordinator(run, story)


def test_a_batch_may_be_sent_again_after_another_led_while_it_was_verified(run: Run) -> None:
    async def story(served: Served, coordinator: Coordinator) -> None:
        response = asyncio.ensure_future(produce_in_transaction(served))
        await coordinator.is_asked.wait()
        await lead_again(served, T)
        coordinator.responses.put_nowait(NONE)
        assert (await response).error_code == ErrorCode.NOT_ENOUGH_REPLICAS

    with_coordinator(run, story)


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        (ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS),
        (ErrorCode.CLUSTER_AUTHORIZATION_FAILED, ErrorCode.INVALID_TXN_STATE),
    ],
)
def test_the_refusal_of_a_whole_verification_keeps_its_meaning(
    run: Run, code: ErrorCode, expected: ErrorCode
) -> None:
    offsets = TopicPartition("__consumer_offsets", partition_for("g", 1))

    async def story(served: Served, coordinator: Coordinator) -> None:
        coordinator.topic_partition = offsets
        coordinator.refuses_all = True
        coordinator.responses.put_nowait(code)
        assert await commit_offset(served) == expected

    with_coordinator(run, story)


def test_a_batch_may_be_sent_again_after_its_log_moved_while_it_was_verified(
    run: Run, tmp_path: Path
) -> None:
    directories = [tmp_path / "one", tmp_path / "two"]

    async def story(served: Served, coordinator: Coordinator) -> None:
        response = asyncio.ensure_future(produce_in_transaction(served))
        await coordinator.is_asked.wait()
        await move(served, T, directories)
        coordinator.responses.put_nowait(NONE)
        assert (await response).error_code == ErrorCode.NOT_ENOUGH_REPLICAS
        coordinator.responses.put_nowait(NONE)
        assert (await produce_in_transaction(served)).error_code == NONE

    with_coordinator(run, story, log__dirs=",".join(map(str, directories)))


@pytest.mark.parametrize(
    ("code", "is_kept"),
    [
        (ErrorCode.PRODUCER_FENCED, False),
        (ErrorCode.INVALID_PRODUCER_ID_MAPPING, False),
        (ErrorCode.CONCURRENT_TRANSACTIONS, True),
    ],
)
def test_the_verification_of_a_fenced_producer_is_dropped_at_once(
    run: Run, code: ErrorCode, is_kept: bool
) -> None:
    async def story(served: Served, coordinator: Coordinator) -> None:
        response = asyncio.ensure_future(produce_in_transaction(served))
        await coordinator.is_asked.wait()
        producers = served.broker.replica_manager.find(T).log.producers
        now_ms = served.broker.clock.now_ms()
        verification = producers.begin_verification(PRODUCER_ID, 0, 0, now_ms)
        coordinator.responses.put_nowait(code)
        assert (await response).error_code != NONE
        producers.expire(now_ms, DAY_MS)
        assert producers.is_valid(PRODUCER_ID, verification) is is_kept

    with_coordinator(run, story)
