"""Mistakes of programs are said at the call, in words that name what is wrong."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from kavka.client import Consumer, ElectionType, InvalidSetting, TopicPartition, blocking


@pytest.mark.parametrize("settings_of", [{}, {"group.id": "g"}])
@pytest.mark.parametrize("read", [lambda c: c.poll(0), next], ids=["poll", "iteration"])
def test_reading_without_topics_or_partitions_is_refused(broker, settings, settings_of, read):
    with blocking.Consumer(settings | settings_of, network=broker) as consumer:
        with pytest.raises(RuntimeError, match="subscribe to topics, or assign partitions"):
            read(consumer)
        consumer.assign([TopicPartition("t", 0)])
        assert consumer.poll(0) == []
        consumer.unsubscribe()
        with pytest.raises(RuntimeError, match="subscribe to topics, or assign partitions"):
            read(consumer)


def test_reading_without_topics_or_partitions_is_refused_on_asyncio(broker, settings):
    async def iterate() -> None:
        async with Consumer(settings, network=broker) as consumer:
            with pytest.raises(RuntimeError, match="there is nothing to read"):
                await anext(consumer)

    asyncio.run(iterate())


@pytest.mark.parametrize(
    "records", [[b"a", b"bc"], [b"value"], {"k": b"v"}, "text", [(b"k", b"v", 1)]]
)
def test_many_records_that_are_no_pairs_are_refused(broker, settings, records):
    with blocking.Producer(settings, network=broker) as producer:
        with pytest.raises(TypeError, match="records are pairs of key and value"):
            producer.send_many("t", records)
        assert producer.send_many("t", [(None, b"v")])[0].base_offset == 0


@pytest.mark.parametrize("headers", ["ab", [b"ab"], [("name", b"value", 1)]])
def test_headers_that_are_no_pairs_are_refused(broker, settings, headers):
    with (
        blocking.Producer(settings, network=broker) as producer,
        pytest.raises(TypeError, match="a header is a pair of name and value"),
    ):
        producer.send("t", b"v", headers=headers)


def test_a_partition_that_is_no_number_is_refused(broker, settings):
    wrong: Any = "0"
    with (
        blocking.Producer(settings, network=broker) as producer,
        pytest.raises(TypeError, match="the partition is str, not int"),
    ):
        producer.send("t", b"v", partition=wrong)


def test_a_name_of_a_setting_that_is_no_text_is_refused(broker, settings):
    wrong: Any = {1: 2}
    with pytest.raises(TypeError, match="names of settings are text: 1 is int"):
        blocking.Producer(settings | wrong, network=broker)


@pytest.mark.parametrize("given", [[3], "com.example.Tracing", [object()], object(), [int]])
@pytest.mark.parametrize(
    ("client", "methods"),
    [
        (blocking.Producer, "on_send and on_acknowledgement"),
        (blocking.Consumer, "on_consume and on_commit"),
    ],
    ids=["producer", "consumer"],
)
def test_what_is_no_interceptor_is_refused(broker, settings, client, methods, given):
    with pytest.raises(InvalidSetting, match=f"Give objects with {methods}"):
        client(settings | {"interceptor.classes": given}, network=broker)


ONE = TopicPartition("ab", 0)
NUMBERED_BY_TEXT: Any = TopicPartition("ab", "0")  # type: ignore[arg-type]


@pytest.mark.parametrize("given", ["ab", ["ab"], ONE, [NUMBERED_BY_TEXT], [3], 3])
@pytest.mark.parametrize(
    "call",
    [
        "assign",
        "pause",
        "resume",
        "seek_to_beginning",
        "committed",
        "beginning_offsets",
        "end_offsets",
    ],
)
def test_what_is_no_list_of_partitions_is_refused_and_the_consumer_goes_on(
    broker, settings, call, given
):
    with blocking.Consumer(settings | {"group.id": "g"}, network=broker) as consumer:
        with pytest.raises(TypeError, match="TopicPartition"):
            getattr(consumer, call)(given)
        consumer.assign([TopicPartition("t", 0)])
        assert consumer.position(TopicPartition("t", 0)) == 0


@pytest.mark.parametrize("given", [[ONE], ONE, {"ab": 1}, {NUMBERED_BY_TEXT: 1}])
def test_what_is_no_dictionary_by_partition_is_refused(broker, settings, given):
    with (
        blocking.Consumer(settings | {"group.id": "g"}, network=broker) as consumer,
        blocking.Admin(settings, network=broker) as admin,
    ):
        for call in (
            consumer.commit,
            consumer.offsets_for_times,
            consumer.seek_to_time,
            admin.list_offsets,
            admin.delete_records,
            admin.alter_partition_reassignments,
            admin.lags,
            lambda wrong: admin.alter_group_offsets("g", wrong),
        ):
            with pytest.raises(TypeError, match="TopicPartition"):
                call(given)


@pytest.mark.parametrize("given", ["ab", ONE, [NUMBERED_BY_TEXT]])
def test_partitions_of_the_admin_client_are_checked(broker, settings, given):
    with blocking.Admin(settings, network=broker) as admin:
        for call in (
            admin.describe_producers,
            admin.list_partition_reassignments,
            lambda wrong: admin.elect_leaders(ElectionType.PREFERRED, wrong),
            lambda wrong: admin.list_group_offsets("g", wrong),
            lambda wrong: admin.delete_group_offsets("g", wrong),
        ):
            with pytest.raises(TypeError, match="TopicPartition"):
                call(given)
