"""Our console producer and consumer beside Apache Kafka's: what one writes the other reads, in the same bytes."""

from __future__ import annotations

import signal
import subprocess

import pytest
from confluent_kafka import ConsumerGroupTopicPartitions
from confluent_kafka.admin import AdminClient, NewTopic

from kavka_compat.apache import ApacheKafka, Finished
from kavka_compat.brokers import Broker
from kavka_compat.our_tools import our_tool
from kavka_compat.ours import kavka_command

pytestmark = [pytest.mark.compat, pytest.mark.timeout(120)]

_LINES = "h:1,g:NULL\tkey\tvalue\nNULL\tNULL\tNULL\nh:é\t\té,:\n"
_READS = (
    *("--property", "parse.key=true", "--property", "parse.headers=true"),
    *("--property", "null.marker=NULL"),
)
_SHOWS = tuple(
    word
    for name in ("key", "headers", "offset", "partition")
    for word in ("--property", f"print.{name}=true")
)


@pytest.fixture
def at(any_broker: Broker, fresh_name: str) -> tuple[str, ...]:
    """`--bootstrap-server` and `--topic` of a topic that is there."""
    admin = AdminClient({"bootstrap.servers": any_broker.bootstrap})
    admin.create_topics([NewTopic(fresh_name, 1, 1)])[fresh_name].result(30)
    return ("--bootstrap-server", any_broker.bootstrap, "--topic", fresh_name)


def _kafka(tool: str, *arguments: str, stdin: str = "") -> Finished:
    return ApacheKafka("4.1").tool(f"kafka-{tool}", *arguments, stdin=stdin)


def test_both_producers_and_both_consumers_agree(at: tuple[str, ...]) -> None:
    our_tool("console-producer", *at, *_READS, stdin=_LINES)
    written = _kafka("console-producer", *at, *_READS, stdin=_LINES)
    assert written.code == 0, str(written)
    ends = ("--from-beginning", "--max-messages", "6", *_SHOWS)
    theirs = _kafka("console-consumer", *at, *ends)
    ours = our_tool("console-consumer", *at, *ends)
    assert ours.out == theirs.out
    assert ours.err == "Processed a total of 6 messages\n"
    assert theirs.lines[:3] == [
        "Partition:0\tOffset:0\th:1,g:null\tkey\tvalue",
        "Partition:0\tOffset:1\tNO_HEADERS\tnull\tnull",
        "Partition:0\tOffset:2\th:é\t\té,:",
    ]
    assert [line.split("\t")[2:] for line in theirs.lines[:3]] == [
        line.split("\t")[2:] for line in theirs.lines[3:]
    ]


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_every_codec_and_acks_arrive(at: tuple[str, ...], codec: str) -> None:
    text = "".join(f"line {number}\n" for number in range(3000))
    acks = "0" if codec == "none" else "1"
    options = ("--compression-codec", codec, "--request-required-acks", acks)
    our_tool("console-producer", *at, *options, stdin=text)
    read = our_tool("console-consumer", *at, "--from-beginning", "--max-messages", "3000")
    assert read.out == text


def test_synchronous_sending_keeps_the_order(at: tuple[str, ...]) -> None:
    our_tool("console-producer", *at, "--sync", stdin="a\nb\r\nc")
    read = our_tool(
        "console-consumer", *at, "--partition", "0", "--offset", "1", "--max-messages", "2"
    )
    assert read.out == "b\nc\n"


def test_a_line_that_is_refused_ends_the_producer_after_those_before(at: tuple[str, ...]) -> None:
    refused = our_tool(
        *("console-producer", *at, "--property", "parse.key=true"), stdin="a\t1\nb\n", code=1
    )
    assert "KafkaException: No key separator found on line number 2: 'b'" in refused.err
    assert our_tool("console-consumer", *at, "--from-beginning", "--max-messages", "1").out == "1\n"


def test_a_record_that_is_too_large_is_left_out_and_reported(at: tuple[str, ...]) -> None:
    text = "first\n" + "x" * 2_000_000 + "\nlast\n"
    failed = our_tool("console-producer", *at, stdin=text, code=1)
    assert "RecordTooLargeException" in failed.err
    read = our_tool("console-consumer", *at, "--from-beginning", "--max-messages", "2")
    assert read.out == "first\nlast\n"


def test_a_group_goes_on_where_it_stopped(at: tuple[str, ...], fresh_name: str) -> None:
    our_tool("console-producer", *at, stdin="".join(f"{number}\n" for number in range(10)))
    group = ("--group", fresh_name, "--from-beginning", "--max-messages")
    assert our_tool("console-consumer", *at, *group, "3").lines == ["0", "1", "2"]
    assert _kafka("console-consumer", *at, *group, "2").lines == ["3", "4"]
    assert our_tool("console-consumer", *at, *group, "5").lines == ["5", "6", "7", "8", "9"]


def test_topics_are_found_by_pattern_and_silence_ends(at: tuple[str, ...], fresh_name: str) -> None:
    our_tool("console-producer", *at, stdin="a\n")
    pattern = ("--include", f"{fresh_name}|no-such", "--from-beginning", "--timeout-ms", "1500")
    ended = our_tool("console-consumer", *at[:2], *pattern)
    assert ended.out == "a\n"
    assert "ERROR Error processing message, terminating consumer process: " in ended.err
    assert ended.err.splitlines()[1:] == [
        "org.apache.kafka.common.errors.TimeoutException",
        "Processed a total of 1 messages",
    ]


def test_committed_offsets_look_as_kafkas(at: tuple[str, ...], fresh_name: str) -> None:
    our_tool("console-producer", *at, stdin="a\n")
    group = ("--group", fresh_name, "--from-beginning", "--max-messages", "1")
    our_tool("console-consumer", *at, *group)
    stored = (
        *(*at[:2], "--topic", "__consumer_offsets", "--partition", str(_partition_of(fresh_name))),
        *("--from-beginning", "--timeout-ms", "2000"),
        *("--formatter", "org.apache.kafka.tools.consumer.OffsetsMessageFormatter"),
    )
    ours = our_tool("console-consumer", *stored)
    assert f'"group":"{fresh_name}"' in ours.out
    assert ours.out == _kafka("console-consumer", *stored).out


def _partition_of(group: str) -> int:
    """Return which of the four partitions of `__consumer_offsets` has the group: Java's hash of its name."""
    code = 0
    for letter in group:
        code = (31 * code + ord(letter)) & 0xFFFFFFFF
    return (code & 0x7FFFFFFF if code < 2**31 else 2**32 - code) % 4


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_stops_the_consumer_cleanly(
    at: tuple[str, ...], number: signal.Signals, code: int
) -> None:
    our_tool("console-producer", *at, stdin="a\n")
    with subprocess.Popen(
        kavka_command("console-consumer", *at, "--from-beginning"),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        # what a shell starts in the background ignores SIGINT, and so would its children
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    ) as consumer:
        assert consumer.stdout is not None
        assert consumer.stdout.readline() == "a\n"
        consumer.send_signal(number)
        _, err = consumer.communicate(timeout=60)
    assert (consumer.returncode, err) == (code, "Processed a total of 1 messages\n")


def test_both_consumers_commit_what_they_have_read_when_a_record_cannot_be_printed(
    any_broker: Broker, at: tuple[str, ...], fresh_name: str
) -> None:
    our_tool("console-producer", *at, stdin="good\ngood\nnone\nno int\ngood\ngood\n")
    integer = "org.apache.kafka.common.serialization.IntegerDeserializer"
    for tool in ("theirs", "ours"):
        group = f"{fresh_name}-{tool}"
        words = (*at, "--from-beginning", "--group", group, "--value-deserializer", integer)
        if tool == "ours":
            done = our_tool("console-consumer", *words, code=1)
        else:
            done = _kafka("console-consumer", *words)
            assert done.code == 1, str(done)
        assert len(done.lines) == 3
        admin = AdminClient({"bootstrap.servers": any_broker.bootstrap})
        asked = admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)])
        (offset,) = asked[group].result(30).topic_partitions
        assert offset.offset == 4, tool
