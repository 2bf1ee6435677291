"""Small files that must never be half written: text checkpoints and all others of their size.

A checkpoint is a version line, a count line, and one entry per line (Kafka's `CheckpointFile`). Files are
written beside their place, synced and renamed over it, so that a crash leaves the old one or the new one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from kavka.ids import TopicPartition
from kavka.io import Disk, File

RECOVERY_POINTS = "recovery-point-offset-checkpoint"
HIGH_WATERMARKS = "replication-offset-checkpoint"
LOG_START_OFFSETS = "log-start-offset-checkpoint"
CLEANER_OFFSETS = "cleaner-offset-checkpoint"

_VERSION = 0
_TEMPORARY_SUFFIX = ".tmp"


class CorruptCheckpoint(ValueError):
    """A checkpoint file does not follow its format."""


def replace_file(disk: Disk, path: str, content: bytes) -> None:
    """Make `content` the durable content of `path`, all or nothing. It blocks: call it in the pool."""
    write_temporary(disk, path, content)
    rename_temporary(disk, path)
    disk.sync_directory(path.rpartition("/")[0] or ".")


def write_temporary(disk: Disk, path: str, content: bytes, *, is_synced: bool = True) -> None:
    """Write `content` beside `path`, for `rename_temporary`, and make it durable if so. It blocks."""
    file = open_temporary(disk, path, content)
    try:
        if is_synced:
            file.sync()
    finally:
        file.close()


def open_temporary(disk: Disk, path: str, content: bytes) -> File:
    """Write `content` beside `path`; return the open file, which the caller syncs and closes."""
    file = disk.open(path + _TEMPORARY_SUFFIX, create=True)
    try:
        file.truncate(0)
        file.write_at(content, 0)
    except BaseException:
        file.close()
        raise
    return file


def rename_temporary(disk: Disk, path: str) -> None:
    """Rename what `write_temporary` wrote to `path`; durable when its directory is synced."""
    disk.rename(path + _TEMPORARY_SUFFIX, path)


def sync_file(disk: Disk, path: str) -> None:
    """Make the content of a small file durable. It blocks."""
    file = disk.open(path)
    try:
        file.sync()
    finally:
        file.close()


def read_file(disk: Disk, path: str) -> bytes | None:
    """Return all bytes of a small file, or None when there is no such file."""
    try:
        file = disk.open(path)
    except FileNotFoundError:
        return None
    try:
        return file.read_at(file.size(), 0)
    finally:
        file.close()


def encode_lines(entries: Iterable[str]) -> bytes:
    """Return a checkpoint of one line per entry."""
    lines = list(entries)
    return "\n".join([str(_VERSION), str(len(lines)), *lines, ""]).encode()


def decode_lines(content: bytes, name: str) -> list[list[str]]:
    """Return the words of each entry. Raise CorruptCheckpoint, naming `name`, on anything else.

    An empty file has no entries: Apache Kafka makes it when it makes a log, and writes it when there is something.
    """
    if not content:
        return []
    try:
        lines = content.decode().splitlines()
        version, count = int(lines[0]), int(lines[1])
    except (UnicodeDecodeError, ValueError, IndexError) as error:
        raise CorruptCheckpoint(f"{name} has no readable version and count") from error
    if version != _VERSION:
        raise CorruptCheckpoint(f"{name} has version {version}, not {_VERSION}")
    entries = [line.split() for line in lines[2:] if line.strip()]
    if len(entries) != count:
        raise CorruptCheckpoint(f"{name} promises {count} entries and has {len(entries)}")
    return entries


def encode_offsets(offsets: Mapping[TopicPartition, int]) -> bytes:
    """Return a checkpoint of `topic partition offset` lines."""
    return encode_lines(
        f"{topic} {partition} {offset}" for (topic, partition), offset in offsets.items()
    )


def decode_offsets(content: bytes, name: str) -> dict[TopicPartition, int]:
    """Return the offsets of `encode_offsets`. Raise CorruptCheckpoint on anything else."""
    offsets: dict[TopicPartition, int] = {}
    for words in decode_lines(content, name):
        try:
            topic, partition, offset = words
            offsets[TopicPartition(topic, int(partition))] = int(offset)
        except ValueError as error:
            raise CorruptCheckpoint(f"{name} has a malformed line: {' '.join(words)!r}") from error
    return offsets
