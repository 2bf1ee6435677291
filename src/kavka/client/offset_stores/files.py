"""Stores of offsets in files: one checkpoint file, or a file beside each output file.

Offsets are replaced as a whole: written to another file, synced, and renamed. An output file is synced before its
offset is, and cut back to what the offset stands for when it is opened again:

    orders-0.jsonl     | saved records                  | written after the last save: cut off by the next `load`
    orders-0.offset    {"next_offset": 120, "bytes": 4711}
"""

from __future__ import annotations

import fcntl
import json
import os
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO, Final, NamedTuple, Self

from kavka.client.offset_stores.stored_offsets import OffsetsTaken
from kavka.client.partitions import offsets_by_partition
from kavka.core.topic_partitions import nest_by_topic
from kavka.files import replace_file
from kavka.ids import TopicPartition

_TRY_S: Final = 0.05


class CheckpointFile:
    """Offsets of all partitions of one process in one file, as JSON.

    The results are elsewhere, and must bear records twice: those between the last `save` and a crash come again.
    """

    def __init__(self, path: str | Path) -> None:
        """Take the path; the file is made by the first `save`. Raise OffsetsTaken where another process has it."""
        self._path = Path(path)
        self._lock = _locked(self._path.with_name(f"{self._path.name}.lock"), 0)
        self._offsets: dict[TopicPartition, int] = {}
        try:
            for topic, found in _read_json(self._path).items():
                for partition, offset in found.items():
                    self._offsets[TopicPartition(topic, int(partition))] = int(offset)
        except BaseException:
            self._lock.close()
            raise

    def __enter__(self) -> Self:
        """Return itself."""
        return self

    def __exit__(self, *error: object) -> None:
        """Close; what was not saved counts as not written."""
        self.close()

    def load(self, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
        """Return where to read on."""
        return {one: self._offsets[one] for one in partitions if one in self._offsets}

    def save(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Write the offsets of the next records; those of other partitions stay. Raise OSError."""
        self._offsets |= offsets_by_partition(offsets)
        _replace_json(self._path, nest_by_topic(self._offsets.items()))

    def release(self, partitions: Sequence[TopicPartition]) -> None:
        """Do nothing: the file is this process's until `close`."""

    def close(self) -> None:
        """Release the file to other processes."""
        self._lock.close()


class _Output(NamedTuple):
    file: BinaryIO
    offset_path: Path


class OutputFiles:
    """One output file for each partition, each with its offset beside it: every record is in it exactly once.

    Processes of a group share the directory; a lock on the output file says which of them has the partition.
    """

    def __init__(
        self, directory: str | Path, suffix: str = ".out", *, wait_ms: int = 10_000
    ) -> None:
        """Make the directory. `wait_ms` bounds how long `load` waits for a process that has a partition still."""
        if suffix in ("", ".offset"):
            raise ValueError(f"the suffix of output files cannot be {suffix!r}")
        self._directory = Path(directory)
        self._directory.mkdir(parents=True, exist_ok=True)
        self._suffix = suffix
        self._wait_s = wait_ms / 1000
        self._outputs: dict[TopicPartition, _Output] = {}

    def __enter__(self) -> Self:
        """Return itself."""
        return self

    def __exit__(self, *error: object) -> None:
        """Close; what was not saved counts as not written."""
        self.close()

    def path(self, topic_partition: TopicPartition) -> Path:
        """Return the output file of a partition."""
        return self._directory / f"{TopicPartition(*topic_partition)}{self._suffix}"

    def load(self, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
        """Open the files, cut off what was not saved, and return where to read on.

        Raise OffsetsTaken, and ValueError for a file that lacks saved bytes, or that this class has not written.
        """
        found = {}
        for topic_partition in partitions:
            offset = self._open(topic_partition)
            if offset is not None:
                found[topic_partition] = offset
        return found

    def _open(self, topic_partition: TopicPartition) -> int | None:
        self.release([topic_partition])
        path = self.path(topic_partition)
        offset_path = self._directory / f"{topic_partition}.offset"
        output = _locked(path, self._wait_s)
        try:
            size = output.seek(0, os.SEEK_END)
            saved = _read_json(offset_path)
            if not saved:
                if size:
                    raise ValueError(f"{path} has {size} bytes, and {offset_path} is not there")
                saved = {"next_offset": None, "bytes": 0}
                _replace_json(offset_path, saved)
            if size < saved["bytes"]:
                raise ValueError(f"{path} has {size} bytes, and {saved['bytes']} were saved")
            output.truncate(saved["bytes"])
            output.seek(saved["bytes"])
        except BaseException:
            output.close()
            raise
        self._outputs[topic_partition] = _Output(output, offset_path)
        offset: int | None = saved["next_offset"]
        return offset

    def write(self, topic_partition: TopicPartition, data: bytes) -> None:
        """Append to the output of a partition. It counts from the next `save` on. Raise OSError, OffsetsTaken."""
        self._output(topic_partition).file.write(data)

    def save(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Sync what was written, and then the offsets of the next records; each partition is one whole."""
        for topic_partition, offset in offsets_by_partition(offsets).items():
            output = self._output(topic_partition)
            output.file.flush()
            os.fsync(output.file.fileno())
            saved = {"next_offset": offset, "bytes": output.file.tell()}
            _replace_json(output.offset_path, saved)

    def _output(self, topic_partition: TopicPartition) -> _Output:
        output = self._outputs.get(topic_partition)
        if output is None:
            raise OffsetsTaken(f"{TopicPartition(*topic_partition)} is not loaded here")
        return output

    def release(self, partitions: Sequence[TopicPartition]) -> None:
        """Close the files of partitions."""
        for topic_partition in partitions:
            output = self._outputs.pop(topic_partition, None)
            if output is not None:
                output.file.close()

    def close(self) -> None:
        """Close all files."""
        self.release(list(self._outputs))


def _locked(path: Path, wait_s: float) -> BinaryIO:
    """Open a file for writing, make it if need be, and lock it. Raise OffsetsTaken; the lock ends with the process."""
    file = os.fdopen(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666), "r+b")
    deadline = time.monotonic() + wait_s
    while True:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            if time.monotonic() >= deadline:
                file.close()
                raise OffsetsTaken(f"another process has {path}") from error
            time.sleep(_TRY_S)
        else:
            return file


def _read_json(path: Path) -> dict[str, Any]:
    try:
        found: dict[str, Any] = json.loads(path.read_bytes())
    except FileNotFoundError:
        return {}
    except ValueError as error:
        raise ValueError(f"{path} is no file of offsets: {error}") from error
    return found


def _replace_json(path: Path, content: Mapping[str, Any]) -> None:
    replace_file(path, json.dumps(content).encode(), path.with_name(f"{path.name}.new"))
