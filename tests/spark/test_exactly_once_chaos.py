"""An exactly-once query whose driver, workers and broker are killed at random: KAVKA_SPARK_KILLS times (2).

`make chaos-spark KILLS=100` is the long run. KAVKA_SPARK_SEED repeats the choice of victims and pauses.
"""

from __future__ import annotations

import os
import random
import sys
import time
from collections import Counter
from pathlib import Path

import pytest

from kavka_compat.killable import KillableCluster, run_killable
from support.spark.exactly_once_job import Job
from support.spark.killing import (
    RunningJob,
    SparkProcess,
    Watch,
    assert_each_once,
    committed,
    fill,
    kill_process,
)
from support.spark.topic_filling import make_topic_at

KILLS = int(os.environ.get("KAVKA_SPARK_KILLS", "2"))
SEED = int(os.environ.get("KAVKA_SPARK_SEED", str(random.SystemRandom().randrange(2**32))))
SECONDS_FOR_EACH = 120

pytestmark = [
    pytest.mark.spark,
    pytest.mark.compat,
    pytest.mark.timeout(1200 + SECONDS_FOR_EACH * KILLS),
]

PARTITIONS = 3
SETTINGS = {
    "offsets.topic.num.partitions": "4",
    "transaction.state.log.num.partitions": "4",
}
VICTIMS = {"worker": 12, "broker": 7, "driver": 1}
"""Weight with which each is chosen; a driver takes a new JVM."""


class Chaos:
    """One run."""

    def __init__(self, directory: Path, cluster: KillableCluster, rng: random.Random) -> None:
        self.cluster = cluster
        self.rng = rng
        self.killed: Counter[str] = Counter()
        self.values: list[str] = []
        self._directory = directory
        self._stop = directory / "stop"
        self._watch = Watch(directory / "watch")
        self._sessions = 0
        self._job = Job(
            cluster.bootstrap,
            "in",
            "out",
            str(directory / "checkpoint"),
            str(self._watch.directory),
            transform="random_split",
            per_trigger=100,
            until=str(self._stop),
        )
        self.running = self._start()

    def _start(self) -> RunningJob:
        self._sessions += 1
        spark = SparkProcess(self._directory / f"session-{self._sessions}", "local[2,4]")
        return RunningJob(spark, self._job)

    def feed(self) -> None:
        """Write more to the source."""
        first = len(self.values)
        more = [str(number) for number in range(first, first + self.rng.randrange(20, 120))]
        fill(self.cluster.bootstrap, "in", 2, more)
        self.values += more

    def kill(self, victim: str) -> None:
        """Kill one, and bring it back where Spark does not."""
        match victim:
            case "worker":
                processes = self.running.spark.processes()
                workers = [pid for pid, line in processes.items() if " -m pyspark." in line]
                if not workers:
                    return
                kill_process(self.rng.choice(workers))
            case "broker":
                self.cluster.kill(0)
                self.cluster.start(0)
            case _:
                self.running.kill()
                self.running = self._start()
        self.killed[victim] += 1

    def progress(self) -> None:
        """Wait until another batch is begun, so that no kill meets an idle query."""
        self.running.wait_for("listed", self._watch.count("listed") + 1)

    def finish(self) -> None:
        """Let the query write all that is left."""
        self._stop.touch()
        code = self.running.finish(SECONDS_FOR_EACH * 10)
        assert code == 0, self.running.text()


def test_each_record_is_there_once_after_random_kills(tmp_path: Path) -> None:
    rng = random.Random(SEED)
    print(f"\nchaos of Spark: kills={KILLS} seed={SEED}", file=sys.stderr)
    began = time.monotonic()
    (tmp_path / "broker").mkdir()
    with run_killable(tmp_path / "broker", 1, SETTINGS) as cluster:
        make_topic_at(cluster.bootstrap, "in", 2)
        make_topic_at(cluster.bootstrap, "out", PARTITIONS)
        chaos = Chaos(tmp_path, cluster, rng)
        try:
            while chaos.killed.total() < KILLS:
                chaos.feed()
                chaos.progress()
                time.sleep(rng.random() * 2)  # time: where in a batch it is met is chance
                print(f"{time.monotonic() - began:.0f} s: {dict(chaos.killed)}", file=sys.stderr)
                (victim,) = rng.choices(list(VICTIMS), list(VICTIMS.values()))
                chaos.kill(victim)
            chaos.finish()
        finally:
            chaos.running.kill()
        assert_each_once(committed(cluster.bootstrap, "out", PARTITIONS), chaos.values)
    print(
        f"chaos of Spark: {dict(chaos.killed)} killed, {len(chaos.values)} records once each, "
        f"{time.monotonic() - began:.0f} s",
        file=sys.stderr,
    )
