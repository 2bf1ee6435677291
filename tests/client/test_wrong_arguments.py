"""Mistakes of programs are said at the call, in words that name what is wrong."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from kavka.client import (
    Consumer,
    ElectionType,
    InvalidSetting,
    NewPartitions,
    Producer,
    TopicPartition,
    blocking,
)


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


@pytest.mark.parametrize(
    ("call", "given", "needed"),
    [
        ("create_topics", ["t"], "new_topics is a list of NewTopic: 't' is str"),
        ("create_topics", NewPartitions(3), "new_topics is a list of NewTopic, not NewPartitions"),
        ("create_partitions", {"t": 3}, "what is wanted of t is NewPartitions, not 3"),
        ("create_partitions", ["t"], "wanted is a dictionary by str, not"),
        ("describe_configs", ["t"], "resources is a list of ConfigResource: 't' is str"),
        (
            "describe_configs",
            {"t": None},
            "resources is a dictionary by ConfigResource: 't' is str",
        ),
        ("alter_configs", {"t": {}}, "replacement is a dictionary by ConfigResource"),
        ("incremental_alter_configs", {"t": []}, "changes is a dictionary by ConfigResource"),
        ("create_acls", ["t"], "bindings is a list of AclBinding"),
        ("delete_acls", ["t"], "filters is a list of AclFilter"),
        ("describe_acls", "t", "chosen is AclFilter, not 't'"),
        ("describe_client_quotas", ["t"], "components is a list of QuotaComponent"),
        ("alter_client_quotas", {"t": {}}, "changes is a dictionary by QuotaEntity"),
        ("alter_user_scram_credentials", ["t"], "is a list of ScramUpsertion or ScramDeletion"),
        ("update_features", {"t": 3}, "what t gets is FeatureUpdate, not 3"),
        ("describe_log_dirs", "t", "broker_ids is a list of numbers, not 't'"),
        ("describe_replica_log_dirs", ["t"], "replicas is a list of Replica"),
        ("alter_replica_log_dirs", {"t": "/d"}, "targets is a dictionary by Replica"),
        ("abort_transaction", "t", "hanging is HangingTransaction, not 't'"),
        ("renew_delegation_token", "t", "hmac is bytes, not 't'"),
        ("delete_topics", 3, "names is a list of names, not 3"),
        ("describe_groups", [["g"]], r"group_ids is a list of names \(str\): \['g'\] is list"),
        ("list_group_offsets", ["g"], r"group_id is a name \(str\), not \['g'\]"),
    ],
)
def test_the_admin_client_names_the_argument_and_what_belongs_there(
    broker, settings, call, given, needed
):
    with (
        blocking.Admin(settings, network=broker) as admin,
        pytest.raises(TypeError, match=needed),
    ):
        getattr(admin, call)(given)


@pytest.mark.parametrize(
    ("given", "error", "needed"),
    [
        (-1, ValueError, "timeout_ms is -1: it must be 0 or more"),
        (float("nan"), ValueError, "timeout_ms is nan: it must be 0 or more"),
        ("3", TypeError, "timeout_ms is milliseconds, not '3'"),
        (True, TypeError, "timeout_ms is milliseconds, not True"),
    ],
)
def test_what_is_no_time_is_refused_and_the_client_goes_on(broker, settings, given, error, needed):
    with (
        blocking.Producer(settings, network=broker) as producer,
        blocking.Consumer(settings, network=broker) as consumer,
        blocking.Admin(settings, network=broker) as admin,
    ):
        producer.append("t", b"v")
        consumer.assign([TopicPartition("t", 0)])
        for call in (
            producer.flush,
            producer.close,
            consumer.close,
            consumer.poll,
            lambda wrong: consumer.end_offsets([TopicPartition("t", 0)], wrong),
            lambda wrong: consumer.position(TopicPartition("t", 0), wrong),
            lambda wrong: admin.list_topics(timeout_ms=wrong),
        ):
            with pytest.raises(error, match=needed):
                call(given)
        producer.flush()
        assert consumer.end_offsets([TopicPartition("t", 0)]) == {TopicPartition("t", 0): 1}


def test_what_is_no_time_is_refused_on_asyncio(broker, settings):
    async def close() -> None:
        async with Producer(settings, network=broker) as producer:
            for call in (producer.flush, producer.close):
                with pytest.raises(ValueError, match="timeout_ms is -1"):
                    await call(-1)
            assert (await producer.send("t", b"v")).offset == 0

    asyncio.run(close())


@pytest.mark.parametrize("most", [-1, 0])
def test_fewer_records_than_one_are_refused(broker, settings, most):
    with blocking.Consumer(settings, network=broker) as consumer:
        consumer.assign([TopicPartition("t", 0)])
        with pytest.raises(ValueError, match=f"max_records is {most}: it must be 1 or more"):
            consumer.poll(0, most)


def test_a_callback_that_cannot_be_called_is_refused_and_no_record_is_taken(broker, settings):
    wrong: Any = 3

    async def append() -> None:
        async with Producer(settings, network=broker) as producer:
            with pytest.raises(TypeError, match="the callback is int, which cannot be called"):
                producer.append("t", b"v", callback=wrong)
            assert producer.waiting_records() == 0

    asyncio.run(append())
    with blocking.Producer(settings, network=broker) as producer:
        with pytest.raises(TypeError, match="the callback is int, which cannot be called"):
            producer.append("t", b"v", callback=wrong)
        assert producer.waiting_records() == 0


@pytest.mark.parametrize("client", [blocking.Producer, blocking.Consumer, blocking.Admin])
def test_a_blocking_client_that_was_closed_is_not_entered(broker, settings, client):
    closed = client(settings, network=broker)
    closed.close()
    with pytest.raises(RuntimeError, match="is closed"), closed:
        pytest.fail("the body ran")
