import pytest

from kavka.client.producer.batch import ProducerBatch
from kavka.client.producer.sequences import SequenceNumbers
from kavka.errors import ErrorCode
from kavka.ids import TopicPartition

AT = TopicPartition("t", 0)
OTHER = TopicPartition("t", 1)


def batch(count, topic_partition=AT):
    return ProducerBatch(topic_partition, 0, 0, 0, values=[b""] * count, timestamps=[0] * count)


@pytest.fixture
def sequences():
    made = SequenceNumbers()
    made.set_producer(7, 0)  # type: ignore[arg-type]
    start(made, AT, OTHER)
    return made


def start(sequences, *partitions):
    """Have a first batch acknowledged: until then only one is let out."""
    for topic_partition in partitions or (AT,):
        first = batch(1, topic_partition)
        drain(sequences, first)
        first.is_in_flight = False
        sequences.on_acked(first, 0)


def drain(sequences, *batches):
    for one in batches:
        assert sequences.may_drain(one)
        sequences.assign(one)
        one.is_in_flight = True


def test_batches_are_numbered_without_gaps_per_partition(sequences):
    one, two, other = batch(3), batch(2), batch(1, OTHER)
    drain(sequences, one, two, other)
    assert [b.base_sequence for b in (one, two, other)] == [1, 4, 1]
    assert one.last_sequence == 3


def test_nothing_is_drained_without_a_producer_id() -> None:
    assert not SequenceNumbers().may_drain(batch(1))


def test_the_first_batch_of_a_partition_goes_alone() -> None:
    sequences = SequenceNumbers()
    sequences.set_producer(7, 0)  # type: ignore[arg-type]
    one, two = batch(1), batch(1)
    drain(sequences, one)
    assert not sequences.may_drain(two)
    sequences.on_acked(one, 0)  # type: ignore[arg-type]
    drain(sequences, two)


def test_only_the_first_of_refused_batches_may_be_repeated(sequences):
    one, two = batch(1), batch(1)
    drain(sequences, one, two)
    one.is_in_flight = two.is_in_flight = False
    assert sequences.may_repeat(one, ErrorCode.NOT_LEADER_OR_FOLLOWER, -1)
    assert sequences.may_repeat(two, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, -1)
    assert not sequences.may_drain(two)
    assert sequences.may_drain(one)
    sequences.on_acked(one, 0)
    assert sequences.may_drain(two)
    assert two.base_sequence == 2


def test_no_more_batches_are_on_their_way_than_leaders_remember(sequences):
    sent = [batch(1) for _ in range(5)]
    drain(sequences, *sent)
    # The old leader refuses the first and has not answered the others; the new one gets the first alone.
    sent[0].is_in_flight = False
    assert sequences.may_repeat(sent[0], ErrorCode.NOT_LEADER_OR_FOLLOWER, -1)
    drain(sequences, sent[0])
    assert not sequences.may_drain(batch(1)), "it would push the first out of what leaders remember"
    sequences.on_acked(sent[0], 1)
    drain(sequences, batch(1))


def test_what_is_answered_behind_the_oldest_counts(sequences):
    """The oldest waits at an old leader; the new one, which has it by replication, remembers five."""
    first = batch(1)
    drain(sequences, first)
    sequences.on_acked(first, 0)
    oldest, *later = [batch(1) for _ in range(5)]
    drain(sequences, oldest, *later)
    for offset, one in enumerate(later, 2):
        sequences.on_acked(one, offset)
    assert not sequences.may_drain(batch(1)), (
        "it would push the oldest out of what leaders remember"
    )
    sequences.on_acked(oldest, 1)
    drain(sequences, batch(1))


def test_a_batch_that_is_given_up_starts_a_new_epoch_for_what_is_behind_it(sequences):
    one, two, three = batch(1), batch(2), batch(1)
    drain(sequences, one, two)
    one.is_in_flight = False
    sequences.on_failed(one, is_certain=True)
    sequences.bump()
    assert not sequences.may_drain(three), "two is on the wire with the old numbers"
    two.is_in_flight = False
    sequences.bump()
    assert (two.producer_epoch, two.base_sequence) == (1, 0)
    drain(sequences, two)
    assert not sequences.may_drain(three), "the first of an epoch goes alone"
    sequences.on_acked(two, 1)
    drain(sequences, three)
    assert (three.producer_epoch, three.base_sequence) == (1, 2)


def test_other_partitions_move_to_the_new_epoch_when_they_have_nothing_in_flight(sequences):
    one, two, three = batch(1), batch(1, OTHER), batch(1, OTHER)
    drain(sequences, one, two)
    one.is_in_flight = False
    sequences.on_failed(one, is_certain=True)
    sequences.bump()
    assert not sequences.may_drain(three)
    sequences.on_acked(two, 0)
    drain(sequences, three)
    assert (three.producer_epoch, three.base_sequence) == (1, 0)


def test_an_unknown_fate_is_settled_by_later_responses(sequences):
    one, two = batch(1), batch(1)
    drain(sequences, one, two)
    one.is_in_flight = False
    sequences.on_failed(one, is_certain=False)
    assert not sequences.may_drain(batch(1))
    sequences.on_acked(two, 1)
    sequences.bump()
    assert sequences.epoch == 0, "two was taken, so one was as well"
    assert sequences.may_drain(batch(1))


def test_an_unknown_fate_that_stays_unknown_starts_a_new_epoch(sequences):
    one = batch(1)
    drain(sequences, one)
    one.is_in_flight = False
    sequences.on_failed(one, is_certain=False)
    sequences.bump()
    assert sequences.epoch == 1
    two = batch(1)
    drain(sequences, two)
    assert (two.producer_epoch, two.base_sequence) == (1, 0)


def test_a_broker_that_lost_acknowledged_batches_starts_a_new_epoch(sequences):
    one, two = batch(1), batch(1)
    drain(sequences, one)
    sequences.on_acked(one, 0)
    drain(sequences, two)
    two.is_in_flight = False
    assert sequences.may_repeat(two, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, -1)
    sequences.bump()
    assert (two.producer_epoch, two.base_sequence) == (1, 0)


def test_records_that_were_deleted_with_the_producers_state_start_a_new_epoch(sequences):
    one, two = batch(1), batch(1)
    drain(sequences, one)
    sequences.on_acked(one, 0)
    drain(sequences, two)
    two.is_in_flight = False
    assert sequences.may_repeat(two, ErrorCode.UNKNOWN_PRODUCER_ID, 10)
    sequences.bump()
    assert (two.producer_epoch, two.base_sequence) == (1, 0)


def test_sequences_wrap_to_zero(sequences):
    one = batch(1)
    drain(sequences, one)
    sequences._partitions[AT].next = 2**31 - 1
    two, three = batch(2), batch(1)
    drain(sequences, two, three)
    assert (two.base_sequence, two.last_sequence, three.base_sequence) == (2**31 - 1, 0, 1)


def test_when_epochs_run_out_a_new_producer_id_is_asked_for(sequences):
    sequences.set_producer(7, 32767)
    start(sequences)
    one, two = batch(1), batch(1)
    drain(sequences, one, two)
    one.is_in_flight = two.is_in_flight = False
    sequences.on_failed(one, is_certain=True)
    sequences.bump()
    assert not sequences.has_producer
    sequences.restart_with_producer(8, 0)
    assert (two.producer_id, two.producer_epoch, two.base_sequence) == (8, 0, 0)


def test_halves_of_a_split_batch_keep_their_sequences(sequences):
    one, two = batch(5), batch(1)
    drain(sequences, one, two)
    one.is_in_flight = False
    halves = one.split()
    sequences.on_split(one, halves)
    assert [(h.base_sequence, h.count) for h in halves] == [(1, 2), (3, 3)]
    assert sequences.may_drain(halves[0])
    assert not sequences.may_drain(halves[1])


def test_halves_of_a_split_batch_count_as_two_of_those_that_leaders_remember(sequences):
    one, *later = [batch(5), batch(1), batch(1), batch(1)]
    drain(sequences, one, *later)
    one.is_in_flight = False
    first, second = one.split()
    sequences.on_split(one, [first, second])
    drain(sequences, first)
    sequences.on_acked(first, 1)
    drain(sequences, second)
    for offset, one in enumerate(later, 6):
        sequences.on_acked(one, offset)
    assert not sequences.may_drain(batch(1)), "one more would push out the second half"
    sequences.on_acked(second, 4)
    drain(sequences, batch(1))


def test_a_batch_behind_one_that_failed_is_only_sent_again(sequences):
    one, two, three = batch(1), batch(1), batch(1)
    drain(sequences, one)
    sequences.on_acked(one, 0)
    drain(sequences, two, three)
    three.is_in_flight = False
    numbered = (three.producer_epoch, three.base_sequence)
    assert sequences.may_repeat(three, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, -1)
    two.is_in_flight = False
    sequences.bump()
    assert (three.producer_epoch, three.base_sequence) == numbered


def test_an_unknown_producer_without_a_log_start_is_only_sent_again(sequences):
    one = batch(1)
    drain(sequences, one)
    one.is_in_flight = False
    numbered = (one.producer_epoch, one.base_sequence)
    assert sequences.may_repeat(one, ErrorCode.UNKNOWN_PRODUCER_ID, -1)
    sequences.bump()
    assert (one.producer_epoch, one.base_sequence) == numbered


def test_a_batch_with_new_sequences_does_not_start_one_more_epoch(sequences):
    one, two = batch(1), batch(1)
    drain(sequences, one)
    sequences.on_acked(one, 0)
    drain(sequences, two)
    two.is_in_flight = False
    sequences.may_repeat(two, ErrorCode.UNKNOWN_PRODUCER_ID, 10)
    sequences.bump()
    for code in (ErrorCode.UNKNOWN_PRODUCER_ID, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER):
        assert sequences.may_repeat(two, code, 10)
        sequences.bump()
    assert (two.producer_epoch, two.base_sequence) == (1, 0)


@pytest.mark.parametrize(
    "code", [ErrorCode.UNKNOWN_PRODUCER_ID, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER]
)
def test_a_broker_that_lost_acknowledged_batches_of_a_new_epoch_starts_one_more(sequences, code):
    one, two, three = batch(1), batch(1), batch(1)
    drain(sequences, one)
    sequences.on_acked(one, 0)
    drain(sequences, two, three)
    for each in (two, three):
        each.is_in_flight = False
        sequences.may_repeat(each, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, -1)
    sequences.bump()
    drain(sequences, two)
    two.is_in_flight = False
    sequences.on_acked(two, 1)
    drain(sequences, three)
    three.is_in_flight = False
    assert sequences.may_repeat(three, code, 10)
    sequences.bump()
    assert (three.producer_epoch, three.base_sequence) == (2, 0)


def test_a_batch_of_a_transaction_that_others_overtook_is_given_up() -> None:
    sequences = SequenceNumbers(is_transactional=True)
    sequences.set_producer(7, 0)  # type: ignore[arg-type]
    start(sequences, AT)
    one, two, three = batch(1), batch(1), batch(1)
    drain(sequences, one, two, three)
    for each in (one, two, three):
        each.is_in_flight = False
    assert sequences.may_repeat(three, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, -1)
    sequences.on_acked(two, 1)  # type: ignore[arg-type]
    assert not sequences.may_repeat(one, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, -1)


def test_a_batch_that_others_overtook_is_given_up_and_they_go_on(
    sequences,
):
    one, two, three = batch(1), batch(1), batch(1)
    drain(sequences, one, two, three)
    one.is_in_flight = two.is_in_flight = False
    sequences.on_acked(two, 1)
    assert not sequences.may_repeat(one, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, -1)
    sequences.on_failed(one, is_certain=False)
    sequences.bump()
    assert (three.producer_epoch, three.base_sequence) == (0, 3)
    three.is_in_flight = False
    sequences.on_acked(three, 2)
    last = batch(1)
    drain(sequences, last)
    assert (last.producer_epoch, last.base_sequence) == (0, 4)
