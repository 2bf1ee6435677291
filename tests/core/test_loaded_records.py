"""Any record that can be decoded is loaded or refused as corrupt, and what is loaded lives on.

A record of an internal topic may be well-formed and contradict itself. One that passed, and failed an assertion when
the shard began to serve, kept all groups or transactions behind it from being served, without a word.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from kavka.core.group import stored as group_stored
from kavka.core.group.events import (
    CommitOffsets,
    FetchOffsets,
    Join,
    JoinReply,
    Leave,
    LeavingMember,
    OffsetToCommit,
    Sync,
)
from kavka.core.group.records import OffsetRecord, PendingOffsetRecord, TransactionEnd
from kavka.core.group.settings import GroupSettings
from kavka.core.group.shard import GroupShard
from kavka.core.machine import Decision, SendReply
from kavka.core.transaction import stored as transaction_stored
from kavka.core.transaction.events import (
    AddPartitions,
    End,
    InitProducer,
    MarkersWritten,
    NeedProducerId,
    ProducerIdGiven,
    SendMarkers,
)
from kavka.core.transaction.settings import TransactionSettings
from kavka.core.transaction.shard import TransactionShard
from kavka.errors import ErrorCode
from kavka.ids import TopicPartition
from kavka.wire.codec import CorruptFrame
from kavka.wire.stored.offsets import (
    GroupMetadataKey,
    GroupMetadataMember,
    GroupMetadataValue,
    OffsetCommitKey,
    OffsetCommitValue,
    encode_key,
)
from kavka.wire.stored.transactions import (
    TransactionLogKey,
    TransactionLogPartition,
    TransactionLogValue,
)
from kavka.wire.versioned import encode_versioned
from support.transaction_records import encode_transaction_key

NOW_MS = 1_700_000_000_000
STEPS = 60
"""Ticks of a shard after it is loaded, enough for the end of every session and transaction."""


def integers(bits: int) -> st.SearchStrategy[int]:
    """Numbers of a field, often those at its ends."""
    end = 1 << bits - 1
    ends = st.sampled_from([-end, -2, -1, 0, 1, 2, end - 2, end - 1])
    return ends | st.integers(-end, end - 1)


NAMES = st.sampled_from(["", "a", "b", "ü/.."])
INSTANCES = st.none() | NAMES
BYTES = st.binary(max_size=12)
SHORT, INT, LONG = integers(16), integers(32), integers(64)

MEMBERS = st.builds(
    GroupMetadataMember,
    member_id=NAMES,
    group_instance_id=INSTANCES,
    client_id=NAMES,
    client_host=NAMES,
    rebalance_timeout=INT,
    session_timeout=INT,
    subscription=BYTES,
    assignment=BYTES,
)
GROUPS = st.builds(
    GroupMetadataValue,
    protocol_type=st.sampled_from(["", "consumer", "connect"]),
    generation=INT,
    protocol=INSTANCES,
    leader=INSTANCES,
    current_state_timestamp=LONG,
    members=st.lists(MEMBERS, max_size=4),
)
OFFSETS = st.builds(
    OffsetCommitValue,
    offset=LONG,
    leader_epoch=INT,
    metadata=NAMES,
    commit_timestamp=LONG,
    expire_timestamp=LONG,
)
GROUP_KEYS = st.builds(GroupMetadataKey, group=NAMES)
OFFSET_KEYS = st.builds(OffsetCommitKey, group=NAMES, topic=NAMES, partition=INT)


def versioned(values: st.SearchStrategy[Any], versions: list[int]) -> st.SearchStrategy[bytes]:
    return st.builds(encode_versioned, values, st.sampled_from(versions))


GROUP_PAIRS = st.tuples(
    st.builds(encode_key, GROUP_KEYS), st.none() | versioned(GROUPS, [0, 1, 2, 3, 4])
) | st.tuples(st.builds(encode_key, OFFSET_KEYS), st.none() | versioned(OFFSETS, [0, 1, 2, 3, 4]))
TRANSACTIONS = st.builds(
    TransactionLogValue,
    producer_id=LONG,
    producer_epoch=SHORT,
    transaction_timeout_ms=INT,
    transaction_status=st.integers(0, 5) | integers(8),
    transaction_partitions=st.none()
    | st.lists(
        st.builds(TransactionLogPartition, topic=NAMES, partition_ids=st.lists(INT, max_size=3)),
        max_size=2,
    ),
    transaction_last_update_timestamp_ms=LONG,
    transaction_start_timestamp_ms=LONG,
    previous_producer_id=LONG,
    next_producer_id=LONG,
    client_transaction_version=st.integers(0, 2) | SHORT,
    next_producer_epoch=SHORT,
)
TRANSACTION_KEYS = st.builds(TransactionLogKey, transactional_id=NAMES)
TRANSACTION_PAIRS = st.tuples(
    st.builds(encode_transaction_key, TRANSACTION_KEYS),
    st.none() | versioned(TRANSACTIONS, [0, 1]),
)


def group_value(*members: GroupMetadataMember, **fields: Any) -> bytes:
    value = GroupMetadataValue(
        protocol_type="consumer", generation=1, protocol="range", leader="a", members=list(members)
    )
    for name, field in fields.items():
        setattr(value, name, field)
    return encode_versioned(value, 3)


def member(member_id: str, group_instance_id: str | None = None) -> GroupMetadataMember:
    return GroupMetadataMember(
        member_id=member_id, group_instance_id=group_instance_id, session_timeout=6000
    )


def transaction_value(**fields: Any) -> bytes:
    value = TransactionLogValue(
        producer_id=5,
        producer_epoch=3,
        transaction_timeout_ms=1000,
        transaction_status=2,
        transaction_partitions=[TransactionLogPartition(topic="t", partition_ids=[0])],
        transaction_last_update_timestamp_ms=NOW_MS,
        transaction_start_timestamp_ms=NOW_MS,
    )
    for name, field in fields.items():
        setattr(value, name, field)
    return encode_versioned(value, 1)


GROUP_KEY = encode_key(GroupMetadataKey(group="g"))
TRANSACTION_KEY = encode_transaction_key(TransactionLogKey(transactional_id="x"))


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (group_value(member("a"), member("a")), "two members have one id"),
        (group_value(member("a", "i"), member("b", "i")), "one group.instance.id"),
        (group_value(member("a", ""), member("b", "")), "one group.instance.id"),
        (group_value(member("a"), protocol=None), "members without a protocol"),
        (group_value(member("a"), protocol_type=""), "members without a protocol"),
        (group_value(member("a"), generation=-1), "members of generation -1"),
    ],
    ids=["ids", "instances", "empty instances", "protocol", "protocol type", "generation"],
)
def test_a_group_that_contradicts_itself_is_corrupt(value: bytes, reason: str) -> None:
    with pytest.raises(CorruptFrame, match=reason):
        group_stored.from_bytes(GROUP_KEY, value)


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"producer_epoch": -32768}, "no producer has id 5 and epoch -32768"),
        ({"producer_epoch": -1}, "no producer has id 5 and epoch -1"),
        ({"producer_id": -1}, "no producer has id -1 and epoch 3"),
        ({"previous_producer_id": -2}, "below -1"),
        ({"next_producer_id": -2}, "below -1"),
        ({"next_producer_id": 7, "next_producer_epoch": -2}, "below -1"),
        ({"next_producer_id": 7}, "a next producer id without a transaction version"),
        ({"client_transaction_version": 300}, "the transaction version 300"),
        ({"transaction_status": 6}, "no state has the number 6"),
        (
            {"transaction_partitions": [TransactionLogPartition(topic="t", partition_ids=[0, -1])]},
            "a partition has a negative number",
        ),
    ],
)
def test_a_transaction_that_contradicts_itself_is_corrupt(
    fields: dict[str, Any], reason: str
) -> None:
    with pytest.raises(CorruptFrame, match=reason):
        transaction_stored.from_bytes(TRANSACTION_KEY, transaction_value(**fields))


def test_a_transaction_that_is_over_has_neither_partitions_nor_a_next_producer() -> None:
    value = transaction_value(
        transaction_status=4, next_producer_id=9, client_transaction_version=2
    )
    record = transaction_stored.from_bytes(TRANSACTION_KEY, value)
    assert record is not None
    assert record.value is not None
    assert (record.value.partitions, record.value.next_producer_id) == (frozenset(), -1)


def decoded(decode: Callable[..., Any], pairs: list[tuple[bytes, bytes | None]]) -> list[Any]:
    """Return the records of pairs, as a shard loads them: corrupt ones are skipped."""
    records = []
    for key, value in pairs:
        try:
            record = decode(key, value)
        except CorruptFrame:
            continue
        if record is not None:
            records.append(record)
    return records


def can_be_stored(decision: Decision[Any, Any], encode: Callable[..., Any]) -> None:
    for record in decision.records:
        encode(record)


class Life:
    """A shard whose decisions are committed at once."""

    def __init__(self, shard: Any, encode: Callable[..., Any]) -> None:
        self.shard, self.encode = shard, encode
        self.now_ms = NOW_MS
        self.replies: dict[int, Any] = {}
        self.effects: list[Any] = []

    def run(self, decision: Decision[Any, Any]) -> None:
        can_be_stored(decision, self.encode)
        for record in decision.records:
            self.shard.apply(record)
        for effect in decision.effects:
            if isinstance(effect, SendReply):
                self.replies[effect.token] = effect.reply
            else:
                self.effects.append(effect)
        self.shard.check()

    def handle(self, *events: Any) -> None:
        for event in events:
            self.run(self.shard.handle(event, self.now_ms))

    def pass_time(self, groups: Sequence[str] = ()) -> None:
        """Do what is due, then what is due next; those that joined bring and ask for assignments."""
        for _ in range(STEPS):
            deadline_ms = self.shard.deadline_ms()
            if deadline_ms is None:
                return
            self.now_ms = max(self.now_ms, deadline_ms)
            self.run(self.shard.tick(self.now_ms))
            for token, reply in list(self.replies.items()):
                if isinstance(reply, JoinReply) and reply.error_code is ErrorCode.NONE:
                    assert 0 <= reply.generation_id < 2**31
                    group = groups[token % 100]
                    parts = tuple((one.member_id, b"1") for one in reply.members)
                    sync = Sync(
                        token + 1000, group, reply.generation_id, reply.member_id, assignments=parts
                    )
                    self.replies.pop(token)
                    self.handle(sync)


def join(group: str, member_id: str, instance: str | None, token: int) -> Join:
    return Join(
        token=token,
        group_id=group,
        member_id=member_id,
        group_instance_id=instance,
        client_id="client",
        client_host="/127.0.0.1",
        rebalance_timeout_ms=5000,
        session_timeout_ms=6000,
        protocol_type="consumer",
        protocols=(("range", b""), ("a", b"")),
        new_member_id=f"new-{token}",
        requires_known_member_id=False,
        supports_skipping_assignment=True,
    )


@given(st.lists(GROUP_PAIRS, max_size=6), st.lists(st.booleans() | st.none(), max_size=6))
@example([(GROUP_KEY, group_value(member("a"), member("a")))], [])
@example([(GROUP_KEY, group_value(member("a", "i"), member("b", "i")))], [])
@example([(GROUP_KEY, group_value(member("a"), generation=2**31 - 1))], [])
def test_any_records_of_groups_are_loaded_or_refused(
    pairs: list[tuple[bytes, bytes | None]], outcomes: list[bool | None]
) -> None:
    shard = GroupShard(GroupSettings(initial_rebalance_delay_ms=0))
    records = decoded(group_stored.from_bytes, pairs)
    for number, record in enumerate(records):
        outcome = outcomes[number] if number < len(outcomes) else None
        if outcome is not None and isinstance(record, OffsetRecord):
            one = (record.group_id, record.topic, record.partition)
            shard.apply(PendingOffsetRecord(*one, record.value, number % 2, 0))
            shard.apply(TransactionEnd(0, outcome))
        else:
            shard.apply(record)
    life = Life(shard, lambda r: group_stored.to_bytes(r))
    life.run(shard.loaded(NOW_MS))
    assert not shard.is_loading
    groups = ["a", "b", "g", "ü/.."]
    for number, group in enumerate(groups):
        life.handle(
            join(group, "", None, 100 + number),
            join(group, "", "a", 200 + number),
            join(group, "a", None, 300 + number),
            CommitOffsets(400 + number, group, -1, "", None, (OffsetToCommit("t", 0, 1),)),
            FetchOffsets(500 + number, group, None, require_stable=True),
            Leave(600 + number, group, (LeavingMember("b", None),)),
        )
        shard.describe(group)
    shard.list()
    life.pass_time(groups)
    assert not life.shard.list(states=["Dead"])


@given(st.lists(TRANSACTION_PAIRS, max_size=4), st.booleans())
@example([(TRANSACTION_KEY, transaction_value(producer_epoch=-32768))], True)
@example([(TRANSACTION_KEY, transaction_value(client_transaction_version=300))], True)
def test_any_records_of_transactions_are_loaded_or_refused(
    pairs: list[tuple[bytes, bytes | None]], committed: bool
) -> None:
    shard = TransactionShard(TransactionSettings(two_phase_commit_enable=True))
    for record in decoded(transaction_stored.from_bytes, pairs):
        shard.apply(record)
    life = Life(shard, lambda r: transaction_stored.to_bytes(r))
    life.run(shard.loaded(NOW_MS))
    assert not shard.is_loading
    for number, one in enumerate(["a", "b", "x", "ü/.."]):
        for version in (0, 2):
            life.handle(InitProducer(number, one, 1000, -1, -1, False, version == 2))
            reply_to_effects(life)
            for value in [v for name, v in shard.durable().items() if name == one]:
                client = value.client
                partitions = (TopicPartition("t", 0),)
                life.handle(
                    AddPartitions(100 + number, one, *client, partitions, version),
                    End(200 + number, one, *client, committed, version),
                )
                reply_to_effects(life)
        shard.describe(one)
    shard.list(NOW_MS)
    life.pass_time()
    reply_to_effects(life)
    life.pass_time()


def reply_to_effects(life: Life) -> None:
    """Write the markers and give out the producer ids that a shard has asked for."""
    while life.effects:
        effect = life.effects.pop()
        if isinstance(effect, SendMarkers):
            assert 0 <= effect.producer_epoch < 1 << 15
            assert 0 <= effect.transaction_version < 1 << 7
            written = MarkersWritten(
                effect.transactional_id,
                effect.producer_id,
                effect.producer_epoch,
                effect.partitions,
            )
            life.handle(written)
        elif isinstance(effect, NeedProducerId):
            life.handle(ProducerIdGiven(effect.transactional_id, 77))


@given(st.binary(max_size=60), st.none() | st.binary(max_size=60))
@pytest.mark.parametrize("decode", [group_stored.from_bytes, transaction_stored.from_bytes])
def test_bytes_are_a_record_or_corrupt(
    decode: Callable[..., Any], key: bytes, value: bytes | None
) -> None:
    decoded(decode, [(key, value), (b"\x00" + key[1:2] + key, value)])
