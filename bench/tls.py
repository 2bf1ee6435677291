"""TLS beside plain text, kavka beside Apache Kafka 3.9, in one run: records a second and the broker's processor time.

    PYTHONPATH=bench:tests/compat:tests python bench/tls.py --rounds 3

librdkafka produces and consumes records of 1 KB over one connection, acks=1, in batches of up to a megabyte. Both
brokers have the same certificate (P-256); the cipher suite is what librdkafka and the broker agree on.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from apache.report import Line
from apache.results import print_now, write_results
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from kavka_compat.apache import ApacheKafka
from kavka_compat.brokers import Broker
from kavka_compat.ours import launch_kavka
from kavka_compat.processes import free_port
from support.certificates import PASSWORD, Authority

RECORD_BYTES = 1000


@dataclass
class Result:
    """The figures of the rounds of one broker and one listener."""

    megabytes_per_second: list[float] = field(default_factory=list)
    cpu_seconds_per_gigabyte: list[float] = field(default_factory=list)

    def row(self) -> str:
        """Return medians with the least and the most."""
        speeds, costs = self.megabytes_per_second, self.cpu_seconds_per_gigabyte
        return (
            f"{statistics.median(speeds):7.0f} ({min(speeds):.0f}-{max(speeds):.0f})"
            f"   {statistics.median(costs):6.2f} ({min(costs):.2f}-{max(costs):.2f})"
        )


class Server:
    """A broker with a listener in plain text and one with TLS."""

    def __init__(self, broker: Broker, tls_port: int, trust: str) -> None:
        self.broker = broker
        self._tls_port = tls_port
        self._trust = trust

    def client(self, listener: str) -> dict[str, Any]:
        """Return librdkafka's settings for a listener."""
        if listener == "PLAINTEXT":
            return {"bootstrap.servers": self.broker.bootstrap}
        return {
            "bootstrap.servers": f"127.0.0.1:{self._tls_port}",
            "security.protocol": "SSL",
            "ssl.ca.location": self._trust,
        }

    def produce(self, listener: str, topic: str, records: int) -> None:
        """Produce, and return when all is acknowledged."""
        producer = Producer(
            {**self.client(listener), "acks": 1, "linger.ms": 50, "batch.size": 1_000_000,
             "batch.num.messages": 100_000, "queue.buffering.max.messages": 1_000_000}
        )  # fmt: skip
        value = bytes(range(250)) * (RECORD_BYTES // 250)
        for number in range(records):
            while True:
                try:
                    producer.produce(topic, value, partition=0)
                    break
                except BufferError:
                    producer.poll(0.1)
            if number % 10_000 == 0:
                producer.poll(0)
        assert producer.flush(120) == 0

    def consume(self, listener: str, topic: str, records: int) -> None:
        """Consume all records."""
        consumer = Consumer(
            {**self.client(listener), "group.id": "bench", "enable.auto.commit": False,
             "fetch.message.max.bytes": 10_000_000, "queued.min.messages": 1_000_000}
        )  # fmt: skip
        consumer.assign([TopicPartition(topic, 0, 0)])
        left = records
        while left:
            left -= len(consumer.consume(min(left, 10_000), 5))
        consumer.close()

    def timed(self, work: Callable[[], None], records: int, result: Result) -> None:
        """Note the speed and the broker's processor time of some work."""
        cpu, began = self.broker.process.cpu_seconds(), time.monotonic()
        work()
        seconds = time.monotonic() - began
        used = self.broker.process.cpu_seconds() - cpu
        size = records * RECORD_BYTES
        result.megabytes_per_second.append(size / 1e6 / seconds)
        result.cpu_seconds_per_gigabyte.append(used / (size / 1e9))


@contextmanager
def servers(directory: Path) -> Iterator[dict[str, Server]]:
    """Run both brokers."""
    authority = Authority()
    store = authority.sign().write_pkcs12(directory / "broker.p12")
    trust = authority.write_pem(directory / "ca.pem")

    def settings(port: int, tls_port: int) -> dict[str, str]:
        return {
            "listeners": f"PLAINTEXT://127.0.0.1:{port},SSL://127.0.0.1:{tls_port}",
            "ssl.keystore.type": "PKCS12",
            "ssl.keystore.location": store,
            "ssl.keystore.password": PASSWORD,
            "ssl.key.password": PASSWORD,
        }

    with ExitStack() as stack:
        port, tls_port = free_port(), free_port()
        ours = launch_kavka(directory / "kavka", settings(port, tls_port), port)
        stack.callback(ours.process.stop)
        ours.process.wait_for("ready: ", 30)
        found = {"kavka": Server(ours, tls_port, trust)}
        kafka = ApacheKafka("3.9")
        zookeeper = stack.enter_context(kafka.run_zookeeper(directory))
        port, tls_port = free_port(), free_port()
        given = settings(port, tls_port)
        theirs = kafka.start_with_zookeeper(
            directory / "apache", zookeeper, given, ("-Xms512m", "-Xmx512m")
        )
        stack.callback(theirs.process.stop)
        theirs.process.wait_for("[KafkaServer id=0] started (", 60)
        found["apache-3.9"] = Server(replace(theirs, port=port), tls_port, trust)
        yield found


def lines(results: Mapping[tuple[str, str, str], Result]) -> list[dict[str, Any]]:
    """Return the samples of both brokers for each workload and listener, as the page of benchmarks has them."""
    found = []
    for kind, listener in dict.fromkeys(key[:2] for key in results):
        sides = {"kavka": "kavka", "apache": "apache-3.9"}
        for unit, of, goal, more in (
            ("MB/s", "megabytes_per_second", 1.0, True),
            ("CPU s/GB", "cpu_seconds_per_gigabyte", 0.5, False),
        ):
            samples = {
                side: getattr(results[kind, listener, name], of) for side, name in sides.items()
            }
            aim = goal if listener == "SSL" else None
            line = Line(f"{kind}, {listener}", unit, samples, aim, more_is_better=more)
            found.append(
                {
                    "name": line.name,
                    "unit": unit,
                    **samples,
                    "more_is_better": more,
                    "verdict": line.verdict(),
                }
            )
    return found


def main() -> None:
    """Print a table, and write the samples."""
    parser = argparse.ArgumentParser(description="TLS and plain text, beside Apache Kafka 3.9.")
    parser.add_argument("--rounds", type=int, help="measured rounds (default 3, quick 1)")
    parser.add_argument("--records", type=int, help="of each (default 300,000, quick 50,000)")
    parser.add_argument("--quick", action="store_true", help="fewer records and rounds")
    arguments = parser.parse_args()
    arguments.rounds = arguments.rounds or (1 if arguments.quick else 3)
    arguments.records = arguments.records or (50_000 if arguments.quick else 300_000)
    results: dict[tuple[str, str, str], Result] = {}
    with tempfile.TemporaryDirectory(prefix="kavka-tls-") as text, servers(Path(text)) as found:
        for number in range(arguments.rounds + 1):  # the first warms up
            print_now(f"round {number} of {arguments.rounds}" if number else "warm-up")
            for name, server in found.items():
                for listener in ("PLAINTEXT", "SSL"):
                    topic = f"{listener}-{number}".lower()
                    admin = AdminClient(server.client("PLAINTEXT"))
                    for future in admin.create_topics([NewTopic(topic, 1, 1)]).values():
                        future.result()
                    for kind, run in (("produce", server.produce), ("consume", server.consume)):
                        kept = results.setdefault((kind, listener, name), Result())
                        result = kept if number else Result()
                        work = partial(run, listener, topic, arguments.records)
                        server.timed(work, arguments.records, result)
                    for future in admin.delete_topics([topic]).values():
                        future.result()
    print("workload  listener   broker       MB/s                 CPU s/GB of the broker")
    for (kind, listener, name), result in sorted(results.items()):
        print(f"{kind:9} {listener:10} {name:12} {result.row()}")
    path = write_results("tls", arguments.rounds, arguments.quick, {"lines": lines(results)})
    print(f"all samples: {path}")


if __name__ == "__main__":
    main()
