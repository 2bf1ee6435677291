"""Cost of topics and partitions as there are more of them: work is counted, with N and with 2N."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from kavka.broker.metadata import encoded_topics
from kavka.broker.metadata.cache import (
    LiveBroker,
    MetadataCache,
    PartitionMetadata,
    TopicMetadata,
)
from kavka.broker.metadata.encoded_topics import PIECE, EncodedTopics, Form, pieces
from kavka.errors import ErrorCode
from kavka.ids import BrokerId, TopicId, TopicPartition
from kavka.storage.store.log_store import LogStore
from kavka.wire.apis import ApiKey
from kavka.wire.messages.create_topics import CreateTopicsRequest
from kavka.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsRequestTopic
from kavka.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from kavka.wire.stored import znodes
from support.one_broker import Run, Served

FORM = Form(12, -(2**31))


def news(leader: int = 0, replicas: tuple[int, ...] = (0,)) -> PartitionMetadata:
    ids = tuple(map(BrokerId, replicas))
    return PartitionMetadata(BrokerId(leader), 0, ids, ids, 0)


def topic(name: str, partitions: int) -> TopicMetadata:
    return TopicMetadata(name, TopicId(name.encode().ljust(16)), (news(),) * partitions)


def cache(*topics: TopicMetadata, brokers: tuple[int, ...] = (0,)) -> MetadataCache:
    metadata = MetadataCache("cluster")
    metadata.brokers = {BrokerId(b): LiveBroker(BrokerId(b), (), None, 0) for b in brokers}
    for each in topics:
        metadata.put_topic(each)
    return metadata


class Encoding:
    """Encodes all topics of a metadata cache, and counts the partitions that are encoded for that."""

    def __init__(self, metadata: MetadataCache, monkeypatch: pytest.MonkeyPatch) -> None:
        self.metadata = metadata
        self.topics = EncodedTopics(metadata)
        self._encoded = 0
        encode = encoded_topics.encode_partitions  # type: ignore[attr-defined]

        def counted(version: int, rows: list[Any]) -> bytearray:
            self._encoded += len(rows)
            return encode(version, rows)

        monkeypatch.setattr(encoded_topics, "encode_partitions", counted)

    def partitions(self, form: Form = FORM) -> int:
        """Return how many partitions had to be encoded."""
        self._encoded = 0
        for _ in pieces(self.topics.take(list(self.metadata.topics.values()), form)):
            pass
        return self._encoded


# Metadata


@pytest.mark.parametrize("count", [2 * PIECE, 4 * PIECE])
def test_every_partition_is_encoded_once(count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    encoding = Encoding(cache(topic("t", count)), monkeypatch)
    assert encoding.partitions() == count
    assert encoding.partitions() == 0


def test_only_the_topic_that_changed_is_encoded_again(monkeypatch: pytest.MonkeyPatch) -> None:
    encoding = Encoding(cache(topic("t", 30), topic("u", 5)), monkeypatch)
    encoding.partitions()
    encoding.metadata.clear_leader(TopicPartition("u", 3))
    assert encoding.partitions() == 5


def test_all_topics_are_encoded_again_when_another_broker_lives(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    encoding = Encoding(cache(topic("t", 30)), monkeypatch)
    encoding.partitions()
    encoding.metadata.brokers = {}
    assert encoding.partitions() == 30
    (encoded,) = encoding.topics.take(list(encoding.metadata.topics.values()), FORM)
    assert encoded.leaderless == 30


@pytest.mark.parametrize("partitions", [1, PIECE // 2, 3 * PIECE])
def test_others_have_their_turn_after_each_piece(partitions: int) -> None:
    metadata = cache(*(topic(f"t{number}", partitions) for number in range(6)))
    encoded = EncodedTopics(metadata).take(list(metadata.topics.values()), FORM)
    slices = sum(1 for _ in pieces(encoded))
    assert slices >= 6 * partitions // (2 * PIECE)
    assert all(each.data is not None for each in encoded)


def test_clients_that_ask_at_the_same_time_share_the_pieces(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    encoding = Encoding(cache(topic("t", 4 * PIECE)), monkeypatch)
    topics = list(encoding.metadata.topics.values())
    one, other = (pieces(encoding.topics.take(topics, FORM)) for _ in range(2))
    slices = 0
    while next(one, 1) is None or next(other, 1) is None:
        slices += 1
    assert slices <= 4
    assert encoding._encoded == 4 * PIECE


def test_what_is_kept_is_bounded_by_topics_and_by_forms(monkeypatch: pytest.MonkeyPatch) -> None:
    encoding = Encoding(cache(topic("t", 1), topic("u", 1)), monkeypatch)
    for version in range(13):
        encoding.partitions(Form(version, 0))
    encoding.metadata.remove_topic("u")
    encoding.partitions(Form(12, 0))
    kept = encoding.topics._forms
    assert len(kept) == 4
    assert set(kept[Form(12, 0)]) == {"t"}


def test_a_response_with_a_large_topic_is_made_in_turns_and_whole(run: Run) -> None:
    async def story(served: Served) -> None:
        metadata = served.broker.metadata
        metadata.put_topic(topic("large", 5 * PIECE))
        metadata.put_topic(TopicMetadata("dead", TopicId(b"d" * 16), (news(7), news(0))))
        for version in (0, 5, 9, 12):
            asked = [[MetadataRequestTopic(name="large")], None if version else []]
            for topics in asked:
                response = await served.send(MetadataRequest(topics=topics), version)
                shown = {each.name: each.partitions for each in response.topics}
                assert [row.partition_index for row in shown["large"]] == list(range(5 * PIECE))
                assert {row.leader_id for row in shown["large"]} == {0}
        codes = [row.error_code for row in shown["dead"]]
        assert codes == [ErrorCode.LEADER_NOT_AVAILABLE, ErrorCode.NONE]
        errors = served.broker.dispatcher.traffic()[ApiKey.METADATA].errors
        assert errors[ErrorCode.LEADER_NOT_AVAILABLE] == 4, "one in each answer of all topics"

    run(story)


def test_topics_that_are_asked_for_by_id_are_answered_so(run: Run) -> None:
    async def story(served: Served) -> None:
        created = await served.create("t", 2)
        by_id = MetadataRequestTopic(name=None, topic_id=created.topic_id)
        (found,) = (await served.send(MetadataRequest(topics=[by_id]), 12)).topics
        assert (found.name, found.error_code, len(found.partitions)) == ("t", 0, 2)
        missing = MetadataRequestTopic(name=None, topic_id=b"x" * 16)
        response = await served.send(MetadataRequest(topics=[by_id, missing]), 12)
        assert [each.error_code for each in response.topics] == [0, ErrorCode.UNKNOWN_TOPIC_ID]

    run(story)


# Creation and deletion


class Registry:
    """Counts what the broker asks its registry for."""

    def __init__(self, served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
        self.counts: Counter[str] = Counter()
        registry = served.broker.registry
        multi, children = registry.multi, registry.children

        async def counted_multi(*arguments: Any, **how: Any) -> Any:
            self.counts["multi"] += 1
            return await multi(*arguments, **how)

        async def counted_children(path: str, *more: Any) -> Any:
            if path == znodes.TOPICS:
                self.counts["look at all topics"] += 1
            return await children(path, *more)

        monkeypatch.setattr(registry, "multi", counted_multi)
        monkeypatch.setattr(registry, "children", counted_children)


def test_topics_of_one_request_are_looked_at_together(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def story(served: Served) -> None:
        registry = Registry(served, monkeypatch)
        for count in (20, 40):
            names = [f"t{count}-{number}" for number in range(count)]
            topics = [served.new_topic(name, 2) for name in names]
            registry.counts.clear()
            request = CreateTopicsRequest(topics=topics, timeout_ms=30_000)
            created = (await served.send(request)).topics
            assert [(each.name, each.error_code) for each in created] == [(n, 0) for n in names]
            assert registry.counts["multi"] == count
            assert registry.counts["look at all topics"] <= 3

    run(story)


@pytest.mark.slow
@pytest.mark.parametrize("count", [500, 1000])
def test_a_topic_of_many_partitions_takes_few_multis(
    run: Run, monkeypatch: pytest.MonkeyPatch, count: int
) -> None:
    async def story(served: Served) -> None:
        registry = Registry(served, monkeypatch)
        assert (await served.create("t", count)).error_code == 0
        assert registry.counts["multi"] <= 2 + count // 100

    run(story)


def test_a_new_log_finds_its_directory_without_a_look_at_the_others(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    def looked(_store: LogStore) -> list[Any]:
        raise AssertionError("all logs were looked at for one that is new")

    async def story(served: Served) -> None:
        with monkeypatch.context() as patch:
            patch.setattr(LogStore, "_all_logs", looked)
            assert (await served.create("t", 20)).error_code == 0

    run(story)


def test_topics_of_one_request_are_deleted_in_the_order_of_the_request(run: Run) -> None:
    async def story(served: Served) -> None:
        names = [f"t{number}" for number in range(70)]
        topics = [served.new_topic(name) for name in names]
        await served.send(CreateTopicsRequest(topics=topics, timeout_ms=30_000))
        asked = [DeleteTopicsRequestTopic(name=name) for name in [*names, "unknown"]]
        response = await served.send(DeleteTopicsRequest(topics=asked, timeout_ms=30_000))
        assert [each.name for each in response.responses] == [*names, "unknown"]
        missing = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert [each.error_code for each in response.responses] == [0] * 70 + [missing]
        assert not len(served.broker.replica_manager.store)

    run(story)
