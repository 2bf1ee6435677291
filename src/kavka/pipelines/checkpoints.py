"""Checkpoints of flows on this machine: where Spark's pipelines keep them, and the offsets in them.

    <storage>/_checkpoints/[<catalog>/<database>/]<target>/<flow>/<number>/offsets/<batch>

A full refresh of a flow begins another number. A file of `offsets` has a version, a line of metadata, and a line for
each source of the query.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kavka.files import replace_file
from kavka.pipelines.definitions import FlowDefinition
from kavka.pipelines.project import PipelineError
from kavka.spark.offsets import Offsets, from_json
from kavka.spark.queries.flow_progress import unqualified

BACKFILL_STATE = "backfill.json"
"""File in the storage with the flows' positions at the start of a backfill; removed at its end."""
_VERSION = "v1"


@dataclass(frozen=True, slots=True)
class BatchOffsets:
    """The offsets that Spark has noted of a batch before it ran it."""

    batch_id: int
    version: str
    metadata: str
    sources: tuple[str, ...]
    """The end of the batch in each source, as JSON; `-` for a source without one."""

    def text(self) -> str:
        """Return it as Spark stores it."""
        return "\n".join([self.version, self.metadata, *self.sources])


def parse_batch(batch_id: int, text: str) -> BatchOffsets:
    """Read a file of `offsets`. Raise ValueError for another version or an incomplete file."""
    lines = text.split("\n")
    if len(lines) < 3 or lines[0] != _VERSION:
        raise ValueError(
            f"offsets of batch {batch_id} have the version {lines[0]!r}, not {_VERSION}"
        )
    return BatchOffsets(batch_id, lines[0], lines[1], tuple(lines[2:]))


def topic_offsets(source: str) -> Offsets | None:
    """Return the offsets of a topic source, None for a source of another kind."""
    try:
        value: Any = json.loads(source)
        return from_json(value) if isinstance(value, dict) else None
    except (AttributeError, TypeError, ValueError):
        return None


class Checkpoints:
    """The checkpoints below a storage of this machine; none where the storage is elsewhere."""

    def __init__(self, storage: Path | None) -> None:
        """Set the path of the storage."""
        self._root = None if storage is None else storage / "_checkpoints"

    def of(self, flow: FlowDefinition) -> Path | None:
        """Return the folder that a flow uses: the one with the highest number; None before its first run."""
        if self._root is None:
            return None
        target, name = unqualified(flow.target), unqualified(flow.name)
        numbered = [
            folder
            for parent in self._root.glob(f"**/{target}/{name}")
            for folder in parent.iterdir()
            if folder.name.isdigit()
        ]
        return max(numbered, key=lambda folder: int(folder.name), default=None)

    def last_batch(self, folder: Path) -> BatchOffsets | None:
        """Return the newest batch that was planned. Raise ValueError for a file of another version."""
        number = last_number(folder / "offsets")
        if number is None:
            return None
        return parse_batch(number, (folder / "offsets" / str(number)).read_text(encoding="utf-8"))

    def positions(self, flow: FlowDefinition) -> list[Offsets]:
        """Return where a flow continues in each of its topic sources; nothing before its first batch."""
        folder = self.of(flow)
        batch = None if folder is None else self.last_batch(folder)
        if batch is None:
            return []
        sources = (topic_offsets(source) for source in batch.sources)
        return [offsets for offsets in sources if offsets]


def require_no_backfill(storage: Path | None) -> None:
    """Raise PipelineError while a backfill has not been finished: its flows are set back."""
    if storage is not None and (storage / BACKFILL_STATE).exists():
        raise PipelineError(
            f"a backfill was not finished ({storage / BACKFILL_STATE} has its times): give its command again first"
        )


def last_number(folder: Path) -> int | None:
    """Return the highest of the files that are named by numbers, None without any."""
    if not folder.is_dir():
        return None
    return max((int(file.name) for file in folder.iterdir() if file.name.isdigit()), default=None)


def uncommitted(folder: Path) -> bool:
    """Return whether the newest batch that was planned was not completed."""
    return last_number(folder / "offsets") != last_number(folder / "commits")


def replace_batch(folder: Path, batch: BatchOffsets) -> None:
    """Write other ends of a completed batch, from which the flow continues.

    The batch keeps its number: the log of a table's files must have no gap. The checksum that Hadoop's file system has
    beside the file is removed, since Spark would refuse the new file by it.
    """
    path = folder / "offsets" / str(batch.batch_id)
    path.with_name(f".{batch.batch_id}.crc").unlink(missing_ok=True)
    replace_file(path, batch.text().encode(), path.with_name(f".{batch.batch_id}.kavka"))


def with_sources(batch: BatchOffsets, sources: Sequence[str]) -> BatchOffsets:
    """Return the batch with other ends."""
    return BatchOffsets(batch.batch_id, batch.version, batch.metadata, tuple(sources))
