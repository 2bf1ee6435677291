"""The audit and the table of page counts."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kavka.demo.audit import Counted, audit
from kavka.demo.page_table import PageTable
from kavka.demo.replay import Tally

SENT = Tally(sent=10, malformed=2, too_late=1, on_time=7)
FOUND = Counted(
    lines=10, records_in_log=10, rows_in_parquet=8, distinct_rows=8, late_rows=1, counted_in_windows=14,
    windows_per_event=2,
    dead_letters=2, distinct_dead_letters=2, distinct_records=10,
)  # fmt: skip


def test_everything_agrees_when_nothing_is_lost() -> None:
    assert all(check.agrees for check in audit(SENT, FOUND))


@pytest.mark.parametrize(
    "name",
    [
        "lines",
        "records_in_log",
        "rows_in_parquet",
        "distinct_rows",
        "late_rows",
        "counted_in_windows",
        "dead_letters",
        "distinct_dead_letters",
        "distinct_records",
    ],
)
@pytest.mark.parametrize("change", [-1, 1])
def test_one_record_too_few_or_too_many_is_seen_anywhere(name: str, change: int) -> None:
    wrong = replace(FOUND, **{name: getattr(FOUND, name) + change})
    assert not all(check.agrees for check in audit(SENT, wrong))


def test_nothing_sent_is_not_right_although_all_numbers_are_equal() -> None:
    nothing = Counted(0, 0, 0, 0, 0, 0, 2, 0, 0, 0)
    wrong = [check for check in audit(Tally(), nothing) if not check.agrees]
    assert [(check.what, check.relation) for check in wrong] == [
        ("at least one record was sent", ">")
    ]


def test_one_dead_letter_lost_and_one_doubled_is_seen() -> None:
    wrong = replace(FOUND, distinct_dead_letters=1, distinct_records=9)
    assert not all(check.agrees for check in audit(SENT, wrong))


def test_a_table_of_counts_keeps_the_newest_value() -> None:
    table = PageTable(10)
    table.update([(0, "/a", 1), (0, "/b", 2), (300, "/a", 5)])
    table.update([(0, "/a", 4)])
    assert table.total == 11
    assert table.top(1) == (0, [("/a", 4)])


def test_a_table_of_counts_forgets_pages_of_old_windows_but_not_their_sum() -> None:
    table = PageTable(2)
    for window in range(5):
        table.update([(window, "/a", 1), (window, "/b", 1)])
    assert table.total == 10
    assert table.top(5) == (3, [("/a", 1), ("/b", 1)])
    with pytest.raises(ValueError, match="closed"):
        table.update([(1, "/a", 2)])


def test_a_table_without_counts_has_no_top() -> None:
    assert PageTable(2).top(3) == (None, [])
