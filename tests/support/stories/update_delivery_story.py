"""Runs a scenario of the controller's updates of one broker: commands in, what is sent out. The runner is the channel.

dirty topic-partition...           metadata of partitions has changed
leads topic-partition...           the broker's replicas are to lead or follow
stops topic-partition... [delete]  its replicas are to be stopped
delivered    failed    refused     what became of the part that is being sent
answered CODE                      its response has this code
flush NAME                         NAME waits until all that is dirty now was sent
wait MS     state
"""

from __future__ import annotations

from kavka.core.controller.broker_updates import (
    BrokerUpdate,
    Outbox,
    PendingUpdates,
    ReplicaStop,
)
from kavka.core.controller.update_delivery import UpdateDelivery, Verdict, verdict
from kavka.errors import ErrorCode
from kavka.ids import NO_TOPIC_ID, TopicPartition

BROKER = 1


class Story:
    """One broker's delivery and its outbox."""

    def __init__(self) -> None:
        self.outbox = Outbox()
        self.delivery = UpdateDelivery(BROKER, self.outbox)
        self.is_sending = False
        self.flushes: dict[str, int] = {}
        self.now_ms = 0
        self.out: list[str] = []

    def command(self, line: str) -> str:
        name, *words = line.split()
        self.out = []
        getattr(self, f"do_{name.replace('-', '_')}")(words)
        self.go_on()
        return "\n".join(self.out) or "ok"

    # Commands

    def do_dirty(self, words: list[str]) -> None:
        self.outbox.add(BrokerUpdate((BROKER,), metadata=partitions(words)))

    def do_leads(self, words: list[str]) -> None:
        is_new = dict.fromkeys(partitions(words), False)
        self.outbox.add(BrokerUpdate((BROKER,), leader_and_isr=is_new))

    def do_stops(self, words: list[str]) -> None:
        names = [word for word in words if word != "delete"]
        stop = ReplicaStop("delete" in words, 0, NO_TOPIC_ID)
        self.outbox.add(BrokerUpdate((BROKER,), stops=dict.fromkeys(partitions(names), stop)))

    def do_delivered(self, _: list[str]) -> None:
        self.is_sending = False
        self.delivery.delivered(self.now_ms)

    def do_failed(self, _: list[str]) -> None:
        self.is_sending = False
        self.delivery.failed(self.now_ms)

    def do_refused(self, _: list[str]) -> None:
        self.is_sending = False
        if not self.delivery.refused(self.now_ms):
            self.out.append("cannot be split")

    def do_all_refused(self, words: list[str]) -> None:
        while self.is_sending:
            self.do_refused(words)
            self.go_on()

    def do_answered(self, words: list[str]) -> None:
        found = verdict(ErrorCode[words[0]])
        self.out.append(found.value)
        if found is Verdict.REFUSED:
            self.do_refused(words)
        elif found is Verdict.FAILED:
            self.do_failed(words)
        else:
            self.do_delivered(words)

    def do_flush(self, words: list[str]) -> None:
        self.flushes[words[0]] = self.delivery.flush_target()

    def do_wait(self, words: list[str]) -> None:
        until_ms = self.now_ms + int(words[0])
        due_ms = self.delivery.deadline_ms()
        if due_ms is not None and due_ms <= until_ms:
            self.now_ms = due_ms
            self.out.append(f"at {due_ms} ms:")
            self.go_on()
        self.now_ms = until_ms

    def do_state(self, _: list[str]) -> None:
        pending = self.outbox._pending.get(BROKER)
        self.out.append(f"dirty: {show(pending)}" if pending else "nothing is dirty")

    # The channel

    def go_on(self) -> None:
        """Send what is next, and end the flushes that have waited for it."""
        if not self.is_sending:
            part = self.delivery.next_part(self.now_ms)
            if part is not None:
                self.is_sending = True
                self.out.append(f"sends {show(part)}")
        for name, target in list(self.flushes.items()):
            if self.delivery.finished >= target:
                del self.flushes[name]
                self.out.append(f"{name} is flushed")


def partitions(words: list[str]) -> tuple[TopicPartition, ...]:
    found: list[TopicPartition] = []
    for word in words:
        topic, numbers = word.rsplit("-", 1)
        first, _, last = numbers.partition("..")
        found += (TopicPartition(topic, i) for i in range(int(first), int(last or first) + 1))
    return tuple(found)


def show(pending: PendingUpdates) -> str:
    kinds = {
        "metadata": list(pending.metadata),
        "LeaderAndIsr": list(pending.leader_and_isr),
        "StopReplica": [
            topic_partition for topic_partition, stop in pending.stops.items() if not stop.deletes
        ],
        "StopReplica with deletion": [
            topic_partition for topic_partition, stop in pending.stops.items() if stop.deletes
        ],
    }
    return ", ".join(
        f"{kind} of {' '.join(map(str, found))}" for kind, found in kinds.items() if found
    )
