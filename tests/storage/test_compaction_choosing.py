"""The cleaner's choice of a log, of the offset up to which it cleans, and of the segments that become one."""

from __future__ import annotations

import pytest

from kavka.storage.compaction.cleanable_log import (
    Dirtiness,
    dirtiest_log,
    first_dirty,
    group_segments,
    measure_dirtiness,
)
from kavka.storage.disk.os_disk import OsDisk
from kavka.storage.disk.partition_directory import OpenFiles, PartitionDirectory
from kavka.storage.log_config import LogConfig
from kavka.storage.segment.segment import Segment

COMPACTED = frozenset({"compact"})
NOW = 1_000_000


def segments(*facts: tuple[int, int, int, int]) -> list[Segment]:
    """Make segments of (base offset, size, first timestamp, largest timestamp); the last one is active."""
    files = PartitionDirectory(OsDisk(), "/nowhere", OpenFiles(8))
    made = []
    for base_offset, size, first, largest in facts:
        segment = Segment(files, base_offset, 0)
        segment.size = segment.reserved_size = size
        segment.first_timestamp, segment.max_timestamp = first, largest
        made.append(segment)
    return made


FOUR = segments((0, 100, 10, 20), (10, 100, 20, 30), (20, 100, 30, 40), (30, 100, 40, 50))


def measured(config: LogConfig | None = None, *, first: int = 0, stable: int = 99) -> Dirtiness:
    return measure_dirtiness(
        FOUR,
        config or LogConfig(cleanup_policy=COMPACTED),
        first_dirty_offset=first,
        last_stable_offset=stable,
        now_ms=NOW,
    )


@pytest.mark.parametrize(
    ("first", "stable", "bound", "clean", "cleanable"),
    [
        (0, 99, 30, 0, 300),  # all but the active segment
        (10, 99, 30, 100, 200),
        (15, 99, 30, 200, 200),  # a segment that is half clean counts on both sides, as in Kafka
        (30, 99, 30, 300, 0),
        (35, 99, 30, 300, 0),
        (0, 25, 20, 0, 200),  # the segment that holds the last stable offset stays as it is
        (0, 20, 20, 0, 200),
        (0, 5, 0, 0, 0),
        (25, 22, 20, 200, 0),
    ],
)
def test_what_is_cleanable_lies_between_the_clean_part_and_what_is_not_decided(
    first: int, stable: int, bound: int, clean: int, cleanable: int
) -> None:
    found = measured(first=first, stable=stable)
    assert (found.first_uncleanable_offset, found.clean_bytes, found.cleanable_bytes) == (
        bound,
        clean,
        cleanable,
    )


def test_young_segments_are_left_alone() -> None:
    config = LogConfig(cleanup_policy=COMPACTED, min_compaction_lag_ms=NOW - 30)
    assert measured(config).first_uncleanable_offset == 20
    config = LogConfig(cleanup_policy=COMPACTED, min_compaction_lag_ms=NOW - 29)
    assert measured(config).first_uncleanable_offset == 10
    # What is clean already does not get younger.
    assert measured(config, first=20).first_uncleanable_offset == 20


def test_a_log_is_due_when_more_than_the_ratio_is_dirty_or_a_record_waited_too_long() -> None:
    config = LogConfig(cleanup_policy=COMPACTED, min_cleanable_dirty_ratio=0.5)
    assert measured(config, first=0).is_due(config)
    assert measured(config, first=10).ratio == pytest.approx(2 / 3)
    assert measured(config, first=10).is_due(config)
    assert not measured(config, first=20).is_due(config)
    always = LogConfig(cleanup_policy=COMPACTED, min_cleanable_dirty_ratio=0.0)
    assert measured(always, first=20).is_due(always)
    assert not measured(always, first=30).is_due(always)
    for lag_ms, is_due in ((NOW - 29, False), (NOW - 30, False), (NOW - 31, True)):
        config = LogConfig(cleanup_policy=COMPACTED, max_compaction_lag_ms=lag_ms)
        assert measured(config, first=20).is_due(config) is is_due


def test_a_checkpoint_outside_of_the_log_says_nothing() -> None:
    assert first_dirty(None, 5, 20) == 5
    assert first_dirty(4, 5, 20) == 5
    assert first_dirty(5, 5, 20) == 5
    assert first_dirty(20, 5, 20) == 20
    assert first_dirty(21, 5, 20) == 5


def test_the_dirtiest_comes_first() -> None:
    def dirt(clean: int, dirty: int) -> Dirtiness:
        return Dirtiness(0, 0, clean, dirty, 0)

    found = dirtiest_log(
        [("a", dirt(90, 10)), ("b", dirt(10, 10)), ("c", dirt(0, 0)), ("d", dirt(5, 5))]
    )
    assert found is not None
    assert found[0] == "b"
    assert dirtiest_log([]) is None


def test_segments_become_one_while_they_fit() -> None:
    small = segments(*((10 * index, 100, 0, 0) for index in range(5)))
    config = LogConfig(segment_bytes=250)
    bases = [[s.base_offset for s in run] for run in group_segments(small, config, 50)]
    assert bases == [[0, 10], [20, 30], [40]]
    assert [len(run) for run in group_segments(small, LogConfig(segment_bytes=50), 50)] == [1] * 5


def test_offsets_that_would_not_fit_a_segment_are_kept_apart() -> None:
    far = segments((0, 10, 0, 0), (2**31 - 10, 10, 0, 0), (2**31, 10, 0, 0))
    bases = [[s.base_offset for s in run] for run in group_segments(far, LogConfig(), 2**31 + 5)]
    assert bases == [[0, 2**31 - 10], [2**31]]
