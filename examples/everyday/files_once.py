"""Each record once in a file of its partition, with the offset beside it. Kill it at any time, and start it again."""

import os
import signal
import sys
import threading

from kavka.client import OutputFiles, StoredOffsets
from kavka.client.blocking import Consumer

READING = {
    "bootstrap.servers": os.environ.get("KAVKA_BOOTSTRAP_SERVERS", "localhost:9092"),
    "group.id": "files-once",
    "group.instance.id": os.environ.get("WORKER", "files-once-1"),
    "auto.offset.reset": "earliest",
    "enable.auto.commit": False,
    "session.timeout.ms": 6000,
}


def main(directory: str) -> None:
    """Read until a signal comes."""
    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    with OutputFiles(directory, ".txt") as outputs, Consumer(READING) as consumer:
        consumer.subscribe(["orders"], listener=StoredOffsets(consumer, outputs))
        while not stop.is_set():
            for batch in consumer.poll(500, max_records=50):
                for record in batch.records():
                    outputs.write(batch.topic_partition, record.value + b"\n")
                outputs.save({batch.topic_partition: batch.next_offset})


if __name__ == "__main__":
    main(*sys.argv[1:])
