"""Files that a crash may leave beside the segments, and their removal as in Kafka's `LogLoader`.

.deleted          was on its way out: removed
.cleaned          the cleaner had not finished: removed
.swap             the cleaner had finished: replaces the segments that it covers, unless a .cleaned of the
                  same run at or below its offset shows that the run had not finished, or it is empty or damaged:
                  the cleaner syncs a file before it is named so, so that is a fault of the disk, and what it
                  would replace stays, with all that shares a segment with it
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
    segment_name,
)

logger = logging.getLogger(__name__)

CLEANED_SUFFIX = ".cleaned"
SWAP_SUFFIX = ".swap"
_TEMPORARY_SUFFIX = ".tmp"
_INDEX_SUFFIXES = (INDEX_SUFFIX, TIME_INDEX_SUFFIX, TRANSACTION_INDEX_SUFFIX)
_SEGMENT_SUFFIXES = (LOG_SUFFIX, *_INDEX_SUFFIXES)


def remove_leftovers(files: PartitionDirectory) -> list[str]:
    """Finish or remove what a crash left in the directory, and return its names. It blocks."""
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
    """Replace segments by the swapped files that cover them, each only of its own offsets."""
    covered: dict[int, int] = {}
    refused: set[int] = set()
    for name in swaps:
        if name.endswith(LOG_SUFFIX + SWAP_SUFFIX):
            base_offset = _base_offset(name)
            is_finished = unfinished_from is None or base_offset < unfinished_from
            end_offset = _swap_end_offset(files, base_offset) if is_finished else None
            if end_offset is None:
                refused.add(base_offset)
            else:
                covered[base_offset] = end_offset
    if refused:
        _refuse_conflicting(files, covered, refused)
    # Indexes are alone if their log file was renamed before the stop; those of a refused log file go with it.
    good = [
        name
        for name in swaps
        if (base := _base_offset(name)) in covered
        or (base not in refused and (unfinished_from is None or base < unfinished_from))
    ]
    for name in swaps:
        if name not in good:
            _remove(files, name)
    for name in files.disk.list(files.path):
        if _is_segment_file(name, _SEGMENT_SUFFIXES) and _is_covered(_base_offset(name), covered):
            _remove(files, name)
    for name in good:
        files.disk.rename(files.path_of(name), files.path_of(name.removesuffix(SWAP_SUFFIX)))
    logger.info("finished swapping cleaned segments in log=%s files=%d", files.path, len(good))


def _is_covered(base_offset: int, covered: dict[int, int]) -> bool:
    return any(start <= base_offset < end for start, end in covered.items())


def _refuse_conflicting(
    files: PartitionDirectory, covered: dict[int, int], refused: set[int]
) -> None:
    """Refuse also the swaps that share a segment with a refused one.

    Apache Kafka splits one segment into several (KAFKA-6264): while one part is missing, the segment has the only
    copy of its records, and parts beside it would repeat others.
    """
    names = files.disk.list(files.path)
    segments = [(base, _end_offset(files, base, "")[0]) for base in log_base_offsets(names)]
    is_changed = True
    while is_changed:
        is_changed = False
        for base_offset, end_offset in segments:
            if not any(base_offset <= refused_base < end_offset for refused_base in refused):
                continue
            for start in [s for s, e in covered.items() if s < end_offset and base_offset < e]:
                _log_refusal(files, start, f"another one of segment {base_offset} was refused")
                del covered[start]
                refused.add(start)
                is_changed = True


def _swap_end_offset(files: PartitionDirectory, base_offset: int) -> int | None:
    """Return the end of the offsets that a swapped log file replaces from its base on; None to refuse it."""
    end_offset, damage = _end_offset(files, base_offset, SWAP_SUFFIX)
    if damage:
        _log_refusal(files, base_offset, damage)
        return None
    return end_offset


def _log_refusal(files: PartitionDirectory, base_offset: int, reason: str) -> None:
    logger.warning(
        "swap file refused log=%s file=%s reason=%s; the segments that it would replace are kept",
        files.path,
        segment_name(base_offset) + LOG_SUFFIX + SWAP_SUFFIX,
        reason,
    )


def _end_offset(files: PartitionDirectory, base_offset: int, suffix: str) -> tuple[int, str]:
    """Return the offset after the last whole batch of a segment's log file, and what is wrong with the file."""
    segment = Segment(files, base_offset, 0)
    for data in segment.files:
        data.name += suffix
    segment.size = segment.data.file().size()
    position = 0
    damage = "" if segment.size else "it is empty"
    try:
        while position < segment.size:
            for outline in segment.outlines(position):
                position = outline.position + outline.size
                segment.next_offset = outline.last_offset + 1
    except CorruptFile:
        damage = f"it has no whole batch at position {position}"
    finally:
        segment.close()
    return segment.next_offset, damage


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
