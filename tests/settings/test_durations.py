"""Durations as people write them."""

from __future__ import annotations

import pytest

from kavka.settings.durations import duration_ms


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("500ms", 500),
        ("90s", 90_000),
        ("15m", 900_000),
        ("15min", 900_000),
        ("12h", 43_200_000),
        ("5d", 432_000_000),
        ("1h30m", 5_400_000),
        (" 1h 30 m ", 5_400_000),
        ("1.5h", 5_400_000),
        ("0.0004s", 0),
        ("0.0005s", 1),
        ("9007199254740993ms", 2**53 + 1),
    ],
)
def test_a_duration_is_in_milliseconds(text: str, expected: int) -> None:
    assert duration_ms(text) == expected


@pytest.mark.parametrize(
    "text", ["", "soon", "5", "-5s", "5 weeks", "5mins", "1.s", ".5s", "1e3s", "\u0665s"]
)
def test_what_is_no_duration_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is not a duration such as 500ms, 90s or 1h30m"):
        duration_ms(text)


def test_a_number_alone_has_the_default_unit() -> None:
    assert duration_ms("250", default_unit="ms") == 250
    assert duration_ms("2", default_unit="d") == 2 * 86_400_000
    with pytest.raises(ValueError, match="is not a duration"):
        duration_ms("2.5", default_unit="s")
