"""Scans whose leader dies, and whose records are removed before they are read."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import closing
from typing import TYPE_CHECKING, Any

import pytest

from kavka.client import blocking
from kavka.client.admin import NewTopic
from kavka.ids import TopicPartition
from kavka.sql.errors import RecordsLost
from kavka.sql.session import Session, SessionOptions

if TYPE_CHECKING:
    from kavka.testing.local_cluster import LocalCluster
    from support.sql_place import Open, Place

ROWS = 20_000
"""Of a kilobyte: several fetches."""


def fill(settings: dict[str, Any], topic: str) -> None:
    with blocking.Producer(settings) as producer:
        producer.send_many(topic, [(None, b"%d %s" % (n, b"x" * 1000)) for n in range(ROWS)])


def offsets(session: Session, topic: str) -> Generator[int, None, None]:
    """Yield the offsets of a topic as a statement reads them."""
    found = session.execute(f'select "offset", value from {topic}')
    assert found is not None
    for batch in found.arrow()[1]:
        yield from batch.column(0).to_pylist()


@pytest.mark.kavka_cluster(brokers=3)
@pytest.mark.timeout(100)
@pytest.mark.slow
def test_a_scan_goes_on_at_the_next_leader(kavka_cluster: LocalCluster) -> None:
    settings = {"bootstrap.servers": kavka_cluster.bootstrap_servers}
    with blocking.Admin(settings) as admin:
        admin.create_topics([NewTopic("t", 1, 3)])
    fill(settings, "t")
    kavka_cluster.until_replicated("t")
    with Session(SessionOptions(settings)) as session, closing(offsets(session, "t")) as found:
        first = next(found)
        kavka_cluster.kill(kavka_cluster.leader("t"))
        assert [first, *found] == list(range(ROWS))
        assert session.warnings == []


def remove(place: Place, topic: str) -> None:
    with blocking.Admin(place.settings) as admin:
        admin.delete_records({TopicPartition(topic, 0): ROWS - 10})


def test_records_that_are_removed_meanwhile_are_warned_of(open_session: Open, place: Place) -> None:
    place.create("removed")
    fill(place.settings, "removed")
    session = open_session()
    with closing(offsets(session, "removed")) as found:
        seen = [next(found)]
        remove(place, "removed")
        seen += found
    assert seen[-10:] == list(range(ROWS - 10, ROWS))
    assert len(seen) < ROWS
    (sentence,) = session.warnings
    assert sentence.startswith("Records were removed meanwhile: removed-0 no longer has offset ")


def test_a_strict_scan_ends_when_records_are_removed(open_session: Open, place: Place) -> None:
    place.create("guarded")
    fill(place.settings, "guarded")
    session = open_session(is_strict=True)
    with closing(offsets(session, "guarded")) as found:
        next(found)
        remove(place, "guarded")
        with pytest.raises(RecordsLost, match="guarded-0 no longer has offset"):
            list(found)
