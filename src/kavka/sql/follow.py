"""A statement over the records of a topic as they arrive.

The engine runs the statement on each piece that a consumer brings. That is right only where a row of the result comes
from one record: for filters and projections of one topic. A statement that is not of this kind is refused.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any, Final

from kavka.client.blocking import Consumer
from kavka.client.list_offsets import EARLIEST
from kavka.ids import TopicPartition
from kavka.sql.bounds import INT64_MIN, Box, narrowed
from kavka.sql.errors import SqlError
from kavka.sql.scan_state import Scan
from kavka.sql.session import Rows, Session
from kavka.values import frozen

_ROW_BY_ROW: Final = (
    "PROJECTION",
    "FILTER",
    "UNNEST",
    "PYTHON_ARROW_SCAN",
    "LIMIT",
    "STREAMING_LIMIT",
)
_SCAN: Final = "PYTHON_ARROW_SCAN"
_LIMITS: Final = ("LIMIT", "STREAMING_LIMIT")
_POLL_MS: Final = 500
_POLL_RECORDS: Final = 20_000
_NEW_PARTITIONS_S: Final = 30.0


@frozen
class FollowedStatement:
    """A statement that can be run piece by piece."""

    text: str
    scan: Scan
    limit: int | None


def followed(session: Session, statement: str) -> FollowedStatement:
    """Check a statement. Raise SqlError where its rows do not each come from one record of one topic."""
    rows = session.execute(statement, feed=[])
    if rows is None:
        raise SqlError("--follow needs a select.")
    for _ in rows.arrow()[1]:
        pass  # an empty topic tells what the statement reads
    scans = session.scans
    plan = session.explain(statement)
    limit: int | None = None
    for operator in _operators(plan):
        name = operator["name"]
        if name not in _ROW_BY_ROW:
            raise SqlError(
                f"--follow gives the rows of a filter and a projection as records arrive, and this statement needs "
                f"all of them ({name.replace('_', ' ').lower()}): run it without --follow, or with a window on Spark."
            )
        if name in _LIMITS:
            limit = _limit(operator.get("extra_info", {}))
    if len(scans) != 1:
        raise SqlError("--follow needs a select from one topic.")
    return FollowedStatement(statement, scans[0], limit)


def _operators(nodes: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    for node in nodes:
        yield node
        yield from _operators(node.get("children", []))


def _limit(details: dict[str, Any]) -> int:
    text = str(details.get("Limit", ""))
    if not text.isdigit() or details.get("Offset") not in (None, "0", 0):
        raise SqlError("--follow takes a LIMIT that is a number, without OFFSET.")
    return int(text)


class Follower:
    """Reads on from where the statement begins, until its limit or Ctrl-C."""

    def __init__(
        self, session: Session, statement: FollowedStatement, from_beginning: bool
    ) -> None:
        """Find where to begin: at the end, unless the statement bounds offset or timestamp, or `from_beginning`."""
        self._session = session
        self._statement = statement
        self._from_beginning = from_beginning
        self._partitions: set[TopicPartition] = set()
        settings = dict(session.brokers.settings) | {"enable.auto.commit": False}
        self._consumer: Consumer = Consumer(settings)
        self._looked_s = time.monotonic()
        try:
            self._assign(self._positions())
        except BaseException:
            self._consumer.close()
            raise

    def close(self) -> None:
        """Close the consumer."""
        self._consumer.close()

    def pieces(self, is_over: Callable[[], bool] = lambda: False) -> Iterator[Rows]:
        """Yield the result for each piece of the topic, until `is_over`. Raise SqlError, KafkaError, OSError."""
        while not is_over():
            self._add_new_partitions()
            fetched = self._consumer.poll(_POLL_MS, max_records=_POLL_RECORDS)
            feed = [(batches.topic_partition, batches.columns()) for batches in fetched]
            if not feed:
                continue
            rows = self._session.execute(self._statement.text, feed=feed)
            assert rows is not None, "it was a select before"
            yield rows

    def _boxes(self) -> dict[TopicPartition, Box]:
        topic = self._statement.scan.topic
        partitions = self._session.brokers.partitions(topic) or []
        return {
            place: box
            for place in sorted(partitions)
            if (box := narrowed(self._statement.scan.predicates, Box(*place))) is not None
        }

    def _positions(self) -> dict[TopicPartition, int]:
        """Return where each partition that can have rows begins."""
        boxes = self._boxes()
        state = self._session.new_state()
        bounds = {one.topic_partition: one for one in state.bounds(boxes)}
        by_time = self._statement.scan.starts_by_time(
            {topic_partition: box.timestamp for topic_partition, box in boxes.items()}
        )
        positions = {}
        for topic_partition, box in boxes.items():
            start, end = bounds[topic_partition].start, bounds[topic_partition].end
            is_bounded = box.offset.low > INT64_MIN or box.timestamp.low > INT64_MIN
            if is_bounded:
                start = max(start, box.offset.low, min(by_time.get(topic_partition, start), end))
            positions[topic_partition] = start if is_bounded or self._from_beginning else end
        return positions

    def _assign(self, positions: dict[TopicPartition, int]) -> None:
        if not positions:
            raise SqlError("The topic has no partition that the statement can have rows of.")
        kept = {
            topic_partition: self._consumer.position(topic_partition)
            for topic_partition in self._partitions
        }
        self._partitions = {*kept, *positions}
        self._consumer.assign(sorted(self._partitions))
        for topic_partition, offset in (positions | kept).items():
            self._consumer.seek(topic_partition, offset)

    def _add_new_partitions(self) -> None:
        """Add new partitions, from their first record."""
        if time.monotonic() - self._looked_s < _NEW_PARTITIONS_S:
            return
        self._looked_s = time.monotonic()
        added = [place for place in self._boxes() if place not in self._partitions]
        if added:
            self._assign(self._session.brokers.offsets(dict.fromkeys(added, EARLIEST)))
