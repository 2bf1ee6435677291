"""`kavka sql`: time to the first row, beside kcat, and rows of a whole scan a second, beside a consumer and Spark.

`python bench/sql.py [--rows N] [--rounds N] [--spark]`; one broker, one topic of four partitions, JSON values of
about 80 bytes. Prints median, least and most of the rounds, taken in turns after a warm-up, and the median of the
processor's seconds. All times are of whole commands, from their start.
"""

from __future__ import annotations

import argparse
import json
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / folder) for folder in ("src", "bench", "tests/compat", "tests")]

from kavka.client import blocking  # noqa: E402
from kavka.client.admin import NewTopic  # noqa: E402
from kavka_compat.ours import run_kavka  # noqa: E402

TOPIC = "visits"
PARTITIONS = 4
GROUPS = f"select page, count(*), avg(ms) from {TOPIC} group by page order by page"


def fill(bootstrap: str, rows: int) -> None:
    """Write the rows."""
    settings = {"bootstrap.servers": bootstrap, "linger.ms": 20, "batch.size": 200_000}
    with blocking.Admin({"bootstrap.servers": bootstrap}) as admin:
        admin.create_topics([NewTopic(TOPIC, PARTITIONS, 1)])
    with blocking.Producer(settings) as producer:
        for partition in range(PARTITIONS):
            values = (
                {"user": f"u{n % 1000}", "page": f"/p/{n % 97}", "ms": n % 300, "ratio": n / 7}
                for n in range(rows // PARTITIONS)
            )
            pairs = [(None, json.dumps(value).encode()) for value in values]
            producer.send_many(TOPIC, pairs, partition=partition)


def first_line(command: list[str]) -> float:
    """Return the seconds from the start of a command to its first line, and end it."""
    start = time.perf_counter()
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
        assert process.stdout is not None
        assert process.stdout.readline(), command
        seconds = time.perf_counter() - start
        process.stdout.close()
        process.wait()
    return seconds


def processor_seconds() -> float:
    """Return the processor time of the commands that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def whole(command: list[str]) -> float:
    """Return the seconds of a command."""
    start = time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return time.perf_counter() - start


def cases(bootstrap: str, rows: int, with_spark: bool) -> dict[str, Callable[[], float]]:
    """Return what is measured, by its name."""
    sql = [
        sys.executable,
        "-m",
        "kavka",
        "sql",
        "--bootstrap-server",
        bootstrap,
        "--output",
        "json",
    ]
    kcat = ["kcat", "-b", bootstrap, "-C", "-t", TOPIC, "-q", "-u", "-e"]
    perf = [sys.executable, "-m", "kavka", "consumer-perf-test", "--bootstrap-server", bootstrap,
            "--topic", TOPIC, "--messages", str(rows)]  # fmt: skip
    found: dict[str, Callable[[], float]] = {
        "first row, kavka sql": lambda: first_line([*sql, f"select * from {TOPIC} limit 1"]),
        "first row, kavka sql, by time": lambda: first_line(
            [*sql, f"select * from {TOPIC} where timestamp > now() - interval 1 hour limit 1"]
        ),
        "first row, kcat -c 1": lambda: first_line([*kcat, "-c", "1"]),
        "scan, kavka sql, count(*)": lambda: whole([*sql, f"select count(*) from {TOPIC}"]),
        "scan, kavka sql, two fields": lambda: whole([*sql, GROUPS]),
        "scan, kavka consumer-perf-test": lambda: whole(perf),
        "scan, kcat": lambda: whole(kcat),
    }
    if with_spark:
        found["scan, kavka sql --spark, two fields"] = lambda: whole([*sql, "--spark", GROUPS])
    return found


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--spark", action="store_true")
    given = parser.parse_args()
    taken: dict[str, list[float]] = {}
    worked: dict[str, list[float]] = {}
    with tempfile.TemporaryDirectory() as directory, run_kavka(Path(directory)) as broker:
        fill(broker.bootstrap, given.rows)
        measured = cases(broker.bootstrap, given.rows, given.spark)
        for number in range(given.rounds + 1):
            for name, measure in measured.items():
                before = processor_seconds()
                seconds = measure()
                if number:
                    taken.setdefault(name, []).append(seconds)
                    worked.setdefault(name, []).append(processor_seconds() - before)
    for name, times in taken.items():
        middle = statistics.median(times)
        rate = f"  {given.rows / middle:12,.0f} rows/s" if name.startswith("scan") else ""
        cpu = statistics.median(worked[name])
        print(
            f"{name:38} {middle:6.2f} s ({min(times):.2f} to {max(times):.2f}) cpu {cpu:5.2f} s{rate}"
        )


if __name__ == "__main__":
    main()
