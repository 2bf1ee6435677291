"""The partition of an internal topic to which an id belongs, by Java's hash."""

from __future__ import annotations

import pytest

from kavka.core.shards import java_string_hash, partition_for


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("", 0),
        ("a", 97),
        ("hello", 99162322),
        ("foobar", -1268878963),
        ("polygenelubricants", -(2**31)),
        ("\U0001f600", 1772899),
    ],
)
def test_hash_is_javas(text: str, value: int) -> None:
    assert java_string_hash(text) == value


def test_smallest_hash_goes_to_partition_zero() -> None:
    assert partition_for("polygenelubricants", 50) == 0


def test_negative_hash_counts_by_its_absolute_value() -> None:
    assert partition_for("foobar", 50) == 13
