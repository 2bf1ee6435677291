"""Random lives of a transaction shard, killed after any record.

Each transaction has one outcome, each epoch one owner, and the log alone gives the durable state again.
"""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

import pytest

from kavka.core.machine import SendReply
from kavka.core.transaction.events import (
    AddPartitions,
    AddPartitionsReply,
    DescribedTransaction,
    End,
    EndReply,
    Event,
    InitProducer,
    InitProducerReply,
    MarkersWritten,
    NeedProducerId,
    ProducerIdGiven,
    ProducerIdRefused,
    Reply,
    Request,
    SendMarkers,
    TransactionDecision,
    Verify,
    VerifyReply,
)
from kavka.core.transaction.records import StoredTransaction, TransactionRecord, TransactionState
from kavka.core.transaction.settings import NO_TIMEOUT_MS, TransactionSettings
from kavka.core.transaction.shard import TransactionShard
from kavka.core.transaction.transaction import MAX_EPOCH
from kavka.errors import ErrorCode
from kavka.ids import TopicPartition

SETTINGS = TransactionSettings(
    expiration_ms=200_000,
    remove_expired_interval_ms=50_000,
    abort_timed_out_interval_ms=3_000,
    two_phase_commit_enable=True,
)
ERRORS = [
    ErrorCode.NOT_ENOUGH_REPLICAS,
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.REQUEST_TIMED_OUT,
]
IDS = ["a", "b"]
PARTITIONS = [TopicPartition("t", 0), TopicPartition("t", 1), TopicPartition("u", 0)]
_S = TransactionState
FOLLOWS = {
    _S.EMPTY: {_S.EMPTY, _S.ONGOING, _S.PREPARE_ABORT},
    _S.ONGOING: {_S.ONGOING, _S.PREPARE_COMMIT, _S.PREPARE_ABORT},
    _S.PREPARE_COMMIT: {_S.COMPLETE_COMMIT},
    _S.PREPARE_ABORT: {_S.COMPLETE_ABORT},
    _S.COMPLETE_COMMIT: {_S.EMPTY, _S.ONGOING, _S.PREPARE_ABORT},
    _S.COMPLETE_ABORT: {_S.EMPTY, _S.ONGOING, _S.PREPARE_ABORT},
}


@dataclass
class Producer:
    """A client's knowledge of itself."""

    transactional_id: str
    version: int
    producer_id: int = -1
    producer_epoch: int = -1


class World:
    """Drives a shard as a shell with a slow log, and checks what must hold after every step."""

    def __init__(self) -> None:
        self.shard = TransactionShard(SETTINGS)
        self.shard.loaded(0)
        self.now_ms = 0
        self.log: list[TransactionRecord] = []
        self.last: dict[str, StoredTransaction] = {}
        self.under_way: list[TransactionDecision] = []
        self.asked: dict[int, tuple[Request, Producer]] = {}
        self.needed: list[str] = []
        self.to_mark: list[SendMarkers] = []
        self.owners: dict[tuple[int, int], Producer] = {}
        self.next_token = 0
        self.next_producer_id = 0
        self.ended = 0

    def ask(self, event: Request, producer: Producer) -> None:
        self.asked[event.token] = (event, producer)
        self.submit(event)

    def submit(self, event: Event) -> None:
        decision = self.shard.handle(event, self.now_ms)
        if isinstance(event, Verify):
            self.check_verified(event, decision)
        self.take(decision)

    def check_verified(self, event: Verify, decision: TransactionDecision) -> None:
        """A leader on the same broker that looks gets what the request would have got."""
        (effect,) = decision.effects
        assert isinstance(effect, SendReply)
        assert isinstance(effect.reply, VerifyReply)
        producer = (event.transactional_id, event.producer_id, event.producer_epoch)
        for one, code in effect.reply.partitions:
            assert self.shard.takes_part(*producer, one) == (code is ErrorCode.NONE)

    def token(self) -> int:
        self.next_token += 1
        return self.next_token

    def take(self, decision: TransactionDecision) -> None:
        if decision.records:
            self.under_way.append(decision)
        else:
            self.leave(decision)
        self.shard.check()

    def commit(self) -> None:
        if self.under_way:
            decision = self.under_way.pop(0)
            for record in decision.records:
                self.append(record)
                self.shard.apply(record)
            self.leave(decision)
            self.shard.check()

    def refuse(self, error: ErrorCode) -> None:
        """The newest fails: what was appended before it is still on its way."""
        if self.under_way:
            self.take(self.shard.failed(self.under_way.pop(), error, self.now_ms))

    def append(self, record: TransactionRecord) -> None:
        """Check that each transaction has one outcome in the log."""
        self.log.append(record)
        before, value = self.last.get(record.transactional_id), record.value
        if value is None:
            assert before is not None
            assert not before.state.is_open, "what is open is not forgotten"
            del self.last[record.transactional_id]
            return
        self.last[record.transactional_id] = value
        if before is None:
            assert value.state is TransactionState.EMPTY
            return
        assert value.state in FOLLOWS[before.state]
        if before.producer_id == value.producer_id:
            assert value.producer_epoch >= before.producer_epoch
        else:
            assert not value.state.is_open
            assert before.successor == value.client or value.producer_epoch == 0
        if before.state.is_open and value.state.is_open:
            assert value.partitions >= before.partitions
            assert value.start_ms == before.start_ms

    def leave(self, decision: TransactionDecision) -> None:
        for effect in decision.effects:
            match effect:
                case SendReply():
                    assert effect.token in self.asked, "no token is answered twice"
                    self.answered(*self.asked.pop(effect.token), effect.reply)
                case NeedProducerId():
                    assert effect.transactional_id not in self.needed, "one at a time"
                    self.needed.append(effect.transactional_id)
                case SendMarkers():
                    value = self.last[effect.transactional_id]
                    assert value.state.is_prepared, "markers follow the stored outcome"
                    assert effect.committed is (value.state is TransactionState.PREPARE_COMMIT)
                    assert set(effect.partitions) == value.partitions
                    self.to_mark.append(effect)

    def answered(self, event: Request, producer: Producer, reply: Reply) -> None:
        value = self.last.get(producer.transactional_id)
        match reply:
            case InitProducerReply(ErrorCode.NONE):
                assert value is not None
                assert (reply.producer_id, reply.producer_epoch) == value.client
                assert value.is_kept is (reply.ongoing_txn_producer_id != -1)
                self.own(producer, reply.producer_id, reply.producer_epoch)
            case AddPartitionsReply(ErrorCode.NONE):
                assert isinstance(event, AddPartitions)
                assert value is not None
                assert value.state is TransactionState.ONGOING
                assert value.partitions >= set(event.partitions)
                assert value.producer_epoch == event.producer_epoch
            case EndReply(ErrorCode.NONE):
                assert isinstance(event, End)
                self.ended += 1
                assert value is not None
                done = (_S.PREPARE_COMMIT, _S.COMPLETE_COMMIT)
                assert (value.state in done) is event.committed
                if event.client_transaction_version == 2:
                    self.own(producer, reply.producer_id, reply.producer_epoch)
            case VerifyReply():
                assert isinstance(event, Verify)
                assert [one for one, _ in reply.partitions] == list(event.partitions)

    def own(self, producer: Producer, producer_id: int, producer_epoch: int) -> None:
        """An epoch is given to one client only, and the last one to none."""
        assert producer_epoch < MAX_EPOCH
        owner = self.owners.setdefault((producer_id, producer_epoch), producer)
        assert owner is producer
        producer.producer_id, producer.producer_epoch = producer_id, producer_epoch

    def tick(self) -> None:
        for _ in range(10_000):
            deadline = self.shard.deadline_ms()
            if deadline is None or deadline > self.now_ms:
                return
            self.take(self.shard.tick(self.now_ms))
        pytest.fail("time stands still")

    def give_id(self, dice: Random) -> None:
        if self.needed:
            transactional_id = self.needed.pop(0)
            self.next_producer_id += 1
            if dice.random() < 0.8:
                self.submit(ProducerIdGiven(transactional_id, self.next_producer_id))
            else:
                error = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
                self.submit(ProducerIdRefused(transactional_id, error))

    def mark(self, dice: Random, all_of_them: bool = False) -> None:
        if self.to_mark:
            sent = self.to_mark.pop(dice.randrange(len(self.to_mark)))
            count = len(sent.partitions) if all_of_them else dice.randint(1, len(sent.partitions))
            identity = (sent.transactional_id, sent.producer_id, sent.producer_epoch)
            self.submit(MarkersWritten(*identity, sent.partitions[:count]))
            rest = sent.partitions[count:]
            if rest:
                self.to_mark.append(SendMarkers(*identity, sent.committed, rest))

    def kill(self, dice: Random) -> None:
        """Another broker takes over with some of what was in progress."""
        for _ in range(dice.randint(0, len(self.under_way))):
            for record in self.under_way.pop(0).records:
                self.append(record)
        self.leave(self.shard.resign(self.now_ms))
        self.under_way.clear()
        self.asked.clear()
        self.needed.clear()
        self.to_mark.clear()
        self.shard = self.replayed()
        self.take(self.shard.loaded(self.now_ms))

    def replayed(self) -> TransactionShard:
        fresh = TransactionShard(SETTINGS)
        for record in self.log:
            fresh.apply(record)
        return fresh

    def wear_out(self, dice: Random, producers: list[Producer]) -> None:
        """Let a transactional id that nothing is done for, and one of its producers, have almost no epochs left."""
        transactional_id = dice.choice(IDS)
        value = self.last.get(transactional_id)
        if value is None or value.state.is_open or value.producer_epoch > 30_000:
            return
        self.kill(dice)
        value = self.last.get(transactional_id)
        if value is None or value.state.is_open:
            return
        epoch = MAX_EPOCH - dice.choice([1, 1, 2, 3])
        worn = StoredTransaction(
            value.producer_id, epoch, 5_000, TransactionState.EMPTY, frozenset(), self.now_ms
        )
        self.append(TransactionRecord(transactional_id, worn))
        heirs = [one for one in producers if one.transactional_id == transactional_id]
        heir = max(heirs[:2], key=lambda one: one.version)
        self.own(heir, worn.producer_id, worn.producer_epoch)
        self.kill(dice)


def request(dice: Random, world: World, producer: Producer) -> Request:
    token, transactional_id = world.token(), producer.transactional_id
    identity = (transactional_id, producer.producer_id, producer.producer_epoch)
    some = tuple(dice.sample(PARTITIONS, dice.randint(0, 3)))
    match dice.randint(0, 11) if producer.producer_id != -1 else 0:
        case 0:
            return InitProducer(token, transactional_id, 5_000)
        case 1:
            mine = identity[1:] if dice.random() < 0.5 else (-1, -1)
            enable, keep = dice.random() < 0.5, dice.random() < 0.5
            return InitProducer(token, transactional_id, 5_000, *mine, enable, keep)
        case 2:
            return Verify(token, *identity, some)
        case 3 | 4 | 5 | 6:
            return AddPartitions(token, *identity, some, producer.version)
        case _:
            return End(token, *identity, dice.random() < 0.6, producer.version)


@pytest.mark.slow
@pytest.mark.parametrize("first_seed", range(0, 600, 100))
def test_random_lives_keep_the_invariants_and_the_law(first_seed: int) -> None:
    for seed in range(first_seed, first_seed + 100):
        try:
            live(Random(seed))
        except AssertionError as error:
            raise AssertionError(f"seed {seed}") from error


def live(dice: Random) -> World:
    world = World()
    producers = [Producer(one, version) for version in (0, 2) for one in IDS]
    producers += [Producer(dice.choice(IDS), 0)]
    dice.shuffle(producers)
    haste = dice.choice([0.3, 0.9, 0.98])  # how often all goes well after a request
    for _ in range(dice.randint(1, 150)):
        if dice.random() < haste:
            # Mostly one and the same, so that it gets somewhere.
            producer = dice.choice(producers[: dice.choice([1, 1, 1, 1, 2, 5])])
            world.ask(request(dice, world, producer), producer)
            if dice.random() < haste:
                world.give_id(dice)
                world.commit()
                world.mark(dice, all_of_them=True)
                world.commit()
        else:
            trouble(dice, world, producers)
        assert world.replayed().durable() == world.shard.durable()
    finish(world, dice)
    return world


def trouble(dice: Random, world: World, producers: list[Producer]) -> None:
    match dice.randint(0, 9):
        case 0:
            world.kill(dice)
        case 1:
            world.refuse(dice.choice(ERRORS))
        case 2:
            world.now_ms += dice.choice([100, 1_000, 6_000, 6_000, 300_000])
            world.tick()
        case 3:
            world.wear_out(dice, producers)
        case 4 | 5:
            world.give_id(dice)
        case 6 | 7:
            world.mark(dice)
        case _:
            world.commit()
            world.tick()


def finish(world: World, dice: Random) -> None:
    """Nothing waits without limit: after log, ids and markers, all requests are answered and none stays open."""
    for _ in range(40):
        while world.under_way:
            world.commit()
        while world.needed:
            world.give_id(dice)
        while world.to_mark:
            world.mark(dice, all_of_them=True)
        world.now_ms += 1_000
        world.tick()
    assert not world.asked
    assert not world.under_way
    assert not world.to_mark
    left = [one for one in world.last.values() if one.state.is_open]
    assert all(one.timeout_ms == NO_TIMEOUT_MS for one in left), "others are aborted in time"
    assert all(one.state is TransactionState.ONGOING for one in left)
    assert world.replayed().durable() == world.shard.durable()


def test_random_lives_see_every_state_and_every_response() -> None:
    states: set[TransactionState] = set()
    rotated = overflowed = removed = ended = kept = 0
    for seed in range(300):
        world = live(Random(seed))
        ended += world.ended
        before: dict[str, StoredTransaction] = {}
        for record in world.log:
            if record.value is None:
                removed += 1
                continue
            states.add(record.value.state)
            kept += record.value.is_kept
            last = before.get(record.transactional_id)
            if last is not None and last.producer_id != record.value.producer_id:
                overflowed += last.next_producer_id != -1
                rotated += last.next_producer_id == -1
            before[record.transactional_id] = record.value
    assert states == set(TransactionState)
    assert min(rotated, overflowed, removed, kept) > 5
    assert ended > 500


# What the stories do not show


def test_loading_shard_refuses_all_requests() -> None:
    shard = TransactionShard(SETTINGS)
    loading = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    one = (TopicPartition("t", 0),)
    replies = [
        reply(shard, InitProducer(1, "a", 5_000)),
        reply(shard, AddPartitions(2, "a", 1, 0, one)),
        reply(shard, Verify(3, "a", 1, 0, one)),
        reply(shard, End(4, "a", 1, 0, True)),
    ]
    assert replies == [
        InitProducerReply(loading),
        AddPartitionsReply(loading),
        VerifyReply(((one[0], loading),)),
        EndReply(loading),
    ]
    assert shard.list(0) is loading
    assert shard.describe("a") == DescribedTransaction(loading, "a")
    for late in (ProducerIdGiven("a", 1), MarkersWritten("a", 1, 0, one)):
        assert not shard.handle(late, 0)


def reply(shard: TransactionShard, event: Request) -> Reply:
    (result,) = shard.handle(event, 0).effects
    assert isinstance(result, SendReply)
    made: Reply = result.reply
    return made


def test_many_idle_ids_are_forgotten_a_few_at_a_time() -> None:
    shard = TransactionShard(SETTINGS)
    for number in range(500):
        value = StoredTransaction(number, 0, 5_000, TransactionState.EMPTY, frozenset(), 0)
        shard.apply(TransactionRecord(f"id-{number}", value))
    shard.loaded(0)
    counts = []
    for _ in range(4):
        decision = shard.tick(200_000)
        counts.append(len(decision.records))
        for record in decision.records:
            shard.apply(record)
    assert counts == [200, 200, 100, 0]
    assert shard.durable() == {}


def test_what_forgets_long_ids_fits_into_a_batch() -> None:
    shard = TransactionShard(SETTINGS)
    for number in range(20):
        value = StoredTransaction(number, 0, 5_000, TransactionState.EMPTY, frozenset(), 0)
        shard.apply(TransactionRecord(f"{number:02}" + "\u00fc" * 15_000, value))
    shard.loaded(0)
    while shard.durable():
        deadline_ms = shard.deadline_ms()
        assert deadline_ms is not None
        assert deadline_ms <= 200_000, "the rest is due at once"
        decision = shard.tick(200_000)
        ids = [record.transactional_id for record in decision.records]
        assert 0 < sum(len(each.encode()) for each in ids) < 64 * 1024
        for record in decision.records:
            shard.apply(record)
    deadline_ms = shard.deadline_ms()
    assert deadline_ms == 200_000 + SETTINGS.remove_expired_interval_ms


def test_an_id_with_frequent_transactions_is_watched_once() -> None:
    shard = TransactionShard(SETTINGS)
    for number in range(100):
        start = number * 10
        states = (TransactionState.ONGOING, TransactionState.COMPLETE_COMMIT)
        for state in states:
            value = StoredTransaction(1, 0, 5_000, state, frozenset(), start, start)
            if number == 0 and state is TransactionState.ONGOING:
                shard.apply(TransactionRecord("a", value))
                shard.loaded(0)
            else:
                shard.apply(TransactionRecord("a", value))
    assert shard.deadline_ms() == 5_001
    assert not shard.tick(5_001)
    assert shard.deadline_ms() == SETTINGS.remove_expired_interval_ms


def test_what_a_client_takes_for_the_last_word_and_no_record_bears_is_to_be_confirmed() -> None:
    shard = TransactionShard(SETTINGS)
    ended = StoredTransaction(1, 0, 5_000, TransactionState.COMPLETE_COMMIT, frozenset(), 0)
    under_way = StoredTransaction(
        2, 0, 5_000, TransactionState.ONGOING, frozenset(PARTITIONS[:1]), 0, 0
    )
    shard.apply(TransactionRecord("a", ended))
    shard.apply(TransactionRecord("b", under_way))
    shard.loaded(0)

    def must_confirm(event: Event) -> bool:
        return shard.handle(event, 0).must_confirm

    assert must_confirm(End(1, "a", 1, 0, True)), "done already"
    assert must_confirm(End(2, "a", 1, 5, True)), "fenced"
    assert must_confirm(AddPartitions(3, "b", 2, 0, tuple(PARTITIONS[:1]))), "there already"
    assert not must_confirm(Verify(4, "b", 2, 0, tuple(PARTITIONS[:1])))
    assert not must_confirm(End(5, "b", 2, 0, True)), "it has a record"
    assert not must_confirm(End(6, "b", 2, 0, True)), "busy: asked again later"


def test_what_is_wrong_everywhere_or_was_refused_by_the_log_needs_no_confirmation() -> None:
    shard = TransactionShard(SETTINGS)
    ended = StoredTransaction(1, 0, 5_000, TransactionState.COMPLETE_COMMIT, frozenset(), 0)
    shard.apply(TransactionRecord("a", ended))
    too_long = InitProducer(1, "a", 10**9)
    assert not shard.handle(too_long, 0).must_confirm, "while it is loading"
    shard.loaded(0)
    assert not shard.handle(too_long, 0).must_confirm
    asked = shard.handle(End(2, "a", 1, 0, True), 0)
    assert asked.must_confirm
    refused = shard.failed(asked, ErrorCode.RECORD_LIST_TOO_LARGE, 0)
    assert (len(refused.effects), refused.must_confirm) == (1, False)
