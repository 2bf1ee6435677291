"""Lines as records, options as settings."""

from __future__ import annotations

from pathlib import Path

import pytest

from kavka.cli.arguments.options import BadUsage, BadValue
from kavka.cli.commands.console_producer import OPTIONS, main, producer_settings
from kavka.cli.console.line_reader import BadLine, LineReader, ReadRecord

_HERE = ["--bootstrap-server", "127.0.0.1:1", "--topic", "t"]


def _read(line: bytes, **properties: str) -> ReadRecord:
    return LineReader.of({k.replace("_", "."): v for k, v in properties.items()}).read(line, 1)


def _settings(*arguments: str) -> dict[str, str]:
    return producer_settings(OPTIONS.parse([*_HERE, *arguments]))


def test_a_line_is_a_value() -> None:
    assert _read(b"a\tb") == ReadRecord(None, b"a\tb")


def test_a_key_stands_before_the_first_separator() -> None:
    assert _read(b"k\tv\tw", parse_key="true") == ReadRecord(b"k", b"v\tw")
    assert _read(b"k::v", parse_key=" TRUE ", key_separator="::") == ReadRecord(b"k", b"v")


def test_headers_stand_before_the_key() -> None:
    read = _read(
        b"a:1,b:\xc3\xa9,a:,,\tk\tv", parse_key="true", parse_headers="true", ignore_error="true"
    )
    assert read.headers == (("a", b"1"), ("b", "é".encode()), ("a", b""))
    assert (read.key, read.value) == (b"k", b"v")


def test_the_null_marker_stands_for_nothing() -> None:
    properties = {"parse_key": "true", "parse_headers": "true", "null_marker": "-"}
    assert _read(b"-\t-\t-", **properties) == ReadRecord(None, None)
    assert _read(b"h:-\tk\tv", **properties).headers == (("h", None),)
    with pytest.raises(BadLine, match="Header keys should not be equal to the null marker"):
        _read(b"-:x\tk\tv", **properties)


def test_a_line_without_its_separator_is_refused() -> None:
    with pytest.raises(BadLine, match=r"^No key separator found on line number 1: 'v'$"):
        _read(b"v", parse_key="true")
    with pytest.raises(BadLine, match=r"^No headers delimiter found on line number 1: 'v'$"):
        _read(b"v", parse_headers="true")
    with pytest.raises(
        BadLine, match=r"^No header key separator found in pair 'h' on line number 1$"
    ):
        _read(b"h\tv", parse_headers="true")


def test_errors_are_passed_over_on_request() -> None:
    assert _read(b"v", parse_key="true", ignore_error="true") == ReadRecord(None, b"v")
    assert _read(b"h\tv", parse_headers="true", ignore_error="true").headers == (("h", None),)


@pytest.mark.parametrize(
    "properties",
    [
        {"null.marker": ",", "headers.separator": ","},
        {"headers.delimiter": ","},
        {"headers.separator": ":"},
        {"headers.delimiter": ":"},
    ],
)
def test_separators_that_cannot_be_distinguished_are_refused(properties: dict[str, str]) -> None:
    with pytest.raises(BadLine, match="may not be equal"):
        LineReader.of(properties)


@pytest.mark.parametrize(
    "name", ["key.separator", "headers.delimiter", "headers.separator", "headers.key.separator"]
)
def test_a_separator_that_separates_nothing_is_refused(name: str) -> None:
    with pytest.raises(BadLine, match=f"{name} may not be empty"):
        LineReader.of({name: ""})


def test_pairs_end_before_a_bad_line() -> None:
    reader = LineReader.of({"parse.key": "true"})
    pairs, error = reader.pairs([b"a\t1", b"\t2", b"3", b"b\t4"], 10)
    assert pairs == [(b"a", b"1"), (b"", b"2")]
    assert str(error) == "No key separator found on line number 12: '3'"
    assert LineReader.of({}).pairs([b"a\t1"], 1) == ([(None, b"a\t1")], None)


def test_defaults_are_those_of_the_tool() -> None:
    assert _settings() == {
        "bootstrap.servers": "127.0.0.1:1",
        "client.id": "console-producer",
        "compression.type": "none",
        "linger.ms": "1000",
        "acks": "-1",
        "request.timeout.ms": "1500",
        "retries": "3",
        "retry.backoff.ms": "100",
        "buffer.memory": "33554432",
        "max.block.ms": "60000",
        "metadata.max.age.ms": "300000",
        "batch.size": "16384",
    }


def test_compression_without_a_value_is_gzip() -> None:
    assert _settings("--compression-codec")["compression.type"] == "gzip"
    assert _settings("--compression-codec", "--sync")["compression.type"] == "gzip"
    assert _settings("--compression-codec", "zstd")["compression.type"] == "zstd"


def test_options_win_over_properties_and_properties_over_defaults(tmp_path: Path) -> None:
    file = tmp_path / "c.properties"
    file.write_text("acks=0\nlinger.ms=1\nretries=9\n")
    settings = _settings(
        *("--producer.config", str(file), "--producer-property", "linger.ms=2"),
        *("--producer-property", "client.id=me", "--message-send-max-retries", "5"),
        *("--max-partition-memory-bytes", "7"),
    )
    assert (settings["acks"], settings["linger.ms"], settings["retries"]) == ("0", "2", "5")
    assert (settings["client.id"], settings["batch.size"]) == ("me", "7")


def test_synchronous_sending_does_not_wait_for_company() -> None:
    assert _settings("--sync")["linger.ms"] == "0"
    assert _settings("--sync", "--timeout", "9")["linger.ms"] == "9"


def test_wrong_options_are_refused_in_kafkas_words() -> None:
    with pytest.raises(BadUsage, match=r"^Missing required option\(s\) \[bootstrap-server\]$"):
        producer_settings(OPTIONS.parse(["--topic", "t"]))
    with pytest.raises(BadUsage, match=r'^Missing required argument "\[topic\]"$'):
        producer_settings(OPTIONS.parse(_HERE[:2]))
    with pytest.raises(BadUsage, match=r"^Please provide valid host:port like"):
        producer_settings(OPTIONS.parse(["--bootstrap-server", "here", "--topic", "t"]))
    with pytest.raises(BadValue, match=r"^Cannot parse argument 'x' of option batch-size$"):
        _settings("--batch-size", "x")


def test_an_unreachable_broker_is_one_sentence(capfd: pytest.CaptureFixture[str]) -> None:
    assert main([*_HERE, "--producer-property", "max.block.ms=20"]) == 1
    err = capfd.readouterr().err
    assert err.startswith("cannot reach any of bootstrap.servers [127.0.0.1:1]")
    assert len(err.splitlines()) == 1


def test_a_wrong_codec_ends_with_1(capfd: pytest.CaptureFixture[str]) -> None:
    assert main([*_HERE, "--compression-codec", "foo"]) == 1
    assert (
        "org.apache.kafka.common.config.ConfigException: Invalid value foo"
        in capfd.readouterr().err
    )
