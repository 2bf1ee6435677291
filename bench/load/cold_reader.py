"""One consumer that reads a topic from its start: `python cold_reader.py BOOTSTRAP TOPIC RECORDS`.

Prints `reading` with its first record and, at the end, how many a second it has read.
"""

from __future__ import annotations

import sys
import time

from confluent_kafka import Consumer, TopicPartition


def read(bootstrap: str, topic: str, records: int) -> None:
    """Read so many records. Raise RuntimeError when none comes for 60 seconds."""
    settings = {"bootstrap.servers": bootstrap, "group.id": "cold", "log_level": 4}
    with Consumer({**settings, "queued.max.messages.kbytes": 65536}) as consumer:
        partitions = consumer.list_topics(topic, timeout=60).topics[topic].partitions
        consumer.assign([TopicPartition(topic, number, 0) for number in partitions])
        left, began = records, 0.0
        while left > 0:
            messages = consumer.consume(10_000, 60)
            if not messages:
                raise RuntimeError("no record came for 60 seconds")
            if began == 0:
                began = time.perf_counter()
                print("reading", flush=True)
            for message in messages:
                if message.error():
                    raise RuntimeError(f"a read failed: {message.error()}")
            left -= len(messages)
    print(f"{records / (time.perf_counter() - began):.0f}", flush=True)


if __name__ == "__main__":
    read(sys.argv[1], sys.argv[2], int(sys.argv[3]))
