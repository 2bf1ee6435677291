"""Planning of a query's reads: from options and topics to offsets, and from offsets to ranges.

Requests to the brokers go through `Topics`, so that what is decided here has no I/O of its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Protocol

from kavka.ids import TopicPartition
from kavka.spark.errors import ConnectorError
from kavka.spark.offsets import (
    OffsetJson,
    OffsetRange,
    Offsets,
    from_json,
    ids_from_json,
    recreated_topics,
    without_topics,
)
from kavka.spark.options import (
    EARLIEST,
    LATEST,
    AtTime,
    AtTimes,
    Bound,
    Everywhere,
    Selection,
    SourceOptions,
    Specific,
)


class Topics(Protocol):
    """The driver's interface to the brokers."""

    def partitions(self, selection: Selection) -> list[TopicPartition]:
        """Return the partitions that exist now. Raise ConnectorError for a topic or partition that does not."""
        ...

    def ids(self, topics: Iterable[str], known: Mapping[str, str]) -> dict[str, str]:
        """Return the topics' ids; one that differs from a `known` one only when it is sure."""
        ...

    def earliest(self, partitions: Iterable[TopicPartition]) -> Offsets:
        """Return the first offset of each."""
        ...

    def latest(self, partitions: Iterable[TopicPartition], known: Offsets | None = None) -> Offsets:
        """Return the offset after the last record that may be read; below a `known` one only when it is sure."""
        ...

    def at_time(
        self, timestamps_ms: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, int | None]:
        """Return the first offset with at least the given timestamp; None when there is none."""
        ...

    def commit(self, group_id: str, offsets: Offsets, timeout_s: float) -> None:
        """Store a group's progress."""
        ...


def start_offsets(
    options: SourceOptions, partitions: list[TopicPartition], topics: Topics
) -> Offsets:
    """Return where a query begins. Raise ConnectorError when a time has no record and the strategy is error."""
    times = _times(options.starting, partitions)
    if times is None:
        return _offsets(options.starting, "startingOffsets", partitions, topics)
    offsets = topics.at_time(times)
    missing = [partition for partition, offset in offsets.items() if offset is None]
    if missing and not options.latest_without_match:
        raise ConnectorError(
            f"{missing[0]} has no record at or after timestamp {times[missing[0]]}: choose an earlier one or set "
            "startingOffsetsByTimestampStrategy to latest."
        )
    return _filled(offsets, topics)


def starts_at_end(options: SourceOptions, partition: TopicPartition) -> bool:
    """Return whether the query begins at the end that the partition has when it is asked, which differs each time."""
    match options.starting:
        case Everywhere(offset):
            return offset == LATEST
        case Specific(offsets):
            return offsets.get(partition) == LATEST
        case _:
            return False


def end_offsets(
    options: SourceOptions, partitions: list[TopicPartition], topics: Topics
) -> Offsets:
    """Return where a batch query ends; a time after the last record is the end of the partition."""
    times = _times(options.ending, partitions)
    if times is None:
        return _offsets(options.ending, "endingOffsets", partitions, topics)
    return _filled(topics.at_time(times), topics)


def _times(bound: Bound, partitions: list[TopicPartition]) -> dict[TopicPartition, int] | None:
    match bound:
        case AtTime(timestamp_ms):
            return dict.fromkeys(partitions, timestamp_ms)
        case AtTimes(timestamps_ms):
            _require_all("the options by timestamp", timestamps_ms, partitions)
            return timestamps_ms
        case _:
            return None


def _filled(offsets: Mapping[TopicPartition, int | None], topics: Topics) -> Offsets:
    """Return offsets, with the end of the partition where none was found."""
    ends = topics.latest([partition for partition, offset in offsets.items() if offset is None])
    return {
        partition: ends[partition] if offset is None else offset
        for partition, offset in offsets.items()
    }


def _offsets(bound: Bound, name: str, partitions: list[TopicPartition], topics: Topics) -> Offsets:
    match bound:
        case Everywhere(offset):
            return topics.earliest(partitions) if offset == EARLIEST else topics.latest(partitions)
        case Specific(offsets):
            _require_all(name, offsets, partitions)
            firsts = topics.earliest([one for one, offset in offsets.items() if offset == EARLIEST])
            lasts = topics.latest([one for one, offset in offsets.items() if offset == LATEST])
            return offsets | firsts | lasts
        case _:
            raise AssertionError(f"{bound} is a time")


def _require_all(
    name: str, given: Iterable[TopicPartition], partitions: list[TopicPartition]
) -> None:
    """Refuse a list that does not name every partition of the query, and no other."""
    missing, strange = set(partitions) - set(given), set(given) - set(partitions)
    if missing:
        raise ConnectorError(f"{name} must name every partition, and {min(missing)} is missing.")
    if strange:
        raise ConnectorError(f"{name} names {min(strange)}, which the query does not read.")


def check_topics(
    start: OffsetJson, end: OffsetJson, options: SourceOptions, topics: Topics
) -> tuple[Offsets, Offsets]:
    """Return the offsets of what Spark has stored, without those of topics that were deleted and created again.

    Such a topic is read from its beginning when it was created before `end` was, and by the next batch when later.
    Raise ConnectorError for it, unless `failOnDataLoss` is false.
    """
    before, after = ids_from_json(start), ids_from_json(end)
    remade = recreated_topics(before, after)
    now = topics.ids(after, after) if after else {}
    gone = recreated_topics(after, now)
    for topic in sorted(remade | gone):
        later = now[topic] if topic in gone else after[topic]
        earlier = before[topic] if topic in remade else after[topic]
        report_data_loss(
            options,
            f"the topic {topic} was deleted and created again (its id was {earlier} and is {later})",
        )
    begin = without_topics(from_json(start), remade | gone)
    return begin, without_topics(from_json(end), gone)


def ranges_between(
    start: Offsets, end: Offsets, options: SourceOptions, topics: Topics
) -> list[OffsetRange]:
    """Return what a trigger reads from `start` to `end`.

    A partition that is missing in `start` is new and is read from its first record. Raise ConnectorError where records
    are gone (partition deleted or shorter, new partition already trimmed), unless `failOnDataLoss` is false.
    """
    added = [partition for partition in end if partition not in start]
    firsts = topics.earliest(added) if added else {}
    for partition in sorted(start):
        if partition not in end:
            report_data_loss(options, f"{partition} was deleted")
    for partition, first in sorted(firsts.items()):
        if first != 0:
            report_data_loss(options, f"{partition} is new, but begins at offset {first}")
    ranges = []
    for partition, stop in sorted(end.items()):
        begin = firsts[partition] if partition in firsts else start[partition]
        if begin > stop:
            report_data_loss(
                options,
                f"{partition} ends at offset {stop}, before offset {begin} where the query stands",
            )
        ranges.append(OffsetRange(*partition, begin, stop))
    return ranges


def check_order(ranges: Iterable[OffsetRange]) -> None:
    """Raise ConnectorError for a batch's range that starts after its end, with any `failOnDataLoss`.

    Spark's connector does the same: the offsets given are wrong, or the topic was deleted and made again.
    """
    for offset_range in ranges:
        if offset_range.start > offset_range.end:
            raise ConnectorError(
                f"The resolved start offset {offset_range.start} is greater than the resolved end offset "
                f"{offset_range.end} for topic {offset_range.topic} partition {offset_range.partition}: check "
                "startingOffsets and endingOffsets, and whether the topic was deleted and created again."
            )


def report_data_loss(options: SourceOptions, loss: str) -> None:
    """Raise ConnectorError for lost records, unless failOnDataLoss is false."""
    if options.fail_on_data_loss:
        raise ConnectorError(
            f"Records may be lost: {loss}; set failOnDataLoss to false to go on without them."
        )
