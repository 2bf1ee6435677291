"""Names of data files: the sink and the batch begin them, so that those of failed attempts are recognised. Pure.

    <sink>-<16 hex digits of sink and write>-<batch>-<task>-<32 hex digits of the attempt>-<number>.parquet

Ids may have '-' in them, so a name is compared with what a known sink and write give, and is never taken apart alone.
"""

from __future__ import annotations

import hashlib
import re

from kavka.lake.sink_state import BatchId, SinkState

_REST = re.compile(r"(\d+)-\d+-[0-9a-f]{32}-\d{5}\.parquet")


def file_prefix(sink: str | None, batch: BatchId, task: int) -> str:
    """Return what begins the names of a task's files."""
    return f"{_of_write(sink or 'any', batch.write)}{batch.number}-{task}"


def is_settled(name: str, sink: str, state: SinkState) -> bool:
    """Return whether a file is of a batch about which was decided: it is in the table by now, or never will be.

    That holds for batches up to the last that is committed, and for all of earlier writes of the sink.
    """
    match = _REST.fullmatch(name.removeprefix(_of_write(sink, state.batch.write)))
    if match is not None:
        return int(match[1]) <= state.batch.number
    return any(_REST.fullmatch(name.removeprefix(_of_write(sink, one))) for one in state.past)


def _of_write(sink: str, write: str) -> str:
    digest = hashlib.sha256(f"{sink}\0{write}".encode()).hexdigest()[:16]
    return f"{sink}-{digest}-"
