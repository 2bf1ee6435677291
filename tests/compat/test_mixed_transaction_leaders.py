"""Transactions in a cluster of Apache Kafka 3.9 and ours: coordinators of one kind, partition leaders of the other."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from kavka_compat.apache import ApacheKafka
from kavka_compat.asking import until
from kavka_compat.mixed import Kind, MixedCluster, run_mixed
from kavka_compat.traffic import (
    committed,
    consume,
    create,
    deliver,
    group_on,
    offsets_partition,
    produce,
)

pytestmark = [pytest.mark.compat, pytest.mark.timeout(400)]

KINDS = {0: Kind.APACHE, 1: Kind.KAVKA}
ASSIGNMENT = [[0, 1], [1, 0]]
SETTINGS = {
    "offsets.topic.replication.factor": "2",
    "transaction.state.log.num.partitions": "4",
    "transaction.state.log.replication.factor": "2",
    "transaction.state.log.min.isr": "1",
}
KIND = pytest.mark.parametrize("kind", [Kind.APACHE, Kind.KAVKA], ids=["theirs", "ours"])


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MixedCluster]:
    """One broker of each kind, with the topics of groups and transactions in place."""
    directory = tmp_path_factory.mktemp("transactions")
    with run_mixed(directory, KINDS, SETTINGS) as running:
        create(running, AdminClient({"bootstrap.servers": running.bootstrap}), "first", [[0, 1]])
        produce(running, "first", 0, [b"one"])
        consume(running, "first", "first", 1)
        transactional(running, "first").abort_transaction()
        running.wait_in_sync("__consumer_offsets", "__transaction_state")
        yield running


def transactional(cluster: MixedCluster, name: str) -> Producer:
    """Return a producer whose transaction has begun."""
    settings = {"bootstrap.servers": cluster.bootstrap, "transactional.id": name}
    producer = Producer(settings)
    producer.init_transactions(60)
    producer.begin_transaction()
    return producer


def coordinated_by(cluster: MixedCluster, kind: Kind, prefix: str) -> str:
    """Return a transactional id whose coordinator is of a kind."""
    for number in range(1000):
        name = f"{prefix}-{number}"
        state = cluster.state("__transaction_state", offsets_partition(name))
        assert state is not None
        if cluster.kinds[state.leader] is kind:
            return name
    raise AssertionError(f"{kind} leads no partition of __transaction_state")


def write(producer: Producer, topic: str, values: Sequence[bytes]) -> None:
    """Write the values to both partitions, as far as the brokers."""
    deliver(producer, topic, (0, 1), values)


def commit_offset(producer: Producer, cluster: MixedCluster, group: str, at: int) -> None:
    """Commit an offset of a group in the transaction."""
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": group})
    try:
        metadata = consumer.consumer_group_metadata()
        producer.send_offsets_to_transaction([TopicPartition("first", 0, at)], metadata, 60)
    finally:
        consumer.close()


def read(cluster: MixedCluster, topic: str, count: int) -> list[list[bytes]]:
    """Read both partitions with read_committed to their last stable offset; `count` is what must come of each."""
    settings = {
        "bootstrap.servers": cluster.bootstrap,
        "group.id": "nonexistent",
        "isolation.level": "read_committed",
        "enable.partition.eof": True,
    }
    found: list[list[bytes]] = [[], []]
    with Consumer(settings) as consumer:
        consumer.assign([TopicPartition(topic, partition, 0) for partition in range(2)])
        at_end: set[int] = set()

        def has_all() -> bool:
            message = consumer.poll(1)
            if message is None:
                return False
            if message.error() is not None:
                at_end.add(message.partition())
            else:
                at_end.discard(message.partition())
                found[message.partition()].append(message.value())
            return at_end == {0, 1} and all(len(values) >= count for values in found)

        until(has_all, what=f"{count} records of each partition of {topic}: {found}")
    return found


def read_in_python(cluster: MixedCluster, topic: str, count: int) -> list[list[bytes]]:
    """Read the same with kafka-python."""
    from kafka import KafkaConsumer
    from kafka import TopicPartition as PythonTopicPartition

    consumer = KafkaConsumer(
        bootstrap_servers=cluster.bootstrap.split(","),
        isolation_level="read_committed",
        auto_offset_reset="earliest",
        enable_auto_commit=False,
    )
    found: list[list[bytes]] = [[], []]
    places = [PythonTopicPartition(topic, partition) for partition in range(2)]
    try:
        consumer.assign(places)
        consumer.seek_to_beginning(*places)

        def has_all() -> bool:
            for topic_partition, records in consumer.poll(timeout_ms=1000).items():
                found[topic_partition.partition] += [record.value for record in records]
            return all(len(values) >= count for values in found)

        until(has_all, what=f"{count} records of each partition of {topic}: {found}")
    finally:
        consumer.close()
    return found


def assert_same_on_both(cluster: MixedCluster, topic: str) -> None:
    """Insist that both replicas have the same batches and the same index of aborted transactions."""
    cluster.assert_equal_logs(topic)
    for partition in range(2):
        indexes = [
            {
                path.name: path.read_bytes()
                for path in cluster.partition_directory(number, topic, partition).glob("*.txnindex")
                if path.stat().st_size
            }
            for number in KINDS
        ]
        assert indexes[0] == indexes[1]
        assert indexes[0]


@KIND
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # kafka-python's own
def test_a_coordinator_of_one_kind_ends_transactions_on_leaders_of_both(
    cluster: MixedCluster, fresh_name: str, kind: Kind
) -> None:
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    create(cluster, admin, fresh_name, ASSIGNMENT)
    for partition in range(2):
        cluster.wait_until_known(fresh_name, partition)
    producer = transactional(cluster, coordinated_by(cluster, kind, fresh_name))
    groups = [group_on(cluster, each, f"{fresh_name}-{each}") for each in Kind]
    write(producer, fresh_name, [b"1", b"2"])
    for group in groups:
        commit_offset(producer, cluster, group, 11)
    producer.commit_transaction(60)
    producer.begin_transaction()
    write(producer, fresh_name, [b"never"])
    for group in groups:
        commit_offset(producer, cluster, group, 22)
    producer.abort_transaction(60)
    producer.begin_transaction()
    write(producer, fresh_name, [b"3"])
    producer.commit_transaction(60)
    assert read(cluster, fresh_name, 3) == [[b"1", b"2", b"3"]] * 2
    assert read_in_python(cluster, fresh_name, 3) == [[b"1", b"2", b"3"]] * 2
    for group in groups:
        until(lambda group=group: committed(cluster, group) == {0: 11}, what=f"{group} is at 11")  # type: ignore[misc]
    assert_same_on_both(cluster, fresh_name)


def test_kafka_dumps_markers_and_the_index_of_both_kinds(
    cluster: MixedCluster, fresh_name: str
) -> None:
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    create(cluster, admin, fresh_name, ASSIGNMENT)
    producer = transactional(cluster, coordinated_by(cluster, Kind.KAVKA, fresh_name))
    write(producer, fresh_name, [b"never"])
    producer.abort_transaction(60)
    producer.begin_transaction()
    write(producer, fresh_name, [b"1"])
    producer.commit_transaction(60)
    assert read(cluster, fresh_name, 1) == [[b"1"]] * 2
    kafka = ApacheKafka("3.9")
    for number in KINDS:
        directory = cluster.partition_directory(number, fresh_name, number)
        (log,) = directory.glob("*.log")
        (index,) = directory.glob("*.txnindex")
        dumped = kafka.check("kafka-dump-log", "--print-data-log", "--files", str(log)).out
        assert "endTxnMarker: ABORT coordinatorEpoch: " in dumped
        assert "endTxnMarker: COMMIT coordinatorEpoch: " in dumped
        assert dumped.count("isTransactional: true") == 4
        said = kafka.check("kafka-dump-log", "--files", str(index)).out
        assert "firstOffset: 0 lastOffset: 1 lastStableOffset: 2" in said


@pytest.mark.parametrize(
    "kind",
    [
        pytest.param(Kind.APACHE, id="theirs", marks=pytest.mark.long),
        pytest.param(Kind.KAVKA, id="ours"),
    ],
)
def test_a_transaction_is_ended_by_the_other_kind_when_its_coordinator_stops(
    cluster: MixedCluster, fresh_name: str, kind: Kind
) -> None:
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    create(cluster, admin, fresh_name, ASSIGNMENT)
    (number,) = cluster.of(kind)
    finished = transactional(cluster, coordinated_by(cluster, kind, f"{fresh_name}-a"))
    left = transactional(cluster, coordinated_by(cluster, kind, f"{fresh_name}-b"))
    group = group_on(cluster, kind, fresh_name)
    write(finished, fresh_name, [b"1"])
    write(left, fresh_name, [b"never"])
    commit_offset(finished, cluster, group, 11)
    cluster.stop(number)
    try:
        write(finished, fresh_name, [b"2"])
        commit(finished)
        left.abort_transaction(60)
        assert read(cluster, fresh_name, 2) == [[b"1", b"2"]] * 2
        until(lambda: committed(cluster, group) == {0: 11}, what="the offset is committed")
    finally:
        cluster.start(number)
    cluster.wait_in_sync(fresh_name, "__consumer_offsets", "__transaction_state")
    assert read(cluster, fresh_name, 2) == [[b"1", b"2"]] * 2
    assert_same_on_both(cluster, fresh_name)


def commit(producer: Producer) -> None:
    """Commit, again after an error that says so."""
    for _ in range(10):
        try:
            producer.commit_transaction(60)
        except KafkaException as error:
            if not error.args[0].retriable():
                raise
        else:
            return
    raise AssertionError("not committed")
