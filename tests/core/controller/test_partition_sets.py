"""Sets of partitions that share what brokers have in common behave as sets of their own."""

from __future__ import annotations

import random
import tracemalloc

from kavka.core.controller.broker_updates import (
    BrokerUpdate,
    Outbox,
    PartitionSet,
    SharedPartitions,
)
from kavka.ids import TopicPartition


def partitions(count: int, first: int = 0) -> tuple[TopicPartition, ...]:
    return tuple(TopicPartition("t", first + number) for number in range(count))


def test_sets_of_the_same_partitions_change_apart() -> None:
    draw = random.Random(1)
    for _ in range(50):
        shared = SharedPartitions(partitions(4))
        sets = [PartitionSet(), PartitionSet(partitions(2, 3))]
        plain = [dict.fromkeys(each) for each in sets]
        for each, known in zip(sets, plain, strict=True):
            each.add_all(shared)
            known.update(dict.fromkeys(shared.order))
        for _ in range(20):
            place, what = draw.randrange(2), TopicPartition("t", draw.randrange(6))
            if draw.random() < 0.5:
                sets[place].add(what)
                plain[place][what] = None
            else:
                sets[place].discard(what)
                plain[place].pop(what, None)
            if draw.random() < 0.2:
                more = SharedPartitions(partitions(draw.randrange(6), draw.randrange(3)))
                sets[place].add_all(more)
                plain[place].update(dict.fromkeys(more.order))
            for each, known in zip(sets, plain, strict=True):
                assert sorted(each) == sorted(known)
                assert (len(each), bool(each)) == (len(known), bool(known))
                assert [w in each for w in partitions(6)] == [w in known for w in partitions(6)]


def test_everything_is_in_memory_once_and_not_for_each_broker() -> None:
    everything, outbox = partitions(2_000), Outbox()
    tracemalloc.start()
    try:
        outbox.partition_changed(TopicPartition("t", 9), range(50))  # its leader died
        for broker in range(50):  # as a new controller does, and a leader changes meanwhile
            outbox.add(BrokerUpdate((broker,), metadata=everything))
        outbox.partition_changed(TopicPartition("t", 7), range(50))
        outbox.partition_changed(TopicPartition("new", 0), range(50))
        used, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert used < 50 * 2_000 * 8
    first, second = outbox.take(1), outbox.take(2)
    assert first is not None
    assert second is not None
    first.metadata.discard(TopicPartition("t", 7))
    assert (len(first.metadata), len(second.metadata)) == (2_000, 2_001)
