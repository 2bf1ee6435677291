"""Write a topic's records to Parquet, without an object for each record: `to_parquet.py TOPIC FILE`."""

import os
import sys

from pyarrow import parquet

from kavka.client.blocking import Consumer

READING = {
    "bootstrap.servers": os.environ.get("KAVKA_BOOTSTRAP_SERVERS", "localhost:9092"),
    "auto.offset.reset": "earliest",
    "max.poll.records": 100_000,
}


def main(topic: str, path: str) -> None:
    """Read all partitions to where they end now."""
    writer, rows = None, 0
    with Consumer(READING) as consumer:
        partitions = consumer.partitions_for(topic)
        consumer.assign(partitions)
        ends = consumer.end_offsets(partitions)
        while any(consumer.position(partition) < end for partition, end in ends.items()):
            for batch in consumer.poll(1000):
                table = batch.to_arrow(headers=True)
                writer = writer or parquet.ParquetWriter(path, table.schema)
                writer.write_batch(table)
                rows += table.num_rows
    if writer is not None:
        writer.close()
    print("rows", rows)


if __name__ == "__main__":
    main(*sys.argv[1:])
