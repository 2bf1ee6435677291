"""The lines of the producer's measurement, and its options."""

from __future__ import annotations

from pathlib import Path

import pytest

from kavka.cli.commands.producer_perf_test import main, random_payloads
from kavka.cli.text.perf_statistics import ProducerStatistics, metric_lines

_HERE = ["--topic", "t", "--num-records", "10", "--throughput", "-1"]


def test_a_window_is_shown_when_its_time_is_over() -> None:
    shown: list[str] = []
    statistics = ProducerStatistics(
        0, 5000, lambda one, now_ms: shown.append(one.window_line(now_ms))
    )
    statistics.record(1000, 2, 100_000, 10_000_000)
    assert shown == []
    statistics.record(5000, 4, 100_000, 10_000_000)
    assert shown == [
        "200000 records sent, 40000.0 records/sec (3.81 MB/sec), 3.0 ms avg latency, 4.0 ms max latency."
    ]
    statistics.record(10_000, 9, 50, 500)
    assert shown[1].startswith(
        "50 records sent, 10.0 records/sec (0.00 MB/sec), 9.0 ms avg latency, 9.0 ms"
    )


def test_the_total_has_percentiles() -> None:
    statistics = ProducerStatistics(0, 5000, lambda *_: None)
    for latency_ms in range(1000):
        statistics.record(1, latency_ms, 1, 1024)
    assert statistics.total_line(2000) == (
        "1000 records sent, 500.0 records/sec (0.49 MB/sec), 499.50 ms avg latency, 999.00 ms max latency, "
        "500 ms 50th, 950 ms 95th, 990 ms 99th, 999 ms 99.9th."
    )


def test_nothing_sent_is_shown_as_nothing() -> None:
    line = ProducerStatistics(0, 5000, lambda *_: None, " steady state").total_line(0)
    assert line.startswith(
        "0 steady state records sent, 0.0 records/sec (0.00 MB/sec), 0.00 ms avg latency"
    )


def test_metrics_are_a_table() -> None:
    assert metric_lines({"b": 1.0, "long-name-of-a": 2.5}) == [
        "",
        "Metric Name      Value",
        "b              : 1.000",
        "long-name-of-a : 2.500",
    ]


def test_random_payloads_have_the_size_and_are_different() -> None:
    payloads = random_payloads(50)
    assert {len(payload) for payload in payloads} == {50}
    assert len(set(payloads)) == len(payloads)
    assert set(b"".join(payloads)) == set(range(65, 91))
    assert len(random_payloads(20_000_000)) == 1


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (
            _HERE,
            "one of the arguments --record-size --payload-file --payload-monotonic is required",
        ),
        ([*_HERE[:-1], "x"], "argument --throughput: could not convert 'x' to a number"),
        ([*_HERE, "--record-size", "0"], "--record-size should be greater than zero."),
        (
            [*_HERE, "--record-size", "1"],
            "Either --producer-props or --producer.config must be specified.",
        ),
        (
            [*_HERE, "--record-size", "1", "--producer-props", "nonsense"],
            "Invalid property: nonsense",
        ),
        (
            [*_HERE, "--payload-file", "/no/such", "--producer-props", "a=b"],
            "File does not exist or empty file provided.",
        ),
        (
            [
                *_HERE,
                "--record-size",
                "1",
                "--producer-props",
                "bootstrap.servers=127.0.0.1:1",
                "max.block.ms=20",
            ],
            "cannot reach any of bootstrap.servers [127.0.0.1:1]",
        ),
    ],
)
def test_wrong_options_are_reported(
    arguments: list[str], sentence: str, capfd: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == 1
    assert sentence in capfd.readouterr().err


def test_a_file_of_delimiters_alone_has_no_payloads(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "payloads"
    path.write_text("\n\n\n")
    assert main([*_HERE, "--payload-file", str(path), "--producer-props", "a=b"]) == 1
    assert f"{path} has no payloads between its delimiters." in capfd.readouterr().err
