"""The word count of `streams/WordCount.java`: the program, what goes into it, and what must come out."""

from __future__ import annotations

import hashlib
import itertools
import subprocess
import time
from collections import Counter, defaultdict
from collections.abc import Callable
from pathlib import Path
from random import Random

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from kavka_compat.apache import SMALL
from kavka_compat.artifacts import cache_directory, jars, java
from kavka_compat.processes import Running

_SOURCE = Path(__file__).resolve().parent.parent / "streams" / "WordCount.java"
_COMPILER = "org.eclipse.jdt.internal.compiler.batch.Main"
_PARTITIONS = 3
_WORDS_IN_LINE = 6
_WORDS_AHEAD = 600
"""Maximum of words that are written and not counted yet: those in progress whenever something is killed."""
_PATIENCE_S = 90


def compiled(release: str) -> str:
    """Return the class path of the program on Kafka Streams 3.9 or 4.1, compiling it when its text is new."""
    name = f"streams-{release}"
    libraries = ":".join(map(str, jars(name)))
    digest = hashlib.sha256(_SOURCE.read_bytes()).hexdigest()[:16]
    classes = cache_directory(name) / f"classes-{digest}"
    if not (classes / "WordCount.class").exists():
        compile_java(name, classes, _SOURCE)
    return f"{classes}:{libraries}"


def compile_java(libraries: str, classes: Path, *sources: Path) -> None:
    """Compile programs that use the jars of one of `artifacts.STREAMS`; a JRE is enough."""
    path = ":".join(map(str, jars(libraries)))
    command = [java(), "-cp", path, _COMPILER, "-17", "-cp", path, "-nowarn", "-d", str(classes)]
    done = subprocess.run(
        [*command, *map(str, sources)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


class Application:
    """One instance of the program, with a state directory that outlives its process."""

    def __init__(self, release: str, directory: Path, bootstrap: str, name: str) -> None:
        """Choose; it does not run yet. `name` is the application id."""
        self.name = name
        self._class_path = compiled(release)
        self._directory = directory
        self._bootstrap = bootstrap
        self._starts = 0

    def start(self, replication_factor: int) -> None:
        """Start the process; it is not ready yet."""
        self._starts += 1
        self._directory.mkdir(parents=True, exist_ok=True)
        log = "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn"
        command = [java(), *SMALL, log, "-cp", self._class_path, "WordCount", self._bootstrap]
        words = (self.name, str(self._directory / "state"), str(replication_factor))
        output = self._directory / f"start-{self._starts}.out"
        self.process = Running([*command, *words], output)

    def stop(self) -> None:
        """End it cleanly."""
        self.process.stop(60)
        assert "closed true" in self.process.text(), self.process.text()[-3000:]


class Books:
    """Writes lines for an application and keeps account of what it makes of them."""

    def __init__(self, bootstrap: str, name: str, replication_factor: int, seed: int) -> None:
        """Create the topics, and open the clients."""
        self.written: Counter[str] = Counter()
        self.counted: defaultdict[str, list[int]] = defaultdict(list)
        self.lengths: dict[int, int] = {}
        self._name = name
        self._dice = Random(seed)
        self._vocabulary = [
            "".join(p) for n in (1, 2, 3) for p in itertools.product("abc", repeat=n)
        ]
        self._errors: list[object] = []
        self._at_end: set[tuple[str, int]] = set()
        self._seen = 0
        self._bootstrap = bootstrap
        self._create(bootstrap, replication_factor)
        self._producer = Producer(
            {"bootstrap.servers": bootstrap, "enable.idempotence": True, "linger.ms": 5}
        )
        self._outputs = [
            TopicPartition(f"{name}-{kind}", partition, 0)
            for kind in ("counts", "lengths")
            for partition in range(_PARTITIONS)
        ]
        self._consumer = self._reader()

    def _reader(self) -> Consumer:
        consumer = Consumer(
            {
                "bootstrap.servers": self._bootstrap,
                "group.id": f"{self._name}-reader",
                "isolation.level": "read_committed",
                "enable.partition.eof": True,
                "enable.auto.commit": False,
                "fetch.wait.max.ms": 100,
            }
        )
        consumer.assign(self._outputs)
        return consumer

    def _create(self, bootstrap: str, replication_factor: int) -> None:
        admin = AdminClient({"bootstrap.servers": bootstrap})
        names = [f"{self._name}-{kind}" for kind in ("lines", "counts", "lengths")]
        created = admin.create_topics([NewTopic(n, _PARTITIONS, replication_factor) for n in names])
        for outcome in created.values():
            outcome.result(60)

    @property
    def seen(self) -> int:
        """Number of words that readers of committed records have seen counted."""
        return self._seen

    def work_until(self, holds: Callable[[], bool], what: str) -> None:
        """Write and read until something holds, with words in progress all the time."""
        deadline = time.monotonic() + _PATIENCE_S
        while not holds():
            assert time.monotonic() < deadline, f"not within {_PATIENCE_S} s: {what}: {self}"
            if self.written.total() - self._seen < _WORDS_AHEAD:
                self._write()
            self._read()

    def count_more(self, words: int) -> None:
        """Continue until so many more words were counted."""
        wanted = self._seen + words
        self.work_until(lambda: self._seen >= wanted, f"{words} more words are counted")

    def finish(self) -> None:
        """Write no more, and read until every word is counted, and summed up by its length."""
        assert self._producer.flush(_PATIENCE_S) == 0
        assert not self._errors, self._errors
        deadline = time.monotonic() + _PATIENCE_S
        while self._seen < self.written.total() or self.lengths != self._sums():
            assert time.monotonic() < deadline, f"words are missing: {self}"
            self._read()

    def close(self) -> None:
        """Close the clients."""
        self._producer.purge()
        self._producer.close()
        self._consumer.close()

    def assert_exact(self) -> None:
        """Insist that each occurrence of each word was counted once, in order, and that the sums fit.

        The application has stopped: what it wrote last is committed, or aborted.
        """
        self._consumer.close()
        self._consumer = self._reader()  # which says once where each partition ends
        for forgotten in (self.counted, self.lengths, self._at_end):
            forgotten.clear()
        self._seen = 0
        deadline = time.monotonic() + _PATIENCE_S
        while len(self._at_end) < len(self._outputs):
            assert time.monotonic() < deadline, f"the end is not reached: {self}"
            self._read()
        expected = {word: list(range(1, count + 1)) for word, count in self.written.items()}
        wrong = {w: got for w, got in self.counted.items() if got != expected.get(w)}
        assert not wrong, {w: _first_difference(got) for w, got in wrong.items()}
        assert self.counted.keys() == expected.keys()
        assert self.lengths == self._sums()

    def __str__(self) -> str:
        """Say how far both sides are."""
        counted = f"{self.written.total()} words written, {self._seen} counted"
        return f"{counted}, by length {self.lengths} of {dict(self._sums())}"

    def _sums(self) -> Counter[int]:
        sums: Counter[int] = Counter()
        for word, count in self.written.items():
            sums[len(word)] += count
        return sums

    def _write(self) -> None:
        words = self._dice.choices(self._vocabulary, k=_WORDS_IN_LINE)
        self._producer.produce(
            f"{self._name}-lines",
            " ".join(words),
            on_delivery=lambda error, _: self._errors.append(error) if error else None,
        )
        self.written.update(words)
        self._producer.poll(0)

    def _read(self) -> None:
        for message in self._consumer.consume(500, 0.02):
            topic_partition = (message.topic(), message.partition())
            error = message.error()
            if error is not None:
                if error.code() == KafkaError._PARTITION_EOF:
                    self._at_end.add(topic_partition)
                elif error.fatal() or not (error.retriable() or error.code() < 0):
                    raise KafkaException(error)
                continue
            key, count = message.key().decode(), int.from_bytes(message.value(), "big", signed=True)
            if message.topic() == f"{self._name}-counts":
                self.counted[key].append(count)
                self._seen += 1
            else:
                self.lengths[int(key)] = count


def _first_difference(counts: list[int]) -> str:
    for index, count in enumerate(counts):
        if count != index + 1:
            return f"{count} in place of {index + 1}, and {len(counts)} counts"
    return f"only {len(counts)} counts"
