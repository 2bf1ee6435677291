"""The values that a recipe may put into a field, by name, and what of them the broker under test knows."""

from __future__ import annotations

from dataclasses import dataclass, field

from kavka.wire.schema import Kind

TOPICS = ("plain", "compacted", "log-append", "recompressed", "wide")
"""Topics that exist while the fuzzer runs."""
GROUP = "known-group"
TRANSACTIONAL_ID = "known-transaction"
SETTING = "retention.ms"
LONGEST_STRING = 32_767
LITERAL = "="
"""Begins a choice that is the string itself."""
_LONG = 200
_DIGITS = 7

_BITS = {"int8": 8, "int16": 16, "int32": 32, "int64": 64}
_UNSIGNED_BITS = {"uint16": 16, "uint32": 32}

_TOPIC_FIELDS = ("name", "topic", "topic_name", "topic_names")
_GROUP_FIELDS = ("group_id", "groups", "groups_names")
_TRANSACTION_FIELDS = (
    "transactional_id",
    "transactional_ids",
    "v3_and_below_transactional_id",
)
_PLAUSIBLE: dict[str, tuple[str, ...]] = {
    "coordinator_keys": (GROUP, TRANSACTIONAL_ID),
    "key": (GROUP, TRANSACTIONAL_ID),
    "resource_name": (TOPICS[0], "0", ""),
    "configuration_keys": (SETTING, "cleanup.policy"),
    "value": ("1000", "0:0", "*"),
    "member_id": ("",),
    "protocol_type": ("consumer",),
    "protocol_name": ("range",),
    "entity_type": ("user", "client-id", "ip"),
    "feature": ("transaction.version", "metadata.version"),
    "state_filters": ("Ongoing", "Empty"),
    "states_filter": ("Stable", "Empty"),
    "types_filter": ("classic",),
    "listener": ("PLAINTEXT",),
    "host": ("127.0.0.1",),
    "host_name": ("127.0.0.1",),
}
_PLAUSIBLE_INTEGERS: dict[str, tuple[int, ...]] = {
    "acks": (1, -1, 0),
    "timeout_ms": (30_000,),
    "max_wait_ms": (0,),
    "min_bytes": (0, 1),
    "max_bytes": (1 << 20,),
    "partition_max_bytes": (1 << 20,),
    "replication_factor": (1, -1),
    "num_partitions": (1, -1),
    "count": (5,),
    "session_timeout_ms": (10_000,),
    "rebalance_timeout_ms": (1_000,),
    "transaction_timeout_ms": (60_000,),
    "generation_id": (-1,),
    "generation_id_or_member_epoch": (-1,),
    "timestamp": (-1, -2, -3, 1_700_000_000_000),
    "fetch_offset": (0,),
    "offset": (0, -1),
    "replica_id": (-1,),
    "session_id": (0,),
    "session_epoch": (0, -1),
    "current_leader_epoch": (-1, 0),
    "resource_type": (2, 4, 8),
    "config_operation": (0, 1, 2, 3),
    "key_type": (0, 1),
    "election_type": (0, 1),
    "port": (9092,),
}


@dataclass
class Known:
    """Topic ids and log directory of the broker under test."""

    topic_ids: dict[str, bytes] = field(default_factory=dict)
    directory: str = "/"


@dataclass(frozen=True)
class Counter:
    """Bytes of a value that are to differ in each element of the array around it."""

    position: int
    width: int
    is_text: bool


INTEGERS = ("valid", "zero", "minus-one", "minus-two", "min", "max", "count")
STRINGS = ("valid", "empty", "count", "long", "unknown")
"""`long` is of 200 bytes, `longest` of 32,767; `invalid` is not UTF-8."""
UUIDS = ("valid", "zero", "count", "unknown")
BYTES = ("empty", "long", "unknown")


def choices(kind: Kind) -> tuple[str, ...]:
    """Return the names of the values for a field of this type."""
    if kind.name == "string":
        return STRINGS
    if kind.name == "uuid":
        return UUIDS
    if kind.name == "bytes":
        return BYTES
    if kind.name == "bool":
        return ("zero", "max")
    return INTEGERS


def integer(kind: Kind, name: str, choice: str) -> int:
    """Return the number that a choice means; that of `count` is where the counting begins."""
    if kind.name == "bool":
        return int(choice == "max")
    if kind.name in _UNSIGNED_BITS:
        low, high = 0, (1 << _UNSIGNED_BITS[kind.name]) - 1
    else:
        bits = _BITS[kind.name]
        low, high = -(1 << (bits - 1)), (1 << (bits - 1)) - 1
    if choice.startswith("valid"):
        found = _PLAUSIBLE_INTEGERS.get(name, (0,))
        return found[int(choice[5:] or 0) % len(found)]
    chosen = {"zero": 0, "count": 0, "minus-one": -1, "minus-two": -2, "min": low, "max": high}
    return min(high, max(low, chosen[choice]))


def text(name: str, choice: str, known: Known) -> tuple[bytes, list[Counter]]:
    """Return the bytes of a string, and where it counts."""
    if choice.startswith(LITERAL):
        return choice.removeprefix(LITERAL).encode(), []
    if choice == "count":
        return b"x" + b"0" * _DIGITS, [Counter(1, _DIGITS, is_text=True)]
    if choice.startswith("valid"):
        found = _plausible(name, known)
        return found[int(choice[5:] or 0) % len(found)].encode(), []
    return {
        "empty": b"",
        "unknown": b"unknown",
        "long": b"l" * _LONG,
        "longest": b"l" * LONGEST_STRING,
        "invalid": b"\xff\xfe",
    }[choice], []


def _plausible(name: str, known: Known) -> tuple[str, ...]:
    if name in _TOPIC_FIELDS:
        return (*TOPICS, SETTING)
    if name in _GROUP_FIELDS:
        return (GROUP,)
    if name in _TRANSACTION_FIELDS:
        return (TRANSACTIONAL_ID,)
    if name == "path":
        return (known.directory,)
    return _PLAUSIBLE.get(name, ("",))


def uuid(choice: str, known: Known) -> tuple[bytes, list[Counter]]:
    """Return the bytes of a uuid, and where it counts."""
    if choice == "zero":
        return bytes(16), []
    if choice.startswith("valid") and known.topic_ids:
        return known.topic_ids[TOPICS[int(choice[5:] or 0) % len(TOPICS)]], []
    counters = [Counter(12, 4, is_text=False)] if choice == "count" else []
    return b"\x51" * 16, counters


def binary(choice: str) -> bytes:
    """Return the content of a field of bytes."""
    return {"unknown": b"\x00\x01", "long": bytes(_LONG)}.get(choice, b"")
