"""Use of confluent-kafka besides writing and reading: administration, seeking, positions, static members."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from confluent_kafka import (
    OFFSET_INVALID,
    Consumer,
    ConsumerGroupTopicPartitions,
    KafkaError,
    KafkaException,
    Producer,
    TopicCollection,
    TopicPartition,
)
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
    OffsetSpec,
    ResourceType,
)

from kavka_compat.asking import until
from kavka_compat.brokers import Broker
from kavka_compat.clients import Librdkafka, Message

pytestmark = pytest.mark.compat

_START = 1_700_000_000_000


@pytest.fixture
def admin(any_broker: Broker) -> AdminClient:
    return AdminClient({"bootstrap.servers": any_broker.bootstrap})


@pytest.fixture
def topic(admin: AdminClient, fresh_name: str) -> str:
    """A topic of one partition."""
    admin.create_topics([NewTopic(fresh_name, 1, 1)])[fresh_name].result(30)
    return fresh_name


@pytest.fixture
def filled(any_broker: Broker, topic: str) -> str:
    """A topic whose partition 0 has ten records, a second apart."""
    messages = [Message(b"%d" % n, timestamp_ms=_START + n * 1000) for n in range(10)]
    Librdkafka().produce(any_broker.bootstrap, topic, messages, "lz4", idempotent=True)
    return topic


@pytest.fixture
def consumer(any_broker: Broker, fresh_name: str) -> Iterator[Consumer]:
    settings = {"bootstrap.servers": any_broker.bootstrap, "group.id": fresh_name}
    with Consumer({**settings, "auto.offset.reset": "earliest", "enable.auto.commit": False}) as c:
        yield c


def _code(error: pytest.ExceptionInfo[KafkaException]) -> int:
    return int(error.value.args[0].code())


def test_cluster_is_described(admin: AdminClient, any_broker: Broker) -> None:
    cluster = admin.describe_cluster().result(30)
    assert cluster.cluster_id
    assert [(n.id, n.host, n.port) for n in cluster.nodes] == [(0, "127.0.0.1", any_broker.port)]
    assert cluster.controller.id == 0


def test_topics_are_created_described_grown_and_deleted(
    admin: AdminClient, fresh_name: str
) -> None:
    new = NewTopic(fresh_name, 2, 1, config={"cleanup.policy": "compact"})
    admin.create_topics([new], validate_only=True)[fresh_name].result(30)
    assert fresh_name not in admin.list_topics(timeout=10).topics
    admin.create_topics([new])[fresh_name].result(30)
    with pytest.raises(KafkaException) as again:
        admin.create_topics([new])[fresh_name].result(30)
    assert _code(again) == KafkaError.TOPIC_ALREADY_EXISTS

    described = admin.describe_topics(TopicCollection([fresh_name]))[fresh_name].result(30)
    assert described.name == fresh_name
    assert str(described.topic_id) not in ("", "AAAAAAAAAAAAAAAAAAAAAA")
    assert [p.leader.id for p in described.partitions] == [0, 0]
    admin.create_partitions([NewPartitions(fresh_name, 4)])[fresh_name].result(30)
    # Apache Kafka answers before its own metadata has the new ones.
    until(lambda: len(admin.list_topics(fresh_name, timeout=10).topics[fresh_name].partitions) == 4)

    admin.delete_topics([fresh_name])[fresh_name].result(30)
    with pytest.raises(KafkaException) as missing:
        admin.delete_topics([fresh_name])[fresh_name].result(30)
    assert _code(missing) == KafkaError.UNKNOWN_TOPIC_OR_PART


@pytest.mark.parametrize(
    ("new", "code"),
    [
        (NewTopic("no/slash", 1, 1), KafkaError.TOPIC_EXCEPTION),
        (NewTopic("a" * 250, 1, 1), KafkaError.TOPIC_EXCEPTION),
        (NewTopic("refused", 1, 3), KafkaError.INVALID_REPLICATION_FACTOR),
        (NewTopic("refused", 0, 1), KafkaError.INVALID_PARTITIONS),
        (NewTopic("refused", 1, 1, config={"no.such": "1"}), KafkaError.INVALID_CONFIG),
        (NewTopic("refused", 1, 1, config={"retention.ms": "x"}), KafkaError.INVALID_CONFIG),
        (NewTopic("refused", 1, 1, config={"cleanup.policy": "no"}), KafkaError.INVALID_CONFIG),
    ],
    ids=["slash", "long", "replicas", "partitions", "unknown config", "type", "value"],
)
def test_topics_are_refused_with_kafkas_codes(new: NewTopic, code: int, admin: AdminClient) -> None:
    with pytest.raises(KafkaException) as refused:
        admin.create_topics([new])[new.topic].result(30)
    assert _code(refused) == code


def test_configs_are_described_and_altered(admin: AdminClient, topic: str) -> None:
    resource = ConfigResource(ResourceType.TOPIC, topic)

    def values() -> dict[str, ConfigEntry]:
        return dict(admin.describe_configs([resource])[resource].result(30))

    assert values()["segment.bytes"].value == "1073741824"
    assert values()["segment.bytes"].is_default

    def alter(value: str, operation: AlterConfigOpType) -> None:
        entry = ConfigEntry("cleanup.policy", value, incremental_operation=operation)
        change = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[entry])
        admin.incremental_alter_configs([change])[change].result(30)

    alter("compact", AlterConfigOpType.APPEND)
    assert values()["cleanup.policy"].value == "delete,compact"
    assert not values()["cleanup.policy"].is_default
    alter("delete", AlterConfigOpType.SUBTRACT)
    assert values()["cleanup.policy"].value == "compact"
    alter("", AlterConfigOpType.DELETE)
    assert values()["cleanup.policy"].value == "delete"
    broker = ConfigResource(ResourceType.BROKER, "0")
    assert "log.dirs" in admin.describe_configs([broker])[broker].result(30)


def test_offsets_are_listed_and_records_deleted(admin: AdminClient, filled: str) -> None:
    partition = TopicPartition(filled, 0)

    def listed(spec: OffsetSpec) -> int:
        return int(admin.list_offsets({partition: spec})[partition].result(30).offset)

    assert (listed(OffsetSpec.earliest()), listed(OffsetSpec.latest())) == (0, 10)
    assert listed(OffsetSpec.max_timestamp()) == 9
    assert listed(OffsetSpec.for_timestamp(_START + 3500)) == 4
    assert listed(OffsetSpec.for_timestamp(_START + 4000)) == 4
    assert listed(OffsetSpec.for_timestamp(_START + 99_000)) == -1
    deleted = admin.delete_records([TopicPartition(filled, 0, 6)])
    assert deleted[partition].result(30).low_watermark == 6
    assert listed(OffsetSpec.earliest()) == 6
    with pytest.raises(KafkaException) as beyond:
        admin.delete_records([TopicPartition(filled, 0, 11)])[partition].result(30)
    assert _code(beyond) == KafkaError.OFFSET_OUT_OF_RANGE


def test_consumer_seeks_by_offset_and_by_time(consumer: Consumer, filled: str) -> None:
    consumer.assign([TopicPartition(filled, 0, 0)])
    assert consumer.get_watermark_offsets(TopicPartition(filled, 0), timeout=10) == (0, 10)
    assert [m.offset() for m in consumer.consume(10, timeout=20)] == list(range(10))
    consumer.seek(TopicPartition(filled, 0, 7))
    assert [m.value() for m in consumer.consume(3, timeout=20)] == [b"7", b"8", b"9"]
    (found,) = consumer.offsets_for_times([TopicPartition(filled, 0, _START + 2500)], timeout=10)
    assert found.offset == 3


def test_reset_policy_answers_an_offset_out_of_range(consumer: Consumer, filled: str) -> None:
    consumer.assign([TopicPartition(filled, 0, 5000)])
    assert [m.offset() for m in consumer.consume(10, timeout=20)] == list(range(10))


def test_long_poll_ends_when_a_record_comes(any_broker: Broker, topic: str) -> None:
    consumer = Consumer(
        {
            "bootstrap.servers": any_broker.bootstrap,
            "group.id": topic,
            "fetch.wait.max.ms": 200_000,  # more than the test may take: only the record ends it
            "socket.timeout.ms": 250_000,
            "enable.auto.commit": False,  # finding the coordinator would queue up behind the fetch
        }
    )
    try:
        consumer.assign([TopicPartition(topic, 0, 0)])
        assert consumer.poll(1.0) is None
        Librdkafka().produce(any_broker.bootstrap, topic, [Message(b"now")], "none", True)
        message = consumer.poll(60)
        assert message is not None
        assert message.value() == b"now"
    finally:
        consumer.close()


def test_groups_are_administered(
    admin: AdminClient, consumer: Consumer, filled: str, fresh_name: str
) -> None:
    group, partition = fresh_name, TopicPartition(filled, 0)
    assert consumer.committed([partition], timeout=10)[0].offset == OFFSET_INVALID
    consumer.commit(offsets=[TopicPartition(filled, 0, 4, "note")], asynchronous=False)
    committed = consumer.committed([partition], timeout=10)[0]
    assert committed.offset == 4

    groups = admin.list_consumer_groups().result(30).valid
    assert group in {g.group_id for g in groups}
    described = admin.describe_consumer_groups([group])[group].result(30)
    assert described.state.name == "EMPTY"
    alter = ConsumerGroupTopicPartitions(group, [TopicPartition(filled, 0, 8)])
    admin.alter_consumer_group_offsets([alter])[group].result(30)
    listed = admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)])
    assert [(p.topic, p.offset) for p in listed[group].result(30).topic_partitions] == [(filled, 8)]
    admin.delete_consumer_groups([group])[group].result(30)
    with pytest.raises(KafkaException) as missing:
        admin.delete_consumer_groups([group])[group].result(30)
    assert _code(missing) == KafkaError.GROUP_ID_NOT_FOUND


def test_group_with_members_may_not_be_deleted(
    admin: AdminClient, consumer: Consumer, filled: str, fresh_name: str
) -> None:
    consumer.subscribe([filled])
    assert consumer.poll(20) is not None
    with pytest.raises(KafkaException) as refused:
        admin.delete_consumer_groups([fresh_name])[fresh_name].result(30)
    assert _code(refused) == KafkaError.NON_EMPTY_GROUP


def test_static_member_comes_back_without_a_rebalance(
    any_broker: Broker, filled: str, fresh_name: str
) -> None:
    rebalances: list[str] = []

    def member(instance: str) -> Consumer:
        settings = {"bootstrap.servers": any_broker.bootstrap, "group.id": fresh_name}
        static = {"group.instance.id": instance, "session.timeout.ms": 30_000}
        consumer = Consumer({**settings, **static, "auto.offset.reset": "earliest"})
        consumer.subscribe([filled], on_assign=lambda *_: rebalances.append(instance))
        return consumer

    first = member("one")
    assert first.poll(20) is not None
    first.close()
    with member("one") as again:
        assert again.poll(20) is not None
    assert rebalances == ["one", "one"]
    admin = AdminClient({"bootstrap.servers": any_broker.bootstrap})
    described = admin.describe_consumer_groups([fresh_name])[fresh_name].result(30)
    assert [m.group_instance_id for m in described.members] == ["one"]


def test_too_large_message_is_refused(any_broker: Broker, topic: str, admin: AdminClient) -> None:
    entry = ConfigEntry("max.message.bytes", "1000", incremental_operation=AlterConfigOpType.SET)
    change = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[entry])
    admin.incremental_alter_configs([change])[change].result(30)
    with pytest.raises(KafkaException) as refused:
        Librdkafka().produce(any_broker.bootstrap, topic, [Message(b"x" * 5000)], "none", True)
    assert _code(refused) == KafkaError.MSG_SIZE_TOO_LARGE


def test_keyless_record_is_refused_by_a_compacted_topic(
    any_broker: Broker, admin: AdminClient, fresh_name: str
) -> None:
    new = NewTopic(fresh_name, 1, 1, config={"cleanup.policy": "compact"})
    admin.create_topics([new])[fresh_name].result(30)
    with pytest.raises(KafkaException) as refused:
        Librdkafka().produce(any_broker.bootstrap, fresh_name, [Message(b"v")], "none", False)
    assert _code(refused) == KafkaError.INVALID_RECORD


@pytest.mark.parametrize("acks", ["0", "1", "all"])
def test_every_kind_of_acks_is_served(acks: str, any_broker: Broker, topic: str) -> None:
    settings = {"bootstrap.servers": any_broker.bootstrap, "acks": acks}
    with Producer(settings) as producer:
        for number in range(100):
            producer.produce(topic, b"%d" % number)
        assert producer.flush(30) == 0
    found = Librdkafka().consume(any_broker.bootstrap, topic, 100)
    assert [f.offset for f in found] == list(range(100))
