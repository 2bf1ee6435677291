"""Validation of produced batches, before a leader appends them.

In the order of Kafka: the request's rules (one batch, of magic 2, zstd from Produce 7 on), base offset, size, CRC,
the header's own sense, then each record. A batch of a client must not poison the time index, retention or
compaction, so the records are walked by the kernel; a compressed body is walked in pieces where its codec allows.

A body that has a true CRC and is broken all the same was made so. What its codec cannot read is answered with
UNKNOWN_SERVER_ERROR, as Kafka does, and records that break the format with INVALID_RECORD; clients retry neither.
Kafka takes uncompressed offset deltas that are wrong and compressed records that are not as long as they say; both
are refused here, since consumers would lose records, or stop there ([decision 030](docs/explanation/decisions)).
"""

from __future__ import annotations

from typing import Final

from kavka.errors import ErrorCode
from kavka.io import Buffer
from kavka.values import field, frozen
from kavka.wire.crc32c import crc32c
from kavka.wire.records import corrupt, kernel
from kavka.wire.records.batch_check import (
    Allowance,
    BatchCheck,
    Checked,
    RecordError,
    Refusal,
    Steps,
)
from kavka.wire.records.body import DECOMPRESSED_LIMIT, body_of, reseal
from kavka.wire.records.body_check import RecordCheck, check_body, is_small_and_sound
from kavka.wire.records.compression import Compression
from kavka.wire.records.corrupt import BatchTooLarge, CorruptBatch, CorruptBody
from kavka.wire.records.header import (
    COMPRESSION_MASK,
    CONTROL_BIT,
    HEADER_SIZE,
    LOG_APPEND_TIME_BIT,
    MAGIC,
    MAGIC_POSITION,
    TRANSACTIONAL_BIT,
    BatchHeader,
    TimestampType,
    assign,
    batch_crc,
    read_header,
    stamp_log_append_time,
    stamp_max_timestamp,
    walk,
)

NO_LIMIT_MS: Final = 2**63 - 1
_EARLIEST: Final = -(2**63)
_ZSTD_FROM_PRODUCE: Final = 7
_BATCHES_FROM_PRODUCE: Final = 3
_BODY_LIMIT: Final = 32 << 20
_BODY_RATIO: Final = 16
_LARGE_BATCH: Final = 2 << 20
_LARGE_RECOMPRESSION: Final = 16 << 10
_RECOMPRESSION_WEIGHT: Final = 64


@frozen
class BatchRules:
    """A topic's settings, as far as they concern produced batches; made once per change of them."""

    max_message_bytes: int = 1_048_588
    compression: Compression | None = None  # None: the producer's
    compression_level: int | None = None
    timestamp_type: TimestampType = TimestampType.CREATE_TIME
    timestamp_before_max_ms: int = NO_LIMIT_MS
    timestamp_after_max_ms: int = NO_LIMIT_MS
    needs_key: bool = False  # the topic is compacted

    keeps_batches: bool = field(init=False)
    """True if batches need neither recompression nor log append time."""
    small_batch_bytes: int = field(init=False)
    """Maximum size of a batch that is checked in one call; larger ones are checked in steps."""

    def __post_init__(self) -> None:
        """Decide once what would be asked for each batch."""
        as_they_are = self.compression is None and self.timestamp_type is TimestampType.CREATE_TIME
        object.__setattr__(self, "keeps_batches", as_they_are)
        small_batch_bytes = min(self.max_message_bytes, _LARGE_BATCH)
        object.__setattr__(self, "small_batch_bytes", small_batch_bytes)

    @property
    def body_limit(self) -> int:
        """Bytes that the records of one batch may decompress to."""
        return max(_BODY_LIMIT, _BODY_RATIO * self.max_message_bytes)


def number_produced(
    buffer: bytearray | memoryview,
    rules: BatchRules,
    now_ms: int,
    produce_version: int,
    base_offset: int,
    leader_epoch: int,
    allowance: Allowance | None = None,
) -> tuple[bytearray | memoryview, BatchHeader] | Refusal | BatchCheck:
    """Check and number a partition's produced bytes; return them, or recompressed ones, with the header.

    What nearly every batch is, one with nothing to find fault with, takes one call of the kernel; all others are judged
    step by step. Bytes that are refused may have been numbered. When the allowance does not suffice, the check is
    returned as far as it came, to be finished elsewhere and numbered by `number_checked`.
    """
    if rules.keeps_batches and produce_version >= _ZSTD_FROM_PRODUCE:
        header = kernel.sound(
            buffer,
            BatchHeader,
            crc32c,
            rules.small_batch_bytes,
            rules.needs_key,
            now_ms,
            rules.timestamp_before_max_ms,
            rules.timestamp_after_max_ms,
            base_offset,
            leader_epoch,
        )
        if header is not None:
            if header.attributes & COMPRESSION_MASK == 0:
                return buffer, header
            if allowance is None:
                allowance = Allowance()
            allowance.decompressed_bytes_left += allowance.ratio * header.size
            earliest, latest = _bounds(rules, now_ms)
            if is_small_and_sound(buffer, header, rules.needs_key, earliest, latest, allowance):
                return buffer, header
            check = BatchCheck(
                buffer, _body_steps(buffer, header, rules, now_ms, allowance), allowance
            )
            if not check.advance():
                return check
            assert check.result is not None
            return check.result
    check = begin_check(buffer, rules, now_ms, produce_version, allowance)
    if not check.advance():
        return check
    return number_checked(check, base_offset, leader_epoch)


def begin_check(
    buffer: bytearray | memoryview,
    rules: BatchRules,
    now_ms: int,
    produce_version: int = 11,
    allowance: Allowance | None = None,
) -> BatchCheck:
    """Return the check of a partition's produced bytes, not begun yet.

    The buffer must be writable: with LogAppendTime the batch is stamped with `now_ms`, and with CreateTime a max
    timestamp that is not that of the records is put right; both as the leader in Kafka does.
    """
    if allowance is None:
        allowance = Allowance()
    allowance.decompressed_bytes_left += allowance.ratio * len(buffer)
    steps = _steps(buffer, rules, now_ms, produce_version, allowance)
    return BatchCheck(buffer, steps, allowance)


def number_checked(
    check: BatchCheck, base_offset: int, leader_epoch: int
) -> tuple[bytearray | memoryview, BatchHeader] | Refusal:
    """Assign the offsets of a checked batch."""
    result = check.result
    assert result is not None, "the check is not done"
    if isinstance(result, Refusal):
        return result
    buffer, header = result
    return buffer, assign(buffer, header, base_offset, leader_epoch)


def _steps(
    buffer: bytearray | memoryview,
    rules: BatchRules,
    now_ms: int,
    produce_version: int,
    allowance: Allowance,
) -> Steps:
    """Check the header, then the body."""
    if len(buffer) <= MAGIC_POSITION:
        return _invalid(f"{len(buffer)} bytes hold no record batch")
    if buffer[MAGIC_POSITION] < MAGIC:
        return _refuse_legacy(buffer[MAGIC_POSITION], produce_version)
    try:
        header = read_header(buffer)
    except CorruptBatch as error:
        return Refusal(ErrorCode.CORRUPT_MESSAGE, str(error))
    if header.size != len(buffer):
        return _refuse_extent(buffer, header)
    if _LARGE_BATCH < header.size <= rules.max_message_bytes:
        yield header.size
    refusal = _check_header(buffer, header, rules, produce_version)
    if refusal is not None:
        return refusal
    return (yield from _body_steps(buffer, header, rules, now_ms, allowance))


def _body_steps(
    buffer: bytearray | memoryview,
    header: BatchHeader,
    rules: BatchRules,
    now_ms: int,
    allowance: Allowance,
) -> Steps:
    """Check the records, stamp the batch as the topic's settings say, and recompress it."""
    earliest, latest = _bounds(rules, now_ms)
    stays_compressed = header.attributes & COMPRESSION_MASK != 0 and (
        rules.compression is None or header.compression is rules.compression
    )
    check = RecordCheck(
        header.record_count,
        rules.needs_key,
        header.base_timestamp,
        earliest,
        latest,
        bounded=not stays_compressed,
    )
    decompressed = allowance.decompressed_bytes_left
    try:
        yield from check_body(buffer, header, check, rules.body_limit, allowance)
    except BatchTooLarge as error:
        return Refusal(ErrorCode.MESSAGE_TOO_LARGE, str(error))
    except CorruptBody as error:
        return Refusal(ErrorCode.UNKNOWN_SERVER_ERROR, str(error))
    except CorruptBatch as error:
        return _invalid(f"Found invalid record structure: {error}")
    is_rewritten = rules.compression is not None and header.compression is not rules.compression
    renumbers = is_rewritten and _are_offsets_only(check.violations)
    if check.violations and not renumbers:
        return _refuse_records(check.violations, stays_compressed, earliest, latest)
    if rules.timestamp_type is TimestampType.LOG_APPEND_TIME:
        header = stamp_log_append_time(buffer, header, now_ms)
    elif (largest := max(check.largest, -1)) != header.max_timestamp:
        header = stamp_max_timestamp(buffer, header, largest)
    if not is_rewritten:
        return Checked(buffer, header)
    size = max(header.size, decompressed - allowance.decompressed_bytes_left)
    if size > _LARGE_RECOMPRESSION:
        yield _RECOMPRESSION_WEIGHT * size
    return _recompressed(buffer, header, rules, (earliest, latest) if renumbers else None)


def _bounds(rules: BatchRules, now_ms: int) -> tuple[int, int]:
    """Return between which timestamps of records must be."""
    if rules.timestamp_type is not TimestampType.CREATE_TIME:
        return _EARLIEST, NO_LIMIT_MS
    earliest = now_ms - rules.timestamp_before_max_ms
    if rules.timestamp_before_max_ms == NO_LIMIT_MS:
        earliest = _EARLIEST
    return max(_EARLIEST, earliest), min(NO_LIMIT_MS, now_ms + rules.timestamp_after_max_ms)


def _are_offsets_only(violations: list[tuple[int, int]]) -> bool:
    """Return whether there is a record with a wrong offset, and nothing else is known to be wrong."""
    return bool(violations) and all(rule == corrupt.WRONG_OFFSET for _, rule in violations)


def _recompressed(
    buffer: bytearray | memoryview,
    header: BatchHeader,
    rules: BatchRules,
    renumbered_between: tuple[int, int] | None,
) -> Checked | Refusal:
    """Return the batch under the codec of the topic's compression.type.

    Like Kafka's, a batch that is rewritten has the offsets 0, 1, 2 and so on whatever it had. What `check` has not
    looked at in a record with a wrong offset is checked then, with the bounds of timestamps that are given.
    """
    codec = rules.compression
    assert codec is not None
    limit = rules.max_message_bytes if codec is Compression.NONE else rules.body_limit
    try:
        if renumbered_between is None:
            made = recompress(buffer, header, codec, rules.compression_level, limit=limit)
        else:
            body = renumbered(buffer, header, limit)
            check = RecordCheck(
                header.record_count, rules.needs_key, header.base_timestamp, *renumbered_between
            )
            check.feed(body, 0, len(body), True)
            if check.violations:
                return _refuse_records(check.violations, False, *renumbered_between)
            made = reseal(header, body, codec, rules.compression_level)
    except BatchTooLarge as error:
        return Refusal(ErrorCode.MESSAGE_TOO_LARGE, str(error))
    if len(made) > rules.max_message_bytes:
        return _too_large(len(made), rules)
    return Checked(made, read_header(made))


def recompress(
    buffer: Buffer,
    header: BatchHeader,
    codec: Compression,
    level: int | None = None,
    *,
    limit: int = DECOMPRESSED_LIMIT,
) -> bytearray:
    """Return the batch with its records under another codec and a new CRC; all else stays.

    Raise CorruptBatch for a body that does not decompress, BatchTooLarge when it is more than `limit`.
    """
    body, start, end = body_of(buffer, header, limit)
    return reseal(header, memoryview(body)[start:end], codec, level)


def renumbered(buffer: Buffer, header: BatchHeader, limit: int = DECOMPRESSED_LIMIT) -> memoryview:
    """Return the uncompressed records of the batch with the offset deltas 0, 1, 2 and so on.

    Raise CorruptBatch, and BatchTooLarge when they are more than `limit` bytes.
    """
    from kavka.wire.records.columns import Columns, encode_rows  # few brokers ever need them

    body, start, end = body_of(buffer, header, limit)
    # Deltas of offsets and timestamps are kept as they are: a batch at offset 0 that begins at time 0.
    part = (body, start, end, header.record_count, 0, 0, 0, 0)
    columns = Columns.of(kernel.decode([part], _EARLIEST), header.record_count)
    return memoryview(encode_rows(columns, base_timestamp=0))[HEADER_SIZE:]


def _invalid(message: str) -> Refusal:
    return Refusal(ErrorCode.INVALID_RECORD, message)


def _too_large(size: int, rules: BatchRules) -> Refusal:
    return Refusal(
        ErrorCode.MESSAGE_TOO_LARGE,
        f"The record batch size is {size} bytes, which exceeds the maximum configured value of"
        f" {rules.max_message_bytes}.",
    )


def _refuse_legacy(magic: int, produce_version: int) -> Refusal:
    """Refuse message sets of magic 0 and 1: forbidden from Produce 3 on, and not converted before."""
    if produce_version >= _BATCHES_FROM_PRODUCE:
        return _invalid(
            f"Produce requests with version {produce_version} are only allowed to contain"
            f" record batches with magic version 2, not {magic}"
        )
    return Refusal(
        ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT,
        f"messages of magic {magic} are not converted by this broker",
    )


def _refuse_extent(buffer: Buffer, first: BatchHeader) -> Refusal:
    """Return the refusal of bytes that are not exactly one batch."""
    if first.size > len(buffer):
        return Refusal(ErrorCode.CORRUPT_MESSAGE, f"a batch of {first.size} bytes in {len(buffer)}")
    try:
        walk(buffer)
    except CorruptBatch as error:
        return Refusal(ErrorCode.CORRUPT_MESSAGE, str(error))
    return _invalid("Produce requests are only allowed to contain exactly one batch per partition")


def _check_header(
    buffer: Buffer, header: BatchHeader, rules: BatchRules, produce_version: int
) -> Refusal | None:
    """Validate the header; the CRC is checked before the fields that it covers are trusted."""
    attributes = header.attributes
    codec = attributes & COMPRESSION_MASK
    if codec == Compression.ZSTD and produce_version < _ZSTD_FROM_PRODUCE:
        return Refusal(
            ErrorCode.UNSUPPORTED_COMPRESSION_TYPE,
            f"Produce requests with version {produce_version} are not allowed to use ZStandard compression",
        )
    if header.base_offset != 0:
        return _invalid(f"The base offset of the batch should be 0, but it is {header.base_offset}")
    if header.size > rules.max_message_bytes:
        return _too_large(header.size, rules)
    crc = batch_crc(buffer, header)
    if crc != header.crc:
        return Refusal(
            ErrorCode.CORRUPT_MESSAGE,
            f"Record is corrupt (stored crc = {header.crc}, computed crc = {crc})",
        )
    if codec > Compression.ZSTD:
        return Refusal(ErrorCode.UNKNOWN_SERVER_ERROR, f"unknown compression codec {codec}")
    count = header.record_count
    if count <= 0:
        return _invalid(f"Invalid reported count for record batch: {count}")
    if header.last_offset_delta != count - 1:
        return _invalid(
            f"Inconsistent batch offset range [0, {header.last_offset_delta}] and count of records {count}"
        )
    if attributes & CONTROL_BIT:
        return _invalid("Clients are not allowed to write control records")
    if attributes & LOG_APPEND_TIME_BIT:
        return Refusal(
            ErrorCode.INVALID_TIMESTAMP,
            "Producer should not set timestamp type to LogAppendTime",
        )
    return _check_producer(header)


def _check_producer(header: BatchHeader) -> Refusal | None:
    if header.producer_id < 0:
        if header.attributes & TRANSACTIONAL_BIT:
            return _invalid("A transactional batch needs a producer id")
        return None
    if header.base_sequence < 0 or header.producer_epoch < 0:
        return _invalid(
            f"Invalid sequence number {header.base_sequence} or epoch {header.producer_epoch}"
            f" in record batch with producer id {header.producer_id}"
        )
    return None


_SENTENCES: Final = {
    corrupt.WRONG_OFFSET: "The offsets of the records are not 0, 1, 2 and so on.",
    corrupt.MISLEADS: "The record is not as long as it says, or has a header without key.",
    corrupt.NO_KEY: "Compacted topic cannot accept message without key.",
}


def _refuse_records(
    violations: list[tuple[int, int]], stays_compressed: bool, earliest: int, latest: int
) -> Refusal:
    """Return the refusal of records, with the rule that they broke; what Kafka checks comes first.

    Kafka fails to rewrite a compressed batch with wrong offsets, so the code is that of an internal error.
    """
    rules = {rule for _, rule in violations}
    judged = rules & {corrupt.NO_KEY, corrupt.BAD_TIMESTAMP}
    if not judged and stays_compressed and corrupt.WRONG_OFFSET in rules:
        return Refusal(ErrorCode.UNKNOWN_SERVER_ERROR, _SENTENCES[corrupt.WRONG_OFFSET])
    violations = [broken for broken in violations if broken[1] in (judged or rules)]
    span = f"Timestamp out of range: it should be within [{earliest}, {latest}]."
    errors = tuple(RecordError(index, _SENTENCES.get(rule, span)) for index, rule in violations)
    if corrupt.BAD_TIMESTAMP in rules:
        return Refusal(
            ErrorCode.INVALID_TIMESTAMP,
            "One or more records have been rejected due to invalid timestamp",
            errors,
        )
    return Refusal(
        ErrorCode.INVALID_RECORD,
        f"One or more records have been rejected due to {len(errors)} record errors",
        errors,
    )
