"""Runs a scenario of the markers that a broker's coordinators send: commands in, effects out. The runner is the shell.

    brokers N...                               the live brokers
    leaders topic-partition=N|none...          all partitions of the metadata, and their leaders; `topic-0..9` are ten
    needed NAME ID topic-partition... [abort]  a transaction of coordinator NAME has ended; ID is its producer id
    needed NAME ID..ID topic-partition...      so many transactions, each in all of these partitions
    needed NAME ID..ID each TOPIC              so many transactions, each in the partition of its number
    at-once N NAME ID..ID topic-partition...   broker N, which is this one, writes their markers at once, if it may
    resigned NAME                              a coordinator leads no longer
    connected N                                request N has a connection: what it sends
    answered N [[ID/]topic-partition=CODE...]  request N is answered; NONE for what is not named
    failed N      timed-out N                  request N is not answered
    deleted topic-partition      not-deleted topic-partition      what the registry says
    epoch NAME N                               the coordinator leads in this epoch from now on
    wait MS      state

Requests are numbered from 1.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from kavka.core.partition import NO_LEADER
from kavka.core.transaction.events import MarkersWritten, SendMarkers
from kavka.core.transaction_markers import events
from kavka.core.transaction_markers.machine import TransactionMarkerMachine
from kavka.core.transaction_markers.partition_markers import PartitionMarkers
from kavka.errors import ErrorCode
from kavka.ids import BrokerId, TopicPartition


class Coordinator:
    """The coordinator of markers."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.coordinator_epoch = 1

    def post_all(self, events: Sequence[MarkersWritten]) -> None:
        raise AssertionError("the shell posts")


class Leader:
    """The metadata of a partition."""

    def __init__(self, leader: BrokerId) -> None:
        self.leader = leader


class Metadata:
    """The metadata of a cluster."""

    def __init__(self) -> None:
        self.brokers: set[BrokerId] = set()
        self.leaders: dict[TopicPartition, Leader] = {}

    def partition(self, topic_partition: TopicPartition) -> Leader | None:
        return self.leaders.get(topic_partition)


class Story:
    """One broker's coordinators, its machine, and the brokers that lead partitions."""

    def __init__(self) -> None:
        self.metadata = Metadata()
        self.machine = TransactionMarkerMachine(self.metadata)
        self.coordinators: dict[str, Coordinator] = {}
        self.requests: list[int] = []  # their numbers in the machine
        self.checks: dict[TopicPartition, list[int]] = {}
        self.now_ms = 0
        self.out: list[str] = []

    def command(self, line: str) -> str:
        name, *words = line.split()
        options = dict(word.split("=", 1) for word in words if "=" in word)
        plain = [word for word in words if "=" not in word]
        self.out = []
        getattr(self, f"do_{name.replace('-', '_')}")(plain, options)
        return "\n".join(self.out) or "ok"

    # Commands

    def do_brokers(self, words: list[str], _: dict[str, str]) -> None:
        self.metadata.brokers = {BrokerId(int(word)) for word in words}
        self.handle(events.MetadataChanged())

    def do_leaders(self, _: list[str], options: dict[str, str]) -> None:
        self.metadata.leaders = {
            TopicPartition(topic, index): Leader(
                NO_LEADER if leader == "none" else BrokerId(int(leader))
            )
            for name, leader in options.items()
            for topic, numbers in [name.rsplit("-", 1)]
            for index in numbers_in(numbers)
        }
        self.handle(events.MetadataChanged())

    def do_needed(self, words: list[str], _: dict[str, str]) -> None:
        for each in self.transactions(words):
            self.handle(each)

    def do_at_once(self, words: list[str], _: dict[str, str]) -> None:
        broker_id, needed = BrokerId(int(words[0])), list(self.transactions(words[1:]))
        if self.machine.may_write_at_once(broker_id, needed):
            self.perform([self.machine.submit(broker_id, needed, self.now_ms)])
        else:
            self.out.append("not at once")
            self.perform(self.machine.handle_all(needed, self.now_ms))

    def transactions(self, words: list[str]) -> Iterator[events.MarkersNeeded]:
        name, producer_ids, *partitions = [word for word in words if word != "abort"]
        coordinator = self.coordinators.setdefault(name, Coordinator(name))
        for producer_id in numbers_in(producer_ids):
            each = [f"{partitions[-1]}-{producer_id}"]
            names = each if partitions[0] == "each" else partitions
            taking_part = tuple(map(partition, names))
            transaction = SendMarkers("tx", producer_id, 0, "abort" not in words, taking_part)
            yield events.MarkersNeeded(coordinator, transaction)

    def do_resigned(self, words: list[str], _: dict[str, str]) -> None:
        self.handle(events.CoordinatorResigned(self.coordinators.pop(words[0])))

    def do_epoch(self, words: list[str], _: dict[str, str]) -> None:
        self.coordinators[words[0]].coordinator_epoch = int(words[1])

    def do_connected(self, words: list[str], _: dict[str, str]) -> None:
        self.out.append(self.show_request(self.number(words)) or "sends nothing")

    def do_answered(self, words: list[str], options: dict[str, str]) -> None:
        number = self.number(words)
        codes: dict[tuple[int, TopicPartition], ErrorCode] = {}
        for _epoch, transaction, partitions in self.machine.markers_of(number):
            producer_id = transaction.producer_id
            for one in partitions:
                name = options.get(f"{producer_id}/{one}", options.get(str(one), "NONE"))
                codes[producer_id, one] = ErrorCode[name]
        self.handle(events.ResponseReceived(number, codes))

    def do_failed(self, words: list[str], _: dict[str, str]) -> None:
        self.handle(events.RequestFailed(self.number(words), has_timed_out=False))

    def do_timed_out(self, words: list[str], _: dict[str, str]) -> None:
        self.handle(events.RequestFailed(self.number(words), has_timed_out=True))

    def do_deleted(self, words: list[str], _: dict[str, str]) -> None:
        self.handle(events.DeletionChecked(self.check(words), is_deleted=True))

    def do_not_deleted(self, words: list[str], _: dict[str, str]) -> None:
        self.handle(events.DeletionChecked(self.check(words), is_deleted=False))

    def do_wait(self, words: list[str], _: dict[str, str]) -> None:
        until_ms = self.now_ms + int(words[0])
        while (due_ms := self.machine.deadline_ms()) is not None and due_ms <= until_ms:
            self.now_ms = max(self.now_ms, due_ms)
            before = len(self.out)
            self.perform(self.machine.tick(self.now_ms))
            if len(self.out) > before:
                self.out.insert(before, f"at {self.now_ms} ms:")
        self.now_ms = until_ms

    def do_state(self, _: list[str], __: dict[str, str]) -> None:
        self.out += map(self.show_partition, self.machine._partitions.values())

    # The shell

    def number(self, words: list[str]) -> int:
        return self.requests[int(words[0]) - 1]

    def check(self, words: list[str]) -> int:
        return self.checks[partition(words[0])].pop(0)

    def handle(self, event: events.Event) -> None:
        self.perform(self.machine.handle(event, self.now_ms))

    def perform(self, effects: list[events.Effect]) -> None:
        reports = [effect for effect in effects if isinstance(effect, events.ReportWritten)]
        if len(reports) > 5:
            self.out.append(f"{len(reports)} transactions have markers")
            effects = [effect for effect in effects if effect not in reports]
        self.out += map(self.show, effects)

    # Printing

    def show(self, effect: events.Effect) -> str:
        match effect:
            case events.SendRequest(number, broker_id):
                self.requests.append(number)
                index = len(self.requests)
                return f"request {index} to broker {broker_id}: {self.show_request(number)}"
            case events.ReportWritten(coordinator, written):
                assert isinstance(coordinator, Coordinator)
                names = " ".join(map(str, written.partitions))
                return f"{coordinator.name}: {written.producer_id} has its markers in {names}"
            case events.CheckDeletion(number, topic_partition):
                self.checks.setdefault(topic_partition, []).append(number)
                return f"asks whether {topic_partition} is deleted"
            case events.Disconnect(broker_id):
                return f"disconnects broker {broker_id}"
            case events.LogRefused(topic_partition, producer_id, error):
                return f"{topic_partition} has refused {producer_id}: {error.name}"
            case events.LogDeleted(topic_partition):
                return f"{topic_partition} needs no marker"

    def show_request(self, number: int) -> str:
        markers = self.machine.markers_of(number)
        if len(markers) > 5:
            return f"{sum(len(partitions) for _, _, partitions in markers)} markers"
        return "; ".join(
            f"{'COMMIT' if transaction.committed else 'ABORT'} {transaction.producer_id}"
            f"{f' (epoch {epoch})' if epoch > 1 else ''} in {' '.join(map(str, partitions))}"
            for epoch, transaction, partitions in markers
        )

    def show_partition(self, waiting: PartitionMarkers) -> str:
        if waiting.request is not None:
            state = f"in request {self.requests.index(waiting.request.number) + 1}"
        else:
            state = "pausing" if waiting.is_pausing else "ready"
        isolated = " isolated" * waiting.is_isolated
        return f"{waiting.topic_partition} {state}{isolated}: {' '.join(map(str, waiting.markers))}"


def partition(name: str) -> TopicPartition:
    topic, number = name.rsplit("-", 1)
    return TopicPartition(topic, int(number))


def numbers_in(text: str) -> range:
    first, _, last = text.partition("..")
    return range(int(first), int(last or first) + 1)
