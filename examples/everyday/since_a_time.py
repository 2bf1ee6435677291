"""Print what was written since a time, to where the topic ends now: `since_a_time.py TOPIC 2026-01-31T12:00+00:00`."""

import os
import sys
from datetime import datetime

from kavka.client.blocking import Consumer

READING = {
    "bootstrap.servers": os.environ.get("KAVKA_BOOTSTRAP_SERVERS", "localhost:9092"),
    "auto.offset.reset": "earliest",
}


def main(topic: str, since: str) -> None:
    """Read all partitions without a group."""
    timestamp_ms = int(datetime.fromisoformat(since).timestamp() * 1000)
    with Consumer(READING) as consumer:
        partitions = consumer.partitions_for(topic)
        consumer.assign(partitions)
        ends = consumer.end_offsets(partitions)
        consumer.seek_to_time(dict.fromkeys(partitions, timestamp_ms))
        while any(consumer.position(partition) < end for partition, end in ends.items()):
            for batch in consumer.poll(1000):
                for record in batch.records():
                    if record.offset < ends[batch.topic_partition]:
                        print(record.timestamp, record.value.decode())


if __name__ == "__main__":
    main(*sys.argv[1:])
