"""Time for which a failed broker keeps clients waiting: 3 brokers, ZooKeeper, a producer that notes acknowledgements.

    ROUNDS=10 KIND=both ONLY=kill,rule,controller,stop,pause,many make bench-failover

The producer is librdkafka's with its default settings, but for idempotence (acks=all): a record a millisecond, to three
partitions with three replicas each. Of each partition the longest time between acknowledgements is noted, and at the
end all is read: nothing may be lost, doubled or out of order. What is done to the broker that leads partition 0:

    kill        it is killed; another one is the controller
    rule        it is killed, and is the controller as well
    controller  it goes on: a fourth broker, the controller, which has none of the replicas, is killed
    stop        it stops cleanly
    pause       it is stopped by SIGSTOP, and goes on when its session is over
    many        1,000 partitions on every broker: until all are led again, and there is a controller again

The kinds are kavka's brokers and Apache Kafka's, one after the other. All samples are in a file of bench/results.
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
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from pathlib import Path

from apache.report import SampledLines, as_json, table
from apache.results import Parts
from apache.rounds import end_on_sigterm
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
NAMES = {
    "kill": "a broker is killed",
    "rule": "a broker is killed that is the controller as well",
    "controller": "a controller without replicas is killed",
    "stop": "a broker stops cleanly",
    "pause": "a broker stands still, session of 6 s",
    "many": "1,000 partitions",
}
"""Names of the lines, by what is done."""
_GOAL = 1.0
_FEW = 3
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


def rounds(
    directory: Path, kind: Kind, what: str, count: int, session_ms: int, lines: SampledLines
) -> set[str]:
    """Print each round and the medians, and keep the samples; return the verdicts about the records."""
    settings = {**DEFAULTS, "zookeeper.session.timeout.ms": str(session_ms)}
    gaps = []
    verdicts: set[str] = set()
    kinds = dict.fromkeys(range(brokers_of(what)), kind)
    with run_mixed(directory / what, kinds, settings) as cluster:
        for number in range(count):
            gap, verdict = one_round(cluster, what, number)
            gaps.append(gap)
            verdicts.add(verdict)
            for name, ms in zip(SHOWN, gap, strict=True):
                lines.add(f"{NAMES[what]}: {name}", "ms", ms, str(kind), _GOAL)
            shown = ", ".join(f"{name} {ms:.0f} ms" for name, ms in zip(SHOWN, gap, strict=True))
            load = os.getloadavg()[0]
            print(f"  {what} {number}: {shown}, {verdict}, machine load {load:.1f}", flush=True)
    print(f"{kind} {what}: {', '.join(sorted(verdicts))}; medians:", flush=True)
    for name, column in zip(SHOWN, zip(*gaps, strict=True), strict=True):
        median = statistics.median(column)
        print(f"  {name}: {median:.0f} ms ({min(column):.0f}-{max(column):.0f})", flush=True)
    return verdicts


def seconds_until(holds: Callable[[], bool], since: float) -> float:
    """Return how long after `since` something holds."""
    deadline = time.monotonic() + 120
    while not holds():
        if time.monotonic() > deadline:
            raise TimeoutError
        time.sleep(0.01)
    return time.monotonic() - since


def many(directory: Path, kind: Kind, count: int, lines: SampledLines) -> None:
    """Print how long a thousand partitions on three brokers take, and keep the samples."""
    settings = {**DEFAULTS, "zookeeper.session.timeout.ms": str(SESSION_MS)}
    kinds = dict.fromkeys(range(3), kind)
    with run_mixed(directory / "many", kinds, settings) as cluster:
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap}, logger=_QUIET)
        assignment = [ASSIGNMENT[n % 3] for n in range(1000)]
        since = time.monotonic()
        admin.create_topics([NewTopic("many", 1000, replica_assignment=assignment)])["many"].result(
            60
        )
        created = time.monotonic() - since
        lines.add("1,000 partitions are created", "s", created, str(kind), _GOAL)
        print(f"{kind} many: created in {created:.2f} s", flush=True)
        cluster.wait_in_sync("many", seconds=120)
        for what in ("kill", "rule", "stop"):
            times = [_one_of_many(cluster, what, number) for number in range(count)]
            for ruled, led in times:
                about = f"1,000 partitions, {NAMES[what]}"
                lines.add(f"{about}: a controller again", "s", ruled, str(kind), _GOAL)
                lines.add(f"{about}: all led again", "s", led, str(kind), _GOAL)
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
    """Run what is asked for, print the medians, and write all samples."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, help="rounds of each (default 10, quick 2)")
    parser.add_argument("--quick", action="store_true", help="two rounds")
    parser.add_argument("--kind", choices=[*map(str, Kind), "both"], default="both")
    parser.add_argument("--only", default=",".join(NAMES))
    options = parser.parse_args()
    chosen = options.only.split(",")
    if unknown := [word for word in chosen if word not in NAMES]:
        parser.error(
            f"--only: {', '.join(map(repr, unknown))} unknown, known are {', '.join(NAMES)}"
        )
    end_on_sigterm()
    count, lines = options.rounds or (2 if options.quick else 10), SampledLines()
    kinds = [Kind.APACHE, Kind.KAVKA] if options.kind == "both" else [Kind(options.kind)]
    wanted = {f"{what}, {kind}": (what, kind) for what in chosen for kind in kinds}
    verdicts: dict[str, list[str]] = {}

    def measured(_: object) -> dict[str, object]:
        found = {"lines": as_json(lines), "verdicts": verdicts, "note": note(verdicts)}
        return {**found, "warm_up": False}

    with (
        tempfile.TemporaryDirectory() as path,
        Parts("failover", count, options.quick, wanted, measured) as parts,
    ):
        for name, (what, kind) in wanted.items():
            directory = Path(path, str(kind))
            directory.mkdir(exist_ok=True)
            if what == "many":
                many(directory, kind, min(count, _FEW), lines)
            elif what == "pause":
                found = rounds(directory, kind, what, min(count, _FEW), PAUSE_SESSION_MS, lines)
                verdicts[name] = sorted(found)
            else:
                found = rounds(directory, kind, what, count, SESSION_MS, lines)
                verdicts[name] = sorted(found)
            parts.add(name, [])
    print(f"\n{table(lines, 'Apache Kafka 3.9')}\n\n{note(verdicts)}\nall samples: {parts.path}")


def note(verdicts: Mapping[str, Sequence[str]]) -> str:
    """Say what became of the records."""
    others = {name: found for name, found in verdicts.items() if list(found) != ["whole"]}
    if not others:
        few = "At most three rounds with a broker that stands still and with 1,000 partitions."
        return f"{few} All records were there, once and in order."
    return f"Not all records were there, once and in order: {others}."


if __name__ == "__main__":
    main()
