"""Checks of the files of a partition by Apache Kafka's DumpLogSegments."""

from __future__ import annotations

import re
from pathlib import Path

from kavka_compat.apache import ApacheKafka

_COMPLAINTS = re.compile(
    r"mismatch|out of order|invalid|corrupt|isvalid: false|exception|not found|truncat",
    re.IGNORECASE,
)
_COUNT = re.compile(r"^baseOffset: (\d+) lastOffset: (\d+) count: (\d+)")


def assert_kafka_accepts(
    partition: Path, release: str = "3.9", *, is_compacted: bool = False
) -> int:
    """Insist that all checks of logs and indexes pass; return how many records there are.

    Offsets may be missing where the log is compacted.
    """
    kafka = ApacheKafka(release)
    logs = _joined(partition, "log")
    indexes = ",".join(filter(None, (_joined(partition, "index"), _joined(partition, "timeindex"))))
    dumped = kafka.check("kafka-dump-log", "--deep-iteration", "--files", logs, seconds=180)
    _assert_quiet(dumped.out + dumped.err)
    for check in ("--index-sanity-check", "--verify-index-only"):
        checked = kafka.check("kafka-dump-log", check, "--files", indexes, seconds=180)
        _assert_quiet(checked.out + checked.err)
    return _records(dumped.lines, is_compacted)


def _joined(partition: Path, suffix: str) -> str:
    return ",".join(str(path) for path in sorted(partition.glob(f"*.{suffix}")))


def _assert_quiet(text: str) -> None:
    bad = [
        line for line in text.splitlines() if _COMPLAINTS.search(line.replace("isvalid: true", ""))
    ]
    assert not bad, "\n".join(bad[:20])


def _records(lines: list[str], is_compacted: bool) -> int:
    """Count the records, insisting that offsets go up, and without a gap unless the log is compacted."""
    total, expected = 0, None
    for line in lines:
        if batch := _COUNT.match(line):
            first, last, count = map(int, batch.groups())
            if is_compacted:
                assert count <= last - first + 1, line
                assert expected is None or first >= expected, f"expected offset {expected}: {line}"
            else:
                assert count == last - first + 1, line
                assert expected is None or first == expected, f"expected offset {expected}: {line}"
            expected = last + 1
            total += count
    return total
