"""Jobs of Spark as processes that a test stops at a step, kills and starts again, and what they have written."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, Producer, TopicPartition

from support.spark.exactly_once_job import Job
from support.spark.standalone import SOURCES, environment
from support.waiting import wait_until

_JOB = Path(__file__).with_name("exactly_once_job.py")
_TESTS = Path(__file__).parents[2]
"""Directory in which jobs find the package `support`."""
_PATIENT = {"spark.python.authenticate.socketTimeout": "120s"}
_EXECUTOR = "org.apache.spark.executor.CoarseGrainedExecutorBackend"
SECONDS = 400
"""Maximum time of a step on a machine that others use, too: a JVM and a first batch."""


class Watch:
    """The steps that all processes of a job have reached, and where they are to stop; see `watched_sink`."""

    def __init__(self, directory: Path) -> None:
        """Use a directory of its own."""
        self.directory = directory
        directory.mkdir(parents=True, exist_ok=True)

    def hold(self, step: str, number: int = 1) -> None:
        """Stop the process that reaches the step for the `number`-th time there."""
        (self.directory / f"{step}.{number}.hold").touch()

    def die(self, step: str, number: int = 1) -> None:
        """Have it kill itself with SIGKILL."""
        (self.directory / f"{step}.{number}.die").touch()

    def release(self, step: str, number: int = 1) -> None:
        """Let it continue."""
        (self.directory / f"{step}.{number}.hold").unlink()

    def count(self, step: str) -> int:
        """Return how often the step was reached."""
        return sum(1 for path in self.directory.glob(f"{step}.*") if path.suffix[1:].isdecimal())

    def has(self, step: str, number: int = 1) -> bool:
        """Return whether the step was reached so often."""
        return (self.directory / f"{step}.{number}").exists()

    def process(self, step: str, number: int = 1) -> int:
        """Return the id of the process that has reached the step."""
        return int((self.directory / f"{step}.{number}").read_text())


class SparkProcess:
    """A session of Spark in processes of its own, which runs jobs one after the other until it is killed."""

    def __init__(
        self, directory: Path, master: str = "local[2]", settings: Mapping[str, str] | None = None
    ) -> None:
        """Start it; its output is in a file of the directory."""
        directory.mkdir(parents=True)
        self._output = directory / "output"
        paths = {"PYTHONPATH": os.pathsep.join([str(_TESTS), str(SOURCES)])}
        chosen = json.dumps({**_PATIENT, **(settings or {})})
        with self._output.open("wb") as sink:
            self._process = subprocess.Popen(
                [sys.executable, str(_JOB), str(directory / "spark"), master, chosen],
                env=environment() | paths,
                stdin=subprocess.PIPE,
                stdout=sink,
                stderr=subprocess.STDOUT,
                text=True,
            )

    def submit(self, job: Job) -> None:
        """Have it run a job, when the one before is over."""
        assert self._process.stdin is not None
        self._process.stdin.write(job.text() + "\n")
        self._process.stdin.flush()

    def is_alive(self) -> bool:
        """Return whether it was neither killed nor has ended."""
        return self._process.poll() is None

    def processes(self) -> dict[int, str]:
        """Return the processes below the first one, and their command lines."""
        return processes_below(self._process.pid)

    def kill(self) -> None:
        """End all its processes at once: the driver's machine is gone."""
        kill_all(self._process.pid, *self.processes())
        self._process.wait()
        assert self._process.stdin is not None
        self._process.stdin.close()

    def text(self) -> str:
        """Return the end of what it has printed."""
        return self._output.read_text(errors="replace")[-4000:]


class RunningJob:
    """A job that runs in a session."""

    def __init__(self, spark: SparkProcess, job: Job) -> None:
        """Start it."""
        self.spark = spark
        self._watch = Path(job.watch)
        self._result = self._watch / "result"
        self._result.unlink(missing_ok=True)
        spark.submit(job)

    def wait_for(self, step: str, number: int = 1) -> None:
        """Wait until the job has reached a step. Raise AssertionError when it ends before."""
        self._wait_for(self._watch / f"{step}.{number}", SECONDS)

    def finish(self, seconds: float = 2 * SECONDS) -> int:
        """Wait until it ends by itself, and return 0 or FAILED."""
        self._wait_for(self._result, seconds)
        return int(self._result.read_text())

    def is_over(self) -> bool:
        """Return whether it has ended by itself, or with its session."""
        return self._result.exists() or not self.spark.is_alive()

    def _wait_for(self, path: Path, seconds: float) -> None:
        wait_until(
            lambda: path.exists() or self.is_over(),
            seconds,
            lambda: f"{path.name}: {self.text()}",
        )
        assert path.exists(), f"no {path.name}: {self.text()}"

    def kill(self) -> None:
        """Kill the whole session."""
        self.spark.kill()

    def text(self) -> str:
        """Return the end of what its session has printed."""
        return self.spark.text()


def processes_below(first: int) -> dict[int, str]:
    """Return the processes below one, and their command lines."""
    found: dict[int, str] = {}
    children: dict[int, list[int]] = {}
    for pid, parent in _parents().items():
        children.setdefault(parent, []).append(pid)
    waiting = [first]
    while waiting:
        for pid in children.get(waiting.pop(), ()):
            found[pid] = _command(pid)
            waiting.append(pid)
    return found


def executor_of(worker: int) -> int:
    """Return the JVM in which the task of a worker process runs, on a cluster."""
    parents = _parents()
    pid = worker
    while _EXECUTOR not in _command(pid):
        pid = parents[pid]
    return pid


def is_executor(command: str) -> bool:
    """Return whether a command line is an executor's."""
    return _EXECUTOR in command and "java" in command


def _parents() -> dict[int, int]:
    found: dict[int, int] = {}
    for directory in Path("/proc").iterdir():
        if directory.name.isdecimal():
            try:
                fields = (directory / "stat").read_text().rsplit(")", 1)[1].split()
            except OSError:
                continue  # it has ended
            found[int(directory.name)] = int(fields[1])
    return found


def _command(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()
    except OSError:
        return ""


def kill_process(pid: int) -> None:
    """Send SIGKILL to a process, which may be gone already."""
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return


def kill_all(*pids: int) -> None:
    """Send SIGKILL to processes, and return when all are gone: a machine is."""
    for pid in pids:
        kill_process(pid)
    for pid in pids:
        _wait_until_gone(pid)


def _wait_until_gone(pid: int) -> None:
    """Wait for a process that need not be ours to reap; a zombie writes nothing any more."""

    def is_gone() -> bool:
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
        except OSError:
            return True
        return state in "ZX"

    wait_until(is_gone, 600, f"process {pid} ends")


def fill(bootstrap: str, topic: str, partitions: int, values: Iterable[str]) -> None:
    """Write values, with themselves as keys, one partition after the other in turn."""
    producer = Producer({"bootstrap.servers": bootstrap})
    for number, value in enumerate(values):
        producer.produce(topic, value, key=value, partition=number % partitions)
    assert producer.flush(60) == 0


def committed(bootstrap: str, topic: str, partitions: int) -> list[tuple[bytes, bytes]]:
    """Return keys and values that `read_committed` sees, as librdkafka reads them."""
    settings = {
        "bootstrap.servers": bootstrap,
        "group.id": "reader",
        "enable.auto.commit": False,
        "enable.partition.eof": True,
        "isolation.level": "read_committed",
    }
    consumer = Consumer(settings)
    found: list[tuple[bytes, bytes]] = []
    at_end: set[int] = set()
    deadline = time.monotonic() + 60
    try:
        consumer.assign([TopicPartition(topic, n, OFFSET_BEGINNING) for n in range(partitions)])
        while len(at_end) < partitions:
            assert time.monotonic() < deadline, f"{topic} is not read to its end"
            message = consumer.poll(1)
            if message is None:
                continue
            error = message.error()
            if error is None:
                found.append((message.key(), message.value()))
            elif error.code() == KafkaError._PARTITION_EOF:
                at_end.add(message.partition())
    finally:
        consumer.close()
    return found


def assert_each_once(found: list[tuple[bytes, bytes]], values: Iterable[str]) -> None:
    """Insist on each value once, and nothing else."""
    wanted = Counter(value.encode() for value in values)
    seen = Counter(value for _, value in found)
    missing, extra = wanted - seen, seen - wanted
    found_wrong = f"{missing.total()} missing {sorted(missing)[:5]}, {extra.total()} too many {sorted(extra)[:5]}"
    assert not missing, found_wrong
    assert not extra, found_wrong
