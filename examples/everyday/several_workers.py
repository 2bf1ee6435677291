"""Share a topic between processes of one group; a client is made in the process that uses it."""

import multiprocessing
import os

from kavka.client.blocking import Consumer

READING = {
    "bootstrap.servers": os.environ.get("KAVKA_BOOTSTRAP_SERVERS", "localhost:9092"),
    "group.id": "workers",
    "auto.offset.reset": "earliest",
    "partition.assignment.strategy": "cooperative-sticky",
}
WORKERS = 2


def work(number: int) -> None:
    """Read until five seconds bring nothing; `close` commits what was processed."""
    with Consumer(READING | {"client.id": f"worker-{number}"}) as consumer:
        consumer.subscribe(["orders"])
        while batches := consumer.poll(5000):
            for batch in batches:
                for record in batch.records():
                    print(f"worker {number}:", record.value.decode(), flush=True)


def main() -> None:
    """Start the workers, and wait for them."""
    workers = [multiprocessing.Process(target=work, args=(n,)) for n in range(WORKERS)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()


if __name__ == "__main__":
    main()
