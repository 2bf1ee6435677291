"""Each record once in a table of SQLite, its offset in the same transaction. Kill it at any time, start it again."""

import os
import signal
import sqlite3
import sys
import threading

from kavka.client import SqlOffsets, StoredOffsets
from kavka.client.blocking import Consumer

READING = {
    "bootstrap.servers": os.environ.get("KAVKA_BOOTSTRAP_SERVERS", "localhost:9092"),
    "group.id": "rows-once",
    "group.instance.id": os.environ.get("WORKER", "rows-once-1"),
    "auto.offset.reset": "earliest",
    "enable.auto.commit": False,
    "session.timeout.ms": 6000,
}


def main(path: str) -> None:
    """Read until a signal comes."""
    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    database = sqlite3.connect(path, timeout=60)
    database.execute("PRAGMA journal_mode = WAL")  # readers do not hold up the writer
    database.execute("CREATE TABLE IF NOT EXISTS orders (source TEXT, number INTEGER, text TEXT)")
    offsets = SqlOffsets(database, "rows-once")
    offsets.create_table()
    with Consumer(READING) as consumer:
        consumer.subscribe(["orders"], listener=StoredOffsets(consumer, offsets))
        while not stop.is_set():
            for batch in consumer.poll(500, max_records=50):
                rows = [
                    (str(batch.topic_partition), record.offset, record.value.decode())
                    for record in batch.records()
                ]
                with database:  # one transaction: rolled back by any error
                    database.executemany("INSERT INTO orders VALUES (?, ?, ?)", rows)
                    offsets.save({batch.topic_partition: batch.next_offset})
    database.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
