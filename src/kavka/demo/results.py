"""The numbers at the end: each counted in its own place, for the audit, and what the report shows."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kavka.demo.audit import Counts
from kavka.demo.pipeline import ACCESS, QUARANTINE, DemoPipeline
from kavka.demo.report import Findings

if TYPE_CHECKING:
    import pyarrow as pa

    from kavka.demo.topics import TopicReader

_COLUMNS = ["partition", "offset", "late", "crawler", "status", "method", "search"]


def findings(pipeline: DemoPipeline, records: Mapping[str, Sequence[bytes]]) -> Findings:
    """Read the views, and the records of the topics (by `sessions`, `alerts`, `limits`)."""
    counts: Counter[str] = Counter()
    # Of the windows that follow one another without overlap: each event is in one of them.
    for row in pipeline.view("page_counts", "window_start", "page").to_pylist():
        if row["window_start"].minute % 10 == 0:
            counts[row["page"]] += row["requests"]
    rows = {name: [json.loads(value) for value in values] for name, values in records.items()}
    return Findings(
        minutes=pipeline.view("requests_by_minute", "minute").to_pylist(),
        pages=sorted(counts.items(), key=lambda one: (-one[1], one[0])),
        searches=pipeline.view("top_searches", "date", "rank").to_pylist(),
        days=pipeline.view("daily_report", "date").to_pylist(),
        sessions=rows["sessions"],
        alerts=rows["alerts"],
        limits=rows["limits"],
    )


def counted(
    pipeline: DemoPipeline, topics: TopicReader, results: Findings, lines: int, feed_records: int
) -> Counts:
    """Count each number of the audit in its own place."""
    from kavka.pipelines.activity import WINDOWS_PER_EVENT

    rows = _table_files(pipeline.events)
    in_files = set(zip(rows["partition"].to_pylist(), rows["offset"].to_pylist(), strict=True))
    origins = topics.origins(QUARANTINE)
    page_counts = pipeline.view("page_counts", "window_start", "page")
    return Counts(
        lines=lines,
        records_in_log=topics.length(ACCESS),
        rows_in_parquet=rows.num_rows,
        distinct_rows=len(in_files),
        late_rows=_count(rows["late"]),
        feed_rows=_feed_rows(rows),
        dead_letters=len(origins),
        distinct_dead_letters=len(set(origins)),
        distinct_records=len(in_files | set(origins)),
        counted_by_minute=sum(row["requests"] for row in results.minutes),
        counted_late=sum(row["late"] for row in results.minutes),
        counted_by_day=sum(row["requests"] for row in results.days),
        counted_in_windows=sum(page_counts["requests"].to_pylist()),
        windows_per_event=WINDOWS_PER_EVENT,
        feed_records=feed_records,
        limits=len(results.limits),
        distinct_limits=len({(row["client"], row["minute"]) for row in results.limits}),
        alerts=len(results.alerts),
        distinct_alerts=len({(row["visitor"], row["minute"]) for row in results.alerts}),
        sessions=len(results.sessions),
        distinct_sessions=len({(row["visitor"], row["start"]) for row in results.sessions}),
    )


def _table_files(directory: Path) -> pa.Table:
    """Read the files of the table of events without Spark."""
    import pyarrow.dataset as ds

    return ds.dataset(directory, format="parquet", partitioning="hive").to_table(_COLUMNS)


def _count(flags: Any) -> int:
    import pyarrow.compute as pc

    return int(pc.sum(flags, min_count=0).as_py())


def _feed_rows(rows: pa.Table) -> int:
    """Count what people did, as the pipeline's feed should: written apart from it, to disagree when one is wrong."""
    return sum(
        not crawler
        and (status < 300 or status == 304)
        and (method in ("GET", "POST") or search is not None)
        for crawler, status, method, search in zip(
            *(rows[name].to_pylist() for name in ("crawler", "status", "method", "search")),
            strict=True,
        )
    )
