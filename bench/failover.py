"""Time for which a failed broker keeps clients waiting: 3 brokers, ZooKeeper, a producer that notes acknowledgements.

    ROUNDS=10 KIND=kavka ONLY=kill,rule,controller,stop,pause,many make bench-failover

The producer is librdkafka's with its default settings, but for idempotence (acks=all): a record a millisecond, to three
partitions with three replicas each. Of each partition the longest time between acknowledgements is noted, and at the
end all is read: nothing may be lost, doubled or out of order. What is done to the broker that leads partition 0:

    kill        it is killed; another one is the controller
    rule        it is killed, and is the controller as well
    controller  it goes on: a fourth broker, the controller, which has none of the replicas, is killed
    stop        it stops cleanly
    pause       it is stopped by SIGSTOP, and goes on when its session is over
    many        1,000 partitions on every broker: until all are led again, and there is a controller again
"""

from __future__ import annotations

import argparse
import logging
import math
import os
import statistics
import tempfile
import threading
import time
from collections import defaultdict
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

from confluent_kafka import Consumer, ElectionType, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from kavka_compat.asking import until
from kavka_compat.mixed import Kind, MixedCluster, run_mixed

SESSION_MS = 18_000
"""Kafka's default."""
PAUSE_SESSION_MS = 6_000
_QUIET = logging.getLogger("librdkafka")
_QUIET.setLevel(logging.CRITICAL)  # broken connections are what this is about
logging.getLogger("kazoo").setLevel(logging.CRITICAL)
ASSIGNMENT = [[0, 1, 2], [1, 2, 0], [2, 0, 1]]
SHOWN = ("the one it led", "the others", "at its return")
DEFAULTS = {
    "replica.lag.time.max.ms": "30000",
    "controlled.shutdown.retry.backoff.ms": "5000",
    "num.io.threads": "8",
    "num.network.threads": "3",
}


class Writing:
    """A producer at work on a topic of three partitions, in a thread."""

    def __init__(self, cluster: MixedCluster, topic: str) -> None:
        self._bootstrap = cluster.bootstrap
        self._topic = topic
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self.sent = 0
        self.acknowledged: dict[int, list[float]] = defaultdict(list)
        self.errors: list[str] = []

    def __enter__(self) -> Writing:
        self._thread.start()
        until(lambda: len(self.acknowledged) == 3, what="the first acknowledgements")
        return self

    def __exit__(self, *error: object) -> None:
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        settings = {"bootstrap.servers": self._bootstrap, "enable.idempotence": True}
        producer = Producer(settings, logger=_QUIET)
        due = time.monotonic()
        while not self._stop.is_set():
            producer.produce(
                self._topic, b"%d" % self.sent, partition=self.sent % 3, on_delivery=self._told
            )
            self.sent += 1
            due += 0.001
            producer.poll(max(due - time.monotonic(), 0))
        producer.flush(60)

    def _told(self, error: object, message: object) -> None:
        if error is not None:
            self.errors.append(str(error))
        else:
            self.acknowledged[message.partition()].append(time.monotonic())  # type: ignore[attr-defined]

    def gap_ms(self, partitions: list[int], since: float, until: float) -> float:
        """Return the longest time without an acknowledgement that ended after `since` and began before `until`."""
        longest = 0.0
        for partition in partitions:
            times = self.acknowledged[partition]
            for before, after in pairwise(times):
                if after >= since and before <= until:
                    longest = max(longest, after - before)
        return longest * 1000

    def check(self) -> str:
        """Read all, and say what is wrong."""
        settings = {"bootstrap.servers": self._bootstrap, "group.id": "reader"}
        consumer = Consumer(settings, logger=_QUIET)
        consumer.assign([TopicPartition(self._topic, n, 0) for n in range(3)])
        found: dict[int, list[int]] = defaultdict(list)
        deadline = time.monotonic() + 30
        while sum(map(len, found.values())) < self.sent and time.monotonic() < deadline:
            for message in consumer.consume(10_000, 0.5):
                if message.error() is None:
                    found[message.partition()].append(int(message.value()))
        consumer.close()
        whole = all(found[n] == list(range(n, self.sent, 3)) for n in range(3))
        return "whole" if whole else "NOT WHOLE"


def prefer(cluster: MixedCluster, topic: str) -> None:
    """Let partition n be led by broker n again, with all replicas in sync."""
    cluster.wait_in_sync(topic)
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap}, logger=_QUIET)
    admin.list_topics(timeout=10)
    partitions = [TopicPartition(topic, n) for n in range(3)]
    admin.elect_leaders(ElectionType.PREFERRED, partitions).result(30)
    cluster.wait_in_sync(topic)


def brokers_of(what: str) -> int:
    """Return how many brokers there are."""
    return 4 if what == "controller" else 3


def one_round(cluster: MixedCluster, what: str, number: int) -> tuple[tuple[float, ...], str]:
    """Do it to broker 0 once; return the longest gaps, of `SHOWN`, and the verdict."""
    topic = f"{what}-{number}"
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap}, logger=_QUIET)
    until(lambda: len(cluster.registered()) == brokers_of(what), 60, "all brokers")
    victim = 3 if what == "controller" else 0
    cluster.make_controller(victim if what in ("rule", "controller") else 1)
    admin.list_topics(timeout=10)
    config = {"min.insync.replicas": "2"}
    admin.create_topics([NewTopic(topic, 3, replica_assignment=ASSIGNMENT, config=config)])[
        topic
    ].result(30)
    prefer(cluster, topic)
    with Writing(cluster, topic) as writing:
        time.sleep(2)
        since = time.monotonic()
        if what == "stop":
            cluster.stop(0)
        elif what == "pause":
            with cluster.paused([0]):
                until(lambda: 0 not in cluster.registered(), 60, "the session is over")
                time.sleep(2)
        else:
            cluster.kill(victim)
        time.sleep(3)
        until(lambda: all(times[-1] > since + 1 for times in writing.acknowledged.values()), 60)
        back = time.monotonic()
        if what != "pause":
            cluster.revive(victim)
        time.sleep(2)
    led, others = writing.gap_ms([0], since, back), writing.gap_ms([1, 2], since, back)
    returned = writing.gap_ms([0, 1, 2], back, math.inf)
    verdict = writing.check()
    if writing.errors:
        verdict += f", {len(writing.errors)} errors: {writing.errors[0]}"
    return (led, others, returned), verdict


def rounds(directory: Path, kind: Kind, what: str, count: int, session_ms: int) -> None:
    """Print each round and the medians."""
    settings = {**DEFAULTS, "zookeeper.session.timeout.ms": str(session_ms)}
    gaps, verdicts = [], set()
    kinds = dict.fromkeys(range(brokers_of(what)), kind)
    with run_mixed(directory / what, kinds, settings) as cluster:
        for number in range(count):
            gap, verdict = one_round(cluster, what, number)
            gaps.append(gap)
            verdicts.add(verdict)
            shown = ", ".join(f"{name} {ms:.0f} ms" for name, ms in zip(SHOWN, gap, strict=True))
            load = os.getloadavg()[0]
            print(f"  {what} {number}: {shown}, {verdict}, machine load {load:.1f}", flush=True)
    print(f"{kind} {what}: {', '.join(sorted(verdicts))}; medians:", flush=True)
    for name, column in zip(SHOWN, zip(*gaps, strict=True), strict=True):
        median = statistics.median(column)
        print(f"  {name}: {median:.0f} ms ({min(column):.0f}-{max(column):.0f})", flush=True)


def seconds_until(holds: Callable[[], bool], since: float) -> float:
    """Return how long after `since` something holds."""
    deadline = time.monotonic() + 120
    while not holds():
        if time.monotonic() > deadline:
            raise TimeoutError
        time.sleep(0.01)
    return time.monotonic() - since


def many(directory: Path, kind: Kind, count: int) -> None:
    """Print how long a thousand partitions on three brokers take."""
    settings = {**DEFAULTS, "zookeeper.session.timeout.ms": str(SESSION_MS)}
    kinds = dict.fromkeys(range(3), kind)
    with run_mixed(directory / "many", kinds, settings) as cluster:
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap}, logger=_QUIET)
        assignment = [ASSIGNMENT[n % 3] for n in range(1000)]
        since = time.monotonic()
        admin.create_topics([NewTopic("many", 1000, replica_assignment=assignment)])["many"].result(
            60
        )
        print(f"{kind} many: created in {time.monotonic() - since:.2f} s", flush=True)
        cluster.wait_in_sync("many", seconds=120)
        for what in ("kill", "rule", "stop"):
            times = [_one_of_many(cluster, what, number) for number in range(count)]
            shown = [statistics.median(column) for column in zip(*times, strict=True)]
            print(
                f"{kind} many {what}: controller after {shown[0]:.2f} s, all led after {shown[1]:.2f} s "
                f"(medians of {count}; {', '.join(f'{t[1]:.2f}' for t in times)})",
                flush=True,
            )


def _one_of_many(cluster: MixedCluster, what: str, number: int) -> tuple[float, float]:
    until(lambda: len(cluster.registered()) == 3, 60, "three brokers")
    cluster.wait_in_sync("many", seconds=120)
    cluster.make_controller(0 if what == "rule" else 1)
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap}, logger=_QUIET)
    everything = [TopicPartition("many", n) for n in range(1000)]
    admin.list_topics(timeout=10)
    admin.elect_leaders(ElectionType.PREFERRED, everything).result(60)
    asked = AdminClient({"bootstrap.servers": cluster.address(1)}, logger=_QUIET)

    def is_led() -> bool:
        partitions = asked.list_topics("many", timeout=60).topics["many"].partitions.values()
        return all(p.error is None and p.leader not in (-1, 0) for p in partitions)

    since = time.monotonic()
    if what == "stop":
        stopping = threading.Thread(target=cluster.stop, args=[0])
        stopping.start()
    else:
        stopping = None
        cluster.kill(0)
    ruled = seconds_until(lambda: cluster.controller() not in (None, 0), since)
    led = seconds_until(is_led, since)
    if stopping is not None:
        stopping.join()
    print(f"  many {what} {number}: controller {ruled:.2f} s, all led {led:.2f} s", flush=True)
    cluster.revive(0)
    return ruled, led


def main() -> None:
    """Run what is asked for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--kind", choices=[str(kind) for kind in Kind], default="kavka")
    parser.add_argument("--only", default="kill,rule,controller,stop,pause,many")
    options = parser.parse_args()
    kind = Kind(options.kind)
    with tempfile.TemporaryDirectory() as directory:
        for what in options.only.split(","):
            if what == "many":
                many(Path(directory), kind, min(options.rounds, 3))
            elif what == "pause":
                rounds(Path(directory), kind, what, min(options.rounds, 3), PAUSE_SESSION_MS)
            else:
                rounds(Path(directory), kind, what, options.rounds, SESSION_MS)


if __name__ == "__main__":
    main()
