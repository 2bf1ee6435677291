"""Positions of contents as records of a compacted topic, and reading them at the start.

Keys and values are JSON. `{"collector":"web1-access","content":7}` is one content of one collector; a content that is
forgotten is a tombstone. `{"collector":"web1-access"}` says which process was started last; its record is the barrier
up to which positions are read: all that older processes have committed is before it.
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
from kavka.collect.files.content import Content, Identity, stored_marks
from kavka.collect.record import json_bytes, time_text
from kavka.errors import ErrorCode, KafkaError
from kavka.ids import TopicPartition

_TOPIC_CONFIGS = {
    "cleanup.policy": "compact",
    "segment.bytes": "16777216",
    "min.cleanable.dirty.ratio": "0.1",
}
"""Small segments, so that there is little to read at a start."""
_READ_TIMEOUT_S = 120


def barrier_record(name: str, now_ms: int) -> tuple[bytes, bytes]:
    """Return key and value of the record that a start writes."""
    facts = {"started": time_text(now_ms), "host": socket.gethostname(), "pid": os.getpid()}
    return json_bytes({"collector": name}), json_bytes(facts)


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
            "marks": stored_marks(content),
        }
    )


def decode(number: int, value: bytes) -> Content:
    """Return a content from its position. Raise ValueError for a value that is none."""
    try:
        stored: dict[str, Any] = json.loads(value)
        device, inode = stored["device"], stored["inode"]
        return Content(
            number=number,
            source=str(stored["source"]),
            position=int(stored["position"]),
            marks={int(offset): str(mark) for offset, mark in stored["marks"].items()},
            path=str(stored["path"]),
            identity=None if device is None else Identity(int(device), int(inode)),
        )
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"not a position: {error!r}") from error


async def ensure_topic(settings: Mapping[str, Any], topic: str) -> None:
    """Make the topic of positions where it is missing. Raise CollectorError for one that would lose positions."""
    try:
        async with Admin(settings) as admin:
            made = (await admin.create_topics([NewTopic(topic, 1, -1, _TOPIC_CONFIGS)]))[topic]
            if not isinstance(made, KafkaError):
                return
            if made.code is not ErrorCode.TOPIC_ALREADY_EXISTS:
                raise CollectorError(f"The topic of positions {topic} cannot be made: {made}")
            resource = ConfigResource(ResourceType.TOPIC, topic)
            found = (await admin.describe_configs([resource]))[resource]
    except (KafkaError, OSError, TimeoutError) as error:
        raise CollectorError(str(error)) from error
    if isinstance(found, KafkaError):
        raise CollectorError(f"The topic of positions {topic} cannot be described: {found}")
    policy = next((entry.value for entry in found if entry.name == "cleanup.policy"), None)
    if policy != "compact":
        raise CollectorError(
            f"The topic of positions {topic} has cleanup.policy={policy}, which would remove positions. Set it to "
            "compact, or name another topic with --positions-topic."
        )


async def read_positions(
    settings: Mapping[str, Any], topic: str, name: str, barrier: int
) -> list[Content]:
    """Return the contents of a collector from the topic, up to the offset of its barrier. Raise CollectorError."""
    reading = {**settings, "isolation.level": "read_committed", "auto.offset.reset": "earliest"}
    at = TopicPartition(topic, 0)
    found: dict[int, bytes] = {}
    try:
        async with asyncio.timeout(_READ_TIMEOUT_S), Consumer(reading) as consumer:
            consumer.assign([at])
            while await consumer.position(at) <= barrier:
                for batches in await consumer.poll(1000):
                    for record in batches.records():
                        _take(found, name, record.key, record.value)
    except (KafkaError, OSError, TimeoutError) as error:
        raise CollectorError(f"The positions in {topic} cannot be read: {error}") from error
    try:
        return [decode(number, value) for number, value in found.items()]
    except ValueError as error:
        raise CollectorError(f"A record of {topic} is {error}") from error


async def was_replaced(settings: Mapping[str, Any], topic: str, name: str, barrier: int) -> bool:
    """Return whether another collector of the name has started since the barrier of this one. Raise CollectorError."""
    reading = {**settings, "isolation.level": "read_committed"}
    at = TopicPartition(topic, 0)
    key, _ = barrier_record(name, 0)
    try:
        async with asyncio.timeout(_READ_TIMEOUT_S), Consumer(reading) as consumer:
            consumer.assign([at])
            end = (await consumer.end_offsets([at]))[at]
            consumer.seek(at, barrier + 1)
            while await consumer.position(at) < end:
                for batches in await consumer.poll(1000):
                    if any(record.key == key for record in batches.records()):
                        return True
    except (KafkaError, OSError, TimeoutError) as error:
        raise CollectorError(f"The positions in {topic} cannot be read: {error}") from error
    return False


def _take(found: dict[int, bytes], name: str, key: bytes | None, value: bytes | None) -> None:
    """Remember a record if it is a position of the collector; the last one of a content counts."""
    try:
        named = json.loads(key or b"")
        if named["collector"] != name or "content" not in named:
            return
        number = int(named["content"])
    except (ValueError, KeyError, TypeError):
        return  # of another program
    if value is None:
        found.pop(number, None)
    else:
        found[number] = value
