"""Metrics of a source; `test_connector.py` has those of Spark's connector beside them."""

from __future__ import annotations

import pytest

from kavka.spark.progress import source_metrics


@pytest.mark.parametrize(
    ("end", "latest", "expected"),
    [
        ({"t": {"0": 5, "1": 0}}, {"t": {"0": 9, "1": 1}}, ("1", "4", "2.5")),
        ('{"t": {"0": 5}, "t@id": {}}', '{"t": {"0": 5}}', ("0", "0", "0.0")),
        ({"t": {"0": 0}}, {"t": {"0": 12345678}}, ("12345678", "12345678", "1.2345678E7")),
        ({"t": {"0": 0}}, {"t": {"0": 10**10}}, (str(10**10), str(10**10), "1.0E10")),
    ],
)
def test_lags_are_written_as_java_writes_them(
    end: object, latest: object, expected: tuple[str, str, str]
) -> None:
    found = source_metrics({"endOffset": end, "latestOffset": latest})
    assert tuple(found.values()) == expected


def test_there_are_no_metrics_before_the_ends_were_seen() -> None:
    assert source_metrics({"endOffset": {"t": {"0": 1}}, "latestOffset": None}) == {}
