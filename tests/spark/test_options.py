"""Options of the connector: what is read, and what is refused in which sentence."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows

from kavka.ids import TopicPartition
from kavka.spark.errors import ConnectorError
from kavka.spark.options import (
    EARLIEST,
    LATEST,
    Assign,
    AtTime,
    AtTimes,
    Everywhere,
    Specific,
    Subscribe,
    SubscribePattern,
    parse_source,
    schema_includes_headers,
    warn_of_group,
)
from kavka.spark.sink_options import parse_sink
from kavka.spark.source import StreamReader

SERVERS = {"kafka.bootstrap.servers": "127.0.0.1:9092"}
BASE = SERVERS | {"subscribe": "t"}


def refusal(options: dict[str, str], *, streaming: bool = False) -> str:
    with pytest.raises(ConnectorError) as caught:
        parse_source(options, streaming=streaming)
    sentence = str(caught.value)
    assert sentence.endswith((".", "?"))
    assert "\n" not in sentence
    return sentence


def test_a_batch_reads_everything_and_a_stream_what_is_new() -> None:
    batch, stream = parse_source(BASE, streaming=False), parse_source(BASE, streaming=True)
    assert (batch.starting, batch.ending) == (Everywhere(EARLIEST), Everywhere(LATEST))
    assert stream.starting == Everywhere(LATEST)
    assert (batch.fail_on_data_loss, batch.include_headers, batch.group_id) == (True, False, None)
    assert batch.client == {"bootstrap.servers": "127.0.0.1:9092"}


def test_names_of_options_have_any_case() -> None:
    options = parse_source(
        {"KAFKA.bootstrap.servers": "a:1", "SUBSCRIBE": "t", "MINPARTITIONS": "3"}, streaming=True
    )
    assert (options.client["bootstrap.servers"], options.min_partitions) == ("a:1", 3)


def test_the_three_ways_to_choose_partitions() -> None:
    def selection(**chosen: str) -> object:
        return parse_source(SERVERS | chosen, streaming=False).selection

    assert selection(subscribe=" b , a,b,") == Subscribe(("b", "a"))
    assert selection(subscribePattern="t.*") == SubscribePattern("t.*")
    assert selection(assign='{"t": [1, 0]}') == Assign(
        (TopicPartition("t", 0), TopicPartition("t", 1))
    )


def test_bounds_are_offsets_or_times() -> None:
    starts = {
        "earliest": Everywhere(EARLIEST),
        "Earliest": Everywhere(EARLIEST),
        '{"t": {"0": 5, "1": -2}}': Specific(
            {TopicPartition("t", 0): 5, TopicPartition("t", 1): -2}
        ),
    }
    for text, bound in starts.items():
        assert parse_source(BASE | {"startingOffsets": text}, streaming=False).starting == bound
    times = BASE | {
        "startingOffsetsByTimestamp": '{"t": {"0": 1000}}',
        "startingOffsets": "earliest",
    }
    assert parse_source(times, streaming=True).starting == AtTimes({TopicPartition("t", 0): 1000})
    assert parse_source(times | {"startingTimestamp": "7"}, streaming=True).starting == AtTime(7)
    assert parse_source(BASE | {"endingTimestamp": "9"}, streaming=False).ending == AtTime(9)


def test_settings_of_the_client_pass_through() -> None:
    options = parse_source(BASE | {"kafka.isolation.level": "read_committed"}, streaming=False)
    assert options.client["isolation.level"] == "read_committed"


def test_durations_have_units() -> None:
    for text, delay in {"15m": 900_000, "20 s": 20_000, "5": 5, "1h": 3_600_000}.items():
        assert (
            parse_source(BASE | {"maxTriggerDelay": text}, streaming=True).max_trigger_delay_ms
            == delay
        )


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"subscribe": "t"}, "The option kafka.bootstrap.servers is missing: give it as host:port,...."),
        (SERVERS, "Exactly one of subscribe, subscribePattern and assign must be given, not none."),
        (
            BASE | {"assign": "{}"},
            "Exactly one of subscribe, subscribePattern and assign must be given, not subscribe and assign.",
        ),
        (SERVERS | {"subscribe": " "}, "The option subscribe is empty."),
        (
            BASE | {"startingOffset": "earliest"},
            "The option 'startingoffset' is not one of format kavka; did you mean startingOffsets?",
        ),
        (
            BASE | {"bootstrap.servers": "x"},
            "The option 'bootstrap.servers' is not one of format kavka; did you mean kafka.bootstrap.servers?",
        ),
        (
            BASE | {"kafka.isolation.levl": "x"},
            "The option kafka.isolation.levl is no setting of Kafka's clients; did you mean kafka.isolation.level?",
        ),
        (BASE | {"zzz": "1"}, "The option 'zzz' is not one of format kavka."),
        (BASE | {"startingOffsets": "latest"}, "startingOffsets of a batch query cannot be latest."),
        (BASE | {"startingOffsets": '{"t":{"0":-1}}'}, "startingOffsets of a batch query cannot be latest."),
        (BASE | {"endingOffsets": "earliest"}, "endingOffsets cannot be earliest."),
        (BASE | {"endingOffsets": '{"t":{"0":-2}}'}, "endingOffsets cannot be earliest."),
        (
            BASE | {"startingOffsets": "newest"},
            'The option startingOffsets must be earliest, latest or JSON such as {"topic": {"0": 23}}, not \'newest\'.',
        ),
        (
            BASE | {"startingOffsets": '{"t":{"0":-3}}'},
            'The option startingOffsets must be earliest, latest or JSON such as {"topic": {"0": 23}}, '
            "but for t-0 it has -3.",
        ),
        (
            BASE | {"startingTimestamp": "now"},
            "The option startingTimestamp must be a whole number of at least 0, not 'now'.",
        ),
        (
            BASE | {"minOffsetsPerTrigger": "9", "maxOffsetsPerTrigger": "8"},
            "minOffsetsPerTrigger (9) must not be above maxOffsetsPerTrigger (8).",
        ),
        (
            BASE | {"maxOffsetsPerTrigger": "0"},
            "The option maxOffsetsPerTrigger must be a whole number of at least 1, not '0'.",
        ),
        (BASE | {"failOnDataLoss": "maybe"}, "The option failOnDataLoss must be true or false, not 'maybe'."),
        (
            BASE | {"maxTriggerDelay": "soon"},
            "The option maxTriggerDelay must be a duration such as 500ms, 20s or 15m, not 'soon'.",
        ),
        (
            BASE | {"startingOffsetsByTimestampStrategy": "guess"},
            "startingOffsetsByTimestampStrategy must be error or latest, not 'guess'.",
        ),
        (
            BASE | {"kafka.auto.offset.reset": "latest"},
            "The option kafka.auto.offset.reset is not supported: set startingOffsets instead.",
        ),
        (
            BASE | {"kafka.value.deserializer": "x"},
            "The option kafka.value.deserializer is not supported: "
            "values are always binary; cast them in the data frame.",
        ),
        (SERVERS | {"assign": "t"}, 'The option assign must be JSON such as {"topic": [0, 1]}, not \'t\'.'),
        (SERVERS | {"subscribePattern": "("}, None),
    ],
)  # fmt: skip
def test_a_wrong_option_is_refused_in_one_sentence(
    options: dict[str, str], sentence: str | None
) -> None:
    message = refusal(options)
    assert sentence is None or message == sentence


def test_a_stream_has_no_end() -> None:
    message = refusal(BASE | {"endingOffsets": "latest"}, streaming=True)
    assert message == "The option endingOffsets is not valid in a streaming query."


@given(
    st.text(),
    st.sampled_from(["assign", "startingOffsets", "endingOffsetsByTimestamp", "minPartitions"]),
)
def test_any_text_is_a_value_or_a_refusal(text: str, name: str) -> None:
    options = SERVERS | ({name: text} if name == "assign" else {"subscribe": "t", name: text})
    try:
        parsed = parse_source(options, streaming=False)
    except ConnectorError:
        return
    assert parsed.client == {"bootstrap.servers": "127.0.0.1:9092"}


def test_the_sink_takes_a_topic_and_settings() -> None:
    options = parse_sink(SERVERS | {"topic": "out", "kafka.acks": "1", "checkpointLocation": "/x"})
    assert (options.topic, options.client) == (
        "out",
        {"bootstrap.servers": "127.0.0.1:9092", "acks": "1"},
    )
    assert parse_sink(SERVERS).topic is None


@pytest.mark.parametrize("include", ["true", "false"])
def test_include_headers_decides_nothing_in_the_sink_but_must_be_a_boolean(include: str) -> None:
    plain = SERVERS | {"topic": "out"}
    assert parse_sink(plain | {"includeHeaders": include}) == parse_sink(plain)
    with pytest.raises(ConnectorError, match="includeHeaders must be true or false"):
        parse_sink(plain | {"includeHeaders": "maybe"})


@pytest.mark.parametrize("name", ["kafka.key.serializer", "failOnDataLoss", "startingOffsets"])
def test_the_sink_refuses_what_it_would_ignore(name: str) -> None:
    with pytest.raises(ConnectorError, match=name.lower()):
        parse_sink(SERVERS | {"topic": "out", name: "x"})


def test_a_stream_with_a_minimum_only_has_a_limit_so_that_spark_does_not_ask_for_everything() -> (
    None
):
    def limit(**options: str) -> ReadLimit:
        return StreamReader(parse_source(BASE | options, streaming=True)).getDefaultReadLimit()

    assert isinstance(limit(), ReadAllAvailable)
    assert limit(maxOffsetsPerTrigger="7") == ReadMaxRows(7)
    assert isinstance(limit(minOffsetsPerTrigger="7"), ReadMaxRows)


def test_a_consumer_group_is_taken_with_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    given = {"kafka.bootstrap.servers": "b:1", "subscribe": "t"}
    warn_of_group(parse_source(given, streaming=True))
    assert caplog.text == ""
    warn_of_group(parse_source(given | {"kafka.group.id": "mine"}, streaming=True))
    assert "'kafka.group.id' has been set on this query, it is not recommended" in caplog.text
    assert "group=mine" in caplog.text


OUT = SERVERS | {"topic": "out"}
ONCE = OUT | {"deliveryGuarantee": "exactly-once"}


def test_each_record_is_written_at_least_once_unless_exactly_once_is_asked_for() -> None:
    assert parse_sink(OUT).exactly_once is None
    assert parse_sink(OUT | {"deliveryGuarantee": "at-least-once"}).exactly_once is None


def test_a_streams_sink_is_named_by_its_checkpoint_or_by_sink_id() -> None:
    def named(**options: str) -> str:
        found = parse_sink(ONCE | options, streaming=True).exactly_once
        assert found is not None
        return found.sink_id

    place = named(checkpointLocation="/data/c")
    assert place.startswith("kavka-sink-")
    assert named(checkpointLocation="file:///data/c/") == place
    assert named(checkpointLocation="/data/d") != place
    assert named(checkpointLocation="/data/c", sinkId="mine") == "mine"


def test_two_phase_commit_is_a_decision_of_the_sink_not_of_its_producers() -> None:
    name = "kafka.transaction.two.phase.commit.enable"
    for chosen, wanted in ((None, None), ("true", True), ("false", False)):
        options = ONCE | {"sinkId": "s"} | ({} if chosen is None else {name: chosen})
        parsed = parse_sink(options)
        assert parsed.exactly_once is not None
        assert parsed.exactly_once.two_phase_commit is wanted
        assert "transaction.two.phase.commit.enable" not in parsed.client


@pytest.mark.parametrize(
    ("options", "streaming", "reason"),
    [
        ({"deliveryGuarantee": "at-most-once"}, True, "must be at-least-once or exactly-once"),
        ({"deliveryGuarantee": "at-least-once", "sinkId": "s"}, True, "means nothing without"),
        ({}, True, "needs the option sinkId"),
        ({"checkpointLocation": "/c"}, False, "needs the option sinkId"),
        ({"sinkId": "a b"}, True, "begins the name of a topic"),
        ({"sinkId": "s", "writeId": "w"}, True, "writeId is of batch writes"),
        ({"sinkId": "s", "onNewCheckpoint": "reset"}, False, "is of streams"),
        ({"sinkId": "s", "onNewCheckpoint": "perhaps"}, True, "must be fail or reset"),
        ({"sinkId": "s", "kafka.acks": "1"}, True, "chooses kafka.acks itself"),
        ({"sinkId": "s", "kafka.transactional.id": "x"}, True, "chooses kafka.transactional.id"),
    ],
)
def test_options_of_exactly_once_that_contradict_are_refused(
    options: dict[str, str], streaming: bool, reason: str
) -> None:
    with pytest.raises(ConnectorError, match=reason):
        parse_sink(ONCE | options, streaming=streaming)


TABLE = BASE | {
    "provider": "kavka",
    "owner": "me",
    "location": "file:/tmp/t",
    "option.subscribe": "t",
}


def test_a_table_of_a_catalogue_has_properties_that_spark_adds() -> None:
    assert schema_includes_headers(TABLE | {"includeHeaders": "true"})
    with pytest.raises(ConnectorError, match="'owner' is not one of format kavka"):
        schema_includes_headers(BASE | {"owner": "me"})


def test_a_view_may_be_read_and_written_or_written_only() -> None:
    both = BASE | {"topic": "out", "startingOffsets": "earliest", "includeHeaders": "true"}
    assert schema_includes_headers(both)
    assert parse_source(both, streaming=False).selection == Subscribe(("t",))
    assert parse_sink(both, streaming=False).topic == "out"
    assert not schema_includes_headers(SERVERS | {"topic": "out"})
    assert "Exactly one of subscribe" in refusal(SERVERS | {"topic": "out"})
    with pytest.raises(ConnectorError, match="did you mean startingOffsets"):
        schema_includes_headers(both | {"startingOffset": "earliest"})


def test_a_query_that_got_no_options_of_its_table_says_how_to_give_them() -> None:
    assert "SELECT * FROM t WITH (" in refusal({})
