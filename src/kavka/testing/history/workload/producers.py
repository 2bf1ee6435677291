"""Producers of a workload: plain ones that pipeline, and transactional ones."""

from __future__ import annotations

import random
from collections.abc import Callable
from contextlib import suppress
from threading import BoundedSemaphore, Event

from kavka.ids import TopicPartition
from kavka.testing.history.operations import Abort, Begin, Commit, Send, Type
from kavka.testing.history.recorder import Recorder
from kavka.testing.history.workload.client import (
    ClientFailed,
    FatalClientError,
    WorkloadClient,
    WorkloadProducer,
)

_MAX_OUTSTANDING = 2_000
_TURN_SECONDS = 0.01


class RecordSender:
    """Sends values of its own through one producer, and takes down what becomes of them."""

    def __init__(
        self,
        name: str,
        recorder: Recorder,
        producer: WorkloadProducer,
        acknowledged: Callable[[], None],
    ) -> None:
        """Send as the process `name` of the history."""
        self.name = name
        self._recorder = recorder
        self._producer = producer
        self._acknowledged = acknowledged
        self._sent = 0
        self._free_slots = BoundedSemaphore(_MAX_OUTSTANDING)

    @property
    def has_free_slots(self) -> bool:
        """Return whether another record may be sent; the producer runs its callbacks otherwise."""
        if self._free_slots.acquire(blocking=False):
            self._free_slots.release()
            return True
        return False

    def send(self, topic_partition: TopicPartition) -> None:
        """Send the next value. Raise FatalClientError."""
        send = Send(topic_partition, f"{self.name}:{self._sent}")
        self._sent += 1
        number = self._recorder.invoke(self.name, send)
        self._free_slots.acquire()

        def done(outcome: Type, offset: int | None, error: str | None) -> None:
            completed = Send(send.partition, send.value, offset)
            self._recorder.complete(number, self.name, outcome, completed, error)
            self._free_slots.release()
            if outcome is Type.OK:
                self._acknowledged()

        self._producer.send(topic_partition, send.value, done)


class ProducerWorker:
    """A plain producer. One that must stop is followed by another, with another name."""

    def __init__(
        self,
        name: str,
        client: WorkloadClient,
        recorder: Recorder,
        partitions: list[TopicPartition],
        rate: float,
        seed: str,
        acknowledged: Callable[[], None],
    ) -> None:
        """Send to random partitions, `rate` records a second."""
        self._name = name
        self._client = client
        self._recorder = recorder
        self._partitions = partitions
        self._rate = rate
        self._source = random.Random(seed)
        self._acknowledged = acknowledged

    def run(self, stop: Event) -> None:
        """Produce until it is stopped, then wait for outstanding records."""
        life = 0
        while not stop.is_set():
            try:
                producer = self._client.producer(None)
            except ClientFailed:
                stop.wait(0.2)
                continue
            try:
                self._run_producer(self._sending(life, producer), producer, stop)
            except FatalClientError:
                pass
            finally:
                with suppress(ClientFailed):  # every record has its outcome
                    producer.close()
            life += 1

    def _sending(self, life: int, producer: WorkloadProducer) -> RecordSender:
        name = f"{self._name}.{life}"
        return RecordSender(name, self._recorder, producer, self._acknowledged)

    def _run_producer(self, sending: RecordSender, producer: WorkloadProducer, stop: Event) -> None:
        due = 0.0
        while not stop.is_set():
            due += self._rate * _TURN_SECONDS
            while due >= 1 and sending.has_free_slots:
                due -= 1
                sending.send(self._source.choice(self._partitions))
            due = min(due, self._rate)  # what could not be sent for a second is not made up for
            producer.wait(_TURN_SECONDS)


class TransactionalWorker(ProducerWorker):
    """A producer of transactions with one to five records, of which every fifth is aborted."""

    def run(self, stop: Event) -> None:
        """Run transactions until it is stopped; the last transaction is ended."""
        life = 0
        while not stop.is_set():
            try:
                producer = self._client.producer(f"{self._name}-of-{self._partitions[0].topic}")
            except ClientFailed:
                stop.wait(0.2)
                continue
            sending = self._sending(life, producer)
            try:
                while not stop.is_set():
                    self._transact(sending, producer)
            except ClientFailed:  # another one with the same id aborts what this one has left open
                pass
            finally:
                with suppress(ClientFailed):  # every record has its outcome
                    producer.close()
            life += 1

    def _transact(self, sending: RecordSender, producer: WorkloadProducer) -> None:
        producer.begin()
        self._recorder.happened(sending.name, Begin())
        count = self._source.randint(1, 5)
        for _ in range(count):
            sending.send(self._source.choice(self._partitions))
            producer.wait(self._source.uniform(0, 2 / self._rate))
        if self._source.random() < 0.2:
            self._abort(sending, producer)
            return
        number = self._recorder.invoke(sending.name, Commit())
        try:
            producer.commit()
        except ClientFailed as error:
            self._recorder.complete(number, sending.name, Type.INFO, Commit(), str(error))
            if isinstance(error, FatalClientError):
                raise
            self._abort(sending, producer)
            return
        self._recorder.complete(number, sending.name, Type.OK, Commit())

    def _abort(self, sending: RecordSender, producer: WorkloadProducer) -> None:
        number = self._recorder.invoke(sending.name, Abort())
        try:
            producer.abort()
        except ClientFailed as error:
            self._recorder.complete(number, sending.name, Type.INFO, Abort(), str(error))
            raise
        self._recorder.complete(number, sending.name, Type.OK, Abort())
