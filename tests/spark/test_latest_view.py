"""The view `latest`: the last record of each key, as librdkafka reads the same topic, also as of earlier offsets."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from hypothesis import given
from hypothesis import strategies as st
from pyspark.errors import PySparkException

from kavka.spark import latest_view
from kavka.spark.errors import ConnectorError, sentence_of
from kavka.spark.latest_view import LatestByKey, ViewCache, read_latest
from kavka.spark.offsets import OffsetRange
from kavka.spark.options import SourceOptions, parse_source
from kavka.spark.range_reader import read_range
from support.spark.topic_filling import make_topic

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from kavka_compat.brokers import Broker

pytestmark = [pytest.mark.spark, pytest.mark.compat]

Table = dict[bytes, bytes]
Changes = list[tuple[bytes, bytes | None]]
_SCHEMA = pa.schema(
    [
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
    ]
)
_TOPIC_ID = "lSyXGkG3RGCjNpYDpYYpBQ"


def rows(changes: Changes, first_offset: int = 0) -> pa.RecordBatch:
    columns: list[list[object]] = [
        [key for key, _ in changes],
        [value for _, value in changes],
        ["t"] * len(changes),
        [0] * len(changes),
        list(range(first_offset, first_offset + len(changes))),
    ]
    return pa.RecordBatch.from_arrays(
        [pa.array(column, kind.type) for column, kind in zip(columns, _SCHEMA, strict=True)],
        schema=_SCHEMA,
    )


def as_dict(table: pa.Table | None) -> dict[bytes, bytes | None]:
    if table is None:
        return {}
    offsets = table["offset"].to_pylist()
    assert offsets == sorted(offsets)
    return dict(zip(table["key"].to_pylist(), table["value"].to_pylist(), strict=True))


def options(**given: str) -> SourceOptions:
    given.setdefault("kafka_bootstrap_servers", "127.0.0.1:1")
    named = {name.replace("_", "."): value for name, value in given.items()}
    return parse_source(named | {"subscribe": "t", "view": "latest"}, streaming=False)


# -- without a broker


@given(
    st.lists(
        st.lists(
            st.tuples(
                st.sampled_from([b"a", b"b", b"", b"\xff"]), st.none() | st.binary(max_size=2)
            )
        )
    ),
    st.booleans(),
)
def test_rows_are_the_last_records_of_their_keys(batches: list[Changes], keeps: bool) -> None:
    latest, expected, offset = LatestByKey(keeps_deletes=keeps), dict[bytes, bytes | None](), 0
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(latest_view, "_REDUCE_ROWS", 3)
        for changes in batches:
            latest.add(rows(changes, offset))
            offset += len(changes)
            expected |= dict(changes)
        found = as_dict(latest.table())
    assert found == {key: value for key, value in expected.items() if keeps or value is not None}


def test_a_record_without_a_key_is_refused_with_its_place() -> None:
    batch = rows([(b"a", b"1")] * 3, 40)
    keys = pa.array([b"a", None, b"a"], pa.binary())
    batch = batch.set_column(0, "key", keys)
    with pytest.raises(ConnectorError, match="t-0 has a record without a key at offset 41"):
        LatestByKey(keeps_deletes=False).add(batch)


def test_what_is_kept_serves_later_ends_only(tmp_path: Path) -> None:
    def cache(start: int, end: int, topic_id: str = _TOPIC_ID) -> ViewCache:
        return ViewCache(tmp_path, options(), OffsetRange("t", 0, start, end), topic_id)

    table = pa.Table.from_batches([rows([(b"a", b"1"), (b"b", b"2")], 3)])
    cache(0, 5).store(table)
    found, start = cache(0, 9).load()
    assert (as_dict(found), start) == ({b"a": b"1", b"b": b"2"}, 5)
    assert cache(0, 4).load() == (None, 0)  # an earlier state
    assert cache(0, 9, "another").load() == (None, 0)  # a topic of the same name
    found, start = cache(4, 9).load()  # retention deleted what is before 4
    assert (as_dict(found), start) == ({b"b": b"2"}, 5)
    assert cache(6, 9).load() == (None, 6)


@pytest.mark.parametrize("damage", [b"", b"ARROW1\0\0", b"\0" * 400])
def test_a_damaged_file_is_not_used(tmp_path: Path, damage: bytes) -> None:
    cache = ViewCache(tmp_path, options(), OffsetRange("t", 0, 0, 5), _TOPIC_ID)
    cache.store(pa.Table.from_batches([rows([(b"a", b"1")])]))
    (path,) = tmp_path.iterdir()
    path.write_bytes(damage)
    assert cache.load() == (None, 0)


def test_files_of_a_deleted_topic_of_the_same_name_are_removed(tmp_path: Path) -> None:
    table = pa.Table.from_batches([rows([(b"a", b"1")])])
    for topic, topic_id in (("t", "former"), ("t.2", "other"), ("t", "newer")):
        ViewCache(tmp_path, options(), OffsetRange(topic, 0, 0, 5), topic_id).store(table)
    assert sorted(path.name.split("@")[2] for path in tmp_path.iterdir()) == ["newer", "other"]


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"view": "newest"}, "view must be records or latest, not 'newest'."),
        ({"viewCache": "/tmp/v"}, "The option viewCache means nothing without view latest."),
        ({"view": "latest", "minPartitions": "8"}, "minPartitions does not go with view latest"),
        ({"view": "latest", "startingOffsets": "earliest"}, "leave out startingOffsets"),
    ],
)
def test_options_that_do_not_go_together_are_refused(given: dict[str, str], said: str) -> None:
    with pytest.raises(ConnectorError, match=said):
        parse_source({"kafka.bootstrap.servers": "x:1", "subscribe": "t", **given}, streaming=False)


# -- with a broker


def table_by_librdkafka(broker: Broker, topic: str, ends: dict[int, int]) -> Table:
    """The table at these ends, by a consumer that reads committed records one by one."""
    consumer = Consumer(
        {
            "bootstrap.servers": broker.bootstrap,
            "group.id": "unused",
            "isolation.level": "read_committed",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
        }
    )
    table: Table = {}
    consumer.assign([TopicPartition(topic, partition, 0) for partition in ends])
    left = set(ends)
    while left:
        message = consumer.poll(30)
        assert message is not None
        if message.error():
            left.discard(message.partition())
        elif message.offset() < ends[message.partition()]:
            key, value = message.key(), message.value()
            if value is None:
                table.pop(key, None)
            else:
                table[key] = value
    consumer.close()
    return table


def change(broker: Broker, topic: str, changes: Changes, *, commit: bool) -> None:
    """Write changes in one transaction."""
    producer = Producer({"bootstrap.servers": broker.bootstrap, "transactional.id": f"of-{topic}"})
    producer.init_transactions(30)
    producer.begin_transaction()
    for key, value in changes:
        producer.produce(topic, value, key, partition=key[0] % 2)
    producer.flush(30)
    if commit:
        producer.commit_transaction(30)
    else:
        producer.abort_transaction(30)


@pytest.fixture
def topic(kavka_broker: Broker, fresh_name: str) -> str:
    make_topic(kavka_broker, fresh_name, 2)
    first: Changes = [(b"%d" % n, b"first %d" % n) for n in range(50)]
    change(kavka_broker, fresh_name, first, commit=True)
    change(kavka_broker, fresh_name, [(key, b"aborted") for key, _ in first], commit=False)
    deleted: Changes = [(b"7", None), (b"8", None), (b"8", b"again"), (b"new", b"1")]
    change(kavka_broker, fresh_name, deleted, commit=True)
    return fresh_name


def load(spark: SparkSession, broker: Broker, topic: str, **given: str) -> DataFrame:
    reader = spark.read.format("kavka").option("kafka.bootstrap.servers", broker.bootstrap)
    reader = reader.option("kafka.isolation.level", "read_committed").option("view", "latest")
    return reader.option("subscribe", topic).options(**given).load()


def collected(frame: DataFrame) -> Table:
    found = [(bytes(row.key), bytes(row.value)) for row in frame.select("key", "value").collect()]
    assert len(found) == len(dict(found))
    return dict(found)


def test_a_batch_is_the_table_at_its_ends(
    spark: SparkSession, kavka_broker: Broker, topic: str, tmp_path: Path
) -> None:
    consumer = Consumer({"bootstrap.servers": kavka_broker.bootstrap, "group.id": "unused"})
    ends = {n: consumer.get_watermark_offsets(TopicPartition(topic, n))[1] for n in (0, 1)}
    consumer.close()
    now = table_by_librdkafka(kavka_broker, topic, ends)
    assert now[b"8"] == b"again"
    assert b"7" not in now
    assert collected(load(spark, kavka_broker, topic)) == now
    earlier = {0: 20, 1: 3}
    as_of = json.dumps({topic: {str(n): end for n, end in earlier.items()}})
    frame = load(spark, kavka_broker, topic, endingOffsets=as_of, viewCache=str(tmp_path))
    assert collected(frame) == table_by_librdkafka(kavka_broker, topic, earlier)
    for changes in ([(b"2", None), (b"3", b"third")], []):
        change(kavka_broker, topic, changes, commit=True)
        assert collected(load(spark, kavka_broker, topic, viewCache=str(tmp_path))) == {
            key: value for key, value in (now | {b"3": b"third"}).items() if key != b"2"
        }


def test_what_is_kept_is_not_read_again(
    kavka_broker: Broker, topic: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    chosen = options(kafka_bootstrap_servers=kavka_broker.bootstrap, viewCache=str(tmp_path))
    read: list[OffsetRange] = []
    real = read_range

    def spy(given: SourceOptions, wanted: OffsetRange) -> object:
        read.append(wanted)
        return real(given, wanted)

    monkeypatch.setattr(latest_view, "read_range", spy)
    for end in (10, 10, 20):
        list(read_latest(chosen, OffsetRange(topic, 0, 0, end), _TOPIC_ID))
    assert [(one.start, one.end) for one in read] == [(0, 10), (10, 20)]
    list(read_latest(chosen, OffsetRange(topic, 0, 0, 20), ""))
    assert (read[-1].start, read[-1].end) == (0, 20)


def test_a_stream_has_the_changes_of_each_batch(
    spark: SparkSession, kavka_broker: Broker, topic: str, tmp_path: Path
) -> None:
    table: dict[bytes, bytes | None] = {}
    sizes: list[int] = []

    def apply(frame: DataFrame, _batch_id: int) -> None:
        found = [(bytes(row.key), row.value and bytes(row.value)) for row in frame.collect()]
        assert len(found) == len(dict(found))
        sizes.append(len(found))
        table.update(found)

    def run() -> None:
        reader = (
            spark.readStream.format("kavka").option("subscribe", topic).option("view", "latest")
        )
        reader = reader.option("kafka.bootstrap.servers", kavka_broker.bootstrap)
        reader = reader.option("kafka.isolation.level", "read_committed")
        writer = reader.load().writeStream.foreachBatch(apply)
        query = (
            writer.option("checkpointLocation", str(tmp_path)).trigger(availableNow=True).start()
        )
        assert query.awaitTermination(200)
        assert query.exception() is None

    run()
    assert (table[b"7"], table[b"8"]) == (None, b"again")
    assert sizes == [51]
    change(kavka_broker, topic, [(b"9", b"x"), (b"9", None), (b"8", b"y")], commit=True)
    run()
    assert sizes == [51, 2]
    assert (table[b"9"], table[b"8"]) == (None, b"y")


def test_a_topic_without_keys_is_refused(
    spark: SparkSession, kavka_broker: Broker, fresh_name: str
) -> None:
    make_topic(kavka_broker, fresh_name, 1)
    producer = Producer({"bootstrap.servers": kavka_broker.bootstrap})
    producer.produce(fresh_name, b"no key")
    producer.flush(30)
    with pytest.raises(PySparkException) as caught:
        load(spark, kavka_broker, fresh_name).collect()
    assert f"{fresh_name}-0 has a record without a key at offset 0" in (
        sentence_of(caught.value) or ""
    )


def test_a_stream_is_joined_with_the_table_as_it_is_in_each_batch(
    spark: SparkSession, kavka_broker: Broker, topic: str, fresh_name: str, tmp_path: Path
) -> None:
    clicks = f"{fresh_name}-clicks"
    make_topic(kavka_broker, clicks, 1)
    producer = Producer({"bootstrap.servers": kavka_broker.bootstrap})
    joined: list[bytes] = []

    def enrich(frame: DataFrame, _batch_id: int) -> None:
        table = load(spark, kavka_broker, topic, viewCache=str(tmp_path / "view"))
        rows = frame.select("key").join(table.select("key", "value"), "key", "left").collect()
        joined.extend(bytes(row.value) for row in rows)

    reader = spark.readStream.format("kavka").option("subscribe", clicks)
    reader = reader.option("kafka.bootstrap.servers", kavka_broker.bootstrap)
    writer = reader.option("startingOffsets", "earliest").load().writeStream.foreachBatch(enrich)
    query = writer.option("checkpointLocation", str(tmp_path / "checkpoint")).start()
    try:
        for value in (b"before", b"after"):
            change(kavka_broker, topic, [(b"3", value)], commit=True)
            producer.produce(clicks, key=b"3")
            producer.flush(30)
            query.processAllAvailable()
    finally:
        query.stop()
    assert joined == [b"before", b"after"]
