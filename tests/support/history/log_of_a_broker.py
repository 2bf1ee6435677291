"""A model of a correct broker with its clients, at random: partitions, transactions, groups, lost acknowledgements."""

from __future__ import annotations

import random

from kavka.ids import TopicPartition
from kavka.testing.history import (
    Abort,
    Assign,
    Begin,
    Commit,
    Event,
    Poll,
    Rebalance,
    Record,
    Recorder,
    Scan,
    Seek,
    Send,
    Subscribe,
    Type,
)

PARTITIONS = [TopicPartition("t", n) for n in range(2)]


class Batch:
    """A batch in a log: a value at an offset, of a transaction or of none."""

    def __init__(self, offset: int, value: str, transaction: Transaction | None) -> None:
        self.offset = offset
        self.value = value
        self.transaction = transaction


class Transaction:
    """Open until it is committed or aborted."""

    def __init__(self) -> None:
        self.state = "open"
        self.touched: set[TopicPartition] = set()


class Model:
    """Makes a history of `steps` random steps, then reads everything."""

    def __init__(self, source: random.Random, steps: int = 60) -> None:
        self._source = source
        self._time = 0
        self.recorder = Recorder(self._now)
        self._logs: dict[TopicPartition, list[Batch]] = {
            topic_partition: [] for topic_partition in PARTITIONS
        }
        self._ends = dict.fromkeys(PARTITIONS, 0)
        self._transactions: dict[str, Transaction] = {}
        self._positions: dict[str, dict[TopicPartition, int]] = {"alone": {}, "m0": {}, "m1": {}}
        self._sent = 0
        self._begin_reading()
        actions = [self._send, self._send, self._poll, self._poll, self._seek, self._rebalance]
        actions += [self._pipeline, self._transact, self._transact]
        for _ in range(steps):
            source.choice(actions)()
        for process in list(self._transactions):
            self._end(process)
        for topic_partition in PARTITIONS:
            number = self.recorder.invoke("scan", Scan(topic_partition))
            scan = Scan(
                topic_partition,
                0,
                self._ends[topic_partition],
                tuple(self._visible(topic_partition, 0)),
            )
            self.recorder.complete(number, "scan", Type.OK, scan)

    @property
    def events(self) -> list[Event]:
        return self.recorder.events

    def _now(self) -> int:
        self._time += 1_000_000
        return self._time

    def _begin_reading(self) -> None:
        self.recorder.happened("alone", Assign(tuple(PARTITIONS)))
        self._positions["alone"] = dict.fromkeys(PARTITIONS, 0)
        for member in ("m0", "m1"):
            self.recorder.happened(member, Subscribe(("t",)))

    def _new_send(self) -> Send:
        self._sent += 1
        return Send(self._source.choice(PARTITIONS), f"v{self._sent}")

    def _append(self, send: Send, transaction: Transaction | None) -> Send:
        offset = self._ends[send.partition]
        self._logs[send.partition].append(Batch(offset, send.value, transaction))
        self._ends[send.partition] = offset + 1
        return Send(send.partition, send.value, offset)

    def _send(self) -> None:
        process = self._source.choice(["p0", "p1"])
        send = self._new_send()
        number = self.recorder.invoke(process, send)
        chance = self._source.random()
        if chance < 0.1:
            self.recorder.complete(number, process, Type.FAIL, send, "refused")
        elif chance < 0.2:
            self.recorder.complete(number, process, Type.INFO, send, "lost on its way")
        elif chance < 0.3:
            self._append(send, None)
            self.recorder.complete(number, process, Type.INFO, send, "its answer was lost")
        elif chance < 0.35:
            self._append(send, None)
            self.recorder.complete(number, process, Type.OK, send)  # a repetition: no offset
        else:
            self.recorder.complete(number, process, Type.OK, self._append(send, None))

    def _pipeline(self) -> None:
        """Several sends at once, with a poll in between."""
        sends = [self._new_send() for _ in range(3)]
        numbers = [self.recorder.invoke("p0", send) for send in sends]
        done = [self._append(send, None) for send in sends]
        self._poll()
        outcomes = list(zip(numbers, done, strict=True))
        self._source.shuffle(outcomes)
        for number, send in outcomes:
            self.recorder.complete(number, "p0", Type.OK, send)

    def _transact(self) -> None:
        process = self._source.choice(["x0", "x1"])
        transaction = self._transactions.get(process)
        if transaction is None:
            self._transactions[process] = Transaction()
            self.recorder.happened(process, Begin())
        elif self._source.random() < 0.3:
            self._end(process)
        else:
            send = self._new_send()
            transaction.touched.add(send.partition)
            number = self.recorder.invoke(process, send)
            done = self._append(send, transaction)
            self.recorder.complete(number, process, Type.OK, done)

    def _end(self, process: str) -> None:
        transaction = self._transactions.pop(process)
        if self._source.random() < 0.3:
            number = self.recorder.invoke(process, Abort())
            self._mark(transaction, "aborted")
            self.recorder.complete(number, process, Type.OK, Abort())
            return
        number = self.recorder.invoke(process, Commit())
        outcome = self._source.choice([Type.OK, Type.OK, Type.OK, Type.FAIL, Type.INFO])
        is_done = outcome is Type.OK or (outcome is Type.INFO and self._source.random() < 0.5)
        self._mark(transaction, "committed" if is_done else "aborted")
        self.recorder.complete(number, process, outcome, Commit())

    def _mark(self, transaction: Transaction, state: str) -> None:
        """Markers take an offset of each partition that was written to."""
        transaction.state = state
        for topic_partition in transaction.touched:
            self._ends[topic_partition] += 1

    def _visible(self, topic_partition: TopicPartition, position: int) -> list[Record]:
        """Return what read_committed shows from a position to the last stable offset."""
        shown: list[Record] = []
        for batch in self._logs[topic_partition]:
            if batch.transaction is not None and batch.transaction.state == "open":
                break
            is_aborted = batch.transaction is not None and batch.transaction.state == "aborted"
            if batch.offset >= position and not is_aborted:
                shown.append(Record(topic_partition, batch.offset, batch.value))
        return shown

    def _poll(self) -> None:
        process = self._source.choice(list(self._positions))
        number = self.recorder.invoke(process, Poll())
        records: list[Record] = []
        for topic_partition, position in self._positions[process].items():
            found = self._visible(topic_partition, position)[: self._source.randint(0, 5)]
            if found:
                self._positions[process][topic_partition] = found[-1].offset + 1
            records += found
        self.recorder.complete(number, process, Type.OK, Poll(tuple(records)))

    def _seek(self) -> None:
        topic_partition = self._source.choice(PARTITIONS)
        offset = self._source.randint(0, self._ends[topic_partition])
        self._positions["alone"][topic_partition] = offset
        self.recorder.happened("alone", Seek(topic_partition, offset))

    def _rebalance(self) -> None:
        """The members lose what they have and get a random share; reading continues at some offset below."""
        for member in ("m0", "m1"):
            self.recorder.happened(member, Rebalance(revoked=tuple(self._positions[member])))
            self._positions[member] = {}
        for topic_partition in PARTITIONS:
            member = self._source.choice(["m0", "m1"])
            self._positions[member][topic_partition] = self._source.randint(
                0, self._ends[topic_partition]
            )
            self.recorder.happened(member, Rebalance(assigned=(topic_partition,)))
