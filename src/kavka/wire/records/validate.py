"""What a leader checks of produced bytes before it appends them.

In the order of Kafka: the request's rules (one batch, of magic 2, zstd from Produce 7 on), base offset, size, CRC,
the header's own sense, then each record. A batch of a client must not poison the time index, retention or
compaction, so the records are walked by the kernel; a compressed body is walked in pieces where its codec allows.
zstd in one piece may come to `BatchRules.body_limit` bytes; of other codecs a record that is cut by pieces may, and
the piece in hand (256 KiB, for lz4 up to 4 MiB) comes on top. Joining pieces doubles that for a moment.

A body that has a true CRC and is broken all the same was made so: INVALID_RECORD, which clients do not retry.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from kavka.doors import Buffer
from kavka.errors import ErrorCode
from kavka.values import field, frozen
from kavka.wire.crc32c import crc32c
from kavka.wire.records import corrupt, kernel
from kavka.wire.records.body import DECOMPRESSED_LIMIT, body_of, reseal
from kavka.wire.records.compression import (
    Compression,
    decompress_chunks,
    decompress_lz4_block,
)
from kavka.wire.records.corrupt import BatchTooLarge, CorruptBatch
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
_BODY_LIMIT: Final = 64 << 20
_PIECES_LIMIT: Final = 256 << 20


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

    takes_batches_as_they_are: bool = field(init=False)
    """Whether batches need neither another codec nor the broker's time."""

    def __post_init__(self) -> None:
        """Decide once what would be asked for each batch."""
        as_they_are = self.compression is None and self.timestamp_type is TimestampType.CREATE_TIME
        object.__setattr__(self, "takes_batches_as_they_are", as_they_are)

    @property
    def body_limit(self) -> int:
        """Bytes of an uncompressed body that may be in memory at once."""
        return max(_BODY_LIMIT, 16 * self.max_message_bytes)

    @property
    def pieces_limit(self) -> int:
        """Bytes that a body may come to when it is walked in pieces; this bounds time, not memory."""
        return max(_PIECES_LIMIT, 64 * self.max_message_bytes)


class RecordError(NamedTuple):
    """What is wrong with the record at `batch_index`."""

    batch_index: int
    message: str


@frozen
class Refusal:
    """Why produced bytes are not appended, as Produce 8 and later answer it."""

    code: ErrorCode
    message: str
    record_errors: tuple[RecordError, ...] = ()


class Produced(NamedTuple):
    """Bytes ready for offsets: the client's own, or recompressed ones."""

    buffer: bytearray | memoryview
    headers: list[BatchHeader]


def number_produced(
    buffer: bytearray | memoryview,
    rules: BatchRules,
    now_ms: int,
    produce_version: int,
    base_offset: int,
    leader_epoch: int,
) -> tuple[bytearray | memoryview, BatchHeader] | Refusal:
    """Check and number a partition's produced bytes; return them, or recompressed ones, with the header.

    What nearly every batch is, one with nothing to find fault with, takes one call of the kernel; all others are judged
    step by step by `prepare_produced`, which knows what to say. Bytes that are refused may have been numbered.
    """
    if rules.takes_batches_as_they_are and produce_version >= _ZSTD_FROM_PRODUCE:
        header = kernel.sound(
            buffer,
            BatchHeader,
            crc32c,
            rules.max_message_bytes,
            rules.needs_key,
            now_ms,
            rules.timestamp_before_max_ms,
            rules.timestamp_after_max_ms,
            base_offset,
            leader_epoch,
        )
        if header is not None:
            if header.attributes & COMPRESSION_MASK:
                return _check_body(buffer, header, rules, now_ms)
            return buffer, header
    prepared = prepare_produced(buffer, rules, now_ms, produce_version)
    if isinstance(prepared, Refusal):
        return prepared
    buffer, (header,) = prepared
    return buffer, assign(buffer, header, base_offset, leader_epoch)


def _check_body(
    buffer: bytearray | memoryview, header: BatchHeader, rules: BatchRules, now_ms: int
) -> tuple[bytearray | memoryview, BatchHeader] | Refusal:
    """Check the records of a compressed batch whose header is sound and numbered."""
    checked = _check_records(buffer, header, rules, now_ms)
    if isinstance(checked, Refusal):
        return checked
    if checked != header.max_timestamp:
        header = stamp_max_timestamp(buffer, header, checked)
    return buffer, header


def check_produced(
    buffer: bytearray | memoryview, rules: BatchRules, now_ms: int, produce_version: int = 11
) -> list[BatchHeader] | Refusal:
    """Return the headers of a partition's produced bytes (there is one), or why they are refused.

    The buffer must be writable: with LogAppendTime the batch is stamped with `now_ms`, and with CreateTime a max
    timestamp that is not that of the records is put right; both as the leader in Kafka does.
    """
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
    refusal = _check_header(buffer, header, rules, produce_version)
    if refusal is not None:
        return refusal
    checked = _check_records(buffer, header, rules, now_ms)
    if isinstance(checked, Refusal):
        return checked
    if rules.timestamp_type is TimestampType.LOG_APPEND_TIME:
        header = stamp_log_append_time(buffer, header, now_ms)
    elif checked != header.max_timestamp:
        header = stamp_max_timestamp(buffer, header, checked)
    return [header]


def prepare_produced(
    buffer: bytearray | memoryview, rules: BatchRules, now_ms: int, produce_version: int = 11
) -> Produced | Refusal:
    """Do as `check_produced`, and recompress where the topic's compression.type is not the batch's."""
    headers = check_produced(buffer, rules, now_ms, produce_version)
    if isinstance(headers, Refusal):
        return headers
    codec = rules.compression
    if codec is None or headers[0].compression is codec:
        return Produced(buffer, headers)
    try:
        made = recompress(
            buffer, headers[0], codec, rules.compression_level, limit=rules.body_limit
        )
    except BatchTooLarge as error:
        return Refusal(ErrorCode.MESSAGE_TOO_LARGE, str(error))
    if len(made) > rules.max_message_bytes:
        return _too_large(len(made), rules)
    return Produced(made, walk(made))


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
    """Say why the bytes are not exactly one batch."""
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
    """Hold the header to the rules; the CRC comes before what it covers is believed."""
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
        return Refusal(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, f"unknown compression codec {codec}")
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


def _check_records(
    buffer: Buffer, header: BatchHeader, rules: BatchRules, now_ms: int
) -> int | Refusal:
    """Walk the records; return their largest timestamp."""
    earliest, latest = _EARLIEST, NO_LIMIT_MS
    if rules.timestamp_type is TimestampType.CREATE_TIME:
        earliest = max(earliest, now_ms - rules.timestamp_before_max_ms)
        latest = min(latest, now_ms + rules.timestamp_after_max_ms)
    count, base_timestamp = header.record_count, header.base_timestamp
    try:
        if header.attributes & COMPRESSION_MASK == 0:
            start, end = header.position + HEADER_SIZE, header.position + header.size
            _, _, largest, _, violations = kernel.check(
                buffer,
                start,
                end,
                0,
                count,
                True,
                rules.needs_key,
                base_timestamp,
                earliest,
                latest,
            )
        else:
            check = _RecordCheck(count, rules.needs_key, base_timestamp, earliest, latest)
            _check_compressed(buffer, header, rules, check)
            largest, violations = check.largest, check.violations
    except BatchTooLarge as error:
        return Refusal(ErrorCode.MESSAGE_TOO_LARGE, str(error))
    except CorruptBatch as error:
        return _invalid(f"Found invalid record structure: {error}")
    if violations:
        return _refuse_records(violations[: corrupt.MOST_VIOLATIONS], earliest, latest)
    return max(largest, -1)


class _RecordCheck:
    """The kernel's check over one body or its pieces."""

    __slots__ = ("_rest", "count", "index", "largest", "violations")

    def __init__(
        self, count: int, needs_key: bool, base_timestamp: int, earliest: int, latest: int
    ) -> None:
        self.count = count
        self.index = 0
        self.largest = -1
        self.violations: list[tuple[int, int]] = []
        self._rest = (needs_key, base_timestamp, earliest, latest)

    def feed(self, body: Buffer, start: int, end: int, last: bool) -> int:
        """Check on from where the last piece ended; return the position of the first record that is cut."""
        self.index, position, largest, _, broken = kernel.check(
            body, start, end, self.index, self.count, last, *self._rest
        )
        self.largest = max(self.largest, largest)
        if broken:
            self.violations += broken[: corrupt.MOST_VIOLATIONS - len(self.violations)]
        return position


def _check_compressed(
    buffer: Buffer, header: BatchHeader, rules: BatchRules, check: _RecordCheck
) -> None:
    """Check a compressed body piece by piece; what is kept of a piece is the record that it cuts."""
    codec = header.compression
    packed = memoryview(buffer)[header.position + HEADER_SIZE : header.end]
    body: Buffer | None
    if codec is Compression.LZ4 and (body := decompress_lz4_block(packed)) is not None:
        check.feed(body, 0, len(body), True)
        return
    limit = rules.body_limit
    total = limit if codec is Compression.ZSTD else rules.pieces_limit
    carry = bytearray()
    previous: Buffer | None = None
    for piece in decompress_chunks(codec, packed, total):
        if previous is not None:
            carry += previous
            del carry[: check.feed(carry, 0, len(carry), False)]
            if len(carry) > limit:
                raise BatchTooLarge(f"a record of more than {limit} bytes", 0)
        previous = piece
    if carry and previous is not None:
        carry += previous
        previous = carry
    body = b"" if previous is None else previous
    check.feed(body, 0, len(body), True)


_SENTENCES: Final = {
    corrupt.WRONG_OFFSET: "The offsets of the records are not 0, 1, 2 and so on.",
    corrupt.NO_KEY: "Compacted topic cannot accept message without key.",
}


def _refuse_records(violations: list[tuple[int, int]], earliest: int, latest: int) -> Refusal:
    """Say which records broke which rule."""
    span = f"Timestamp out of range: it should be within [{earliest}, {latest}]."
    errors = tuple(RecordError(index, _SENTENCES.get(rule, span)) for index, rule in violations)
    if any(rule == corrupt.BAD_TIMESTAMP for _, rule in violations):
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
