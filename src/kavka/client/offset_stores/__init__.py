"""Offsets kept with the results instead of in the group: in a database, beside output files, in a checkpoint file."""

from kavka.client.offset_stores.files import CheckpointFile, OutputFiles
from kavka.client.offset_stores.sql import SqlOffsets
from kavka.client.offset_stores.stored_offsets import OffsetsTaken, OffsetStore, StoredOffsets

__all__ = [
    "CheckpointFile",
    "OffsetStore",
    "OffsetsTaken",
    "OutputFiles",
    "SqlOffsets",
    "StoredOffsets",
]
