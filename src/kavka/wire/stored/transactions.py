"""Records of `__transaction_state`: how far the transaction of each transactional id has come (KIP-98)."""

from __future__ import annotations

from struct import Struct, pack
from typing import Final, Protocol

from kavka.io import Buffer
from kavka.wire.primitives import put_varint
from kavka.wire.schema import field, i8, i16, i32, i64, message, string, struct
from kavka.wire.versioned import decode_versioned

_KEY_FRONT: Final = Struct(">hh")
_VALUE_FRONT: Final = Struct(">hqhib")
_TIMES: Final = Struct(">qq")
_I16: Final = Struct(">h")
_I32: Final = Struct(">i")
_I64: Final = Struct(">q")

STATES: Final = (
    "Empty",
    "Ongoing",
    "PrepareCommit",
    "PrepareAbort",
    "CompleteCommit",
    "CompleteAbort",
    "Dead",
    "PrepareEpochFence",
)
"""By number, in Kafka's words."""


@message(versions="0")
class TransactionLogKey:
    """The key of a transactional id's record."""

    transactional_id: string = field()


@struct
class TransactionLogPartition:
    """Partitions of a topic that take part."""

    topic: string = field()
    partition_ids: list[i32] = field()


@message(versions="0-1", flexible="1+")
class TransactionLogValue:
    """The state of a transactional id."""

    producer_id: i64 = field()
    producer_epoch: i16 = field()
    transaction_timeout_ms: i32 = field()
    transaction_status: i8 = field()
    """A place in `STATES`."""
    transaction_partitions: list[TransactionLogPartition] | None = field(nullable="0+")
    transaction_last_update_timestamp_ms: i64 = field()
    transaction_start_timestamp_ms: i64 = field()
    previous_producer_id: i64 = field("1+", tag=0, default=-1, ignorable=True)
    """The id before this one, when its epochs have run out (KIP-890)."""
    next_producer_id: i64 = field("1+", tag=1, default=-1, ignorable=True)
    """The id that follows when the transaction is complete, because the epochs of this one have run out."""
    client_transaction_version: i16 = field("1+", tag=2, default=0, ignorable=True)
    """The transaction version of the client; from 2 on each transaction has a new epoch."""
    next_producer_epoch: i16 = field("1+", tag=3, default=-1, ignorable=True)
    """With `next_producer_id`, what a client has that took over the transaction to end it (KIP-939)."""


def transaction_key(transactional_id: str) -> bytes:
    """Return the key of an id's record: the bytes of a `TransactionLogKey` of version 0, without making one.

    A transaction writes three records: this and `transaction_value` take a fifth of the time that messages take.
    """
    name = transactional_id.encode()
    return _KEY_FRONT.pack(0, len(name)) + name


class TransactionFields(Protocol):
    """The fields of a `TransactionLogValue` besides its partitions, as coordinators name them."""

    @property
    def producer_id(self) -> int:
        """The producer's id."""
        ...

    @property
    def producer_epoch(self) -> int:
        """Its epoch."""
        ...

    @property
    def timeout_ms(self) -> int:
        """`transaction.timeout.ms`."""
        ...

    @property
    def state(self) -> int:
        """A place in `STATES`."""
        ...

    @property
    def last_update_ms(self) -> int:
        """Time of the record."""
        ...

    @property
    def start_ms(self) -> int:
        """Start of the transaction."""
        ...

    @property
    def previous_producer_id(self) -> int:
        """As in `TransactionLogValue`, and so are those below."""
        ...

    @property
    def next_producer_id(self) -> int:
        """-1 without one."""
        ...

    @property
    def client_transaction_version(self) -> int:
        """0 or 2."""
        ...

    @property
    def next_producer_epoch(self) -> int:
        """-1 without one."""
        ...


def transaction_value(value: TransactionFields, partitions: bytes) -> bytes:
    """Return the value of a record as Apache Kafka writes it: version 1 is for clients that need it (KIP-890).

    They are the bytes of a `TransactionLogValue` of these fields; `partitions` are those of `transaction_partitions`,
    flexible if there is a transaction version.
    """
    version = 1 if value.client_transaction_version > 0 else 0
    front = _VALUE_FRONT.pack(
        version, value.producer_id, value.producer_epoch, value.timeout_ms, value.state
    )
    times = _TIMES.pack(value.last_update_ms, value.start_ms)
    if version == 0:
        return front + partitions + times
    tagged = []
    if value.previous_producer_id != -1:
        tagged.append(b"\0\x08" + _I64.pack(value.previous_producer_id))
    if value.next_producer_id != -1:
        tagged.append(b"\x01\x08" + _I64.pack(value.next_producer_id))
    tagged.append(b"\x02\x02" + _I16.pack(value.client_transaction_version))
    if value.next_producer_epoch != -1:
        tagged.append(b"\x03\x02" + _I16.pack(value.next_producer_epoch))
    return b"".join((front, partitions, times, bytes((len(tagged),)), *tagged))


def transaction_partitions(partitions: dict[str, list[int]] | None, *, is_flexible: bool) -> bytes:
    """Return the bytes of the field `transaction_partitions`, by topic; of version 1 if they are flexible."""
    if not is_flexible:
        parts = [b"\xff\xff\xff\xff" if partitions is None else _I32.pack(len(partitions))]
        for topic, numbers in (partitions or {}).items():
            name = topic.encode()
            parts += (
                _I16.pack(len(name)),
                name,
                pack(f">i{len(numbers)}i", len(numbers), *numbers),
            )
        return b"".join(parts)
    parts = [b"\0" if partitions is None else _varint(len(partitions) + 1)]
    for topic, numbers in (partitions or {}).items():
        name = topic.encode()
        many = len(numbers)
        parts += (
            _varint(len(name) + 1),
            name,
            _varint(many + 1),
            pack(f">{many}i", *numbers),
            b"\0",
        )
    return b"".join(parts)


def _varint(value: int) -> bytes:
    if value < 0x80:
        return bytes((value,))
    out = bytearray()
    put_varint(out, value)
    return bytes(out)


def decode_transaction_key(buffer: Buffer) -> TransactionLogKey:
    """Return the key of a record. Raise CorruptFrame, also for a kind that is not known."""
    return decode_versioned(TransactionLogKey, buffer)


def decode_transaction_value(buffer: Buffer) -> TransactionLogValue:
    """Return the value of a record that is no removal. Raise CorruptFrame."""
    return decode_versioned(TransactionLogValue, buffer)


def partition_names(value: TransactionLogValue) -> list[str]:
    """Return the partitions that take part as `topic-partition`."""
    return [
        f"{one.topic}-{partition}"
        for one in value.transaction_partitions or ()
        for partition in one.partition_ids
    ]


def state_name(value: TransactionLogValue) -> str:
    """Return Kafka's word for the state."""
    number = value.transaction_status
    return STATES[number] if 0 <= number < len(STATES) else f"Unknown({number})"
