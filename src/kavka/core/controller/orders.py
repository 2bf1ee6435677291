"""What brokers have yet to be told: sets of what is dirty, so that a slow broker costs no memory and is never behind.

An order is made when the channel to the broker is free, from the picture as it is then. Its parts go out in this order:

    brokers     UpdateMetadata with the live brokers and topics that are gone (a follower obeys only if it knows that
                its leader is alive)
    replicas    LeaderAndIsr
    metadata    UpdateMetadata with partitions
    stops       StopReplica

Of LeaderAndIsr and StopReplica for one replica the later one counts: the earlier is dropped from the set.
New partitions are not shown before they are led (`unshown`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple

from kavka.core.controller.replies import (
    Reply,
)
from kavka.core.controller.unshown import Unshown
from kavka.core.machine import Answer
from kavka.ids import TopicId, TopicPartition
from kavka.values import field, frozen, mutable, replace

EPOCH_DURING_DELETE = -2


class Stop(NamedTuple):
    """How a replica is to be stopped; the epoch fences against a later LeaderAndIsr."""

    deletes: bool
    leader_epoch: int
    topic_id: TopicId


@frozen
class Tell:
    """The effect that makes something dirty for some brokers, once the records are written."""

    brokers: tuple[int, ...]
    leader_and_isr: Mapping[TopicPartition, bool] = field(factory=dict)
    """Whether the replica is new to the broker."""
    metadata: tuple[TopicPartition, ...] = ()
    deleted: Mapping[TopicPartition, TopicId] = field(factory=dict)
    stops: Mapping[TopicPartition, Stop] = field(factory=dict)
    live_brokers: bool = False
    """Whether who is alive has changed."""


Effect = Answer[Reply] | Tell


@mutable
class Order:
    """What one broker has yet to be told."""

    live_brokers: bool = False
    deleted: dict[TopicPartition, TopicId] = field(factory=dict)
    leader_and_isr: dict[TopicPartition, bool] = field(factory=dict)
    metadata: dict[TopicPartition, None] = field(factory=dict)
    stops: dict[TopicPartition, Stop] = field(factory=dict)

    def __bool__(self) -> bool:
        """Tell whether there is anything."""
        return bool(
            self.live_brokers or self.deleted or self.leader_and_isr or self.metadata or self.stops
        )

    def lead_or_follow(self, where: TopicPartition, *, is_new: bool) -> None:
        """Have the replica obey the partition's state; a stop that was not sent yet is void."""
        self.stops.pop(where, None)
        self.leader_and_isr[where] = self.leader_and_isr.get(where, False) or is_new

    def stop(self, where: TopicPartition, stop: Stop) -> None:
        """Have the replica stopped; one that is to delete stays one."""
        self.leader_and_isr.pop(where, None)
        before = self.stops.get(where)
        deletes = stop.deletes or (before is not None and before.deletes)
        self.stops[where] = stop._replace(deletes=deletes)

    def halves(self) -> list[Order]:
        """Return two orders, for half of the partitions each; none when there is only one."""
        kinds = (self.deleted, self.leader_and_isr, self.metadata, self.stops)
        partitions = sorted({where for kind in kinds for where in kind})
        if len(partitions) < 2:
            return []
        first = set(partitions[: len(partitions) // 2])
        return [self._of(first), self._of(set(partitions) - first)]

    def _of(self, partitions: Collection[TopicPartition]) -> Order:
        """Return what is for these partitions; who is alive goes with all that is shown."""
        return Order(
            self.live_brokers,
            {w: topic_id for w, topic_id in self.deleted.items() if w in partitions},
            {w: is_new for w, is_new in self.leader_and_isr.items() if w in partitions},
            {w: None for w in self.metadata if w in partitions},
            {w: stop for w, stop in self.stops.items() if w in partitions},
        )

    def add(self, tell: Tell) -> None:
        """Take in what an effect says."""
        self.live_brokers |= tell.live_brokers
        for where, topic_id in tell.deleted.items():
            self.metadata.pop(where, None)
            self.deleted[where] = topic_id
        for where, is_new in tell.leader_and_isr.items():
            self.lead_or_follow(where, is_new=is_new)
        self.metadata.update(dict.fromkeys(tell.metadata))
        for where, stop in tell.stops.items():
            self.stop(where, stop)


class Outbox:
    """The orders of all brokers that can be reached. Bounded by brokers times partitions."""

    def __init__(self) -> None:
        """Begin with nobody to tell."""
        # Invariant: no order shows a partition that `unshown` holds.
        self._orders: dict[int, Order] = {}
        self.unshown = Unshown()

    def add(self, tell: Tell) -> None:
        """Take in an effect."""
        if self.unshown and tell.metadata:
            shown = tuple(where for where in tell.metadata if not self.unshown.holds(where))
            tell = replace(tell, metadata=shown)
        for broker in tell.brokers:
            self._of(broker).add(tell)

    def hold(self, where: TopicPartition) -> None:
        """Show nobody a partition that is new before it is led."""
        self.unshown.hold(where)
        for order in self._orders.values():  # a partition of that name was deleted a moment ago
            order.metadata.pop(where, None)

    def written(
        self, where: TopicPartition, replicas: Iterable[int], everybody: Iterable[int], *, new: bool
    ) -> None:
        """Note a new leader epoch: the replicas obey it, everybody learns of it."""
        for broker in replicas:
            self._of(broker).lead_or_follow(where, is_new=new)
        self.learned(where, everybody)

    def learned(self, where: TopicPartition, everybody: Iterable[int]) -> None:
        """Note that a partition looks different."""
        if self.unshown.holds(where):
            return  # everybody sees it as it is when it is shown
        for broker in everybody:
            self._of(broker).metadata[where] = None

    def take(self, broker: int) -> Order | None:
        """Return what the broker is to be told, which is not dirty any more; None when there is nothing."""
        order = self._orders.pop(broker, None)
        return order if order else None

    def put_back(self, broker: int, order: Order) -> None:
        """Have an order that did not get through sent again, below what became dirty meanwhile."""
        newer = self._orders.pop(broker, None)
        for where in [where for where in order.metadata if self.unshown.holds(where)]:
            del order.metadata[where]
        if newer is not None:
            for where in newer.stops:
                order.leader_and_isr.pop(where, None)
            for where in newer.leader_and_isr:
                order.stops.pop(where, None)
            order.add(
                Tell(
                    (broker,),
                    newer.leader_and_isr,
                    tuple(newer.metadata),
                    newer.deleted,
                    newer.stops,
                    newer.live_brokers,
                )
            )
        self._orders[broker] = order

    def drop(self, broker: int) -> None:
        """Forget a broker that is gone."""
        self._orders.pop(broker, None)

    def waiting(self) -> list[int]:
        """Return the brokers that are to be told something."""
        return [broker for broker in sorted(self._orders) if self._orders[broker]]

    def _of(self, broker: int) -> Order:
        order = self._orders.get(broker)
        if order is None:
            order = self._orders[broker] = Order()
        return order
