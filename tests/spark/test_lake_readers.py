"""Others read the tables: Spark with Iceberg's own jar, DuckDB through pyiceberg; and a catalogue that others serve."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kavka.ids import TopicPartition
from kavka.lake.commits import TableCommitter
from kavka.lake.compaction import compact
from kavka.lake.expiry import expire
from kavka.lake.orphans import remove_orphans
from kavka.lake.sink_state import BatchId, Verdict
from support.iceberg_rest import rest_catalog
from support.lake import NAME, QUERY, Lake, rows

pytestmark = [pytest.mark.spark, pytest.mark.compat]
AT = TopicPartition("clicks", 0)


def worked_on(directory: Path, batches: int = 6, **more: Any) -> Lake:
    """A table of 300 offsets that has seen batches, a new column, a reload, a compaction and an expiry."""
    options: dict[str, Any] = {
        "partition_by": "hour(event_time), topic",
        "sort_by": "offset",
        "may_evolve": True,
    }
    lake = Lake(directory, **more).with_options(**options)
    size = 240 // batches
    for number in range(batches):
        lake.commit(number, rows(range(size * number, size * number + size)))
    lake.commit(batches, rows(range(240, 300), colour=["red"] * 60))
    lake.replace({AT: (30, 90)}, rows(range(30, 90), value=[b"again"] * 60))
    compact(lake.catalog, NAME, min_files=2)
    expire(lake.catalog, NAME, 1 << 60, keep_last=2)
    return lake


@pytest.mark.long
@pytest.mark.timeout(900)
def test_spark_reads_with_icebergs_own_jar_what_we_have_written(tmp_path: Path) -> None:
    from support.spark.iceberg_jar import query

    lake = worked_on(tmp_path, batches=60)  # more than manifests that are merged
    (found,) = query(
        lake.table.metadata_location,
        """SELECT count(*) AS rows, count(DISTINCT offset) AS offsets, min(offset) AS first, max(offset) AS last,
        sum(CASE WHEN CAST(value AS STRING) = 'again' THEN 1 ELSE 0 END) AS again,
        sum(CASE WHEN colour = 'red' THEN 1 ELSE 0 END) AS red,
        (SELECT count(*) FROM rows WHERE event_time >= '2026-01-01T01:00:00Z' AND event_time < '2026-01-01T02:00:00Z')
            AS hour,
        (SELECT sum(record_count) FROM files) AS counted,
        (SELECT count(*) FROM partitions) AS partitions,
        (SELECT collect_list(operation) FROM snapshots) AS operations
        FROM rows""",
    )
    assert found == {
        "rows": 300, "offsets": 300, "first": 0, "last": 299, "again": 60, "red": 60, "hour": 60, "counted": 300,
        "partitions": 5, "operations": ["replace", "replace"],
    }  # fmt: skip


def test_duckdb_reads_what_we_have_written(tmp_path: Path) -> None:
    lake = worked_on(tmp_path)
    connection = lake.table.scan().to_duckdb("clicks")
    counted = "SELECT count(*), count(DISTINCT \"offset\"), count(*) FILTER (value = 'again'::BLOB) FROM clicks"
    assert connection.sql(counted).fetchall() == [(300, 300, 60)]


@pytest.mark.long
@pytest.mark.timeout(300)
def test_a_rest_catalogue_has_the_same_guarantees(tmp_path: Path) -> None:
    with rest_catalog(tmp_path) as properties:
        lake = worked_on(tmp_path / "warehouse", properties=properties)
        assert lake.offsets() == dict.fromkeys(range(300), 1)
        assert lake.commit(6, rows(range(240, 300))) is Verdict.ALREADY_THERE
        lost = lake.write(BatchId(QUERY, 6), rows([299]))
        assert remove_orphans(lake.catalog, NAME, older_than_ms=0).files == len(lost)
        batch, piece = BatchId(QUERY, 7), rows(range(300, 310))
        files, late = lake.write(batch, piece), lake.write(batch, piece)

        class Late(TableCommitter):
            def _swap(self, *arguments: Any) -> None:
                if lake.offsets().total() == 300:
                    lake.commit_files(batch, files, [piece])
                super()._swap(*arguments)

        verdict = lake.commit_files(batch, late, [piece], Late(lake.catalog, NAME))
        assert verdict is Verdict.ALREADY_THERE
        assert lake.offsets() == dict.fromkeys(range(310), 1)
