"""The columns of the consumer's measurement, and its options."""

from __future__ import annotations

from datetime import datetime

import pytest

from kavka.cli.commands.consumer_perf_test import main
from kavka.cli.text.java_dates import BadPattern, format_date
from kavka.cli.text.perf_statistics import consumer_columns

_WHEN = datetime(2026, 1, 9, 15, 4, 5, 67_000)
_LIMIT = ["--command-property", "default.api.timeout.ms=20"]
_HERE = ["--bootstrap-server", "127.0.0.1:1", "--topic", "t"]


def test_columns_have_totals_and_rates() -> None:
    assert consumer_columns(2**20, 10, 2**19, 5, 1000, 500) == (
        "1.0000, 0.5000, 10, 5.0000, 500, 500, 1.0000, 10.0000"
    )


def test_no_time_gives_no_rate() -> None:
    assert consumer_columns(0, 0, 0, 0, 0, 0) == "0.0000, 0.0000, 0, 0.0000, 0, 0, 0.0000, 0.0000"


def test_dates_follow_javas_patterns() -> None:
    assert format_date("yyyy-MM-dd HH:mm:ss:SSS", _WHEN) == "2026-01-09 15:04:05:067"
    assert format_date("d.M.yy h 'o''clock' a", _WHEN) == "9.1.26 3 o'clock PM"
    with pytest.raises(BadPattern, match="Illegal pattern character 'b'"):
        format_date("b", _WHEN)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (_HERE, 'Missing required argument "[messages]"'),
        (_HERE[:2], 'Missing required argument "[topic]"'),
        ([*_HERE, "--messages", "x"], "Cannot parse argument 'x' of option messages"),
        (
            [*_HERE, "--messages", "1", "--reporting-interval", "0"],
            "Reporting interval must be greater than 0.",
        ),
        (
            [*_HERE, "--messages", "1", "--hide-header", *_LIMIT],
            "cannot reach any of bootstrap.servers [127.0.0.1:1]",
        ),
    ],
)
def test_wrong_options_are_reported(
    arguments: list[str], sentence: str, capfd: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == 1
    shown = capfd.readouterr()
    assert shown.out == ""
    assert sentence in shown.err
