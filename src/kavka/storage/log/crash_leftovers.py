"""Files that a crash may leave beside the segments, and their removal as in Kafka's `LogLoader`.

.deleted          was on its way out: removed
.cleaned          the cleaner had not finished: removed
.swap             the cleaner had finished: replaces the segments that it covers, unless a .cleaned of the
                  same run at or below its offset shows that the run had not finished, or it is empty or damaged:
                  the cleaner syncs a file before it is named so, so that is a fault of the disk, and what it
                  would replace stays
index without log removed
.tmp              a small file that was not renamed yet: removed
"""

from __future__ import annotations

import logging

from kavka.storage.disk.partition_directory import PartitionDirectory
from kavka.storage.failures import CorruptFile
from kavka.storage.segment.segment import (
    DELETED_SUFFIX,
    INDEX_SUFFIX,
    LOG_SUFFIX,
    TIME_INDEX_SUFFIX,
    TRANSACTION_INDEX_SUFFIX,
    Segment,
)

logger = logging.getLogger(__name__)

CLEANED_SUFFIX = ".cleaned"
SWAP_SUFFIX = ".swap"
_TEMPORARY_SUFFIX = ".tmp"
_INDEX_SUFFIXES = (INDEX_SUFFIX, TIME_INDEX_SUFFIX, TRANSACTION_INDEX_SUFFIX)
_SEGMENT_SUFFIXES = (LOG_SUFFIX, *_INDEX_SUFFIXES)


def remove_leftovers(files: PartitionDirectory) -> list[str]:
    """Bring the directory's names into order and return them. It blocks."""
    names = files.disk.list(files.path)
    cleaned = [_base_offset(name) for name in names if name.endswith(CLEANED_SUFFIX)]
    swaps = [name for name in names if name.endswith(SWAP_SUFFIX)]
    for name in names:
        if name.endswith((DELETED_SUFFIX, CLEANED_SUFFIX, _TEMPORARY_SUFFIX)):
            _remove(files, name)
    if swaps:
        _finish_swaps(files, swaps, min(cleaned, default=None))
        files.disk.sync_directory(files.path)
    names = files.disk.list(files.path)
    _remove_orphans(files, names)
    return names


def log_base_offsets(names: list[str]) -> list[int]:
    """Return the base offsets of the segments among `names`, ascending."""
    return sorted(_base_offset(name) for name in names if _is_segment_file(name, (LOG_SUFFIX,)))


def _finish_swaps(files: PartitionDirectory, swaps: list[str], unfinished_from: int | None) -> None:
    covered: dict[int, tuple[int, int]] = {}
    has_log: set[int] = set()
    for name in swaps:
        base_offset = _base_offset(name)
        is_finished = unfinished_from is None or base_offset < unfinished_from
        if name.endswith(LOG_SUFFIX + SWAP_SUFFIX):
            has_log.add(base_offset)
            found = _segments_covered(files, base_offset) if is_finished else None
            if found is not None:
                covered[base_offset] = found
    # Indexes whose log file was renamed before the stop are alone; those of a refused log file go with it.
    good = [
        name
        for name in swaps
        if (base := _base_offset(name)) in covered
        or (base not in has_log and (unfinished_from is None or base < unfinished_from))
    ]
    for name in swaps:
        if name not in good:
            _remove(files, name)
    ranges = list(covered.values())
    if ranges:
        start, end = min(low for low, _ in ranges), max(high for _, high in ranges)
        for name in files.disk.list(files.path):
            if _is_segment_file(name, _SEGMENT_SUFFIXES) and start <= _base_offset(name) < end:
                _remove(files, name)
    for name in good:
        files.disk.rename(files.path_of(name), files.path_of(name.removesuffix(SWAP_SUFFIX)))
    logger.info("finished swapping cleaned segments in log=%s files=%d", files.path, len(good))


def _segments_covered(files: PartitionDirectory, base_offset: int) -> tuple[int, int] | None:
    """Return the offsets that a swapped log file replaces, from its base up to its end; None for one to be refused."""
    segment = Segment(files, base_offset, 0)
    for data in segment.files:
        data.name += SWAP_SUFFIX
    segment.size = segment.data.file().size()
    position = 0
    refusal = "" if segment.size else "it is empty"
    try:
        while position < segment.size:
            for outline in segment.outlines(position):
                position = outline.position + outline.size
                segment.next_offset = outline.last_offset + 1
    except CorruptFile:
        refusal = f"it has no whole batch at position {position}"
    finally:
        segment.close()
    if refusal:
        logger.warning(
            "swap file refused log=%s file=%s reason=%s; the segments that it would replace are kept",
            files.path,
            segment.data.name,
            refusal,
        )
        return None
    return base_offset, segment.next_offset


def _remove_orphans(files: PartitionDirectory, names: list[str]) -> None:
    bases = set(log_base_offsets(names))
    for name in names:
        if _is_segment_file(name, _INDEX_SUFFIXES) and _base_offset(name) not in bases:
            _remove(files, name)


def _remove(files: PartitionDirectory, name: str) -> None:
    files.remove_if_there(name)
    logger.info("leftover file removed log=%s file=%s", files.path, name)


def _is_segment_file(name: str, suffixes: tuple[str, ...]) -> bool:
    stem, dot, suffix = name.partition(".")
    return dot + suffix in suffixes and stem.isdecimal()


def _base_offset(name: str) -> int:
    return int(name.partition(".")[0])
