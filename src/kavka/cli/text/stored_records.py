"""Output of records of internal topics: for `dump-log` as key and payload, for the consumer as JSON."""

from __future__ import annotations

from typing import Any

from kavka.cli.text.stored_json import compact, json_of
from kavka.wire.codec import CorruptFrame
from kavka.wire.consumer_protocol import NEWEST_VERSION, decode_assignment, decode_subscription
from kavka.wire.records.batch import Record
from kavka.wire.stored.offsets import (
    GroupMetadataKey,
    GroupMetadataMember,
    GroupMetadataValue,
    OffsetCommitKey,
    OffsetCommitValue,
    StoredKey,
    UnknownKey,
    decode_key,
    decode_value,
)
from kavka.wire.stored.transactions import (
    decode_transaction_key,
    decode_transaction_value,
    partition_names,
    state_name,
)
from kavka.wire.versioned import version_of

REMOVED = "<DELETE>"
"""The payload of a removal."""


def offsets_texts(record: Record) -> tuple[str | None, str | None]:
    """Return key and payload of a record of `__consumer_offsets`, as `--offsets-decoder` prints them."""
    if record.key is None:
        return f"Missing key at offset {record.offset}, skipping.", None
    try:
        key = decode_key(record.key)
        if isinstance(key, UnknownKey):
            return f"Unknown record type {key.version} at offset {record.offset}, skipping.", None
        kind = version_of("record key", record.key)
        shown = compact({"type": str(kind), "data": json_of(key, kind)})
        if record.value is None:
            return shown, REMOVED
        version = version_of("record value", record.value)
        data = _value_json(key, record.value, version)
    except CorruptFrame as error:
        return f"Error at offset {record.offset}, skipping. {error}", None
    return shown, compact({"version": str(version), "data": data})


def _value_json(key: StoredKey, content: bytes, version: int) -> dict[str, Any]:
    if isinstance(key, OffsetCommitKey):
        return json_of(decode_value(key, content), version)
    value = decode_value(key, content)
    data = json_of(value, version)
    if value.protocol_type == "consumer":
        for member, shown in zip(value.members, data["members"], strict=True):
            _show_protocol(member, shown)
    return data


def _show_protocol(member: GroupMetadataMember, shown: dict[str, Any]) -> None:
    """Replace what a consumer said to the others, where it can be read, by its fields."""
    for name, content, decode in (
        ("subscription", member.subscription, decode_subscription),
        ("assignment", member.assignment, decode_assignment),
    ):
        try:
            version = min(version_of(name, content), NEWEST_VERSION)
            shown[name] = json_of(decode(content), version)
        except CorruptFrame:
            continue


def transaction_texts(record: Record) -> tuple[str | None, str | None]:
    """Return key and payload of a record of `__transaction_state`, as `--transaction-log-decoder` prints them."""
    if record.key is None:
        return f"Missing key at offset {record.offset}, skipping.", None
    try:
        key = decode_transaction_key(record.key)
        shown = f"transaction_metadata::transactionalId={key.transactional_id}"
        if record.value is None:
            return shown, REMOVED
        value = decode_transaction_value(record.value)
    except CorruptFrame as error:
        return f"Error at offset {record.offset}, skipping. {error}", None
    return shown, (
        f"producerId:{value.producer_id},producerEpoch:{value.producer_epoch},state={state_name(value)},"
        f"partitions=[{','.join(partition_names(value))}],"
        f"txnLastUpdateTimestamp={value.transaction_last_update_timestamp_ms},"
        f"txnTimeoutMs={value.transaction_timeout_ms}"
    )


def stored_record_json(topic_key: bytes | None, content: bytes | None, wanted: str) -> str | None:
    """Return a record as the consumer's formatters print it, None when it is of another kind.

    `wanted` is offsets, groups or transactions. Raise CorruptFrame.
    """
    if topic_key is None:
        return None
    kind = version_of("record key", topic_key)
    shown: dict[str, Any] = {}
    value: object = None
    if wanted == "transactions":
        if kind != 0:
            return None
        shown["key"] = {"type": kind, "data": json_of(decode_transaction_key(topic_key), kind)}
        value = None if content is None else decode_transaction_value(content)
    else:
        key = decode_key(topic_key)
        if not isinstance(key, OffsetCommitKey if wanted == "offsets" else GroupMetadataKey):
            return None
        shown["key"] = {"type": kind, "data": json_of(key, kind)}
        value = None if content is None else decode_value(key, content)
    if content is None:
        shown["value"] = None
    else:
        version = version_of("record value", content)
        shown["value"] = {"version": version, "data": json_of(value, version)}
    return compact(shown)


def offset_line(topic_key: bytes | None, content: bytes | None) -> str | None:
    """Return a committed offset as 3.9's older formatter prints it, None for any other record. Raise CorruptFrame."""
    key = None if topic_key is None else decode_key(topic_key)
    if not isinstance(key, OffsetCommitKey):
        return None
    name = f"[{key.group},{key.topic},{key.partition}]"
    if content is None:
        return f"{name}::NULL\n"
    value: OffsetCommitValue = decode_value(key, content)
    epoch = "Optional.empty" if value.leader_epoch < 0 else f"Optional[{value.leader_epoch}]"
    expires = "None" if value.expire_timestamp < 0 else f"Some({value.expire_timestamp})"
    return (
        f"{name}::OffsetAndMetadata(offset={value.offset}, leaderEpoch={epoch}, metadata={value.metadata}, "
        f"commitTimestamp={value.commit_timestamp}, expireTimestamp={expires})\n"
    )


__all__ = [
    "GroupMetadataValue",
    "offset_line",
    "offsets_texts",
    "stored_record_json",
    "transaction_texts",
]
