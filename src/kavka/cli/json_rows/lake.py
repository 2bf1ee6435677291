"""Objects of `kavka lake`."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from kavka.cli.json_lines.lines import Row
from kavka.core.topic_partitions import nest_by_topic
from kavka.lake.offset_ranges import ends_to_json

if TYPE_CHECKING:
    from kavka.ids import TopicPartition
    from kavka.lake.audit import Audit, HourCount
    from kavka.lake.compaction import Compacted
    from kavka.lake.expiry import Expired
    from kavka.lake.orphans import Removed
    from kavka.lake.table_facts import TableFacts
    from kavka.spark.iceberg.reload import Reload


def table_row(name: str, found: TableFacts) -> Row:
    """Return what a table has."""
    return {
        "table": name,
        "location": found.location,
        "metadata_location": found.metadata_location,
        "partitioned_by": list(found.partitioned_by),
        "rows": found.rows,
        "files": found.files,
        "bytes": found.size,
        "snapshots": found.snapshots,
        "sinks": [
            {
                "sink_id": sink_id,
                "write": state.batch.write,
                "batch": state.batch.number,
                "starting_offsets": ends_to_json(state.ends),
            }
            for sink_id, state in found.sinks.items()
        ],
    }


def maintained_row(
    name: str,
    compacted: Compacted | None,
    expired: Expired | None,
    orphans: Removed | None,
    *,
    dry_run: bool,
) -> Row:
    """Return what a maintenance has done; None for a step that was left out."""
    return {
        "table": name,
        "dry_run": dry_run,
        "compacted": None
        if compacted is None
        else {
            "files_before": compacted.files_before,
            "bytes_before": compacted.bytes_before,
            "files_after": compacted.files_after,
            "bytes_after": compacted.bytes_after,
            "given_up": compacted.given_up,
        },
        "expired": None
        if expired is None
        else {"snapshots": expired.snapshots, "files": expired.files},
        "orphans": None
        if orphans is None
        else {"files": orphans.files, "bytes": orphans.size, "younger": orphans.younger},
    }


def audit_row(name: str, found: Audit) -> Row:
    """Return the result of an audit."""
    return {
        "table": name,
        "exact": found.is_exact,
        "hours": {hour_text(ms): _counts(one) for ms, one in sorted(found.hours.items())},
        "total": _counts(found.total),
        "missing": _ranges(found.missing_ranges),
        "doubled": _ranges(found.doubled_ranges),
        "only_in_table": found.only_in_table,
        "not_loaded": {str(at): count for at, count in sorted(found.behind.items())},
    }


def hour_text(hour_ms: int) -> str:
    """Return an hour as 2026-01-31T12:00Z."""
    return f"{datetime.fromtimestamp(hour_ms / 1000, UTC):%Y-%m-%dT%H:%MZ}"


def _counts(one: HourCount) -> Row:
    return {
        "topic": one.topic,
        "table": one.table,
        "missing": one.missing,
        "doubled": one.doubled,
        "late": one.late,
    }


def _ranges(found: Iterable[tuple[TopicPartition, int, int]]) -> list[Row]:
    return [
        {
            "topic": at.topic,
            "partition": at.partition,
            "first_offset": first,
            "last_offset": last,
        }
        for at, first, last in found
    ]


def reloaded_row(name: str, plan: Reload, *, replaced: bool) -> Row:
    """Return the range of a reload."""
    ranges = nest_by_topic((at, list(bounds)) for at, bounds in plan.ranges.items())
    return {"table": name, "replace_offsets": ranges, "offsets": plan.rows, "replaced": replaced}
