"""Consumers of a workload: readers that assign and seek, and members of a group that come and go."""

from __future__ import annotations

import contextlib
import random
import time
from collections.abc import Sequence
from threading import Event

from kavka.ids import TopicPartition
from kavka.testing.history.operations import (
    Assign,
    Poll,
    Rebalance,
    Scan,
    Seek,
    Subscribe,
    Type,
)
from kavka.testing.history.recorder import Recorder
from kavka.testing.history.workload.client import ClientFailed, WorkloadClient, WorkloadConsumer

_POLL_SECONDS = 0.2
_RETRY_SECONDS = 0.2


class AssigningReader:
    """A consumer without a group: it assigns all partitions or some, and now and then seeks back."""

    def __init__(
        self,
        name: str,
        client: WorkloadClient,
        recorder: Recorder,
        partitions: list[TopicPartition],
        seed: str,
    ) -> None:
        """Read as the process `name` of the history."""
        self._name = name
        self._client = client
        self._recorder = recorder
        self._partitions = partitions
        self._source = random.Random(seed)
        self._assigned: list[TopicPartition] = []
        self._read_up_to: dict[TopicPartition, int] = {}

    def run(self, stop: Event) -> None:
        """Read until it is stopped."""
        consumer = _connect(self._client, None, stop)
        if consumer is None:
            return
        try:
            self._assign(consumer, self._partitions)
            change_at = self._next_change()
            while not stop.is_set():
                if time.monotonic() >= change_at:
                    self._change(consumer)
                    change_at = self._next_change()
                for topic_partition, end in poll(self._name, consumer, self._recorder).items():
                    self._read_up_to[topic_partition] = max(
                        end, self._read_up_to.get(topic_partition, 0)
                    )
        finally:
            consumer.close()

    def _next_change(self) -> float:
        return time.monotonic() + self._source.uniform(0.5, 4)

    def _change(self, consumer: WorkloadConsumer) -> None:
        """Assign some partitions, or all, or go back in one."""
        chance = self._source.random()
        if chance < 0.3:
            count = self._source.randint(1, len(self._partitions))
            self._assign(consumer, sorted(self._source.sample(self._partitions, count)))
        elif chance < 0.6:
            self._assign(consumer, self._partitions)
        else:
            self._seek_back(consumer)

    def _assign(self, consumer: WorkloadConsumer, partitions: list[TopicPartition]) -> None:
        new = [
            topic_partition
            for topic_partition in partitions
            if topic_partition not in self._assigned
        ]
        consumer.assign(partitions, new)
        self._assigned = partitions
        self._recorder.happened(self._name, Assign(tuple(partitions)))

    def _seek_back(self, consumer: WorkloadConsumer) -> None:
        """Seek what has been read, or the end of it: what lies above could be out of range."""
        positions = [
            topic_partition
            for topic_partition in self._assigned
            if topic_partition in self._read_up_to
        ]
        if positions:
            topic_partition = self._source.choice(positions)
            offset = self._source.randint(0, self._read_up_to[topic_partition])
            consumer.seek(topic_partition, offset)
            self._recorder.happened(self._name, Seek(topic_partition, offset))


class GroupMemberWorker:
    """A member of a group, for some seconds; then it leaves, and comes back with another name."""

    def __init__(
        self, name: str, client: WorkloadClient, recorder: Recorder, topic: str, seed: str
    ) -> None:
        """Read as the processes `name` with a number in the history."""
        self._name = name
        self._client = client
        self._recorder = recorder
        self._topic = topic
        self._source = random.Random(seed)

    def run(self, stop: Event) -> None:
        """Run a group member until it is stopped."""
        life = 0
        while not stop.is_set():
            consumer = _connect(self._client, f"group-of-{self._topic}", stop)
            if consumer is None:
                return
            try:
                self._run_member(f"{self._name}.{life}", consumer, stop)
            finally:
                with contextlib.suppress(ClientFailed):  # the coordinator will miss it
                    consumer.close()
            life += 1

    def _run_member(self, name: str, consumer: WorkloadConsumer, stop: Event) -> None:
        def rebalanced(
            revoked: Sequence[TopicPartition], assigned: Sequence[TopicPartition]
        ) -> None:
            self._recorder.happened(name, Rebalance(tuple(revoked), tuple(assigned)))

        consumer.subscribe(self._topic, rebalanced)
        self._recorder.happened(name, Subscribe((self._topic,)))
        leave_at = time.monotonic() + self._source.uniform(5, 25)
        while time.monotonic() < leave_at and not stop.is_set():
            if poll(name, consumer, self._recorder):
                with contextlib.suppress(ClientFailed):  # it is read again, which is no anomaly
                    consumer.commit()


def _connect(client: WorkloadClient, group: str | None, stop: Event) -> WorkloadConsumer | None:
    while not stop.is_set():
        try:
            return client.consumer(group)
        except ClientFailed:
            stop.wait(0.2)
    return None


def poll(name: str, consumer: WorkloadConsumer, recorder: Recorder) -> dict[TopicPartition, int]:
    """Poll once and take it down; return for each partition the offset after its last record."""
    number = recorder.invoke(name, Poll())
    try:
        records = consumer.poll(_POLL_SECONDS)
    except ClientFailed as error:
        recorder.complete(number, name, Type.FAIL, Poll(), str(error))
        return {}
    recorder.complete(number, name, Type.OK, Poll(tuple(records)))
    return {record.partition: record.offset + 1 for record in records}


def scan(
    client: WorkloadClient, recorder: Recorder, partitions: list[TopicPartition], seconds: float
) -> None:
    """Read all partitions from start to end, again when leaders move. Raise ClientFailed when that takes too long."""
    consumer = client.consumer(None)
    deadline = time.monotonic() + seconds
    try:
        for topic_partition in partitions:
            while not _scan_one(consumer, recorder, topic_partition, deadline):
                time.sleep(_RETRY_SECONDS)
    finally:
        consumer.close()


def _scan_one(
    consumer: WorkloadConsumer, recorder: Recorder, topic_partition: TopicPartition, deadline: float
) -> bool:
    """Return whether it succeeded; a failure after the deadline is raised."""
    number = recorder.invoke("final", Scan(topic_partition))
    try:
        start, end, records = consumer.scan(
            topic_partition, max(deadline - time.monotonic(), _RETRY_SECONDS)
        )
    except ClientFailed as error:
        recorder.complete(number, "final", Type.FAIL, Scan(topic_partition), str(error))
        if time.monotonic() > deadline:
            raise
        return False
    recorder.complete(number, "final", Type.OK, Scan(topic_partition, start, end, tuple(records)))
    return True
