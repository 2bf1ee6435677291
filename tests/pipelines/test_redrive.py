"""Dead letters go back: headers, selection, and the transactions, on a broker in this process."""

import asyncio
import re
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from kavka.client import Admin, NewTopic, TopicPartition, blocking
from kavka.client.consumer.batches import ConsumerRecord
from kavka.client.dead_letters import (
    DeadLetter,
    dead_letter_headers,
    dead_letter_of,
    original_headers,
)
from kavka.errors import KafkaError
from kavka.pipelines.project import PipelineError
from kavka.pipelines.redrive import Outcome, Selection, original_record, redrive
from kavka.pipelines.testing.topics import create_topics
from kavka.testing.local_cluster import LocalCluster

OURS = (
    ("trace", b"1"),
    ("__kavka.errors.topic", b"clicks"),
    ("__kavka.errors.partition", b"1"),
    ("__kavka.errors.offset", b"12"),
    ("__kavka.errors.timestamp", b"5000"),
    ("__kavka.errors.stage", b"decode"),
    ("__kavka.errors.exception.class.name", b"a.b.FramingError"),
    ("__kavka.errors.exception.message", b"it has\n4 bytes"),
    ("__kavka.errors.exception.stacktrace", b"..."),
)
CONNECTS = (
    ("__connect.errors.topic", b"orders"),
    ("__connect.errors.partition", b"0"),
    ("__connect.errors.offset", b"7"),
    ("__connect.errors.connector.name", b"sink"),
    ("__connect.errors.task.id", b"0"),
    ("__connect.errors.stage", b"VALUE_CONVERTER"),
    ("__connect.errors.exception.class.name", b"org.apache.kafka.connect.errors.DataException"),
    ("__connect.errors.exception.message", None),
)


def record(headers: Any = OURS, timestamp: int = 9000) -> ConsumerRecord:
    return ConsumerRecord("dead", 0, 3, timestamp, 0, b"k", b"v", headers)


def test_headers_say_where_a_record_came_from_and_why():
    letter = dead_letter_of(OURS)
    assert letter == DeadLetter(
        "clicks", 1, 12, 5000, "decode", "a.b.FramingError", "it has\n4 bytes"
    )
    assert letter.reason == "decode FramingError: it has 4 bytes"
    assert original_headers(OURS) == (("trace", b"1"),)


def test_headers_are_written_as_they_are_read():
    letter = DeadLetter("clicks", 1, 12, 5000, "webhook", message="HTTP 400")
    written = dead_letter_headers(letter, OURS)
    assert written[0] == ("trace", b"1")
    assert dead_letter_of(written) == letter
    assert dead_letter_headers(DeadLetter(), CONNECTS) == []


def test_dead_letters_of_kafka_connect_are_read():
    letter = dead_letter_of(CONNECTS)
    assert (letter.topic, letter.partition, letter.offset) == ("orders", 0, 7)
    assert letter.reason == "VALUE_CONVERTER DataException:"
    assert original_headers(CONNECTS) == ()


def test_headers_that_are_no_numbers_are_passed_over():
    assert dead_letter_of([("__kavka.errors.partition", b"x")]) == DeadLetter()


@pytest.mark.parametrize(
    ("more", "target"),
    [
        ({}, "clicks"),
        ({"to_topic": "other"}, "other"),
        ({"reason": re.compile("Framing")}, "clicks"),
        ({"reason": re.compile("^late")}, None),
        ({"from_topic": "orders"}, None),
        ({"from_topic": "clicks"}, "clicks"),
        ({"start_ms": 9000, "end_ms": 9001}, "clicks"),
        ({"start_ms": 9001}, None),
        ({"end_ms": 9000}, None),
    ],
)
def test_a_selection_names_the_topic_of_what_it_takes(more, target):
    assert Selection("dead", "g", **more).target(record(), dead_letter_of(OURS)) == target


def test_a_record_goes_back_as_it_was():
    letter = dead_letter_of(OURS)
    back = original_record(record(), letter, Selection("dead", "g"))
    assert back == ("clicks", b"v", b"k", 1, 5000, (("trace", b"1"),))
    elsewhere = original_record(record(), letter, Selection("dead", "g", "other"))
    assert elsewhere == ("other", b"v", b"k", None, 5000, (("trace", b"1"),))
    connects = original_record(record(CONNECTS), dead_letter_of(CONNECTS), Selection("dead", "g"))
    assert connects.timestamp_ms == 9000


def test_the_outcome_is_said_in_sentences():
    selection = Selection("dead", "g")
    assert Outcome().lines(selection, dry_run=False) == ["no dead letter of dead sent"]
    outcome = Outcome(Counter(b=1, a=2), left=3, unknown=1)
    assert outcome.lines(selection, dry_run=False) == [
        "2 records sent to a",
        "1 records sent to b",
        "3 left in dead, not selected (1 have no header with their topic: give --to-topic); "
        "another --group than g reads them again",
    ]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    settings = {"offsets.topic.num.partitions": "1", "transaction.state.log.num.partitions": "1"}
    with LocalCluster(tmp_path_factory.mktemp("redrive"), brokers=1, settings=settings) as running:
        yield running


def make(cluster: LocalCluster, topic: str, partitions: int) -> None:
    asyncio.run(create_topics(cluster.bootstrap_servers, {topic: partitions}))


def fill(cluster: LocalCluster, topic: str, headers: list[Any]) -> None:
    with blocking.Producer({"bootstrap.servers": cluster.bootstrap_servers}) as producer:
        for number, one in enumerate(headers):
            producer.append(
                topic, b"v%d" % number, b"k", timestamp_ms=9000 + number, headers=list(one)
            )


def read(cluster: LocalCluster, topic: str) -> list[ConsumerRecord]:
    settings = {
        "bootstrap.servers": cluster.bootstrap_servers,
        "group.id": "reader",
        "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
        "isolation.level": "read_committed",
    }
    found: list[ConsumerRecord] = []
    with blocking.Consumer(settings) as consumer:
        places = [TopicPartition(topic, number) for number in range(2)]
        consumer.assign(places)
        ends = consumer.end_offsets(places)
        while any(
            consumer.position(topic_partition) < ends[topic_partition] for topic_partition in places
        ):
            for batch in consumer.poll(1000):
                found += batch.records()
    return found


@pytest.mark.slow
def test_dead_letters_go_back_once_and_what_is_not_selected_stays(cluster):
    for name, partitions in (("dead", 1), ("clicks", 2), ("orders", 2), ("other", 2)):
        make(cluster, name, partitions)
    fill(cluster, "dead", [OURS, CONNECTS, (("trace", b"2"),)])
    # A file of settings is for all clients: no warning about those of others.
    settings = {
        "bootstrap.servers": cluster.bootstrap_servers,
        "linger.ms": 1,
        "fetch.min.bytes": 1,
    }
    printed: list[str] = []
    selection = Selection("dead", "g")

    def run(chosen: Selection, *, dry_run: bool = False) -> None:
        outcome = redrive(
            settings, chosen, dry_run=dry_run, on_letter=lambda one: printed.append(str(one))
        )
        printed.extend(outcome.lines(chosen, dry_run=dry_run))

    run(selection, dry_run=True)
    assert printed == [
        "dead-0 offset 0 1970-01-01T00:00:09.000Z -> clicks (of clicks-1 offset 12): "
        "decode FramingError: it has 4 bytes",
        "dead-0 offset 1 1970-01-01T00:00:09.001Z -> orders (of orders-0 offset 7): VALUE_CONVERTER DataException:",
        "1 records would be sent to clicks",
        "1 records would be sent to orders",
        "1 left in dead, not selected (1 have no header with their topic: give --to-topic)",
    ]
    assert not read(cluster, "clicks")

    for _ in range(2):
        run(selection)
    assert printed[-1] == "no dead letter of dead sent"
    [back] = read(cluster, "clicks")
    assert (back.partition, back.timestamp, back.key, back.value, back.headers) == (
        1, 5000, b"k", b"v0", (("trace", b"1"),),
    )  # fmt: skip
    [back] = read(cluster, "orders")
    assert (back.partition, back.timestamp, back.headers) == (0, 9001, ())

    run(Selection("dead", "h", "other"))
    assert printed[-1] == "3 records sent to other"
    assert [one.value for one in read(cluster, "other")] == [b"v0", b"v1", b"v2"]


def test_a_topic_that_does_not_exist_is_named(cluster):
    settings = {"bootstrap.servers": cluster.bootstrap_servers}
    with pytest.raises(
        PipelineError, match=r"the topic nosuch does not exist: name the topic of dead letters$"
    ):
        redrive(settings, Selection("nosuch", "g"), dry_run=True, on_letter=print)
    make(cluster, "dead-of-none", 1)
    fill(cluster, "dead-of-none", [OURS])
    selection = Selection("dead-of-none", "g", "gone")
    for dry_run in (True, False):
        with pytest.raises(PipelineError, match=r"the topic gone does not exist: .* --to-topic"):
            redrive(settings, selection, dry_run=dry_run, on_letter=print)


def test_the_group_of_another_program_is_refused(cluster):
    for name in ("dead-of-others", "clicks-of-others"):
        make(cluster, name, 1)
    fill(cluster, "dead-of-others", [OURS])
    settings = {"bootstrap.servers": cluster.bootstrap_servers}
    selection = Selection("dead-of-others", "busy", "clicks-of-others")
    with blocking.Consumer({**settings, "group.id": "busy"}) as member:
        member.subscribe(["dead-of-others"])
        while not member.assignment():
            member.poll(100)
        with pytest.raises(PipelineError, match="the group busy has members"):
            redrive(settings, selection, dry_run=False, on_letter=print)


@pytest.mark.slow
def test_what_the_topic_refuses_ends_the_run_with_the_reason(cluster):
    settings = {"bootstrap.servers": cluster.bootstrap_servers}
    make(cluster, "dead-large", 1)
    asyncio.run(make_small(settings, "small"))
    fill(cluster, "dead-large", [(*OURS, ("padding", b"x" * 500))])
    with pytest.raises((PipelineError, KafkaError), match="MESSAGE_TOO_LARGE"):
        redrive(settings, Selection("dead-large", "g", "small"), dry_run=False, on_letter=print)
    assert not read(cluster, "small")


async def make_small(settings, topic):
    async with Admin(settings) as admin:
        new = NewTopic(topic, 2, configs={"max.message.bytes": "100"})
        assert not any(
            isinstance(one, Exception) for one in (await admin.create_topics([new])).values()
        )
