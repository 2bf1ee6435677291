"""Mistakes of programs are said at the call, in words that name what is wrong."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from kavka.client import Consumer, InvalidSetting, TopicPartition, blocking


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
