import pytest

from kavka.client.producer.accumulator import FIRST_BYTES, Accumulator, BufferFull
from kavka.ids import TopicPartition

AT = TopicPartition("t", 0)
OTHER = TopicPartition("t", 1)


def add(accumulator, topic_partition=AT, size=10, count=1, now_ms=0):
    """Open a batch with `count` records of `size` bytes."""
    batch = accumulator.open_batch(topic_partition, size, now_ms)
    for _ in range(count):
        batch.free_bytes -= size
        batch.values.append(b"x" * size)
        batch.timestamps.append(0)
    return batch


def ready(accumulator, now_ms, is_urgent=False):
    return accumulator.ready(now_ms, lambda topic_partition: 0, is_urgent)


def drain(accumulator, partitions=(AT,), max_bytes=10_000, now_ms=0):
    return accumulator.drain(partitions, max_bytes, now_ms, lambda batch: True)


def test_a_batch_waits_for_its_linger_time() -> None:
    accumulator = Accumulator(100, 5, 1000)
    add(accumulator, now_ms=10)
    assert ready(accumulator, 12).brokers == {}
    assert ready(accumulator, 12).due_ms == 15
    assert ready(accumulator, 15).brokers == {0: [AT]}


def test_a_batch_is_sent_early_when_it_is_followed_or_wanted() -> None:
    accumulator = Accumulator(100, 5, 1000)
    add(accumulator)
    assert ready(accumulator, 0, is_urgent=True).brokers == {0: [AT]}
    add(accumulator)
    assert ready(accumulator, 0).brokers == {0: [AT]}


def test_a_batch_that_may_not_linger_is_sent_at_once() -> None:
    accumulator = Accumulator(100, 5, 1000)
    add(accumulator, now_ms=10).may_linger = False
    add(accumulator, OTHER, now_ms=10)
    assert ready(accumulator, 10).brokers == {0: [AT]}


def test_partitions_without_a_leader_are_named() -> None:
    accumulator = Accumulator(100, 0, 1000)
    add(accumulator)
    found = accumulator.ready(0, lambda topic_partition: None, False)
    assert (found.brokers, found.leaderless) == ({}, ["t"])


def test_memory_is_bounded_and_given_back() -> None:
    accumulator = Accumulator(100, 0, 250)
    first = add(accumulator)
    add(accumulator, OTHER)
    with pytest.raises(BufferFull):
        add(accumulator, TopicPartition("t", 2))
    drain(accumulator)
    assert accumulator.used_bytes == 110, "a closed batch holds only what it uses"
    accumulator.remove(first)
    assert accumulator.used_bytes == 100
    add(accumulator, TopicPartition("t", 2))


def test_a_record_larger_than_the_buffer_passes_alone() -> None:
    accumulator = Accumulator(100, 0, 250)
    add(accumulator, size=1000)
    with pytest.raises(BufferFull):
        add(accumulator, OTHER)


def test_draining_closes_the_open_batch() -> None:
    accumulator = Accumulator(100, 0, 1000)
    batch = add(accumulator)
    assert drain(accumulator) == [batch]
    assert batch.free_bytes < 0
    assert accumulator.queues == {}


def test_a_request_takes_one_batch_per_partition_up_to_its_size() -> None:
    accumulator = Accumulator(100, 0, 10_000)
    ats = [TopicPartition("t", i) for i in range(4)]
    for topic_partition in ats:
        add(accumulator, topic_partition, size=50, count=2)
        add(accumulator, topic_partition, size=50, count=2)
    drained = drain(accumulator, ats, max_bytes=250)
    assert len(drained) == 2
    assert len({batch.topic_partition for batch in drained}) == 2


def test_partitions_take_turns_in_full_requests() -> None:
    accumulator = Accumulator(100, 0, 10_000)
    ats = [TopicPartition("t", i) for i in range(3)]
    for topic_partition in ats:
        add(accumulator, topic_partition, size=50, count=2)
    seen = [drain(accumulator, ats, max_bytes=1)[0].topic_partition for _ in range(3)]
    assert sorted(seen) == ats


def test_repeated_batches_go_back_in_order_and_wait() -> None:
    accumulator = Accumulator(100, 0, 10_000)
    batches = [add(accumulator) for _ in range(3)]
    drained = [drain(accumulator)[0] for _ in range(2)]
    for sequence, batch in enumerate(drained):
        batch.base_sequence = sequence
    accumulator.requeue(drained[1], 20)
    accumulator.requeue(drained[0], 20)
    assert list(accumulator.queues[AT]) == batches
    assert ready(accumulator, 19).due_ms == 20
    assert drain(accumulator, now_ms=19) == []
    assert drain(accumulator, now_ms=20) == [batches[0]]


def test_sequences_that_wrapped_are_still_in_order() -> None:
    accumulator = Accumulator(100, 0, 10_000)
    batches = [add(accumulator) for _ in range(2)]
    for batch, sequence in zip(batches, (2**31 - 1, 0), strict=True):
        drain(accumulator)
        batch.base_sequence = sequence
    accumulator.requeue(batches[0], 0)
    accumulator.requeue(batches[1], 0)
    assert list(accumulator.queues[AT]) == batches


def test_the_halves_of_a_batch_take_its_place() -> None:
    accumulator = Accumulator(1000, 0, 10_000)
    first = add(accumulator, count=4)
    last = add(accumulator)
    drain(accumulator)
    halves = accumulator.split(first)
    assert list(accumulator.queues[AT]) == [*halves, last]
    assert list(accumulator.incomplete) == [*halves, last]
    assert [half.count for half in halves] == [2, 2]
    for batch in (*halves, last):
        accumulator.remove(batch)
    assert accumulator.used_bytes == 0


def test_old_batches_are_found_wherever_they_are() -> None:
    accumulator = Accumulator(100, 0, 10_000)
    first = add(accumulator, now_ms=0)
    drain(accumulator)
    second = add(accumulator, now_ms=1)
    add(accumulator, now_ms=9)
    assert accumulator.expired(9) == [first, second]


def test_batches_that_compress_well_may_hold_more() -> None:
    accumulator = Accumulator(100, 0, 10_000)
    for _ in range(50):
        accumulator.observe_ratio("t", 1000, 200)
    assert 300 < accumulator.open_batch(AT, 10, 0).limit < 500
    accumulator.observe_ratio("t", 1000, 1000)
    assert accumulator.open_batch(OTHER, 10, 0).limit == 100


def test_a_repeat_waits_for_its_back_off_unless_there_is_a_newer_leader() -> None:
    accumulator = Accumulator(100, 0, 1000)
    batch = add(accumulator)
    drain(accumulator)
    batch.leader_epoch = 3
    accumulator.requeue(batch, 50)
    assert (
        accumulator.ready(10, lambda topic_partition: 0, False, lambda topic_partition: 3).due_ms  # type: ignore[arg-type, return-value]
        == 50
    )
    assert drain(accumulator, now_ms=10) == []
    assert accumulator.ready(
        10,
        lambda topic_partition: 1,  # type: ignore[arg-type, return-value]
        False,
        lambda topic_partition: 4,
    ).brokers == {1: [AT]}
    assert drain(accumulator, now_ms=10) == [batch]


def test_a_batch_reserves_memory_as_it_grows() -> None:
    accumulator = Accumulator(100_000, 0, 1_000_000)
    batch = accumulator.open_batch(AT, 10, 0)
    assert accumulator.used_bytes == batch.reserved == FIRST_BYTES
    batch.free_bytes = 0
    assert accumulator.grow(batch, 10)
    assert accumulator.used_bytes == batch.reserved == 2 * FIRST_BYTES
    assert batch.size == batch.free_bytes == FIRST_BYTES
    batch.free_bytes = 0
    assert not accumulator.grow(batch, 100_000), "that would pass batch.size"
    assert accumulator.grow(batch, 100_000 - batch.size)
    assert batch.reserved == batch.limit == 100_000


def test_a_batch_grows_by_what_it_needs_when_memory_is_short() -> None:
    accumulator = Accumulator(100_000, 0, 20_000)
    batch = accumulator.open_batch(AT, 10, 0)
    batch.free_bytes = 0
    assert accumulator.grow(batch, 500)
    assert accumulator.used_bytes == FIRST_BYTES + 500
    batch.free_bytes = 0
    assert not accumulator.grow(batch, 5000)
    accumulator.remove(batch)
    assert accumulator.used_bytes == 0


def test_a_batch_that_will_be_compressed_reserves_no_more_than_is_free() -> None:
    accumulator = Accumulator(4096, 0, 10_000)
    for _ in range(50):
        accumulator.observe_ratio("t", 1000, 100)
    batches = [accumulator.open_batch(TopicPartition("t", n), 10, 0) for n in range(2)]
    assert batches[0].limit > 10_000
    assert accumulator.used_bytes == 2 * 4096
    assert not accumulator.has_free_memory(10)


def test_batches_of_many_partitions_are_open_at_once() -> None:
    accumulator = Accumulator(262_144, 0, 33_554_432)
    for index in range(1000):
        add(accumulator, TopicPartition("t", index))
    assert len(accumulator.queues) == 1000
    closed = accumulator.queues[TopicPartition("t", 0)][0]
    closed.close()
    assert not accumulator.grow(closed, 1)
