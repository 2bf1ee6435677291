"""`partition.metadata`: the topic id of a partition's directory, in two lines (KIP-516)."""

from __future__ import annotations

from kavka.ids import TopicId, uuid_bytes, uuid_text

PARTITION_METADATA = "partition.metadata"


def encode_partition_metadata(topic_id: TopicId) -> bytes:
    """Return the file's content."""
    return f"version: 0\ntopic_id: {uuid_text(topic_id)}".encode()


def is_unfinished(content: bytes) -> bool:
    """Return whether the host crashed between the creation of a log and its first flush: the file is cut, or zeros."""
    whole = encode_partition_metadata(TopicId(bytes(16)))
    fixed = whole[: whole.index(b"topic_id: ") + len(b"topic_id: ")]
    if not content.strip(b"\0"):
        return True
    return len(content) < len(whole) and content[: len(fixed)] == fixed[: len(content)]


def decode_partition_metadata(content: bytes) -> TopicId:
    """Return the topic id. Raise ValueError when the content is anything else."""
    lines = content.decode("latin-1").splitlines()
    if len(lines) < 2 or lines[0].split() != ["version:", "0"]:
        raise ValueError(f"{PARTITION_METADATA} does not start with 'version: 0'")
    name, _, value = lines[1].partition(":")
    if name.strip() != "topic_id":
        raise ValueError(f"{PARTITION_METADATA} has {name.strip()!r} where topic_id belongs")
    return TopicId(uuid_bytes(value.strip()))
