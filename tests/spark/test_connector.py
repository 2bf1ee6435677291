"""Our connector beside Spark's own: the same rows from the same topics, and each reads what the other wrote."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import ConsumerGroupTopicPartitions, TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions
from pyspark.errors import PySparkException

from kavka.spark.errors import sentence_of
from kavka.spark.offsets import OffsetRange, split_ranges
from kavka.spark.progress import source_metrics
from support.spark.topic_filling import FIRST_MS, fill, make_topic

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from kavka_compat.brokers import Broker

pytestmark = [pytest.mark.spark, pytest.mark.compat]

PARTITIONS = 3
OURS, THEIRS = "kavka", "kafka"
Rows = list[tuple[Any, ...]]


@pytest.fixture(scope="module")
def topic(any_broker: Broker) -> str:
    """A topic with everything, on the broker under test."""
    name = "spark-everything"
    make_topic(any_broker, name, PARTITIONS)
    fill(any_broker, name, PARTITIONS)
    return name


def rows_of(frame: DataFrame) -> Rows:
    """All rows in the order of partition and offset, with bytes and headers as values that compare."""

    def value(item: Any) -> Any:
        if isinstance(item, bytearray):
            return bytes(item)
        return (
            [tuple(value(part) for part in entry) for entry in item]
            if isinstance(item, list)
            else item
        )

    rows = [tuple(value(item) for item in row) for row in frame.collect()]
    return sorted(rows, key=lambda row: row[2:5])


def batch(spark: SparkSession, form: str, broker: Broker, **options: str) -> DataFrame:
    return spark.read.format(form).options(**at(broker), **options).load()


def at(broker: Broker) -> dict[str, str]:
    return {"kafka.bootstrap.servers": broker.bootstrap}


def run_stream(
    frame: DataFrame, directory: Path, name: str, form: str = "parquet", **options: str
) -> list[dict[str, Any]]:
    """Run a query over all that is there now, and return its progress reports."""
    writer = frame.writeStream.format(form).option(
        "checkpointLocation", str(directory / f"{name}-checkpoint")
    )
    if form == "parquet":
        writer = writer.option("path", str(directory / name))
    query = writer.options(**options).trigger(availableNow=True).start()
    query.awaitTermination(60)
    error = query.exception()
    if error is not None:
        raise error
    return [json.loads(progress.json) for progress in query.recentProgress]


def test_the_schema_is_that_of_sparks_source(
    spark: SparkSession, any_broker: Broker, topic: str
) -> None:
    for headers in ("false", "true"):
        options = {"subscribe": topic, "includeHeaders": headers}
        theirs = batch(spark, THEIRS, any_broker, **options).schema
        assert batch(spark, OURS, any_broker, **options).schema == theirs


@pytest.mark.parametrize(
    "options",
    [
        {"subscribe": "TOPIC", "includeHeaders": "true"},
        {
            "subscribe": "TOPIC",
            "includeHeaders": "true",
            "kafka.isolation.level": "read_committed",
        },
        {"subscribePattern": "TOPIC.*", "minPartitions": "8"},
        {
            "assign": '{"TOPIC": [0, 2]}',
            "startingOffsets": '{"TOPIC": {"0": 7, "2": -2}}',
            "endingOffsets": '{"TOPIC": {"0": 31, "2": -1}}',
        },
        {
            "subscribe": "TOPIC",
            "startingTimestamp": str(FIRST_MS + 50_000),
            "endingTimestamp": str(FIRST_MS + 120_500),
        },
        {
            "subscribe": "TOPIC",
            "startingOffsetsByTimestamp": json.dumps(
                {
                    "TOPIC": {
                        "0": FIRST_MS,
                        "1": FIRST_MS + 90_000,
                        "2": FIRST_MS + 10**10,
                    }
                }
            ),
            "startingOffsetsByTimestampStrategy": "latest",
        },
    ],
    ids=["everything", "committed", "pattern", "offsets", "timestamps", "timestamps-by-partition"],
)
def test_batches_have_the_rows_of_sparks_source(
    spark: SparkSession, any_broker: Broker, topic: str, options: dict[str, str]
) -> None:
    filled = {name: value.replace("TOPIC", topic) for name, value in options.items()}
    ours, theirs = (rows_of(batch(spark, form, any_broker, **filled)) for form in (OURS, THEIRS))
    assert len(theirs) > 20
    assert ours == theirs


@pytest.mark.parametrize(
    "pattern", ["ver", r"^\p{Lower}+TAIL$", r"[a-z&&[^q]]+TAIL", "(?i)EVERY", "every"]
)
def test_a_pattern_is_found_anywhere_in_the_name_as_by_sparks_source(
    spark: SparkSession, any_broker: Broker, fresh_name: str, pattern: str
) -> None:
    tail = fresh_name[-6:]
    names = [f"everything{tail}", f"Other{tail}", f"q{tail}"]
    for name in names:
        make_topic(any_broker, name, 1)
        fill(any_broker, name, 1, rounds=1)
    wanted = pattern.replace("TAIL", tail)
    read = {
        form: {
            row.topic
            for row in batch(spark, form, any_broker, subscribePattern=wanted)
            .where(f"topic like '%{tail}'")
            .select("topic")
            .distinct()
            .collect()
        }
        for form in (OURS, THEIRS)
    }
    assert read[OURS] == read[THEIRS]
    assert f"everything{tail}" in read[OURS]


@pytest.mark.parametrize("strict", ["true", "false"])
@pytest.mark.parametrize(
    ("start", "end"), [(5000, None), (10, 3)], ids=["beyond-the-end", "after-its-own-end"]
)
def test_a_batch_that_starts_after_its_end_is_refused_as_by_sparks_source(
    spark: SparkSession,
    any_broker: Broker,
    topic: str,
    start: int,
    end: int | None,
    strict: str,
) -> None:
    options = {"assign": json.dumps({topic: [0]}), "failOnDataLoss": strict}
    options["startingOffsets"] = json.dumps({topic: {"0": start}})
    if end is not None:
        options["endingOffsets"] = json.dumps({topic: {"0": end}})
    with pytest.raises(Exception, match=rf"start offset {start} is greater than the .*end offset"):
        batch(spark, THEIRS, any_broker, **options).collect()
    with pytest.raises(PySparkException) as caught:
        batch(spark, OURS, any_broker, **options).collect()
    sentence = sentence_of(caught.value)
    assert sentence is not None
    assert f"start offset {start} is greater than the resolved end offset" in sentence


@pytest.mark.parametrize("wanted", [2, 7, 12, 13, 14, 31])
def test_a_batch_has_as_many_tasks_as_that_of_sparks_source(
    spark: SparkSession, any_broker: Broker, topic: str, wanted: int
) -> None:
    counts = {
        form: batch(
            spark, form, any_broker, subscribe=topic, minPartitions=str(wanted)
        ).rdd.getNumPartitions()
        for form in (OURS, THEIRS)
    }
    assert counts[OURS] == counts[THEIRS]


def test_ranges_become_the_tasks_of_sparks_calculator(spark: SparkSession) -> None:
    jvm = spark._jvm
    theirs = jvm.org.apache.spark.sql.kafka010
    sequence = jvm.org.apache.spark.api.python.PythonUtils.toSeq
    rng = random.Random(13)
    for _ in range(100):
        ranges = [
            OffsetRange("t", number, start, start + rng.choice([0, 1, 5, 50, 1000]))
            for number in range(rng.randint(1, 5))
            for start in [rng.randint(0, 99)]
        ]
        parts, most = rng.choice([None, 1, 3, 7, 13, 40]), rng.choice([None, None, 1, 9, 300])
        options = {"minPartitions": parts, "maxRecordsPerPartition": most}
        given = {name: str(value) for name, value in options.items() if value is not None}
        made = theirs.KafkaOffsetRangeCalculator.apply(
            jvm.org.apache.spark.sql.util.CaseInsensitiveStringMap(given)
        ).getRanges(
            sequence(
                [
                    theirs.KafkaOffsetRange(
                        jvm.org.apache.kafka.common.TopicPartition(one.topic, one.partition),
                        one.start,
                        one.end,
                        jvm.scala.Option.empty(),
                    )
                    for one in ranges
                ]
            ),
            sequence([]),
        )
        expected = [
            OffsetRange("t", one.topicPartition().partition(), one.fromOffset(), one.untilOffset())
            for one in (made.apply(number) for number in range(made.size()))
        ]
        assert split_ranges(ranges, parts, most) == expected, (ranges, parts, most)


def test_streams_have_the_rows_and_the_offsets_of_sparks_source(
    spark: SparkSession, any_broker: Broker, topic: str, tmp_path: Path
) -> None:
    ends, rows, metrics = {}, {}, {}
    for form in (OURS, THEIRS):
        frame = (
            spark.readStream.format(form)
            .options(**at(any_broker), subscribe=topic, includeHeaders="true")
            .options(startingOffsets="earliest", maxOffsetsPerTrigger="90")
            .load()
        )
        reports = run_stream(frame, tmp_path, form)
        # Ids of topics stand beside offsets, where Spark's connector passes over them.
        ends[form] = [
            {topic: found for topic, found in report["sources"][0]["endOffset"].items() if found}
            for report in reports
        ]
        metrics[form] = [
            report["sources"][0].get("metrics") or source_metrics(report["sources"][0])
            for report in reports
        ]
        rows[form] = rows_of(spark.read.parquet(str(tmp_path / form)))
    assert len(ends[THEIRS]) > 2
    assert ends[OURS] == ends[THEIRS]
    assert rows[OURS] == rows[THEIRS]
    assert metrics[OURS] == metrics[THEIRS]
    assert {"minOffsetsBehindLatest", "avgOffsetsBehindLatest"} < metrics[THEIRS][0].keys()


def source_rows(spark: SparkSession) -> DataFrame:
    """Rows for a sink: nulls, headers, chosen partitions."""
    return spark.range(300).selectExpr(
        "IF(id % 3 = 0, NULL, CAST(id AS STRING)) AS key",
        "IF(id % 7 = 0, NULL, CAST(repeat(CAST(id AS STRING), 20) AS BINARY)) AS value",
        "IF(id % 2 = 0, array(struct('h' AS key, CAST(CAST(id AS STRING) AS BINARY) AS value),"
        " struct('h' AS key, CAST(NULL AS BINARY) AS value)), NULL) AS headers",
        f"CAST(id % {PARTITIONS} AS INT) AS partition",
        "id AS ignored",
    )


def test_each_reads_what_the_others_sink_wrote(
    spark: SparkSession, any_broker: Broker, fresh_name: str
) -> None:
    content: dict[str, Any] = {}
    for form in (OURS, THEIRS):
        target = f"{fresh_name}-{form}"
        make_topic(any_broker, target, PARTITIONS)
        writer = source_rows(spark).write.format(form).mode("append").options(**at(any_broker))
        writer.option("topic", target).option("includeHeaders", "true").save()
        reads = [
            rows_of(batch(spark, reader, any_broker, subscribe=target, includeHeaders="true"))
            for reader in (OURS, THEIRS)
        ]
        assert reads[0] == reads[1]
        assert len(reads[0]) == 300
        content[form] = [(*row[:2], row[3], row[7]) for row in reads[0]]
    assert sorted(map(repr, content[OURS])) == sorted(map(repr, content[THEIRS]))


def test_keys_choose_the_same_partition_in_both_sinks(
    spark: SparkSession, any_broker: Broker, fresh_name: str
) -> None:
    places = {}
    for form in (OURS, THEIRS):
        target = f"{fresh_name}-{form}"
        make_topic(any_broker, target, 5)
        rows = spark.range(200).selectExpr(
            "CAST(id AS STRING) AS key", "'v' AS value", f"'{target}' AS topic"
        )
        rows.write.format(form).mode("append").options(**at(any_broker)).save()
        places[form] = {
            row[0]: row[3] for row in rows_of(batch(spark, OURS, any_broker, subscribe=target))
        }
    assert len(places[OURS]) == 200
    assert places[OURS] == places[THEIRS]


def test_a_stream_goes_from_topic_to_topics_by_column(
    spark: SparkSession, any_broker: Broker, topic: str, fresh_name: str, tmp_path: Path
) -> None:
    targets = [f"{fresh_name}-{number}" for number in range(2)]
    for target in targets:
        make_topic(any_broker, target, PARTITIONS)
    frame = (
        spark.readStream.format(OURS)
        .options(
            **at(any_broker), subscribe=topic, startingOffsets="earliest", includeHeaders="true"
        )
        .load()
        .selectExpr(
            "key", "value", "headers", "partition", f"concat('{fresh_name}-', offset % 2) AS topic"
        )
    )
    run_stream(frame, tmp_path, "copy", OURS, **at(any_broker))
    options = {"subscribe": ",".join(targets), "includeHeaders": "true"}
    copied = rows_of(batch(spark, THEIRS, any_broker, **options))
    original = rows_of(batch(spark, THEIRS, any_broker, subscribe=topic, includeHeaders="true"))

    def content(rows: Rows, name: Callable[[Any], str]) -> list[str]:
        return sorted(repr((row[0], row[1], name(row), row[3], row[7])) for row in rows)

    assert content(copied, lambda row: row[2]) == content(
        original, lambda row: f"{fresh_name}-{row[4] % 2}"
    )


@pytest.mark.parametrize(("first", "second"), [(OURS, THEIRS), (THEIRS, OURS)])
def test_a_query_goes_on_with_the_checkpoint_of_the_other_source(
    spark: SparkSession,
    any_broker: Broker,
    fresh_name: str,
    tmp_path: Path,
    first: str,
    second: str,
) -> None:
    make_topic(any_broker, fresh_name, 2)
    expected = 0
    for form in (first, second):
        expected += fill(any_broker, fresh_name, 2, rounds=4)
        frame = (
            spark.readStream.format(form)
            .options(**at(any_broker), subscribe=fresh_name, startingOffsets="earliest")
            .load()
        )
        run_stream(frame, tmp_path, "copy")
    copied = rows_of(spark.read.parquet(str(tmp_path / "copy")))
    assert len(copied) >= expected
    assert copied == rows_of(batch(spark, THEIRS, any_broker, subscribe=fresh_name))


def test_a_query_goes_on_where_it_was_also_with_new_partitions(
    spark: SparkSession, any_broker: Broker, fresh_name: str, tmp_path: Path
) -> None:
    make_topic(any_broker, fresh_name, 1)
    frame = (
        spark.readStream.format(OURS)
        .options(
            **at(any_broker), subscribe=fresh_name, startingOffsets="earliest", groupId=fresh_name
        )
        .load()
    )
    expected = fill(any_broker, fresh_name, 1, rounds=4)
    run_stream(frame, tmp_path, "copy")
    admin = AdminClient({"bootstrap.servers": any_broker.bootstrap})
    for future in admin.create_partitions([NewPartitions(fresh_name, 3)]).values():
        future.result(30)
    expected += fill(any_broker, fresh_name, 3, rounds=4)
    run_stream(frame, tmp_path, "copy")
    copied = rows_of(spark.read.parquet(str(tmp_path / "copy")))
    assert copied == rows_of(batch(spark, THEIRS, any_broker, subscribe=fresh_name))
    asked = admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(fresh_name)])
    committed = {one.partition: one.offset for one in asked[fresh_name].result(30).topic_partitions}
    ends = (
        batch(spark, OURS, any_broker, subscribe=fresh_name)
        .groupBy("partition")
        .agg({"offset": "max"})
    )
    assert committed.keys() == {row[0] for row in ends.collect()}
    assert all(committed[row[0]] > row[1] for row in ends.collect())


def test_lost_records_stop_a_query_unless_fail_on_data_loss_is_false(
    spark: SparkSession, any_broker: Broker, fresh_name: str, tmp_path: Path
) -> None:
    make_topic(any_broker, fresh_name, 1)
    fill(any_broker, fresh_name, 1, rounds=4)

    def frame(strict: str) -> DataFrame:
        options = {"subscribe": fresh_name, "startingOffsets": "earliest", "failOnDataLoss": strict}
        return (
            spark.readStream.format(OURS)
            .options(**at(any_broker), **options)
            .load()
            .where("offset >= 0")
        )

    run_stream(frame("true"), tmp_path, "copy")
    before = spark.read.parquet(str(tmp_path / "copy")).count()
    fill(any_broker, fresh_name, 1, rounds=4)
    admin = AdminClient({"bootstrap.servers": any_broker.bootstrap})
    cut = TopicPartition(fresh_name, 0, before + 10)
    for future in admin.delete_records([cut]).values():
        future.result(30)
    with pytest.raises(Exception, match="STREAM_FAILED") as caught:
        run_stream(frame("true"), tmp_path, "copy")
    sentence = sentence_of(caught.value)
    assert sentence is not None
    assert sentence.startswith(f"Records may be lost: {fresh_name}-0 no longer has offset ")
    run_stream(frame("false"), tmp_path, "copy")
    offsets = sorted(row[4] for row in rows_of(spark.read.parquet(str(tmp_path / "copy"))))
    left = [row[4] for row in rows_of(batch(spark, THEIRS, any_broker, subscribe=fresh_name))]
    assert offsets[-len(left) :] == left


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"startingOffset": "earliest"}, "did you mean startingOffsets?"),
        (
            {"kafka.bootstrap.servers": "127.0.0.1:1"},
            "cannot reach any of bootstrap.servers [127.0.0.1:1]",
        ),
        ({"subscribe": "no-such-topic"}, "The topic no-such-topic does not exist."),
        ({"startingOffsets": "latest"}, "startingOffsets of a batch query cannot be latest."),
        ({"kafka.fetch.min.bytes": "many"}, "fetch.min.bytes"),
    ],
)
def test_a_wrong_batch_query_is_one_sentence_without_frames(
    spark: SparkSession, kavka_broker: Broker, options: dict[str, str], sentence: str
) -> None:
    everything = at(kavka_broker) | {"subscribe": "t"} | options
    with pytest.raises(Exception, match="PYTHON_DATA_SOURCE_ERROR") as caught:
        spark.read.format(OURS).options(**everything).load().collect()
    message = sentence_of(caught.value)
    assert message is not None
    assert sentence in message
    text = str(caught.value)
    assert "Traceback" not in text
    assert "\tat " not in text
    assert len(text.splitlines()) <= 2


def test_a_wrong_stream_is_one_sentence_without_frames(
    spark: SparkSession, kavka_broker: Broker, tmp_path: Path
) -> None:
    options = at(kavka_broker) | {"subscribe": "t", "endingOffsets": "latest"}
    frame = spark.readStream.format(OURS).options(**options).load()
    with pytest.raises(Exception, match="STREAM_FAILED") as caught:
        run_stream(frame, tmp_path, "copy")
    assert (
        sentence_of(caught.value) == "The option endingOffsets is not valid in a streaming query."
    )
    assert "Traceback" not in str(caught.value)


@pytest.mark.parametrize(
    ("columns", "options", "sentence"),
    [
        (["1 AS value"], {"topic": "t"}, "The column value must be string or binary, not int."),
        (
            ["'v' AS val"],
            {"topic": "t"},
            "The column value is missing: it has the bytes of the record.",
        ),
        (
            ["'v' AS value"],
            {},
            "No topic for the rows: set the option topic or add a column topic.",
        ),
        (
            ["'v' AS value", "CAST(NULL AS STRING) AS topic"],
            {},
            "A row has no topic: the column topic is null, and the option topic is not set.",
        ),
        (
            ["'v' AS value"],
            {"topic": "t", "kafka.acks": "2"},
            "Invalid value 2 for configuration acks: String must be one of: all, -1, 0, 1",
        ),
    ],
)
def test_a_wrong_write_is_one_sentence(
    spark: SparkSession,
    kavka_broker: Broker,
    columns: list[str],
    options: dict[str, str],
    sentence: str,
) -> None:
    writer = spark.range(1).selectExpr(*columns).write.format(OURS).mode("append")
    with pytest.raises(PySparkException) as caught:
        writer.options(**at(kavka_broker), **options).save()
    assert sentence_of(caught.value) == sentence
