"""LinkedIn's scenario: a producer while its log grows, and a consumer of a backlog while producing goes on."""

from __future__ import annotations

import statistics
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor

from apache.perf_tools import PerfTools
from apache.report import Line, Samples
from apache.results import print_now
from apache.topics import run_topic

from kavka_compat.brokers import Broker
from load.topics import SIDES, drop_page_cache, log_files

RECORD_BYTES = 1000
_SEGMENTS: Mapping[str, str] = {"segment.bytes": str(64 << 20)}
"""Small ones, so that a log of gigabytes has as many as one of terabytes has with the default."""
_ACKS = ("acks=1",)


def growing(tools: PerfTools, brokers: dict[str, Broker], records: int, rounds: int) -> list[Line]:
    """Produce to one topic; return the rate of its first and of its last quarter, and how much is kept."""
    first, last, kept = (_empty() for _ in range(3))
    for number in range(rounds + 1):
        for side in SIDES if number % 2 else reversed(SIDES):
            speeds = _windows(tools, brokers[side], records)
            quarter = len(speeds) // 4
            ends = statistics.mean(speeds[:quarter]), statistics.mean(speeds[-quarter:])
            kind = f"round {number}" if number else "warm-up"
            shown = ", ".join(f"{speed:,.0f}" for speed in speeds)
            print_now(f"produce while the log grows, {side}, {kind}: {shown}/s")
            if number:
                first[side].append(ends[0])
                last[side].append(ends[1])
                kept[side].append(ends[1] / ends[0])
    name = "produce 1 KB while the log grows"
    return [
        Line(f"{name}, first quarter", "records/s", first, goal=1.0, more_is_better=True),
        Line(f"{name}, last quarter", "records/s", last, goal=1.0, more_is_better=True),
        Line(f"{name}, last ÷ first", "ratio", kept, goal=1.0, more_is_better=True),
    ]


def _windows(tools: PerfTools, broker: Broker, records: int) -> list[float]:
    """Return the rates of the windows behind the first, in which the client warms up."""
    with run_topic(broker, "growing", settings=_SEGMENTS) as topic:
        found = tools.produce_by_window(broker.bootstrap, topic, records, RECORD_BYTES, _ACKS)
    if len(found) < 5:
        raise RuntimeError(f"{records} records took {len(found)} windows; let it send more")
    return found[1:]


def behind(tools: PerfTools, brokers: dict[str, Broker], records: int, rounds: int) -> list[Line]:
    """Read a backlog that is on the disk only, while a producer appends to the same topic."""
    produced, consumed, cpu = (_empty() for _ in range(3))
    for number in range(rounds + 1):
        for side in SIDES if number % 2 else reversed(SIDES):
            speeds = _both(tools, brokers[side], records)
            kind = f"round {number}" if number else "warm-up"
            print_now(
                f"a backlog is read beside a producer, {side}, {kind}: produced {speeds[0]:,.0f}/s, "
                f"consumed {speeds[1]:,.0f}/s, broker CPU {speeds[2]:.3f} s per million"
            )
            if number:
                for samples, value in zip((produced, consumed, cpu), speeds, strict=True):
                    samples[side].append(value)
    name = "a backlog of 1 KB is read from the disk beside a producer"
    return [
        Line(f"{name}: consumed", "records/s", consumed, goal=1.0, more_is_better=True),
        Line(f"{name}: produced", "records/s", produced, goal=1.0, more_is_better=True),
        Line(f"broker CPU, {name}", "s per million", cpu, goal=0.5),
    ]


def _both(tools: PerfTools, broker: Broker, records: int) -> tuple[float, float, float]:
    """Return records a second of the producer and of the consumer, and the broker's seconds for a million of both."""
    at = broker.bootstrap
    with run_topic(broker, "backlog") as topic, ThreadPoolExecutor(1) as pool:
        tools.produce(at, topic, records, RECORD_BYTES, _ACKS)
        drop_page_cache(log_files(broker, topic))
        before = broker.process.cpu_seconds()
        producer = pool.submit(tools.produce, at, topic, records, RECORD_BYTES, _ACKS)
        row = tools.consume(at, topic, records)
        if producer.done():
            print_now("the producer ended before the consumer: its figure is of less than it says")
        speed = producer.result()
        used = broker.process.cpu_seconds() - before
    return speed, float(row["fetch.nMsg.sec"]), used / (2 * records) * 1_000_000


def _empty() -> Samples:
    return {side: [] for side in SIDES}
