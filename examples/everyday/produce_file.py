"""Write each line of a file as a record, the first field as key: `produce_file.py FILE TOPIC`."""

import os
import sys

from kavka.client.blocking import Producer

SERVERS = {"bootstrap.servers": os.environ.get("KAVKA_BOOTSTRAP_SERVERS", "localhost:9092")}


def main(path: str, topic: str) -> None:
    """Append line by line; leaving the `with` waits for all of them, and raises when one was not written."""
    count = 0
    with (
        Producer(SERVERS | {"linger.ms": 5, "compression.type": "lz4"}) as producer,
        open(path, "rb") as file,
    ):
        for line in file:
            value = line.rstrip(b"\n")
            producer.append(topic, value, value.partition(b",")[0])
            count += 1
    print("written", count)


if __name__ == "__main__":
    main(*sys.argv[1:])
