"""Predicates narrow what is fetched, and change no result: DuckDB's interface for sources is not public."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kavka.client import blocking
from support.sql_place import values

if TYPE_CHECKING:
    from support.sql_place import Open, Place

BEGIN = 1_700_000_000_000
"""The time of the first records in milliseconds, 2023-11-14 22:13:20 UTC."""
LATE = 90
"""The offset of the record in partition 1 of `late` that is older than the others around it."""


@pytest.fixture(scope="module", autouse=True)
def filled(place: Place) -> None:
    """Fill two partitions with 100 records each, a second apart."""
    place.create("t", 2, retention__ms="-1")
    place.create("late", 2, retention__ms="-1")
    place.create("appended", 1, message__timestamp__type="LogAppendTime")
    with blocking.Producer(place.settings) as producer:
        for topic in ("t", "late"):
            for partition in (0, 1):
                for n in range(100):
                    is_late = topic == "late" and partition == 1 and n == LATE
                    stamp = BEGIN + (10 if is_late else n) * 1000
                    producer.append(
                        topic, b'{"n": %d}' % n, partition=partition, timestamp_ms=stamp
                    )
                producer.flush()
        producer.send_many("appended", [(None, b'{"n": 1}')] * 20)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("where", "offsets_read", "count"),
    [
        ("true", 200, 200),
        ("partition = 1", 100, 100),
        ("partition in (1, 7)", 100, 100),
        ("partition = 7", 0, 0),
        ("topic = 't' and partition <> 0", 100, 100),
        ("topic = 'u'", 0, 0),
        ('"offset" between 10 and 19', 20, 20),
        ('partition = 0 and "offset" >= 95', 5, 5),
        ('"offset" = 5 or "offset" = 7', 6, 4),
        ('"offset" > 1000', 0, 0),
        ("timestamp >= '2023-11-14 22:14:50'", 20, 20),
        ("timestamp >= '2023-11-14 22:14:49.5' and partition = 0", 10, 10),
        ("timestamp > '2023-11-14 22:14:50' and timestamp < '2023-11-14 22:14:52'", 18, 2),
        ("timestamp > '2024-01-01'", 0, 0),
        ("timestamp > now() - interval 1 hour", 0, 0),
        ("timestamp is null", 200, 0),
        ("n = 5", 200, 2),
        ("partition = 1 and n = 5", 100, 1),
        ("not (partition = 0)", 100, 100),
        ("partition = 0 or n = 5", 200, 101),
        ("\"offset\"::varchar = '5'", 200, 2),
    ],
)
def test_predicates_narrow_what_is_read(
    open_session: Open, where: str, offsets_read: int, count: int
) -> None:
    session = open_session()
    assert values(session, f"select count(*) from t where {where}") == [count]
    assert session.progress.offsets_total == offsets_read


def test_predicates_reach_a_topic_through_views_and_joins(open_session: Open) -> None:
    session = open_session()
    session.execute('create view v as select partition as p, n, "offset" as o from t')
    assert values(session, "select count(*) from v where p = 1 and o < 10") == [10]
    assert session.progress.offsets_total == 10
    query = (
        "with a as (select * from t where partition = 0) select count(*) from a join t b using (n) "
        "where a.offset < 5 and b.partition = 1 and b.offset >= 3"
    )
    assert values(session, query) == [2]
    assert session.progress.offsets_total <= 5 + 97


def test_a_record_that_comes_late_is_found_by_its_time(open_session: Open) -> None:
    until = "timestamp between '2023-11-14 22:13:30' and '2023-11-14 22:13:30'"
    session = open_session()
    found = values(session, f'select "offset" from late where {until} and partition = 1 order by 1')
    assert found == [10, LATE]
    ordered = open_session(max_disorder_ms=80_000)
    assert values(ordered, f"select count(*) from late where {until} and partition = 1") == [2]
    assert ordered.progress.offsets_total == 81, "the records from that time to 80 s later"
    wrong = open_session(max_disorder_ms=0)
    assert values(wrong, f"select count(*) from late where {until} and partition = 1") == [1]


def test_a_scan_ends_at_a_time_where_the_log_sets_the_timestamps(open_session: Open) -> None:
    session = open_session()
    assert values(session, "select count(*) from appended where timestamp < '2020-01-01'") == [0]
    assert session.progress.offsets_total == 0
    assert values(session, "select count(*) from appended where timestamp > '2020-01-01'") == [20]


def test_a_limit_stops_the_read(open_session: Open, place: Place) -> None:
    place.create("long", 1)
    place.write("long", [b"x" * 1000] * 20_000)
    session = open_session({"value_format": "text"})
    assert len(values(session, "select value from long limit 5")) == 5
    assert session.progress.offsets_total == 20_000
    assert session.progress.offsets_done < 5000


def test_columns_that_are_not_used_are_not_decoded(open_session: Open, place: Place) -> None:
    place.create("mixed", 1)
    place.write("mixed", [b'{"a": 1}', b'{"a": 2}', b"no JSON"])
    session = open_session()
    assert values(session, "select count(*) from mixed") == [3]
    assert session.warnings == []
    assert values(session, "select count(a) from mixed") == [2]
    assert len(session.warnings) == 1
