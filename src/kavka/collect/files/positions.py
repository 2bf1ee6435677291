"""Positions of contents: records of a compacted topic, read at the start.

Keys and values are JSON. `{"collector":"web1-access","content":7}` is one content of one collector; a tombstone removes
it. `{"collector":"web1-access"}` names the process that was started last. Its record is the barrier up to which
positions are read: all that older processes have committed is before it.
"""

from __future__ import annotations

import asyncio
import json
import os
import socket
from collections.abc import Mapping
from typing import Any

from kavka.client.admin.admin import Admin
from kavka.client.admin.configs import ConfigResource, ResourceType
from kavka.client.admin.topics import NewTopic
from kavka.client.consumer.consumer import Consumer
from kavka.collect.delivery import CollectorError
from kavka.collect.files.content import Content, Identity, stored_fingerprints
from kavka.collect.record import json_bytes, time_text
from kavka.errors import ErrorCode, KafkaError
from kavka.ids import TopicPartition

_TOPIC_CONFIGS = {
    "cleanup.policy": "compact",
    "segment.bytes": "16777216",
    "min.cleanable.dirty.ratio": "0.1",
}
"""Small segments keep the topic short, which is read at each start."""
_READ_TIMEOUT_S = 120


def barrier_record(name: str, now_ms: int) -> tuple[bytes, bytes]:
    """Return key and value of the record that a process writes at its start."""
    process = {"started": time_text(now_ms), "host": socket.gethostname(), "pid": os.getpid()}
    return json_bytes({"collector": name}), json_bytes(process)


def position_key(name: str, number: int) -> bytes:
    """Return the key of a content's position."""
    return json_bytes({"collector": name, "content": number})


def encode(content: Content) -> bytes:
    """Return the value of a content's position."""
    identity = content.identity
    return json_bytes(
        {
            "source": content.source,
            "path": content.path,
            "position": content.position,
            "device": None if identity is None else identity.device,
            "inode": None if identity is None else identity.inode,
            "marks": stored_fingerprints(content),
        }
    )


def decode(number: int, value: bytes) -> Content:
    """Return a content from its position. Raise ValueError for a value that is no position."""
    try:
        stored: dict[str, Any] = json.loads(value)
        device, inode = stored["device"], stored["inode"]
        return Content(
            number=number,
            source=str(stored["source"]),
            position=int(stored["position"]),
            fingerprints={
                int(offset): str(fingerprint) for offset, fingerprint in stored["marks"].items()
            },
            path=str(stored["path"]),
            identity=None if device is None else Identity(int(device), int(inode)),
        )
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"not a position: {error!r}") from error


async def ensure_topic(settings: Mapping[str, Any], topic: str) -> None:
    """Create the topic of positions unless it exists. Raise CollectorError for one that would lose positions."""
    try:
        async with Admin(settings) as admin:
            created = (await admin.create_topics([NewTopic(topic, 1, -1, _TOPIC_CONFIGS)]))[topic]
            if not isinstance(created, KafkaError):
                return
            if created.code is not ErrorCode.TOPIC_ALREADY_EXISTS:
                raise CollectorError(f"The topic of positions {topic} cannot be created: {created}")
            resource = ConfigResource(ResourceType.TOPIC, topic)
            configs = (await admin.describe_configs([resource]))[resource]
    except (KafkaError, OSError, TimeoutError) as error:
        raise CollectorError(str(error)) from error
    if isinstance(configs, KafkaError):
        raise CollectorError(f"The topic of positions {topic} cannot be described: {configs}")
    policy = next((entry.value for entry in configs if entry.name == "cleanup.policy"), None)
    if policy != "compact":
        raise CollectorError(
            f"The topic of positions {topic} has cleanup.policy={policy}, which would remove positions. Set it to "
            "compact, or name another topic with --positions-topic."
        )


async def read_positions(
    settings: Mapping[str, Any], topic: str, name: str, barrier: int
) -> list[Content]:
    """Return the contents of a collector from the topic, up to the offset of its barrier. Raise CollectorError."""
    committed = {**settings, "isolation.level": "read_committed", "auto.offset.reset": "earliest"}
    topic_partition = TopicPartition(topic, 0)
    values: dict[int, bytes] = {}
    try:
        async with asyncio.timeout(_READ_TIMEOUT_S), Consumer(committed) as consumer:
            consumer.assign([topic_partition])
            while await consumer.position(topic_partition) <= barrier:
                for batches in await consumer.poll(1000):
                    for record in batches.records():
                        _apply(values, name, record.key, record.value)
    except (KafkaError, OSError, TimeoutError) as error:
        raise CollectorError(f"The positions in {topic} cannot be read: {error}") from error
    try:
        return [decode(number, value) for number, value in values.items()]
    except ValueError as error:
        raise CollectorError(f"A record of {topic} is {error}") from error


async def was_replaced(settings: Mapping[str, Any], topic: str, name: str, barrier: int) -> bool:
    """Return whether another collector of the name has started since the barrier of this one. Raise CollectorError."""
    committed = {**settings, "isolation.level": "read_committed"}
    topic_partition = TopicPartition(topic, 0)
    key, _ = barrier_record(name, 0)
    try:
        async with asyncio.timeout(_READ_TIMEOUT_S), Consumer(committed) as consumer:
            consumer.assign([topic_partition])
            end = (await consumer.end_offsets([topic_partition]))[topic_partition]
            consumer.seek(topic_partition, barrier + 1)
            while await consumer.position(topic_partition) < end:
                for batches in await consumer.poll(1000):
                    if any(record.key == key for record in batches.records()):
                        return True
    except (KafkaError, OSError, TimeoutError) as error:
        raise CollectorError(f"The positions in {topic} cannot be read: {error}") from error
    return False


def _apply(values: dict[int, bytes], name: str, key: bytes | None, value: bytes | None) -> None:
    """Apply a record to the positions of a collector; the last record of a content counts."""
    try:
        decoded_key = json.loads(key or b"")
        if decoded_key["collector"] != name or "content" not in decoded_key:
            return
        number = int(decoded_key["content"])
    except (ValueError, KeyError, TypeError):
        return  # of another program
    if value is None:
        values.pop(number, None)
    else:
        values[number] = value
