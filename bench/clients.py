"""Compare Python clients on one broker: rates, latencies, CPU and memory, with spread, and the goals as ratios.

    QUICK=1 ROUNDS=5 ONLY=100,lz4 make bench-clients
    python bench/clients.py [127.0.0.1:9092] [--rounds 5] [--scale 1.0] [--only 100,lz4]

Without an address a broker is started for the run. Each way of each client is a process of its own, which connects,
warms up, and then waits: in a round all of them work once, one after the other. A ratio is taken within a round. All
six scenarios take about a quarter of an hour on two idle cores. All measures are in a file of bench/results, which
`make bench-report` publishes. Topics are deleted at the end of a scenario. `client_ways.py` has what the processes do.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import statistics
import subprocess
import sys
import tempfile
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

from apache.lifecycle import launch_ours, wait_until_serving
from apache.report import Line
from apache.results import Parts
from apache.rounds import end_on_sigterm
from client_ways import GROUP

BATCH = 262_144


class Scenario(NamedTuple):
    """Sizes and settings that all clients of a run have."""

    name: str
    size: int
    codec: str
    defaults: bool


SCENARIOS = (
    Scenario("100 B", 100, "none", False),
    Scenario("1 KB", 1000, "none", False),
    Scenario("100 B, lz4", 100, "lz4", False),
    Scenario("1 KB, lz4", 1000, "lz4", False),
    Scenario("100 B, default settings", 100, "none", True),
    Scenario("1 KB, default settings", 1000, "none", True),
)

PRODUCE = {
    "kavka append": 400_000,
    "kavka append keyed": 200_000,
    "kavka append headers": 100_000,
    "kavka append blocking": 200_000,
    "kavka future each": 100_000,
    "kavka awaited": 40_000,
    "kavka send_many": 500_000,
    "confluent produce": 400_000,
    "confluent produce keyed": 200_000,
    "confluent produce headers": 100_000,
    "aiokafka send": 50_000,
    "aiokafka send_and_wait": 30_000,
    "kafka-python send": 20_000,
}
"""Records of 100 bytes in one round, so that a round takes about a second; of 1 KB it is a quarter."""
WAITED_FOR = {
    "kavka one at a time": 2_000,
    "confluent one at a time": 2_000,
    "aiokafka one at a time": 2_000,
    "kafka-python one at a time": 1_000,
}
"""The same where each record is acknowledged before the next is sent."""
ROUND_TRIPS = {
    "kavka round trip": 1_000,
    "confluent round trip": 1_000,
    "aiokafka round trip": 1_000,
    "kafka-python round trip": 500,
}
"""The same where a consumer has each record before the next is sent; a topic for each of them."""
CONSUME = {
    "kavka records": 1_200_000,
    "kavka iteration": 1_200_000,
    "kavka columns": 1_200_000,
    "kavka arrow": 1_200_000,
    "confluent consume": 1_200_000,
    "aiokafka getmany": 1_200_000,
    "kafka-python poll": 200_000,
}
GOALS = (
    ("kavka append", ("confluent produce",), 1.0),
    ("kavka append keyed", ("confluent produce keyed",), 1.0),
    ("kavka append headers", ("confluent produce headers",), 1.0),
    ("kavka future each", ("aiokafka send",), 2.0),
    ("kavka awaited", ("aiokafka send_and_wait",), 2.0),
    ("kavka send_many", ("confluent produce",), 3.0),
    ("kavka one at a time", tuple(WAITED_FOR)[1:], 1.0),
    ("kavka records", ("confluent consume", "aiokafka getmany", "kafka-python poll"), 1.2),
    ("kavka arrow", ("confluent consume",), 5.0),
    ("kavka round trip", tuple(ROUND_TRIPS)[1:], 1.0),
)
"""Our way, those beside it, and what its rate is to be, divided by the best of theirs."""


LINES = {
    "kavka append": "produced one by one; confluent-kafka `produce`",
    "kavka append keyed": "the same, with keys; confluent-kafka `produce`",
    "kavka append headers": "the same, with keys and two headers; confluent-kafka `produce`",
    "kavka future each": "produced with a future each; aiokafka `send`",
    "kavka awaited": "delivery awaited, 10,000 together; aiokafka `send_and_wait`",
    "kavka send_many": "produced 10,000 a call; confluent-kafka `produce`",
    "kavka one at a time": "one at a time, each awaited; the best other",
    "kavka records": "consumed as records; the best other",
    "kavka arrow": "consumed as Arrow; confluent-kafka `consume`",
    "kavka round trip": "from producer to consumer, one at a time; the best other",
}
"""Names of the goals' lines in the page of benchmarks."""


class Measure(NamedTuple):
    """One way in one round."""

    rate: float
    """Records a second."""
    cpu: float
    """CPU microseconds of the client's process per record."""
    memory_mib: float
    """Largest resident memory of the process so far."""
    latency_ms: tuple[float, float] | None = None
    """The median and the 99th percentile, where records are waited for one by one."""


class Worker:
    """The process of one way of one client."""

    def __init__(self, way: str, count: int, job: dict[str, Any]) -> None:
        """Start it, and wait until it is warm."""
        self.way = way
        self._count = count
        command = [sys.executable, str(Path(__file__).with_name("client_ways.py"))]
        self._process = subprocess.Popen(
            [*command, json.dumps(job | {"way": way, "count": count})],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self._read()

    def _read(self) -> Any:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise SystemExit(f"{self.way} ended with {self._process.wait()}; its error is above")
        return json.loads(line)

    def work(self) -> Measure:
        """Have it produce or consume its records once."""
        assert self._process.stdin is not None
        self._process.stdin.write("go\n")
        self._process.stdin.flush()
        seconds, cpu, memory_kib, latency_ms = self._read()
        rate, cpu_us = self._count / seconds, cpu / self._count * 1e6
        return Measure(rate, cpu_us, memory_kib / 1024, latency_ms and tuple(latency_ms))

    def end(self) -> None:
        """Let it close its client."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            self._process.wait(30)
        except subprocess.TimeoutExpired:
            self._process.kill()


async def create(bootstrap: str, topics: dict[str, int]) -> None:
    """Create the topics of a scenario; their files go at once when they are deleted."""
    from kavka.client import Admin, NewTopic

    config = {"file.delete.delay.ms": "1000"}
    async with Admin({"bootstrap.servers": bootstrap}) as admin:
        made = await admin.create_topics(
            [NewTopic(topic, count, 1, configs=config) for topic, count in topics.items()]
        )
    for outcome in made.values():
        if isinstance(outcome, Exception):
            raise outcome


async def fill(bootstrap: str, topic: str, scenario: Scenario, count: int) -> None:
    """Write what the consumers read."""
    from kavka.client import Producer

    settings = {"bootstrap.servers": bootstrap, "compression.type": scenario.codec}
    value = os.urandom(scenario.size // 2).hex().encode()
    async with Producer(settings) as producer:
        for start in range(0, count, 10_000):
            await producer.send_many(topic, [(None, value)] * min(10_000, count - start))


async def delete(bootstrap: str, topics: list[str]) -> None:
    """Delete the topics of a scenario."""
    from kavka.client import Admin

    async with Admin({"bootstrap.servers": bootstrap}) as admin:
        await admin.delete_topics(topics)


def measure(
    ways: dict[str, int], job: dict[str, Any], rounds: int, topics: dict[str, str]
) -> dict[str, list[Measure]]:
    """Run all ways in turns."""
    workers: list[Worker] = []
    try:
        for way, count in ways.items():
            workers.append(Worker(way, count, job | {"topic": topics[way]}))
        found: dict[str, list[Measure]] = {way: [] for way in ways}
        for _ in range(rounds):
            for worker in workers:
                found[worker.way].append(worker.work())
        return found
    finally:
        for worker in workers:
            worker.end()


def groups(ways: dict[str, int], scenario: Scenario, scale: float) -> dict[str, int]:
    """Return the numbers of records in a round: whole groups, as the ways that await groups send no part of one."""
    factor = scale * (1.0 if scenario.size < 1000 else 0.25)
    return {way: max(1, round(count * factor / GROUP)) * GROUP for way, count in ways.items()}


def run(scenario: Scenario, args: argparse.Namespace) -> dict[str, list[Measure]]:
    """Run one scenario."""
    prefix = f"bench-clients-{os.getpid()}-{SCENARIOS.index(scenario)}"
    written, read = f"{prefix}-written", f"{prefix}-read"
    produce, consume = groups(PRODUCE, scenario, args.scale), groups(CONSUME, scenario, args.scale)
    waited = {way: int(count * args.scale) for way, count in WAITED_FOR.items()}
    trips = {way: int(count * args.scale) for way, count in ROUND_TRIPS.items()}
    topics = dict.fromkeys(produce | waited, written) | dict.fromkeys(consume, read)
    topics |= {way: f"{prefix}-{place}" for place, way in enumerate(trips)}
    partitions = dict.fromkeys((written, read), args.partitions)
    partitions |= {topics[way]: 1 for way in trips}
    asyncio.run(create(args.bootstrap, partitions))
    try:
        job = scenario._asdict() | {"bootstrap": args.bootstrap, "batch": BATCH}
        found = measure(produce, job, args.rounds, topics)
        found |= measure(waited, job, args.rounds, topics)
        found |= measure(trips, job, args.rounds, topics)
        asyncio.run(fill(args.bootstrap, read, scenario, max(consume.values())))
        return found | measure(consume, job, args.rounds, topics)
    finally:
        asyncio.run(delete(args.bootstrap, list(partitions)))


def spread(values: list[float], digits: int) -> str:
    """Return the median, with the smallest and the largest."""
    shown = (statistics.median(values), min(values), max(values))
    return "{:8.{d}f} ({:.{d}f} to {:.{d}f})".format(*shown, d=digits)


def goals(found: dict[str, list[Measure]]) -> list[dict[str, Any]]:
    """Return the ratios to what a goal names, round by round."""
    rows = []
    for ours, others, least in GOALS:
        rates = zip(*([one.rate for one in found[other]] for other in others), strict=True)
        ratios = [one.rate / max(best) for one, best in zip(found[ours], rates, strict=True)]
        rows.append({"way": ours, "others": others, "goal": least, "ratios": ratios})
    return rows


def lines(scenario: Scenario, found: dict[str, list[Measure]]) -> list[Line]:
    """Return the lines of the page: for each goal the rate or the latency, the client's CPU, the largest memory."""
    made = []
    for ours, others, least in GOALS:
        other, our = found[best_of(others, found)], found[ours]
        name = f"{scenario.name}: {LINES[ours]}"
        if our[0].latency_ms is None:
            rates = sides([one.rate for one in other], [one.rate for one in our])
            made.append(Line(name, "records/s", rates, goal=least, more_is_better=True))
        for place, which in enumerate(("median", "99th percentile")):
            samples = sides(latencies(other, place), latencies(our, place))
            if samples["kavka"]:
                made.append(Line(f"{name}: latency, {which}", "ms", samples, goal=1.0))
        cpu = sides([one.cpu for one in other], [one.cpu for one in our])
        made.append(Line(f"{name}: CPU", "us/record", cpu))
        memory = sides(*([max(one.memory_mib for one in side)] for side in (other, our)))
        made.append(Line(f"{name}: memory", "MiB", memory))
    return made


def best_of(others: tuple[str, ...], found: dict[str, list[Measure]]) -> str:
    """Return the way with the largest median rate."""
    return max(others, key=lambda way: statistics.median(one.rate for one in found[way]))


def sides(other: list[float], ours: list[float]) -> dict[str, list[float]]:
    """Return samples as a line has them."""
    return {"apache": other, "kavka": ours}


def latencies(measures: list[Measure], place: int) -> list[float]:
    """Return the medians (0) or the 99th percentiles (1) of the rounds, if there are any."""
    return [one.latency_ms[place] for one in measures if one.latency_ms is not None]


def show(scenario: Scenario, found: dict[str, list[Measure]]) -> None:
    """Print the rates of a scenario, and how far they are from the goals."""
    print(f"\n{scenario.name}")
    for way, measures in found.items():
        rates = spread([one.rate / 1000 for one in measures], 1)
        cpu = spread([one.cpu for one in measures], 2)
        memory = max(one.memory_mib for one in measures)
        print(f"  {way:26s} {rates:32s} k/s   CPU us {cpu:26s} {memory:5.0f} MiB")
        if latencies(measures, 0):
            middle, high = (spread(latencies(measures, place), 2) for place in (0, 1))
            print(f"  {'':26s} latency ms, median {middle}, 99th percentile {high}")
    for row in goals(found):
        others = row["others"][0] if len(row["others"]) == 1 else "the best other"
        is_met = "met" if statistics.median(row["ratios"]) >= row["goal"] else "MISSED"
        ratios = spread(row["ratios"], 2)
        print(f"  {row['way']} / {others}: {ratios}, goal {row['goal']}: {is_met}", flush=True)


def main() -> None:
    """Read the arguments, and run the scenarios."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("bootstrap", nargs="?", help="host:port of the broker (default: a new one)")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--partitions", type=int, default=6)
    parser.add_argument("--scale", type=float, default=1.0, help="factor of the numbers of records")
    parser.add_argument("--only", default="", help="words that a scenario's name must have")
    args = parser.parse_args()
    end_on_sigterm()
    if args.bootstrap is not None:
        measure_all(args)
        return
    with tempfile.TemporaryDirectory(prefix="kavka-bench-") as directory:
        broker = launch_ours(Path(directory) / "broker")
        try:
            wait_until_serving(broker)
            args.bootstrap = broker.bootstrap
            measure_all(args)
        finally:
            broker.process.stop()


def releases() -> dict[str, str]:
    """Return the releases of the clients."""
    return {name: version(name) for name in ("confluent-kafka", "aiokafka", "kafka-python")}


def measure_all(args: argparse.Namespace) -> None:
    """Run the chosen scenarios, print what they found, and write it to a file."""
    words = [word.strip() for word in args.only.split(",")]
    chosen = [one for one in SCENARIOS if all(word in one.name for word in words)]
    report: list[dict[str, Any]] = []
    more = {"scenarios": report, "clients": releases()}
    quick = args.scale < 1 or bool(args.only)
    names = [scenario.name for scenario in chosen]
    with Parts("clients", args.rounds, quick, names, lambda _: more) as parts:
        for scenario in chosen:
            found = run(scenario, args)
            show(scenario, found)
            ways = {way: [one._asdict() for one in measures] for way, measures in found.items()}
            report.append({"scenario": scenario._asdict(), "ways": ways, "goals": goals(found)})
            parts.add(scenario.name, lines(scenario, found))
    print(f"\nall measures: {parts.path}")


if __name__ == "__main__":
    main()
