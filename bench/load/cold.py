"""Latency of a producer and a consumer beside a reader of 4 GB that are on the disk only."""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from itertools import takewhile
from pathlib import Path

from apache.latency import round_trips_ms
from apache.perf_tools import PerfTools
from apache.report import Line, Samples
from apache.results import print_now
from apache.topics import run_topic

from kavka_compat.brokers import Broker
from load.topics import SIDES, drop_page_cache, log_files

RECORD_BYTES = 1000
_MAX_RATIO = 2.0
_READER = Path(__file__).with_name("cold_reader.py")
_FEWEST = 100
"""Round trips below which a 99th percentile says nothing."""

Goes = Callable[[], bool]


def measure(tools: PerfTools, brokers: dict[str, Broker], records: int, rounds: int) -> list[Line]:
    """Measure alone, beside a reader of cached records and beside a cold one, in turns."""
    found: dict[str, Samples] = {}

    def keep(name: str, side: str, value: float) -> None:
        found.setdefault(name, {each: [] for each in SIDES})[side].append(value)

    with ExitStack() as stack:
        topics = {}
        for side in SIDES:
            topics[side] = stack.enter_context(run_topic(brokers[side], "cold"))
            print_now(f"{side}: {records * RECORD_BYTES / 1e9:.1f} GB are written to be read cold")
            tools.produce(brokers[side].bootstrap, topics[side], records, RECORD_BYTES, ("acks=1",))
        for number in range(rounds + 1):
            for side in SIDES if number % 2 else reversed(SIDES):
                sample = _round(brokers[side], topics[side], records)
                kind = f"round {number}" if number else "warm-up"
                shown = ", ".join(f"{name} {value:,.2f}" for name, value in sample.items())
                print_now(f"99th percentile, ms, {side}, {kind}: {shown}")
                if number:
                    for name, value in sample.items():
                        keep(name, side, value)
    return _lines(found)


def _lines(found: dict[str, Samples]) -> list[Line]:
    about = "99th percentile of the latency"
    lines = [Line(f"{about}, alone", "ms", found["alone"], goal=1.0)]
    for reader in ("cached", "cold"):
        lines.append(Line(f"{about}, beside a {reader} reader", "ms", found[reader], goal=1.0))
        times = {
            side: [b / a for a, b in zip(found["alone"][side], found[reader][side], strict=True)]
            for side in SIDES
        }
        name = f"{about}, beside a {reader} reader ÷ alone"
        lines.append(Line(name, "times", times, absolute=_MAX_RATIO))
        rates = found[f"{reader} reader, records/s"]
        lines.append(
            Line(f"{reader} reader meanwhile", "records/s", rates, goal=1.0, more_is_better=True)
        )
    return lines


def _round(broker: Broker, topic: str, records: int) -> dict[str, float]:
    """Return the percentiles of one round, and how fast the readers were."""
    began = time.monotonic()
    found = {"alone": _percentile(broker, lambda: time.monotonic() < began + 10)}
    files = log_files(broker, topic)
    for reader in ("cached", "cold"):
        for path in files:  # the first read of all makes the pages cached
            with path.open("rb") as file:
                while file.read(1 << 20):
                    pass
        if reader == "cold":
            drop_page_cache(files)
        with _reading(broker, topic, records) as process:
            found[reader] = _percentile(broker, lambda: process.poll() is None)
            assert process.stdout is not None
            said = process.stdout.read()  # `communicate` would lose what came with the first line
            if process.wait() != 0:
                raise RuntimeError(f"the {reader} reader ended with {process.returncode}")
        found[f"{reader} reader, records/s"] = float(said)
    return found


@contextmanager
def _reading(broker: Broker, topic: str, records: int) -> Iterator[subprocess.Popen[str]]:
    """Run a reader; the body begins when its first record has come."""
    command = [sys.executable, str(_READER), broker.bootstrap, topic, str(records)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            line = process.stdout.readline()
            if line != "reading\n":
                raise RuntimeError(f"the reader did not read: {line!r}")
            yield process
        finally:
            process.kill()


def _percentile(broker: Broker, goes_on: Goes) -> float:
    """Send one record after the other and wait for each, while `goes_on()`; return the 99th percentile in ms."""
    with (
        run_topic(broker, "hot", partitions=1) as topic,
        closing(round_trips_ms(broker.bootstrap, topic, patience_s=60)) as trips,
    ):
        taken = list(takewhile(lambda _: goes_on(), trips))[_FEWEST:]  # those before connect
    if len(taken) < _FEWEST:
        raise RuntimeError(
            f"only {len(taken)} records were sent beside the reader; let it read more"
        )
    return statistics.quantiles(taken, n=100)[98]
