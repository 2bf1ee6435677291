from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

from kavka.sql.errors import SqlError
from kavka.sql.follow import Follower, followed

if TYPE_CHECKING:
    from kavka.sql.session import Session
    from support.sql_place import Open, Place


@contextmanager
def following(
    session: Session, statement: str, from_beginning: bool = False
) -> Iterator[Iterator[int]]:
    """Give the first column of the rows, one by one, as they come."""
    follower = Follower(session, followed(session, statement), from_beginning)

    def numbers() -> Iterator[int]:
        for rows in follower.pieces():
            for batch in rows.json_lines():
                for line in batch.column(0).to_pylist():
                    yield next(iter(json.loads(line).values()))

    try:
        yield numbers()
    finally:
        follower.close()


def numbered(first: int, last: int) -> list[bytes | None]:
    return [b'{"n": %d}' % n for n in range(first, last)]


def take(found: Iterator[int], count: int) -> list[int]:
    return [next(found) for _ in range(count)]


@pytest.mark.timeout(60)
def test_records_are_shown_as_they_arrive(open_session: Open, place: Place) -> None:
    place.create("live", 2)
    place.write("live", numbered(0, 10))
    with following(open_session(), "select n from live where n % 2 = 0") as found:
        place.write("live", numbered(10, 14), partition=1)
        assert take(found, 2) == [10, 12]
        place.write("live", numbered(14, 18), partition=0)
        assert take(found, 2) == [14, 16]


@pytest.mark.slow
@pytest.mark.timeout(60)
@pytest.mark.parametrize(
    ("where", "from_beginning", "first"),
    [
        ("true", True, [0, 1, 2]),
        ('"offset" >= 5', False, [5, 6, 7]),
        ('"offset" >= 5', True, [5, 6, 7]),
        ("timestamp >= '2026-01-01' and n > 3", False, [4, 5, 6]),
        ("partition = 0 and n >= 8", True, [8, 9, 10]),
    ],
)
def test_it_begins_where_the_statement_says(
    open_session: Open, place: Place, where: str, from_beginning: bool, first: list[int]
) -> None:
    topic = f"begin{abs(hash((where, from_beginning)))}"
    place.create(topic, 1)
    place.write(topic, numbered(0, 10), timestamp_ms=1_790_000_000_000)
    with following(open_session(), f"select n from {topic} where {where}", from_beginning) as found:
        late = threading.Timer(0.1, place.write, (topic, numbered(10, 12)))
        late.start()
        assert take(found, 3) == first
        late.join()


@pytest.mark.parametrize(
    ("statement", "reason"),
    [
        ("select count(*) from kept", "aggregate"),
        ("select * from kept order by n", "order by"),
        ("select distinct n from kept", "group by"),
        ("select * from kept a join kept b using (n)", "join"),
        ("select *, row_number() over () from kept", "window"),
        ("select 1", "dummy scan"),
        ("select n from kept limit 5 offset 2", "without OFFSET"),
        ("select * from kept union all select * from kept", "union"),
    ],
)
def test_statements_that_need_all_records_are_refused(
    open_session: Open, place: Place, statement: str, reason: str
) -> None:
    session = open_session()
    if "kept" not in session.brokers.topics():
        place.create("kept")
        place.write("kept", numbered(0, 3))
    with pytest.raises(SqlError, match=f"--follow .*{reason}"):
        followed(session, statement)


@pytest.mark.timeout(60)
def test_values_that_cannot_be_decoded_are_counted_over_all_pieces(
    open_session: Open, place: Place
) -> None:
    place.create("broken")
    place.write("broken", [*numbered(0, 3), b"x"])
    session = open_session()
    with following(session, "select n from broken", from_beginning=True) as found:
        take(found, 4)
        place.write("broken", [b"y", *numbered(5, 6)])
        take(found, 2)
    assert session.warnings[0].startswith("2 values of broken could not be decoded")
