"""SQL over the topics of Apache Kafka and of kavka, written by librdkafka."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from confluent_kafka import Producer

from kavka.client import blocking
from kavka.client.admin import NewTopic
from kavka.sql.session import Session, SessionOptions
from support.sql_place import rows, values

if TYPE_CHECKING:
    from kavka_compat.brokers import Broker

pytestmark = [pytest.mark.compat, pytest.mark.timeout(100)]

BEGIN = 1_790_000_000_000


def filled(broker: Broker, topic: str, compression: str) -> None:
    """Write 3,000 records to three partitions, a second apart, then an aborted transaction."""
    with blocking.Admin({"bootstrap.servers": broker.bootstrap}) as admin:
        admin.create_topics([NewTopic(topic, 3, 1, configs={"retention.ms": "-1"})])
    settings = {
        "bootstrap.servers": broker.bootstrap,
        "compression.type": compression,
        "transactional.id": topic,
    }
    producer = Producer(settings)
    producer.init_transactions()
    for is_committed in (True, False):
        producer.begin_transaction()
        for n in range(1000 if is_committed else 10):
            for partition in range(3):
                value = b'{"n": %d, "committed": %s}' % (n, str(is_committed).lower().encode())
                producer.produce(
                    topic, value, b"k%d" % n, partition, timestamp=BEGIN + n * 1000,
                    headers=[("from", b"librdkafka")],
                )  # fmt: skip
        producer.flush()
        if is_committed:
            producer.commit_transaction()
        else:
            producer.abort_transaction()


@pytest.mark.parametrize("compression", ["none", "zstd"])
def test_topics_are_tables(any_broker: Broker, fresh_name: str, compression: str) -> None:
    filled(any_broker, fresh_name, compression)
    with Session(SessionOptions({"bootstrap.servers": any_broker.bootstrap})) as session:
        topic = session.quoted(fresh_name)
        (row,) = rows(
            session, f"select count(*) c, sum(n)::bigint s, bool_and(committed) b from {topic}"
        )
        assert row == {"c": 3000, "s": 3 * 999 * 500, "b": True}
        assert values(session, f"select key from {topic} where partition = 2 and n = 5") == ["k5"]
        (row,) = rows(
            session, f'select headers, value from {topic} where partition = 1 and "offset" = 7'
        )
        assert row["headers"] == [{"key": "from", "value": "librdkafka"}]
        late = f"select count(*) from {topic} where timestamp >= to_timestamp({BEGIN / 1000 + 990})"
        assert values(session, late) == [30]
        assert session.progress.offsets_total < 3 * 25, (
            "the last 10 s, markers and what was aborted"
        )
        assert values(session, f"select count(*) from {topic} where partition = 7") == [0]


def test_aborted_records_are_seen_if_asked_for(any_broker: Broker, fresh_name: str) -> None:
    filled(any_broker, fresh_name, "none")
    settings = {"bootstrap.servers": any_broker.bootstrap, "isolation.level": "read_uncommitted"}
    with Session(SessionOptions(settings)) as session:
        query = f"select count(*) from {session.quoted(fresh_name)} where not committed"
        assert values(session, query) == [30]
