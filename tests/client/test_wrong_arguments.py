"""Mistakes of programs are said at the call, in words that name what is wrong."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from kavka.client import (
    AbortableError,
    Admin,
    Consumer,
    ElectionType,
    GroupMetadata,
    InvalidSetting,
    KafkaError,
    NewPartitions,
    OffsetAndMetadata,
    OpenTelemetryReporter,
    Producer,
    PrometheusReporter,
    RebalanceListener,
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
    "records", [[b"a", b"bc"], [b"value"], {"k": b"v"}, "text", [(b"k", b"v", 1)], 3]
)
def test_many_records_that_are_no_pairs_are_refused(broker, settings, records):
    with blocking.Producer(settings, network=broker) as producer:
        with pytest.raises(TypeError, match="records are pairs of key and value"):
            producer.send_many("t", records)
        assert producer.send_many("t", [(None, b"v")])[0].base_offset == 0


@pytest.mark.parametrize("headers", ["ab", [b"ab"], [("name", b"value", 1)], 3])
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


AT = TopicPartition("t", 0)


@pytest.mark.parametrize(
    ("given", "error", "needed"),
    [
        ("3", TypeError, "the offset of t-0 is str, not int"),
        (1.5, TypeError, "the offset of t-0 is float, not int"),
        (None, TypeError, "the offset of t-0 is NoneType, not int"),
        (1 << 63, ValueError, "the offset of t-0 is beyond 63 bits"),
        (-1, ValueError, "negative"),
    ],
)
def test_what_is_no_offset_is_refused_and_the_consumer_goes_on(
    broker, settings, given, error, needed
):
    reading = settings | {"group.id": "g", "auto.offset.reset": "earliest"}
    with (
        blocking.Producer(settings, network=broker) as producer,
        blocking.Consumer(reading, network=broker) as consumer,
    ):
        producer.send("t", b"v")
        consumer.assign([AT])
        for call in (
            lambda: consumer.seek(AT, given),
            lambda: consumer.commit({AT: given}),
            lambda: consumer.commit({AT: OffsetAndMetadata(given)}),
        ):
            with pytest.raises(error, match=needed):
                call()
        assert next(consumer).offset == 0


def test_metadata_of_an_offset_that_are_no_text_are_refused(broker, settings):
    wrong: Any = 5
    with (
        blocking.Consumer(settings | {"group.id": "g"}, network=broker) as consumer,
        pytest.raises(TypeError, match="the metadata of the offset of t-0 is int, not str"),
    ):
        consumer.commit({AT: OffsetAndMetadata(3, wrong)})


@pytest.mark.parametrize("given", [3, [3], [b"t"], [None], b"t"])
def test_what_is_no_list_of_topics_is_not_subscribed_to(broker, settings, given):
    with blocking.Consumer(settings | {"group.id": "g"}, network=broker) as consumer:
        with pytest.raises(TypeError, match="topics is a list of names"):
            consumer.subscribe(given)
        consumer.assign([AT])


@pytest.mark.parametrize(("given", "error"), [("(", ValueError), (3, TypeError), (b"t", TypeError)])
def test_what_is_no_pattern_leaves_the_consumer_as_it_was(broker, settings, given, error):
    with blocking.Consumer(settings | {"group.id": "g"}, network=broker) as consumer:
        with pytest.raises(error):
            consumer.subscribe(pattern=given)
        consumer.assign([AT])


@pytest.mark.parametrize("given", [3, print, RebalanceListener, object()])
def test_what_is_no_listener_is_refused(broker, settings, given):
    needed = "the listener is a RebalanceListener, not"
    with blocking.Consumer(settings | {"group.id": "g"}, network=broker) as consumer:
        with pytest.raises(TypeError, match=needed):
            consumer.subscribe(["t"], listener=given)
        assert consumer.subscription() == []

    async def subscribe() -> None:
        async with Consumer(settings | {"group.id": "g"}, network=broker) as consumer:
            with pytest.raises(TypeError, match=needed):
                consumer.subscribe(["t"], listener=given)

    asyncio.run(subscribe())


@pytest.mark.parametrize("given", [3, [3], [int]])
def test_what_is_no_assignor_is_refused(settings, given):
    with pytest.raises(InvalidSetting, match=r"partition\.assignment\.strategy: Give"):
        Consumer(settings | {"partition.assignment.strategy": given})


@pytest.mark.parametrize("given", ["broker:9092", None, 3])
def test_settings_that_are_no_dictionary_are_refused(given):
    with pytest.raises(TypeError, match="settings are a dictionary, not"):
        Producer(given)


def test_asking_about_a_topic_that_cannot_be_read_does_not_disturb_the_reading(broker, settings):
    wrong: Any = 3
    with (
        blocking.Producer(settings, network=broker) as producer,
        blocking.Consumer(settings | {"auto.offset.reset": "earliest"}, network=broker) as consumer,
    ):
        producer.send("t", b"v")
        consumer.assign([AT])
        with pytest.raises(TypeError, match=r"topic is a name \(str\), not 3"):
            consumer.partitions_for(wrong)
        with pytest.raises(KafkaError, match="INVALID_TOPIC_EXCEPTION"):
            consumer.partitions_for("no topic")
        assert [record.offset for batch in consumer.poll(5000) for record in batch.records()] == [0]


@pytest.mark.parametrize("given", ["g", None, ("g", 1)])
def test_offsets_of_what_is_no_group_are_not_part_of_a_transaction(broker, settings, given):
    writing = settings | {"transactional.id": "x"}
    with blocking.Producer(writing, network=broker) as producer:
        producer.init_transactions()
        with (
            pytest.raises(TypeError, match=r"group_metadata is what Consumer\.group_metadata"),
            producer.transaction(),
        ):
            producer.send_offsets_to_transaction({AT: 1}, given)


def test_a_transaction_is_not_committed_without_what_could_not_be_added(broker, settings, caplog):
    wrong: Any = 5
    writing = settings | {"transactional.id": "x"}
    with blocking.Producer(writing, network=broker) as producer:
        producer.init_transactions()
        producer.begin_transaction()
        with pytest.raises(AbortableError):
            producer.send_offsets_to_transaction({AT: 1}, GroupMetadata("g", 1, wrong))
        with pytest.raises(AbortableError):
            producer.commit_transaction()
        producer.abort_transaction()
    assert "adding to a transaction failed" in caplog.text


@pytest.mark.parametrize("client", [Admin, Consumer, Producer])
def test_an_asyncio_client_in_a_plain_with_says_what_to_write(client):
    name = client.__name__
    with (
        pytest.raises(TypeError, match=rf"use `async with {name}.*kavka.client.blocking.{name}"),
        client({"bootstrap.servers": "127.0.0.1:1"}),
    ):
        pass


def test_a_name_that_is_no_serializer_is_answered_with_those_that_are():
    with pytest.raises(InvalidSetting, match=r"DoubleSerializer.*StringSerializer.*UUIDSerializer"):
        Producer({"bootstrap.servers": "127.0.0.1:1", "value.serializer": "json"})
    with pytest.raises(InvalidSetting, match="StringDeserializer") as raised:
        Consumer({"bootstrap.servers": "127.0.0.1:1", "key.deserializer": "JsonDeserializer"})
    assert "StringSerializer" not in str(raised.value)


@pytest.mark.parametrize(
    ("reporter", "needed"),
    [(PrometheusReporter, "not CollectorRegistry"), (OpenTelemetryReporter, "not opentelemetry")],
)
def test_a_reporter_of_something_else_is_refused(reporter, needed):
    with pytest.raises(TypeError, match=f"is dict, {needed}"):
        reporter({})
