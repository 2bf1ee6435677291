"""Records as lines, and options that do not go together."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kavka.cli.commands.console_consumer import main
from kavka.cli.console.deserializers import DeserializationFailed, deserializer_of, java_double
from kavka.cli.console.message_formatters import UnknownClass, formatter_of
from kavka.client.consumer.batches import ConsumerRecord
from kavka.wire.stored.offsets import OffsetCommitKey, OffsetCommitValue, encode_key, encode_value

_HERE = ["--bootstrap-server", "127.0.0.1:1"]
_RECORD = ConsumerRecord("t", 2, 7, 1000, 0, b"k", b"v\xff", (("a", b"1"), ("b", None)))
_BARE = ConsumerRecord("t", 0, 8, 1000, 1, None, None, ())


def _shown(record: ConsumerRecord, name: str = "Default", **properties: str) -> bytes:
    return formatter_of(name, {k.replace("_", "."): v for k, v in properties.items()})(record)


def test_a_record_is_its_value_as_it_came() -> None:
    assert _shown(_RECORD) == b"v\xff\n"
    assert _shown(_BARE) == b"null\n"


def test_parts_come_in_kafkas_order() -> None:
    names = ("timestamp", "key", "offset", "partition", "headers", "epoch")
    every = {f"print_{name}": "true" for name in names}
    assert _shown(_RECORD, **every) == (
        b"CreateTime:1000\tPartition:2\tOffset:7\tEpoch:NOT_PRESENT\ta:1,b:null\tk\tv\xff\n"
    )
    assert _shown(_BARE, **every) == (
        b"LogAppendTime:1000\tPartition:0\tOffset:8\tEpoch:NOT_PRESENT\tNO_HEADERS\tnull\tnull\n"
    )


def test_separators_and_null_are_properties() -> None:
    shown = _shown(
        _RECORD,
        print_key="true",
        print_headers="true",
        key_separator="<>",
        line_separator="|",
        headers_separator=";",
        null_literal="NIL",
    )
    assert shown == b"a:1;b:NIL<>k<>v\xff|"
    assert _shown(_RECORD, print_value="false") == b""


def test_formatters_are_found_by_both_names() -> None:
    package = "org.apache.kafka.tools.consumer."
    assert _shown(_RECORD, package + "NoOpMessageFormatter") == b""
    assert _shown(_RECORD, "kafka.tools.DefaultMessageFormatter") == b"v\xff\n"
    assert _shown(_RECORD, "LoggingMessageFormatter") == b"v\xff\n"
    with pytest.raises(UnknownClass, match=r"^my.Formatter$"):
        formatter_of("my.Formatter", {})
    with pytest.raises(UnknownClass, match=r" a deserializer from my.Own$"):
        formatter_of("Default", {"value.deserializer": "my.Own"})


def test_committed_offsets_are_shown() -> None:
    key = encode_key(OffsetCommitKey(group="g", topic="t", partition=1))
    value = encode_value(
        OffsetCommitValue(offset=5, leader_epoch=2, metadata="m", commit_timestamp=9)
    )
    stored = _RECORD._replace(key=key, value=value)
    assert _shown(stored, "org.apache.kafka.tools.consumer.OffsetsMessageFormatter") == (
        b'{"key":{"type":1,"data":{"group":"g","topic":"t","partition":1}},"value":{"version":3,"data":'
        b'{"offset":5,"leaderEpoch":2,"metadata":"m","commitTimestamp":9}}}'
    )
    older = "kafka.coordinator.group.GroupMetadataManager$OffsetsMessageFormatter"
    assert _shown(stored, older) == (
        b"[g,t,1]::OffsetAndMetadata(offset=5, leaderEpoch=Optional[2], metadata=m, commitTimestamp=9, "
        b"expireTimestamp=None)\n"
    )
    assert _shown(stored._replace(value=None), older) == b"[g,t,1]::NULL\n"
    assert _shown(stored, "GroupMetadataMessageFormatter") == b""


@pytest.mark.parametrize(
    ("name", "content", "text"),
    [
        ("Integer", b"\xff\xff\xff\xfe", b"-2"),
        ("org.apache.kafka.common.serialization.LongDeserializer", b"\0" * 7 + b"\7", b"7"),
        ("ShortDeserializer", b"\1\0", b"256"),
        ("DoubleDeserializer", struct.pack(">d", 1.5e10), b"1.5E10"),
        ("FloatDeserializer", struct.pack(">f", 0.1), b"0.1"),
        ("StringDeserializer", b"a\xff", b"a\xef\xbf\xbd"),
        ("ByteArrayDeserializer", b"a\xff", b"a\xff"),
        ("BooleanDeserializer", b"\1", b"true"),
    ],
)
def test_deserializers_show_what_javas_do(name: str, content: bytes, text: bytes) -> None:
    deserialize = deserializer_of(name)
    assert deserialize is not None
    assert deserialize(content) == text


def test_a_wrong_size_is_refused_in_javas_words() -> None:
    deserialize = deserializer_of("LongDeserializer")
    assert deserialize is not None
    with pytest.raises(
        DeserializationFailed, match=r"^Size of data received by LongDeserializer is not 8$"
    ):
        deserialize(b"abc")


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (0.0, "0.0"), (-0.0, "-0.0"), (1.0, "1.0"), (9999999.0, "9999999.0"), (1e7, "1.0E7"), (0.001, "0.001"),
        (0.0001, "1.0E-4"), (-123456789.125, "-1.23456789125E8"), (1e100, "1.0E100"), (5e-324, "5.0E-324"),
        (float("inf"), "Infinity"), (float("nan"), "NaN"),
    ],
)  # fmt: skip
def test_doubles_look_as_in_java(number: float, text: str) -> None:
    assert java_double(number) == text


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_doubles_read_back_as_themselves(number: float) -> None:
    assert float(java_double(number)) == number


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ([], "Exactly one of --include/--topic is required. "),
        (["--topic", "t", "--include", "u"], "Exactly one of --include/--topic is required. "),
        (
            ["--include", "t", "--partition", "0"],
            "The topic is required when partition is specified.",
        ),
        (["--topic", "t", "--offset", "1"], "The partition is required when offset is specified."),
        (
            ["--topic", "t", "--partition", "0", "--offset", "1", "--from-beginning"],
            "Options from-beginning and offset cannot be specified together.",
        ),
        (
            ["--topic", "t", "--partition", "0", "--offset", "-5"],
            "The provided offset value '-5' is incorrect. Valid values are 'earliest', 'latest', or a "
            "non-negative long.",
        ),
        (
            ["--topic", "t", "--partition", "0", "--group", "g"],
            "Options group and partition cannot be specified together.",
        ),
        (
            ["--topic", "t", "--group", "g", "--consumer-property", "group.id=h"],
            "The group ids provided in different places (directly using '--group', via '--consumer-property', "
            "or via '--consumer.config') do not match. Detected group ids: 'g', 'h'",
        ),
        (["--topic", "t", "--formatter", "foo.Bar"], "foo.Bar"),
        (
            ["--topic", "t", "--from-beginning", "--consumer-property", "auto.offset.reset=latest"],
            "Can't simultaneously specify --from-beginning and 'auto.offset.reset=latest', please remove one option",
        ),
    ],
)
def test_conflicting_options_are_refused_in_kafkas_words(
    arguments: list[str], sentence: str, capfd: pytest.CaptureFixture[str]
) -> None:
    assert main([*_HERE, *arguments]) == 1
    assert capfd.readouterr().err.splitlines()[0] == sentence


def test_an_unreachable_broker_is_one_sentence(capfd: pytest.CaptureFixture[str]) -> None:
    limit = ["--consumer-property", "default.api.timeout.ms=20"]
    assert main([*_HERE, "--topic", "t", *limit]) == 1
    shown = capfd.readouterr()
    assert shown.out == ""
    assert shown.err.startswith("cannot reach any of bootstrap.servers [127.0.0.1:1]")
    assert len(shown.err.splitlines()) == 1
