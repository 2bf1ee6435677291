"""Steps of followed partitions on their logs. A failure of one is no failure of the others.

Damaged records are fetched again. After an error of the disk, or a bug, a partition is not followed until the
controller sends another state.
"""

from __future__ import annotations

import logging
from functools import partial

from kavka.broker.replication.fetcher_context import FetcherContext
from kavka.broker.replication.follower_log import Work
from kavka.broker.replication.leader_fetches import LeaderFetches
from kavka.broker.replication.partition_fetch_state import PartitionFetchState
from kavka.core.follower import Append, Step
from kavka.errors import ErrorCode
from kavka.wire.records.corrupt import CorruptBatch

log = logging.getLogger(__name__)


class PartitionSteps:
    """Carries out what the machines of a fetcher's partitions decide."""

    def __init__(self, context: FetcherContext, fetches: LeaderFetches) -> None:
        """Take the fetches, by which damaged records are fetched again."""
        self._context = context
        self._fetches = fetches
        self.bytes_in = 0
        """Bytes of records that came since the start."""

    def append(
        self, followed: PartitionFetchState, step: Append, records: memoryview | None
    ) -> Work | None:
        """Append fetched records now; return what remains to be done, if the disk is to be waited for."""
        if records is not None:
            self.bytes_in += len(records)
            self._context.throttle.record_fetched(followed.replica, len(records))
        try:
            rest = followed.log.append(step, records)
        except Exception as error:  # noqa: BLE001 - the other partitions continue
            self._failed(followed, error)
            return None
        return None if rest is None else partial(self._run_guarded, followed, rest)

    async def perform(self, followed: PartitionFetchState, step: Step) -> None:
        """Carry out a step that is rare: truncation, a start elsewhere."""
        log.info(
            "follower aligned with its leader partition=%s step=%s",
            followed.replica.topic_partition,
            step,
        )
        await self._run_guarded(followed, partial(followed.log.perform, step))

    async def _run_guarded(self, followed: PartitionFetchState, work: Work) -> None:
        try:
            await work()
        except Exception as error:  # noqa: BLE001 - the other partitions continue
            self._failed(followed, error)

    def _failed(self, followed: PartitionFetchState, error: Exception) -> None:
        """Fetch damaged records again; after an error of the disk, stop until the controller sends another state.

        The same after a bug, which must not keep the leader's other partitions from being fetched.
        """
        topic_partition = followed.replica.topic_partition
        if isinstance(error, CorruptBatch):
            log.warning("fetched records refused partition=%s reason=%s", topic_partition, error)
            self._fetches.session.resend(self._fetches.key(followed))
            followed.machine.delay(self._context.clock.tick_ms())
            return
        if isinstance(error, OSError):
            log.warning("fetched records not stored partition=%s reason=%s", topic_partition, error)
        else:
            log.error("partition no longer followed partition=%s", topic_partition, exc_info=error)
        followed.machine.fail()


def log_refusal(followed: PartitionFetchState, error: ErrorCode, now_ms: int) -> None:
    """Log that a leader refused a fetch; what is to be expected for some time, on level debug."""
    level = logging.INFO if followed.note_refusal(error, now_ms) else logging.DEBUG
    since = followed.refused_since_ms
    what = "fetch refused partition=%s error=%s for_ms=%d"
    for_ms = 0 if since is None else now_ms - since
    log.log(level, what, followed.replica.topic_partition, error.name, for_ms)
