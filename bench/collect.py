"""Log files into a topic: rsyslog (imfile and omkafka) and `kavka collect files`, in turns, with one broker of kavka.

`python bench/collect.py [--lines N] [--rounds N]`; `make bench-pipelines` runs it. A file of N lines is there when the
collector starts, and the time ends when the topic has them; CPU is that of the collector, its start included. rsyslog
sends the lines alone, at least once; kavka sends JSON in transactions, once with the line alone and once parsed. Then
each watches 200 files that nobody writes to. Needs Debian's rsyslog and rsyslog-kafka.
"""

from __future__ import annotations

import argparse
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / folder) for folder in ("src", "bench", "tests/compat", "tests")]

from apache.results import print_now, write_results  # noqa: E402

from kavka.demo.site import Site  # noqa: E402
from kavka_compat.brokers import Broker  # noqa: E402
from kavka_compat.ours import kavka_command, run_kavka  # noqa: E402
from kavka_compat.processes import process_cpu_s  # noqa: E402

FILES = 200
IDLE_S = 10.0
_CONFIGURATION = """
global(workDirectory="{directory}")
module(load="imfile")
module(load="omkafka")
template(name="line" type="string" string="%msg%")
input(type="imfile" File="{pattern}" Tag="bench" ruleset="kafka")
ruleset(name="kafka" queue.type="LinkedList" queue.size="100000" queue.dequeueBatchSize="4096") {{
  action(type="omkafka" broker="{bootstrap}" topic="{topic}" template="line"
         confParam=["compression.codec=lz4", "queue.buffering.max.ms=5", "acks=all"])
}}
"""


class Bench:
    """One broker and one file; each run is the command of a collector."""

    def __init__(self, broker: Broker, directory: Path, log: Path, lines: int) -> None:
        self.broker = broker
        self.directory = directory
        self.log = log
        self.lines = lines
        self.runs = 0

    def rsyslog(self, pattern: str, topic: str) -> list[str]:
        """Return the command of rsyslogd, which has no state of an earlier run."""
        own = self.directory / topic
        own.mkdir()
        text = _CONFIGURATION.format(
            directory=own, pattern=pattern, bootstrap=self.broker.bootstrap, topic=topic
        )
        (own / "rsyslog.conf").write_text(text)
        program = shutil.which("rsyslogd", path="/usr/sbin:/usr/bin")
        if program is None:
            raise SystemExit("install rsyslog: apt-get install rsyslog rsyslog-kafka")
        return [program, "-n", "-f", str(own / "rsyslog.conf"), "-i", str(own / "pid")]

    def kavka(self, pattern: str, topic: str, *more: str) -> list[str]:
        """Return the command of kavka's collector, which has a name of its own."""
        at = ("--bootstrap-server", self.broker.bootstrap, "--topic", topic, "--name", topic)
        return kavka_command("collect", "files", pattern, *at, *more)

    def parsed(self, pattern: str, topic: str) -> list[str]:
        """Return the command of kavka's collector that parses."""
        return self.kavka(pattern, topic, "--parser", "combined")

    def measure(self, command: Callable[[str, str], list[str]]) -> tuple[float, float, float]:
        """Return lines/s, and microseconds of CPU for a line: of the collector, and of the broker."""
        self.runs += 1
        topic = f"bench-{self.runs}"
        self.make_topic(topic)
        words = command(str(self.log), topic)
        before, of_broker = children_cpu_s(), self.broker.process.cpu_seconds()
        started = time.monotonic()
        process = subprocess.Popen(words, stderr=subprocess.DEVNULL)
        try:
            self.wait_for(topic, self.lines, process)
            took_s = time.monotonic() - started
        finally:
            process.terminate()
            process.wait(30)
        cpu_s = children_cpu_s() - before
        broker_s = self.broker.process.cpu_seconds() - of_broker
        return self.lines / took_s, cpu_s / self.lines * 1e6, broker_s / self.lines * 1e6

    def idle(self, command: Callable[[str, str], list[str]]) -> float:
        """Return milliseconds of CPU in a second while nothing is written."""
        self.runs += 1
        topic = f"bench-{self.runs}"
        self.make_topic(topic)
        folder = self.directory / f"{topic}-files"
        folder.mkdir()
        for number in range(FILES):
            (folder / f"{number}.log").write_text(f"the only line of {number}\n")
        process = subprocess.Popen(command(f"{folder}/*.log", topic), stderr=subprocess.DEVNULL)
        try:
            self.wait_for(topic, FILES, process)
            time.sleep(1)
            start, started = process_cpu_s(process.pid), time.monotonic()
            time.sleep(IDLE_S)
            return (process_cpu_s(process.pid) - start) / (time.monotonic() - started) * 1000
        finally:
            process.terminate()
            process.wait(30)

    def wait_for(self, topic: str, count: int, process: subprocess.Popen[bytes]) -> None:
        """Wait until a topic has so many records. Raise RuntimeError when none comes for half a minute."""
        last, changed = 0, time.monotonic()
        while (end := self.end_of(topic)) < count:
            if process.poll() is not None or time.monotonic() - changed > 30:
                raise RuntimeError(f"{end} of {count} records came: {process.args!r}")
            if end != last:
                last, changed = end, time.monotonic()
            time.sleep(0.02)

    def make_topic(self, topic: str) -> None:
        from confluent_kafka.admin import AdminClient, NewTopic

        admin = AdminClient({"bootstrap.servers": self.broker.bootstrap})
        admin.create_topics([NewTopic(topic, 1, 1)])[topic].result(30)

    def end_of(self, topic: str) -> int:
        """Return the end of the topic; markers of transactions count a little towards it, one for each."""
        from confluent_kafka import Consumer, TopicPartition

        if not hasattr(self, "_consumer"):
            self._consumer = Consumer(
                {"bootstrap.servers": self.broker.bootstrap, "group.id": "bench"}
            )
        topic_partition = TopicPartition(topic, 0)
        return int(
            self._consumer.get_watermark_offsets(topic_partition, timeout=30, cached=False)[1]
        )


def children_cpu_s() -> float:
    """Return the CPU time of processes that have ended."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def write_log(path: Path, lines: int) -> None:
    """Write an access log of a generated site, without its broken lines, some of which rsyslog leaves out."""
    made = (line for line in Site(1).lines() if line.event_ms is not None)
    with path.open("wb") as file:
        for _ in range(lines):
            file.write(next(made).text + b"\n")


def main() -> None:
    """Print the medians of the rounds, with the least and the most."""
    parser = argparse.ArgumentParser(description="rsyslog and kavka's collector, side by side")
    parser.add_argument("--lines", type=int, default=300_000)
    parser.add_argument("--rounds", type=int, default=5)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="kavka-bench-") as name:
        directory = Path(name)
        (directory / "broker").mkdir()
        write_log(directory / "access.log", given.lines)
        with run_kavka(directory / "broker") as broker:
            bench = Bench(broker, directory, directory / "access.log", given.lines)
            sides = {"rsyslog": bench.rsyslog, "kavka": bench.kavka, "kavka, parsed": bench.parsed}
            samples = run(bench, sides, given.rounds)
    report(samples, given.lines)
    note = f"{given.lines:,} lines of a generated access log, one broker of kavka, one partition."
    print(
        f"all samples: {write_results('collect', given.rounds, False, {'samples': samples, 'note': note})}"
    )


def run(
    bench: Bench, sides: Mapping[str, Callable[[str, str], list[str]]], rounds: int
) -> dict[str, dict[str, list[float]]]:
    """Run all sides in turns."""
    samples: dict[str, dict[str, list[float]]] = {name: {} for name in sides}
    for number in range(rounds):
        print_now(f"round {number + 1} of {rounds}")
        for name, command in sides.items():
            rate, cpu, of_broker = bench.measure(command)
            found = samples[name]
            found.setdefault("lines/s", []).append(rate)
            found.setdefault("CPU µs/line", []).append(cpu)
            found.setdefault("broker CPU µs/line", []).append(of_broker)
    for name in ("rsyslog", "kavka"):
        samples[name][f"idle, {FILES} files, CPU ms/s"] = [
            bench.idle(sides[name]) for _ in range(min(rounds, 3))
        ]
    return samples


def report(samples: dict[str, dict[str, list[float]]], lines: int) -> None:
    """Print the table."""
    print(f"\n{lines:,} lines; median (least to most)\n")
    print(f"| | {' | '.join(samples)} |")
    print(f"|---|{'--:|' * len(samples)}")
    for measure in samples["rsyslog"]:
        cells = []
        for found in samples.values():
            values = found.get(measure)
            cells.append("" if not values else shown(values))
        print(f"| {measure} | {' | '.join(cells)} |")


def shown(values: list[float]) -> str:
    """Return the median with the spread."""
    low, high, middle = min(values), max(values), statistics.median(values)
    form = "{:,.0f}" if middle >= 100 else "{:.2f}"
    return f"{form.format(middle)} ({form.format(low)} to {form.format(high)})"


if __name__ == "__main__":
    main()
