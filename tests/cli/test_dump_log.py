"""Files made by our own storage code, as `kavka dump-log` prints them."""

from __future__ import annotations

import json
from pathlib import Path
from struct import Struct

import pytest

from kavka.cli.commands.dump_log import main
from kavka.cli.json_lines.tool_shapes import DUMPED_BATCH, DUMPED_RECORD
from kavka.core.producer_state import ProducerEntry
from kavka.storage.log.producer_snapshot import encode_snapshot
from kavka.wire.records.batch import BatchBuilder
from kavka.wire.records.compression import Compression
from kavka.wire.records.control import ControlType, EndMarker, encode_end_marker
from kavka.wire.records.header import assign, read_header
from kavka.wire.stored.offsets import OffsetCommitKey, OffsetCommitValue, encode_key, encode_value

_INDEX_ENTRY = Struct(">ii")
_TIME_ENTRY = Struct(">qi")


def _batch(offset: int, *pairs: tuple[bytes | None, bytes | None], codec: str = "none") -> bytes:
    builder = BatchBuilder()
    for number, (key, value) in enumerate(pairs):
        builder.append(key, value, 1000 + number, [("h", b"x")] if number else [])
    return bytes(
        builder.build(
            Compression.of(codec),
            base_offset=offset,
            leader_epoch=3,
            producer_id=7,
            producer_epoch=1,
            base_sequence=2**31 - 1,
        )
    )


def _log(directory: Path, *batches: bytes, offset: int = 0) -> Path:
    path = directory / f"{offset:020d}.log"
    path.write_bytes(b"".join(batches))
    return path


def _dump(capfd: pytest.CaptureFixture[str], *arguments: str | Path) -> tuple[int, list[str], str]:
    code = main([str(argument) for argument in arguments])
    shown = capfd.readouterr()
    return code, shown.out.splitlines(), shown.err


def test_batches_and_records_are_objects(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    log = _log(tmp_path, _batch(5, (b"k", b"v"), (None, None), codec="zstd"), b"rest", offset=5)
    code, lines, err = _dump(capfd, "--files", log, "--print-data-log", "--json")
    batch, *records = map(json.loads, lines)
    assert list(batch) == list(DUMPED_BATCH.fields)
    assert all(list(record) == list(DUMPED_RECORD.fields) for record in records)
    assert (batch["base_offset"], batch["last_offset"], batch["valid"]) == (5, 6, True)
    assert [(r["offset"], r["key"], r["value"], r["header_names"]) for r in records] == [
        (5, "k", "v", []),
        (6, None, None, ["h"]),
    ]
    failure = json.loads(err)
    assert (code, failure["error"]["code"]) == (1, "CORRUPT_MESSAGE")
    assert f"4 bytes at the end of {log.name} are no batch" in failure["error"]["message"]
    code, lines, err = _dump(capfd, "--files", log.with_suffix(".index"), "--json")
    assert (code, lines, json.loads(err)["error"]["code"]) == (1, [], "BAD_VALUE")


def test_a_line_is_printed_for_each_batch(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    batch = _batch(5, (b"k", b"v"), (None, None), codec="zstd")
    log = _log(tmp_path, batch, offset=5)
    code, lines, err = _dump(capfd, "--files", log)
    assert (code, err) == (0, "")
    assert lines == [
        f"Dumping {log}",
        "Log starting offset: 5",
        "baseOffset: 5 lastOffset: 6 count: 2 baseSequence: 2147483647 lastSequence: 0 producerId: 7 "
        "producerEpoch: 1 partitionLeaderEpoch: 3 isTransactional: false isControl: false "
        "deleteHorizonMs: OptionalLong.empty position: 0 CreateTime: 1001 "
        f"size: {len(batch)} magic: 2 compresscodec: zstd crc: {read_header(batch).crc} isvalid: true",
    ]


def test_records_are_printed_with_their_contents(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    log = _log(tmp_path, _batch(0, (b"k", b"caf\xc3\xa9 \xff"), (None, None)))
    _, lines, _ = _dump(capfd, "--print-data-log", "--files", log)
    assert lines[3:] == [
        "| offset: 0 CreateTime: 1000 keySize: 1 valueSize: 7 sequence: 2147483647 headerKeys: [] "
        "key: k payload: caf\u00e9 \ufffd",
        "| offset: 1 CreateTime: 1001 keySize: -1 valueSize: -1 sequence: 0 headerKeys: [h]",
    ]
    _, lines, _ = _dump(capfd, "--print-data-log", "--skip-record-metadata", "--files", log)
    assert lines[3:] == ["| key: k payload: caf\u00e9 \ufffd", ""]


def test_numbers_are_decoded(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    log = _log(tmp_path, _batch(0, (b"\xff\xff\xff\xfe", b"\0\0\0\0\0\0\1\0")))
    decoders: tuple[str, ...] = ("--key-decoder-class", "org.apache.kafka.tools.api.IntegerDecoder")
    decoders += ("--value-decoder-class", "org.apache.kafka.tools.api.LongDecoder")
    _, lines, _ = _dump(capfd, *decoders, "--files", log)
    assert lines[3].endswith("key: -2 payload: 256")


def test_a_damaged_batch_is_reported(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    damaged = bytearray(_batch(0, (b"k", b"value")))
    damaged[-3] ^= 1
    log = _log(tmp_path, bytes(damaged), _batch(1, (b"k", b"v"))[:-1])
    code, lines, _ = _dump(capfd, "--files", log)
    assert code == 0
    assert lines[2].endswith("isvalid: false")
    assert (
        lines[3]
        == f"Found {len(_batch(1, (b'k', b'v'))) - 1} invalid bytes at the end of {log.name}"
    )


def test_a_gap_is_reported(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    log = _log(tmp_path, _batch(0, (b"k", b"v")), _batch(4, (b"k", b"v")))
    _, _, err = _dump(capfd, "--deep-iteration", "--files", log)
    assert err == f"Non-consecutive offsets in {log}\n  0 is followed by 4\n"


def test_garbage_ends_with_one_sentence(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    log = _log(tmp_path, bytes(100))
    code, _, err = _dump(capfd, "--files", log)
    assert code == 1
    assert "Found record size 0 smaller than minimum record overhead (14)" in err
    assert len(err.splitlines()) == 1


def test_messages_of_the_old_formats_are_refused(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    message = bytearray(_batch(0, (b"k", b"v")))
    message[16] = 1
    code, _, err = _dump(capfd, "--files", _log(tmp_path, bytes(message)))
    assert code == 1
    assert "the old format 1" in err


def test_end_markers_are_decoded(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    marker = encode_end_marker(EndMarker(ControlType.ABORT, 9), 7, 1, 1000)
    assign(marker, read_header(marker), 0, 0)
    _, lines, _ = _dump(capfd, "--print-data-log", "--files", _log(tmp_path, bytes(marker)))
    assert lines[3].endswith("headerKeys: [] endTxnMarker: ABORT coordinatorEpoch: 9")


def test_committed_offsets_are_decoded(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    key = encode_key(OffsetCommitKey(group="g", topic="t", partition=2))
    value = encode_value(OffsetCommitValue(offset=5, metadata='a"\x1f', commit_timestamp=9))
    log = _log(tmp_path, _batch(0, (key, value), (key, None), (b"\0\x63", b"")))
    _, lines, _ = _dump(capfd, "--offsets-decoder", "--files", log)
    shown = '{"type":"1","data":{"group":"g","topic":"t","partition":2}}'
    assert lines[3].endswith(
        f'key: {shown} payload: {{"version":"3","data":{{"offset":5,"leaderEpoch":-1,'
        '"metadata":"a\\"\\u001F","commitTimestamp":9}}'
    )
    assert lines[4].endswith(f"key: {shown} payload: <DELETE>")
    assert lines[5].endswith("key: Unknown record type 99 at offset 2, skipping.")


def test_indexes_are_held_against_the_log(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    first = _batch(10, (b"k", b"v"), (b"k", b"v"))
    log = _log(tmp_path, first, _batch(12, (b"k", b"v")), offset=10)
    index, times = log.with_suffix(".index"), log.with_suffix(".timeindex")
    index.write_bytes(_INDEX_ENTRY.pack(3, len(first)) + bytes(16))
    times.write_bytes(_TIME_ENTRY.pack(1001, 1) + _TIME_ENTRY.pack(1001, 2))
    _, lines, err = _dump(capfd, "--files", f"{index},{times}")
    assert lines == [
        f"Dumping {index}",
        f"offset: 13 position: {len(first)}",
        f"Dumping {times}",
        "timestamp: 1001 offset: 11",
        "timestamp: 1001 offset: 12",
    ]
    assert err.splitlines() == [
        f"Mismatches in :{index}",
        "  Index offset: 13, log offset: 12",
        f"Found timestamp mismatch in :{times}",
        "  Index timestamp: 1001, log timestamp: 1000",
        f"Found out of order timestamp in :{times}",
        "  Index timestamp: 1001, Previously indexed timestamp: 1001",
    ]


def test_sanity_checks_say_what_is_wrong(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    index, times = tmp_path / f"{10:020d}.index", tmp_path / f"{10:020d}.timeindex"
    index.write_bytes(_INDEX_ENTRY.pack(1, 0))
    times.write_bytes(_TIME_ENTRY.pack(5, 1) + _TIME_ENTRY.pack(4, 2))
    code, lines, err = _dump(capfd, "--index-sanity-check", "--files", f"{index},{times}")
    assert code == 1
    assert lines[1] == f"{index} passed sanity check."
    assert "the last timestamp is 4 which is less than the first timestamp 5" in err


def test_producer_snapshots_are_printed(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "00000000000000000005.snapshot"
    rows = [ProducerEntry(7, 1, 4, 9, 2, 1000, -1, -1), ProducerEntry(8, 0, -1, -1, 0, 5, 3, 6)]
    path.write_bytes(encode_snapshot(rows))
    _, lines, _ = _dump(capfd, "--files", path)
    assert lines[1:] == [
        "producerId: 7 producerEpoch: 1 coordinatorEpoch: -1 currentTxnFirstOffset: OptionalLong.empty "
        "lastTimestamp: 1000 firstSequence: 2 lastSequence: 4 lastOffset: 9 offsetDelta: 2 timestamp: 1000",
        "producerId: 8 producerEpoch: 0 coordinatorEpoch: 3 currentTxnFirstOffset: OptionalLong[6] "
        "lastTimestamp: 5 ",
    ]


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--files", "/no/such/0.log"], "/no/such/0.log: No such file or directory"),
        (["--files", "x.log"], "x.log is not named after an offset"),
        (["--files", "0.log", "--cluster-metadata-decoder"], "cannot be read by this release"),
        (["--files", "0.log", "--value-decoder-class", "my.Own"], "my.Own: the decoders of"),
    ],
)
def test_wrong_arguments_end_with_1(
    arguments: list[str], sentence: str, capfd: pytest.CaptureFixture[str]
) -> None:
    code, _, err = _dump(capfd, *arguments)
    assert code == 1
    assert sentence in err


def test_unknown_files_are_passed_over(capfd: pytest.CaptureFixture[str]) -> None:
    assert _dump(capfd, "--files", "a.foo") == (
        0,
        ["Dumping a.foo"],
        "Ignoring unknown file a.foo\n",
    )
