"""Topics and configuration as an administrator sees them."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from kavka.errors import ErrorCode
from kavka.ids import TopicPartition
from kavka.net.listener import SocketListener
from kavka.wire.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsRequestTopic,
)
from kavka.wire.messages.delete_records import (
    DeleteRecordsRequest,
    DeleteRecordsRequestPartition,
    DeleteRecordsRequestTopic,
)
from kavka.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsRequestTopic
from kavka.wire.messages.find_coordinator import FindCoordinatorRequest
from kavka.wire.messages.list_offsets import (
    ListOffsetsRequest,
    ListOffsetsRequestPartition,
    ListOffsetsRequestTopic,
)
from kavka.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from support.config_requests import BROKER, TOPIC, altered, described
from support.one_broker import Run, Served


async def config(served: Served, kind: int, resource: str, name: str) -> Any:
    result = await described(served, kind, resource, [name])
    assert result.error_code == 0, result.error_message
    (row,) = result.configs
    return row


async def alter(
    served: Served, kind: int, resource: str, name: str, operation: int, value: str | None
) -> Any:
    (response,) = await altered(served, (kind, resource, [(name, operation, value)]))
    return response


def test_a_created_topic_is_whole_when_the_response_comes(run: Run) -> None:
    async def story(served: Served) -> None:
        created = await served.create("t", 3, retention__ms="1000")
        assert (created.error_code, created.num_partitions) == (0, 3)
        asked = MetadataRequest(topics=[MetadataRequestTopic(name="t")])
        (topic,) = (await served.send(asked)).topics
        assert topic.topic_id == created.topic_id != bytes(16)
        assert [p.leader_id for p in topic.partitions] == [0, 0, 0]
        assert (await served.produce("t", b"a", partition=2)).error_code == 0

    run(story)


def test_a_topic_is_there_after_a_restart(run: Run) -> None:
    ids: list[bytes] = []

    async def before(served: Served) -> None:
        ids.append((await served.create("t", 2, segment__bytes="1000")).topic_id)

    async def after(served: Served) -> None:
        (topic,) = (await served.send(MetadataRequest(topics=None))).topics
        assert (topic.name, topic.topic_id, len(topic.partitions)) == ("t", ids[0], 2)
        assert (await config(served, TOPIC, "t", "segment.bytes")).value == "1000"

    run(before)
    run(after)


@pytest.mark.parametrize(
    ("configs", "code"),
    [
        ({"no__such__name": "1"}, ErrorCode.INVALID_CONFIG),
        ({"retention__ms": "soon"}, ErrorCode.INVALID_CONFIG),
        ({"cleanup__policy": "burn"}, ErrorCode.INVALID_CONFIG),
    ],
)
def test_bad_topic_settings_refuse_the_topic(
    run: Run, configs: dict[str, str], code: ErrorCode
) -> None:
    async def story(served: Served) -> None:
        refused = await served.create("t", **configs)
        assert refused.error_code == code
        assert refused.error_message
        assert served.broker.metadata.topics == {}

    run(story)


def test_a_deleted_topic_stays_deleted(run: Run, tmp_path: Path) -> None:
    async def before(served: Served) -> None:
        await served.create("t")
        await served.produce("t", b"old")
        asked = DeleteTopicsRequest(topics=[DeleteTopicsRequestTopic(name="t")], timeout_ms=5000)
        assert (await served.send(asked)).responses[0].error_code == 0
        unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert (await served.send(asked)).responses[0].error_code == unknown
        assert (await served.fetch("t")).error_code == unknown

    async def after(served: Served) -> None:
        assert (await served.send(MetadataRequest(topics=None))).topics == []
        await served.create("t")
        assert await served.read("t") == []

    run(before)
    run(after)


def test_a_deletion_that_a_crash_interrupted_is_finished(run: Run) -> None:
    async def before(served: Served) -> None:
        await served.create("t")
        await served.broker.registry.create("/admin/delete_topics/t")

    async def after(served: Served) -> None:
        assert (await served.send(MetadataRequest(topics=None))).topics == []
        assert await served.broker.registry.children("/admin/delete_topics") == []

    run(before)
    run(after)


def test_logs_that_the_registry_does_not_know_are_adopted(run: Run, tmp_path: Path) -> None:
    ids: list[bytes] = []

    async def before(served: Served) -> None:
        ids.append((await served.create("t", 2)).topic_id)
        await served.produce("t", b"kept", partition=1)

    async def after(served: Served) -> None:
        (topic,) = (await served.send(MetadataRequest(topics=None))).topics
        assert (topic.name, topic.topic_id, len(topic.partitions)) == ("t", ids[0], 2)
        assert [r.value for r in await served.read("t", partition=1)] == [b"kept"]

    run(before)
    for name in ("kavka-registry.journal", "kavka-registry.snapshot"):
        (tmp_path / "data" / name).unlink()
    run(after)


def test_partitions_are_added_and_never_removed(run: Run) -> None:
    async def story(served: Served) -> None:
        await served.create("t", 2)
        for count, code in ((4, 0), (4, 37), (3, 37)):
            topic = CreatePartitionsRequestTopic(name="t", count=count, assignments=None)
            request = CreatePartitionsRequest(topics=[topic], timeout_ms=5000)
            assert (await served.send(request)).results[0].error_code == code
        assert (await served.produce("t", b"a", partition=3)).error_code == 0

    run(story)


@pytest.mark.parametrize("name", ["__consumer_offsets", "__transaction_state"])
@pytest.mark.parametrize("validate_only", [False, True])
def test_the_partitions_of_internal_topics_stay_as_many_as_they_are(
    run: Run, name: str, validate_only: bool
) -> None:
    async def story(served: Served) -> None:
        topic = CreatePartitionsRequestTopic(name=name, count=9, assignments=None)
        request = CreatePartitionsRequest(
            topics=[topic], timeout_ms=5000, validate_only=validate_only
        )
        asked = await served.send(request)
        assert asked.results[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        key_type = int(name == "__transaction_state")
        await served.send(FindCoordinatorRequest(key="g", key_type=key_type), 3)
        before = len(served.broker.metadata.topics[name].partitions)
        asked = await served.send(request)
        assert asked.results[0].error_code == ErrorCode.INVALID_REQUEST
        assert "cannot be changed" in asked.results[0].error_message
        assert len(served.broker.metadata.topics[name].partitions) == before

    run(story, transaction__state__log__num__partitions="3")


def test_topic_settings_change_while_the_broker_runs(run: Run) -> None:
    async def story(served: Served) -> None:
        await served.create("t")
        row = await config(served, TOPIC, "t", "max.message.bytes")
        assert (row.value, row.config_source) == ("1048588", 5)
        assert (await alter(served, TOPIC, "t", "max.message.bytes", 0, "100")).error_code == 0
        row = await config(served, TOPIC, "t", "max.message.bytes")
        assert (row.value, row.config_source) == ("100", 1)
        refused = await served.produce("t", b"x" * 200)
        assert refused.error_code == ErrorCode.MESSAGE_TOO_LARGE
        assert (await alter(served, TOPIC, "t", "max.message.bytes", 1, None)).error_code == 0
        assert (await served.produce("t", b"x" * 200)).error_code == 0

    run(story)


def test_of_two_changes_at_once_neither_is_lost(run: Run) -> None:
    async def story(served: Served) -> None:
        await served.create("t")
        other = await served.another()
        await asyncio.gather(
            alter(served, TOPIC, "t", "retention.ms", 0, "1000"),
            alter(other, TOPIC, "t", "segment.bytes", 0, "2000"),
        )
        assert (await config(served, TOPIC, "t", "retention.ms")).value == "1000"
        assert (await config(served, TOPIC, "t", "segment.bytes")).value == "2000"

    run(story)


def test_lists_are_appended_to_and_subtracted_from(run: Run) -> None:
    async def story(served: Served) -> None:
        await served.create("t")
        await alter(served, TOPIC, "t", "cleanup.policy", 2, "compact")
        assert (await config(served, TOPIC, "t", "cleanup.policy")).value == "delete,compact"
        await alter(served, TOPIC, "t", "cleanup.policy", 3, "delete")
        assert (await config(served, TOPIC, "t", "cleanup.policy")).value == "compact"
        refused = await served.produce("t", b"without a key")
        assert refused.error_code == ErrorCode.INVALID_RECORD
        assert refused.record_errors[0].batch_index == 0

    run(story)


def test_broker_settings_change_for_one_and_for_all(run: Run) -> None:
    async def story(served: Served) -> None:
        assert (await alter(served, BROKER, "", "log.retention.ms", 0, "5000")).error_code == 0
        assert (await config(served, BROKER, "0", "log.retention.ms")).config_source == 3
        assert (await alter(served, BROKER, "0", "log.retention.ms", 0, "6000")).error_code == 0
        row = await config(served, BROKER, "0", "log.retention.ms")
        assert (row.value, row.config_source) == ("6000", 2)
        await served.create("t")
        assert (await config(served, TOPIC, "t", "retention.ms")).value == "6000"
        refused = await alter(served, BROKER, "0", "log.dirs", 0, "/elsewhere")
        assert refused.error_code == ErrorCode.INVALID_REQUEST
        assert "Cannot update these configs dynamically" in refused.error_message

    run(story)


def test_the_limit_of_connections_changes_while_the_broker_runs(run: Run) -> None:
    async def story(served: Served) -> None:
        await served.another()
        assert (await alter(served, BROKER, "", "max.connections", 0, "2")).error_code == 0
        _reader, waiting = await asyncio.open_connection("127.0.0.1", served.port)
        assert len(served.broker.dispatcher.connections) == 2
        listener = served.broker.listeners._listeners["PLAINTEXT"]
        assert isinstance(listener, SocketListener)
        assert listener._is_paused
        waiting.close()

    run(story)


def test_deleted_records_cannot_be_read_and_stay_deleted(run: Run) -> None:
    async def before(served: Served) -> None:
        await served.create("t")
        await served.produce("t", b"a")
        await served.produce("t", b"b")
        partition = DeleteRecordsRequestPartition(partition_index=0, offset=1)
        topic = DeleteRecordsRequestTopic(name="t", partitions=[partition])
        response = await served.send(DeleteRecordsRequest(topics=[topic], timeout_ms=5000))
        assert response.topics[0].partitions[0].low_watermark == 1
        assert (await served.fetch("t", 0)).error_code == ErrorCode.OFFSET_OUT_OF_RANGE

    async def after(served: Served) -> None:
        assert (await served.fetch("t", 0)).error_code == ErrorCode.OFFSET_OUT_OF_RANGE
        assert [r.value for r in await served.read("t", 1)] == [b"b"]

    run(before)
    run(after)


def test_offsets_are_found_by_time(run: Run) -> None:
    async def story(served: Served) -> None:
        await served.create("t")
        for _ in range(3):
            await served.produce("t", b"a", b"b")

        async def ask(timestamp: int) -> tuple[int, int]:
            asked = ListOffsetsRequestPartition(partition_index=0, timestamp=timestamp)
            topic = ListOffsetsRequestTopic(name="t", partitions=[asked])
            response = await served.send(ListOffsetsRequest(replica_id=-1, topics=[topic]), 8)
            found = response.topics[0].partitions[0]
            return found.offset, found.timestamp

        assert await ask(-1) == (6, -1)
        assert await ask(-2) == (0, -1)
        assert await ask(-3) == (0, 1_700_000_000_000)
        assert await ask(1_700_000_000_000) == (0, 1_700_000_000_000)
        assert await ask(1_700_000_000_001) == (-1, -1)

    run(story)


@pytest.mark.parametrize("version", [10, 11])
def test_metadata_by_topic_id_is_refused_where_kafka_refuses_it(run: Run, version: int) -> None:
    async def story(served: Served) -> None:
        await served.create("t")
        topic_id = served.broker.metadata.topics["t"].topic_id
        for asked in (
            MetadataRequestTopic(name=None, topic_id=topic_id),
            MetadataRequestTopic(name=None, topic_id=b"x" * 16),
            MetadataRequestTopic(name=None),
        ):
            (found,) = (await served.send(MetadataRequest(topics=[asked]), version)).topics
            assert (found.error_code, found.name) == (ErrorCode.INVALID_REQUEST, "")

    run(story)


@pytest.mark.parametrize("repetitions", [3, 20_000])
def test_topic_that_is_requested_by_its_id_is_returned_once_with_any_name_beside(
    run: Run, repetitions: int
) -> None:
    async def story(served: Served) -> None:
        await served.create("t", 3)
        topic_id = served.broker.metadata.topics["t"].topic_id
        asked = [
            MetadataRequestTopic(name=f"name-{number}", topic_id=topic_id)
            for number in range(repetitions)
        ]
        (found,) = (await served.send(MetadataRequest(topics=asked), 12)).topics
        assert (found.error_code, found.name, len(found.partitions)) == (0, "t", 3)

    run(story)


def test_a_directory_keeps_its_broker(run: Run) -> None:
    async def story(served: Served) -> None:
        assert served.broker.broker_id == 7
        assert served.broker.replica_manager.find(TopicPartition("t", 0)) is (
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        )

    run(story, broker__id="7")
    with pytest.raises(
        Exception, match=r"Configured broker\.id 8 doesn't match stored broker\.id 7"
    ):
        run(story, broker__id="8")
    run(story)
