"""The audit."""

from __future__ import annotations

from dataclasses import fields, replace

import pytest

from kavka.demo.audit import Counts, audit
from kavka.demo.replay import Tally

SENT = Tally(sent=10, malformed=2, too_late=1, on_time=7, above_limit=3)
FOUND = Counts(
    lines=10, records_in_log=10, rows_in_parquet=8, distinct_rows=8, late_rows=1, feed_rows=5,
    dead_letters=2, distinct_dead_letters=2, distinct_records=10,
    counted_by_minute=8, counted_late=1, counted_by_day=8, counted_in_windows=16, windows_per_event=2,
    feed_records=5, limits=3, distinct_limits=3, alerts=4, distinct_alerts=4, sessions=6, distinct_sessions=6,
)  # fmt: skip


def test_everything_agrees_when_nothing_is_lost() -> None:
    assert all(check.agrees for check in audit(SENT, FOUND))


@pytest.mark.parametrize(
    "name", [one.name for one in fields(Counts) if one.name != "windows_per_event"]
)
@pytest.mark.parametrize("change", [-1, 1])
def test_one_record_too_few_or_too_many_is_seen_anywhere(name: str, change: int) -> None:
    wrong = replace(FOUND, **{name: getattr(FOUND, name) + change})
    assert not all(check.agrees for check in audit(SENT, wrong))


def test_nothing_sent_is_not_right_although_all_numbers_are_equal() -> None:
    zeros = dict.fromkeys((one.name for one in fields(Counts)), 0)
    nothing = Counts(**zeros)
    wrong = [check for check in audit(Tally(), nothing) if not check.agrees]
    assert [(check.description, check.relation) for check in wrong] == [
        ("at least one record was sent", ">")
    ]


def test_one_dead_letter_lost_and_one_doubled_is_seen() -> None:
    wrong = replace(FOUND, distinct_dead_letters=1, distinct_records=9)
    assert not all(check.agrees for check in audit(SENT, wrong))
