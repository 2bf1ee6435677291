"""The source: a batch reader and a stream reader.

Spark makes these objects in several processes: one long-lived beside the driver, which asks for offsets and
ranges, and one for each task slot, which reads ranges. So they hold options only until a question needs a connection.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)

from kavka.ids import TopicPartition
from kavka.spark.errors import ConnectorError, one_sentence
from kavka.spark.latest_view import read_changes, read_latest
from kavka.spark.offset_plan import (
    check_order,
    check_topics,
    end_offsets,
    ranges_between,
    report_data_loss,
    start_offsets,
    starts_at_end,
)
from kavka.spark.offsets import (
    OffsetJson,
    OffsetRange,
    Offsets,
    TopicIds,
    from_json,
    ids_from_json,
    limit_offsets,
    recreated_topics,
    split_ranges,
    to_json,
    without_topics,
)
from kavka.spark.options import SourceOptions
from kavka.spark.range_reader import read_range
from kavka.spark.topics import BrokerTopics

if TYPE_CHECKING:
    import pyarrow as pa

log = logging.getLogger(__name__)

_NO_LIMIT = 2**63 - 1
_PUBLISH_S = 2.0
"""Seconds for which a trigger waits for the group's coordinator; unpublished offsets go with the next trigger."""


class RangePartition(InputPartition):  # type: ignore[misc]
    """A task of Spark: one range of offsets; None stands for a batch that reads nothing."""

    def __init__(self, value: OffsetRange | None, topic_id: str = "") -> None:
        """Set the range, and the id of its topic if the task needs it."""
        super().__init__(value)
        self.value: OffsetRange | None = value
        self.topic_id = topic_id


def _tasks(
    ranges: list[OffsetRange], options: SourceOptions, ids: TopicIds | None = None
) -> list[InputPartition]:
    tasks = split_ranges(ranges, options.min_partitions, options.max_records_per_partition)
    return [RangePartition(one, (ids or {}).get(one.topic, "")) for one in tasks]


class BatchReader(DataSourceReader):  # type: ignore[misc]
    """Reads from one set of offsets to another, both fixed when the query is planned."""

    def __init__(self, options: SourceOptions) -> None:
        """Set checked options."""
        self._options = options

    def partitions(self) -> list[InputPartition]:
        """Read the topics' first and last offsets, and split the ranges into tasks."""
        options = self._options
        with one_sentence(), BrokerTopics(options.client) as topics:
            partitions = topics.partitions(options.selection)
            names = {one.topic for one in partitions}
            ids = topics.known_ids(names) if options.view_cache is not None else {}
            start = start_offsets(options, partitions, topics)
            end = end_offsets(options, partitions, topics)
            for partition, last in topics.latest(partitions, end).items():
                if end[partition] > last:
                    report_data_loss(
                        options,
                        f"{partition} ends at offset {last}, before the ending offset {end[partition]}",
                    )
                    end[partition] = last
            ranges = [OffsetRange(*one, start[one], end[one]) for one in partitions]
            check_order(ranges)
            return _tasks(ranges, options, ids) or [RangePartition(None)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the records of a task, in an executor."""
        if partition.value is None:
            return
        with one_sentence():
            if self._options.is_latest_view:
                yield from read_latest(self._options, partition.value, partition.topic_id)
            else:
                yield from read_range(self._options, partition.value)


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):  # type: ignore[misc]
    """Reads micro-batch after micro-batch; offsets are the JSON of Spark's own Kafka source.

    With `groupId`, what Spark has finished is committed to that group. Spark hands the end of its last finished batch
    to `latestOffset` at each trigger, so that the group is behind by no more than the batch that runs.

    Spark stores the end of a batch before it runs, but never the beginning of the first one: a query that dies in its
    first batch asks for its beginning again. With `latest` the first batch is empty, so that its end is the stored
    beginning; replayed, it is empty again, with any end of the partition by then.
    """

    def __init__(self, options: SourceOptions) -> None:
        """Set checked options; no connection is made yet, because tasks get a copy of this object."""
        self._options = options
        self._topics: BrokerTopics | None = None
        self._initial: Offsets | None = None
        self._initial_ids: TopicIds = {}
        self._has_begun = False
        """True once this process has decided the end of a batch; before, a first batch can only be a replayed one."""
        self._target: Offsets | None = None
        """End offsets of an AvailableNow query."""
        self._latest: Offsets | None = None
        self._ids: TopicIds = {}
        """Of the topics of `_latest`, asked for before their ends were."""
        self._committed: Offsets | None = None
        self._last_batch_s = time.monotonic()

    def initialOffset(self) -> OffsetJson:
        """Return where a query without a checkpoint begins; the same at each call."""
        with one_sentence():
            if self._initial is None:
                topics = self._connected()
                partitions = topics.partitions(self._options.selection)
                self._initial_ids = topics.known_ids({one.topic for one in partitions})
                self._initial = start_offsets(self._options, partitions, topics)
            return to_json(self._initial, self._initial_ids)

    def getDefaultReadLimit(self) -> ReadLimit:
        """Return maxOffsetsPerTrigger; ReadAllAvailable would be a trigger that takes all in spite of the options."""
        most = self._options.max_offsets_per_trigger
        if most is None and self._options.min_offsets_per_trigger is not None:
            most = _NO_LIMIT
        return ReadAllAvailable() if most is None else ReadMaxRows(most)

    def latestOffset(self, start: OffsetJson, limit: ReadLimit) -> OffsetJson:
        """Return where the next micro-batch ends; `start` when nothing is new, or not enough of it."""
        with one_sentence():
            begin = from_json(start)
            self._publish(begin)
            end = self._available(begin, ids_from_json(start))
            # A topic that was created again has its records before it, wherever the former one was read to.
            begin = without_topics(begin, recreated_topics(ids_from_json(start), self._ids))
            if begin == self._initial and not self._has_begun:
                end = end | {one: begin[one] for one in self._begun_at_end(begin)}
            self._has_begun = True
            if isinstance(limit, ReadMaxRows):
                end = limit_offsets(self._with_new(begin, end), end, limit.max_rows)
            if not isinstance(limit, ReadAllAvailable) and self._is_too_little(begin, end):
                return start
            self._last_batch_s = time.monotonic()
            return to_json(end, self._ids)

    def _begun_at_end(self, offsets: Offsets) -> list[TopicPartition]:
        return [one for one in offsets if starts_at_end(self._options, one)]

    def _available(
        self, begin: Offsets | None = None, known_ids: TopicIds | None = None
    ) -> Offsets:
        """Return the ends of the partitions: as they are now, or as they were when an AvailableNow query began."""
        if self._target is not None:
            return self._target
        topics = self._connected()
        partitions = topics.partitions(self._options.selection)
        names = {one.topic for one in partitions}
        self._ids = topics.known_ids(names)
        if recreated_topics(known_ids or {}, self._ids):
            self._ids = topics.ids(names, known_ids or {})
        remade = recreated_topics(known_ids or {}, self._ids)
        self._latest = topics.latest(partitions, without_topics(begin or {}, remade))
        return self._latest

    def _with_new(self, begin: Offsets, end: Offsets) -> Offsets:
        """Add the first offsets of partitions that have appeared since `begin`."""
        added = [partition for partition in end if partition not in begin]
        return begin | self._connected().earliest(added) if added else begin

    def _is_too_little(self, begin: Offsets, end: Offsets) -> bool:
        """Apply minOffsetsPerTrigger until maxTriggerDelay is over."""
        minimum = self._options.min_offsets_per_trigger
        waited_ms = (time.monotonic() - self._last_batch_s) * 1000
        if (
            minimum is None
            or self._target is not None
            or waited_ms >= self._options.max_trigger_delay_ms
        ):
            return False
        return sum(max(end[one] - begin.get(one, 0), 0) for one in end) < minimum

    def prepareForTriggerAvailableNow(self) -> None:
        """Fix the end of the query."""
        with one_sentence():
            self._target = self._available()

    def reportLatestOffset(self) -> OffsetJson | None:
        """Return the ends as last seen, for the progress of the query and what computes lag from it."""
        return None if self._latest is None else to_json(self._latest)

    def partitions(self, start: OffsetJson, end: OffsetJson) -> list[InputPartition]:
        """Return the tasks of a micro-batch, the same when it is replayed."""
        with one_sentence():
            begin, stop = check_topics(start, end, self._options, self._connected())
            if begin == self._initial and not self._has_begun:
                begin = begin | {one: stop[one] for one in self._begun_at_end(begin) if one in stop}
            ranges = ranges_between(begin, stop, self._options, self._connected())
            return _tasks(ranges, self._options)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the records of a task, in an executor."""
        with one_sentence():
            if self._options.is_latest_view:
                yield from read_changes(self._options, partition.value)
            else:
                yield from read_range(self._options, partition.value)

    def commit(self, end: OffsetJson) -> None:
        """Publish progress: Spark will not ask for anything before `end` again."""
        with one_sentence():
            self._publish(from_json(end))

    def _publish(self, offsets: Offsets) -> None:
        """Commit to `groupId`. A failure is logged only, because the checkpoint, not the group, is the truth."""
        group_id = self._options.group_id
        if group_id is None or offsets == self._committed:
            return
        try:
            with one_sentence():
                self._connected().commit(group_id, offsets, _PUBLISH_S)
        except ConnectorError as error:
            log.warning("commit of progress failed group=%s reason=%s", group_id, error)
        else:
            self._committed = offsets

    def stop(self) -> None:
        """Close the connections."""
        if self._topics is not None:
            self._topics.close()
            self._topics = None

    def _connected(self) -> BrokerTopics:
        if self._topics is None:
            self._topics = BrokerTopics(self._options.client)
        return self._topics


class RefusedStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):  # type: ignore[misc]
    """Stands for a stream reader with wrong options, and raises the error at the first call.

    An exception while the reader is made does not reach the user: Spark 4.3 then fails on a reader that it lacks.
    """

    def __init__(self, reason: str) -> None:
        """Set the message."""
        self._reason = reason

    def _refuse(self) -> Any:
        with one_sentence():
            raise ConnectorError(self._reason)

    def initialOffset(self) -> OffsetJson:
        """Raise ConnectorError."""
        offset: OffsetJson = self._refuse()
        return offset

    def getDefaultReadLimit(self) -> ReadLimit:
        """Raise ConnectorError."""
        return self._refuse()

    def latestOffset(self, start: OffsetJson, limit: ReadLimit) -> OffsetJson:
        """Raise ConnectorError."""
        offset: OffsetJson = self._refuse()
        return offset

    def prepareForTriggerAvailableNow(self) -> None:
        """Raise ConnectorError."""
        self._refuse()

    def partitions(self, start: OffsetJson, end: OffsetJson) -> list[InputPartition]:
        """Raise ConnectorError."""
        tasks: list[InputPartition] = self._refuse()
        return tasks

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Raise ConnectorError."""
        rows: Iterator[pa.RecordBatch] = self._refuse()
        return rows

    def stop(self) -> None:
        """Do nothing."""
