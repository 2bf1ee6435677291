"""The audit, and the ranges of a reload, against a broker in this process."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterable
from typing import Any

import pyarrow as pa
import pytest

from kavka.cli.json_lines.pipeline_shapes import AUDIT, LAKE_TABLE, MAINTAINED, RELOADED
from kavka.cli.main import main
from kavka.client.blocking import Producer
from kavka.client.consumer import Consumer
from kavka.ids import TopicPartition
from kavka.lake.audit import Audit, audit, compare
from kavka.lake.errors import LakeError
from kavka.lake.sink_state import BatchId
from kavka.lake.topic_offsets import loaded_ends, loaded_ranges
from kavka.testing.local_cluster import LocalCluster
from support.json_shapes import check
from support.lake import FIRST, NAME, Lake, rows

pytestmark = pytest.mark.kavka_cluster(brokers=1, settings={"num.partitions": "1"})
AT = TopicPartition("clicks", 0)
FIRST_MS = int(FIRST.timestamp() * 1000)
MINUTE = 60_000
HOUR = 60 * MINUTE
Lines = Callable[[], str]


def fill(cluster: LocalCluster, offsets: Iterable[int], minutes: int = 1) -> None:
    """Write records whose timestamps are `minutes` apart."""
    with Producer({"bootstrap.servers": cluster.bootstrap_servers}) as producer:
        for offset in offsets:
            stamp = FIRST_MS + minutes * MINUTE * offset
            producer.append("clicks", b"value-%d" % offset, partition=0, timestamp_ms=stamp)
        producer.flush()


def run(lake: Lake, cluster: LocalCluster, **more: Any) -> Audit:
    return asyncio.run(audit(lake.table, client(cluster), **more))


def client(cluster: LocalCluster) -> dict[str, str]:
    return {"bootstrap.servers": cluster.bootstrap_servers}


# The comparison


def topic(*offsets: int) -> pa.Table:
    stamps = [HOUR * offset for offset in offsets]
    return pa.table({"offset": pa.array(offsets, pa.int64()), "timestamp": pa.array(stamps, pa.int64())})  # fmt: skip


def table(*pairs: tuple[int, int | None]) -> pa.Table:
    offsets, events = [one for one, _ in pairs], [one for _, one in pairs]
    return pa.table({"offset": pa.array(offsets, pa.int64()), "event": pa.array(events, pa.int64())})  # fmt: skip


def test_each_record_is_compared_with_the_rows_that_have_its_offset() -> None:
    found = compare(topic(1, 2, 3, 4), table((1, 0), (3, 3 * HOUR), (3, 3 * HOUR), (4, None)), HOUR)
    assert found["offset"].to_pylist() == [1, 2, 3, 4]
    assert found["hour"].to_pylist() == [HOUR, 2 * HOUR, 3 * HOUR, 4 * HOUR]
    assert found["table"].to_pylist() == [1, 0, 2, 1]
    assert found["missing"].to_pylist() == [0, 1, 0, 0]
    assert found["doubled"].to_pylist() == [0, 0, 1, 0]
    assert found["late"].to_pylist() == [0, 0, 0, 0]


def test_a_row_is_late_when_its_event_is_older_than_its_record_by_more_than_the_bound() -> None:
    found = compare(topic(2), table((2, HOUR)), HOUR)
    assert found["late"].to_pylist() == [0]
    assert compare(topic(2), table((2, HOUR - 1)), HOUR)["late"].to_pylist() == [1]


def test_ranges_of_offsets_are_named() -> None:
    found = Audit({}, {})
    found.add(AT, compare(topic(*range(10)), table(*((n, None) for n in (0, 4, 4, 5, 9))), HOUR))
    assert found.missing_ranges == [(AT, 1, 3), (AT, 6, 8)]
    assert found.doubled_ranges == [(AT, 4, 4)]
    assert not found.is_exact
    assert found.total.missing == 6


# Against a topic


@pytest.mark.slow
def test_a_whole_load_is_exact_and_counted_by_hour(lake: Lake, kavka_cluster: LocalCluster) -> None:
    fill(kavka_cluster, range(150))
    lake.commit(0, rows(range(100)))
    lake.commit(1, rows(range(100, 140)))
    found = run(lake, kavka_cluster, window=30)
    assert found.is_exact
    assert [one.topic for _, one in sorted(found.hours.items())] == [60, 60, 20]
    assert found.total.table == 140
    assert found.behind == {AT: 10}
    assert found.only_in_table == 0


@pytest.mark.slow
def test_the_end_of_a_transaction_is_nothing_that_is_to_be_loaded(
    lake: Lake, kavka_cluster: LocalCluster
) -> None:
    settings = client(kavka_cluster) | {"transactional.id": "x"}
    with Producer(settings) as producer:
        producer.init_transactions()
        with producer.transaction():
            for offset in range(10):
                producer.append("clicks", b"%d" % offset, partition=0, timestamp_ms=FIRST_MS)
    lake.commit(0, rows(range(10)))
    found = run(lake, kavka_cluster)
    assert found.is_exact
    assert found.behind == {}


def test_what_is_missing_doubled_and_late_is_counted_in_its_hour(
    lake: Lake, kavka_cluster: LocalCluster
) -> None:
    fill(kavka_cluster, range(180))
    lake.commit(0, rows([n for n in range(180) if n not in (70, 71)]))
    lake.sink = "another"
    lake.commit(0, rows([130]))
    lake.sink = "load"
    found = run(lake, kavka_cluster)
    hours = [one for _, one in sorted(found.hours.items())]
    assert [one.missing for one in hours] == [0, 2, 0]
    assert [one.doubled for one in hours] == [0, 0, 1]
    assert found.missing_ranges == [(AT, 70, 71)]
    late = run(lake, kavka_cluster, late_after_ms=-1)
    assert late.total.late == 178


def test_only_the_hours_that_are_asked_for_are_counted(
    lake: Lake, kavka_cluster: LocalCluster
) -> None:
    fill(kavka_cluster, range(180))
    lake.commit(0, rows(range(180)))
    found = run(lake, kavka_cluster, from_ms=FIRST_MS + HOUR, to_ms=FIRST_MS + 2 * HOUR)
    assert found.ranges == {AT: (60, 120)}
    assert list(found.hours) == [FIRST_MS + HOUR]


def test_a_table_without_rows_or_without_offsets_is_refused(
    lake: Lake, kavka_cluster: LocalCluster
) -> None:
    lake.write(BatchId("q", 0), rows([1]))
    with pytest.raises(LakeError, match="no rows"):
        run(lake, kavka_cluster)
    other = Lake(lake.directory / "other").with_options()
    other.commit(0, rows(range(3)).drop_columns(["offset"]))
    with pytest.raises(LakeError, match="no column offset"):
        run(other, kavka_cluster)


def test_how_far_a_load_is_follows_from_its_rows_where_no_sink_says_it(lake: Lake) -> None:
    lake.sink = None
    lake.commit(0, rows(range(7)))
    assert loaded_ends(lake.table) == {AT: 7}


def test_the_range_of_a_reload_ends_where_the_load_is(
    lake: Lake, kavka_cluster: LocalCluster
) -> None:
    fill(kavka_cluster, range(180))
    lake.commit(0, rows(range(100)))

    async def ranges(from_ms: int, to_ms: int | None) -> object:
        async with Consumer(client(kavka_cluster)) as consumer:
            return await loaded_ranges(consumer, loaded_ends(lake.table), from_ms, to_ms)

    assert asyncio.run(ranges(FIRST_MS + HOUR, None)) == {AT: (60, 100)}
    assert asyncio.run(ranges(FIRST_MS, FIRST_MS + HOUR)) == {AT: (0, 60)}
    assert asyncio.run(ranges(FIRST_MS + 2 * HOUR, None)) == {}


# The command


@pytest.mark.slow
def test_the_command_prints_hours_and_fails_when_something_is_missing(
    lake: Lake, kavka_cluster: LocalCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    fill(kavka_cluster, range(90))
    lake.commit(0, rows(range(80)))
    at = ["--table", "lake.clicks", "--warehouse", str(lake.directory)]
    to = ["--bootstrap-server", kavka_cluster.bootstrap_servers]
    assert main(["lake", "audit", *at, *to]) == 0
    printed = capsys.readouterr().out
    assert "lake.clicks: exact" in printed
    assert "2026-01-01T01:00Z" in printed
    assert "not loaded yet: clicks-0 10 offsets" in printed
    lake.commit(1, rows([85]))
    assert main(["lake", "audit", *at, *to, "--json"]) == 1
    out, err = capsys.readouterr()
    found = json.loads(out)
    check(found, AUDIT.fields, AUDIT.parts)
    assert found["total"]["missing"] == 5
    [missing] = found["missing"]
    assert missing == {"topic": "clicks", "partition": 0, "first_offset": 80, "last_offset": 84}
    assert json.loads(err) == {
        "error": {"code": "FAILED", "message": "records are missing or doubled in lake.clicks"},
        "exit_code": 1,
    }
    range_of = ["lake", "reload", *at, *to, "--from", "2026-01-01T00:00:00", "--dry-run", "--json"]
    assert main(range_of) == 0
    row = json.loads(capsys.readouterr().out)
    check(row, RELOADED.fields, RELOADED.parts)
    assert row["replace_offsets"] == {"clicks": {"0": [0, 86]}}
    assert (row["offsets"], row["replaced"]) == (86, False)


@pytest.mark.slow
def test_the_command_shows_what_a_table_has_and_maintains_it(
    lake: Lake, capsys: pytest.CaptureFixture[str]
) -> None:
    for number in range(5):
        lake.commit(number, rows([number], minutes=0))
    at = ["--table", "lake.*", "--warehouse", str(lake.directory)]
    assert main(["lake", "status", *at, "--json"]) == 0
    row = json.loads(capsys.readouterr().out)
    check(row, LAKE_TABLE.fields, LAKE_TABLE.parts)
    assert (row["table"], row["rows"], row["files"]) == ("lake.clicks", 5, 5)
    assert row["sinks"][0]["starting_offsets"] == {"clicks": {"0": 5}}
    assert main(["lake", "maintain", *at, "--dry-run", "--only", "compact", "--json"]) == 0
    row = json.loads(capsys.readouterr().out)
    check(row, MAINTAINED.fields, MAINTAINED.parts)
    assert (row["dry_run"], row["compacted"]["files_before"], row["expired"]) == (True, 5, None)
    assert main(["lake", "status", *at]) == 0
    assert 'startingOffsets: {"clicks": {"0": 5}}' in capsys.readouterr().out
    assert main(["lake", "maintain", *at, "--dry-run"]) == 0
    assert "5 small files" in capsys.readouterr().out
    assert main(["lake", "maintain", *at, "--snapshots-older-than", "0s"]) == 0
    assert "5 snapshots expired" in capsys.readouterr().out
    assert lake.offsets() == dict.fromkeys(range(5), 1)
    assert main(["lake", "status", "--table", NAME[0], *at[2:]]) == 1
    assert "named with its namespace" in capsys.readouterr().err
    assert main(["lake", "status", "--json"]) == 1
    assert json.loads(capsys.readouterr().err)["error"]["code"] == "BAD_USAGE"
