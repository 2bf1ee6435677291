"""Tables that are made and evolve, layouts as text, and the files that are written."""

from __future__ import annotations

import datetime
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.catalog.sql import SqlCatalog

from kavka.ids import TopicPartition
from kavka.lake.catalogs import catalog_properties, open_catalog, parse_identifier
from kavka.lake.compaction import compact
from kavka.lake.errors import LakeError
from kavka.lake.layout import PartitionBy, SortBy, parse_partitioning, parse_sorting
from kavka.lake.offset_ranges import OffsetRange, parse_replaced, ranges_of, ranges_to_json
from kavka.lake.schemas import difference, iceberg_schema
from kavka.lake.sink_state import BatchId, SinkState, decode, encode
from kavka.lake.table_writer import TableWriter, WriteTarget
from kavka.lake.tables import prepare_table
from support.lake import FIRST, NAME, Lake, rows

HEADER = pa.struct([("key", pa.string()), ("value", pa.binary())])
AT = TopicPartition("clicks", 0)

# Text


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("hour(event_time)", [("event_time", "hour", "event_time_hour")]),
        (" days( ts ) , topic", [("ts", "day", "ts_day"), ("topic", "identity", "topic")]),
        ("bucket(16, user.id)", [("user.id", "bucket[16]", "user_id_bucket")]),
        ("truncate(name, 4)", [("name", "truncate[4]", "name_trunc")]),
        ("identity(a), month(b)", [("a", "identity", "a"), ("b", "month", "b_month")]),
    ],
)
def test_partitionings_are_read(text: str, parts: list[tuple[str, str, str]]) -> None:
    found = parse_partitioning(text)
    assert [(one.column, one.transform, one.name) for one in found] == parts


@pytest.mark.parametrize("text", ["", "week(ts)", "hour(3, ts)", "bucket(0, a)", "a b", "a, a"])
def test_a_partitioning_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(LakeError, match="partitionBy"):
        parse_partitioning(text)


def test_sort_orders_are_read() -> None:
    assert parse_sorting("a, b DESC, c desc nulls first, d nulls last") == (
        SortBy("a", False, True), SortBy("b", True, False), SortBy("c", True, True), SortBy("d", False, False),
    )  # fmt: skip
    with pytest.raises(LakeError, match="sortBy"):
        parse_sorting("a upwards")


def test_a_table_needs_a_namespace() -> None:
    assert parse_identifier("a.b.c") == ("a", "b", "c")
    for text in ("clicks", "a..b", ""):
        with pytest.raises(LakeError, match="namespace"):
            parse_identifier(text)


def test_catalogues_are_chosen_by_what_is_given(tmp_path: Path) -> None:
    name, properties = catalog_properties({"warehouse": str(tmp_path)})
    assert (name, properties["type"]) == ("default", "sql")
    assert properties["uri"].startswith(f"sqlite:///{tmp_path}/catalog.db")
    rest = {"type": "rest", "uri": "http://x", "warehouse": "s3://lake"}
    assert catalog_properties({**rest, "name": "prod"}) == ("prod", rest)
    assert catalog_properties({"name": "prod"}) == ("prod", {})
    for given in ({}, {"warehouse": "s3://lake"}):
        with pytest.raises(LakeError, match=r"catalog\."):
            catalog_properties(given)


def test_a_database_that_another_process_makes_at_the_same_time_is_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make = SqlCatalog.create_tables
    made: list[bool] = []

    def late(catalog: SqlCatalog) -> None:
        """Another process has looked, too, found no tables, and is quicker."""
        if not made:
            made.append(True)
            open_catalog({"warehouse": str(tmp_path)})
            catalog.engine.connect().exec_driver_sql("CREATE TABLE iceberg_tables (x)")
        make(catalog)

    monkeypatch.setattr(SqlCatalog, "create_tables", late)
    assert open_catalog({"warehouse": str(tmp_path)}).list_namespaces() == []
    assert made


def test_replaced_offsets_are_read() -> None:
    assert parse_replaced('{"clicks": {"0": [3, 9]}}') == {AT: (3, 9)}
    for text in ("x", "[]", "{}", '{"clicks": {"0": 3}}', '{"clicks": {"0": [9, 3]}}'):
        with pytest.raises(LakeError, match="replaceOffsets"):
            parse_replaced(text)


# State


def test_a_state_is_read_as_it_was_written() -> None:
    state = SinkState(BatchId("q", 3), {AT: 7}, ("p",))
    assert decode(encode(state)) == state
    for text in ("x", "{}", "[]", '{"form": 2}'):
        with pytest.raises(LakeError):
            decode(text)


def test_ends_only_grow_and_earlier_writes_are_remembered() -> None:
    state = SinkState(BatchId("q", 3), {AT: 7}).after(BatchId("r", 0), {AT: 5})
    assert state == SinkState(BatchId("r", 0), {AT: 7}, ("q",))
    assert state.after(BatchId("r", 1), {AT: 9}).ends == {AT: 9}


def test_ranges_follow_from_rows() -> None:
    found = ranges_of(rows([5, 9, 7]))
    assert found == {AT: OffsetRange(5, 10, 3)}
    assert ranges_to_json(found) == '{"clicks":{"0":[5,10,3]}}'
    assert ranges_of(rows([1]).drop_columns(["offset"])) == {}


# Columns


def columns(**kinds: pa.DataType) -> Any:
    return iceberg_schema(pa.schema(list(kinds.items())))


def test_new_and_wider_columns_are_evolutions_and_others_are_problems() -> None:
    inner = pa.struct([("x", pa.int32())])
    wider = pa.struct([("x", pa.int64()), ("y", pa.string())])
    table = columns(a=pa.int32(), b=pa.float64(), c=pa.string(), d=inner, e=pa.decimal128(5, 2))
    given = columns(
        a=pa.int64(), b=pa.float32(), c=pa.int32(), d=wider, e=pa.decimal128(9, 2), f=pa.bool_()
    )
    found = difference(table, given)
    assert found.new == ("d.y", "f")
    assert found.widened == ("a", "d.x", "e")
    assert found.problems == ("the column c is string in the table and int in the rows",)


def test_a_type_that_iceberg_lacks_is_refused_with_its_column() -> None:
    with pytest.raises(LakeError, match=r"column a\.x is duration"):
        columns(a=pa.struct([("x", pa.duration("s"))]))


def test_lists_maps_and_headers_are_written_and_read(lake: Lake) -> None:
    more = {**NESTED, "day": pa.array([datetime.date(2026, 1, 1), None, None])}
    lake.commit(0, rows([0, 1, 2], **more))
    (path,) = lake.files()
    read = pq.read_table(path).select(list(more)).to_pylist()
    assert read == pa.table(more).to_pylist()


NESTED = {
    "headers": pa.array([[{"key": "a", "value": b"1"}], None, []], pa.list_(pa.field("element", HEADER))),
    "tags": pa.array([[("x", 1)], None, []], pa.map_(pa.string(), pa.int32())),
    "user": pa.array([{"id": 1}, None, {"id": None}], pa.struct([("id", pa.int32())])),
    "plain": pa.array([[1], None, [None]], pa.list_(pa.int32())),
}  # fmt: skip


def test_nulls_in_nested_columns_stay_when_rows_are_written_again(lake: Lake) -> None:
    lake.commit(0, rows([0, 1, 2], minutes=0, **NESTED))
    lake.commit(1, rows([3], minutes=0, **{name: one[:1] for name, one in NESTED.items()}))
    compact(lake.catalog, NAME, min_files=2)
    (task,) = lake.table.scan().plan_files()
    found = pq.read_table(task.file.file_path).sort_by("offset").select(list(NESTED))
    given = pa.table(NESTED).to_pylist()
    assert found.to_pylist() == [*given, given[0]]


def test_nested_columns_that_grew_are_written_again_as_they_are_today(lake: Lake) -> None:
    lake.options = replace(lake.options, may_evolve=True)
    lake.commit(0, rows([0, 1, 2], minutes=0, **NESTED))
    wide = pa.struct([("id", pa.int64()), ("name", pa.string())])
    lists = pa.list_(pa.field("element", pa.struct([*HEADER, ("size", pa.int32())])))
    user = pa.array([{"id": 9, "name": "n"}], wide)
    headers = pa.array([[{"key": "b", "value": b"2", "size": 1}]], lists)
    lake.commit(1, rows([3], minutes=0, user=user, headers=headers))
    with lake.table.update_schema() as update:
        update.rename_column("plain", "numbers")
    compact(lake.catalog, NAME, min_files=2)
    (task,) = lake.table.scan().plan_files()
    found = pq.read_table(task.file.file_path).sort_by("offset")
    assert found["user"].to_pylist() == [
        {"id": 1, "name": None}, None, {"id": None, "name": None}, {"id": 9, "name": "n"},
    ]  # fmt: skip
    assert found["headers"].to_pylist() == [
        [{"key": "a", "value": b"1", "size": None}], None, [], [{"key": "b", "value": b"2", "size": 1}],
    ]  # fmt: skip
    assert found["numbers"].to_pylist() == [[1], None, [None], None]


def test_a_query_with_narrower_and_missing_columns_goes_on(lake: Lake) -> None:
    lake.commit(0, rows([0], number=pa.array([5], pa.int64())))
    lake.commit(1, rows([1], number=pa.array([6], pa.int32())).drop_columns(["value"]))
    found = lake.table.scan().to_arrow().sort_by("offset")
    assert found["number"].to_pylist() == [5, 6]
    assert found["value"].to_pylist() == [b"value-0", None]


def test_a_partitioning_that_is_not_the_tables_is_refused(lake: Lake) -> None:
    lake.commit(0, rows([0]))
    other = Lake(lake.directory).with_options("day(event_time)")
    with pytest.raises(LakeError, match=r"partitioned by hour\(event_time\)"):
        other.commit(1, rows([1]))


# Files


def written(lake: Lake, *pieces: pa.RecordBatch, **more: Any) -> list[Any]:
    table = prepare_table(lake.catalog, NAME, pieces[0].schema, lake.options)
    writer = TableWriter(WriteTarget.of(table), "test", **more)
    for piece in pieces:
        writer.write(piece)
    return writer.close()


def test_late_rows_go_to_the_partition_of_their_event(lake: Lake) -> None:
    files = written(lake, rows([0, 1, 60, 61]), rows([2, 62]))
    hour = int(FIRST.timestamp() // 3600)
    assert {one.partition: one.rows for one in files} == {(hour,): 3, (hour + 1,): 3}


def test_a_row_without_event_time_has_a_partition_of_its_own(lake: Lake) -> None:
    piece = rows([0, 1])
    times = pa.array([None, FIRST], pa.timestamp("us", "UTC"))
    piece = piece.set_column(piece.schema.get_field_index("event_time"), "event_time", times)
    lake.commit(0, piece)
    assert {task.file.partition[0] is None for task in lake.table.scan().plan_files()} == {
        True,
        False,
    }
    assert lake.offsets() == {0: 1, 1: 1}


def test_buckets_and_truncated_texts_are_partitions(tmp_path: Path) -> None:
    lake = Lake(tmp_path).with_options("bucket(4, offset), truncate(2, topic), partition")
    lake.commit(0, rows(range(50)))
    files = [task.file for task in lake.table.scan().plan_files()]
    partitions = [tuple(one.partition[n] for n in range(3)) for one in files]
    assert {one[1:] for one in partitions} == {("cl", 0)}
    assert sorted({one[0] for one in partitions}) == [0, 1, 2, 3]
    assert lake.offsets() == dict.fromkeys(range(50), 1)


def test_files_are_closed_at_the_target_size(tmp_path: Path) -> None:
    target = {"write.target-file-size-bytes": "100000", "write.parquet.compression-codec": "uncompressed"}  # fmt: skip
    lake = Lake(tmp_path).with_options(properties=target)
    noise = [f"{number * 7919:0>100}".encode() for number in range(500)]
    pieces = [rows(range(first, first + 500), value=noise) for first in range(0, 10_000, 500)]
    files = written(lake, *pieces)
    sizes = sorted(one.size for one in files)
    assert sum(one.rows for one in files) == 10_000
    assert len(files) > 5
    assert all(50_000 < size < 220_000 for size in sizes[1:])


def test_small_pieces_become_one_row_group(lake: Lake) -> None:
    (file,) = written(lake, *(rows([number], minutes=0) for number in range(50)))
    assert pq.ParquetFile(file.path).num_row_groups == 1


def test_rows_are_sorted_over_the_pieces_of_a_file(tmp_path: Path) -> None:
    lake = Lake(tmp_path).with_options(sort_by="value desc nulls last, offset")
    given = rows([3, 1, 2], value=[b"a", None, b"a"]), rows([0, 4], value=[b"b", None])
    (file,) = written(lake, *given)
    assert file.sort_order_id == 1
    assert pq.read_table(file.path)["offset"].to_pylist() == [0, 2, 3, 1, 4]


def test_a_full_sort_buffer_makes_a_file(tmp_path: Path) -> None:
    lake = Lake(tmp_path).with_options(sort_by="offset")
    files = written(lake, rows([3, 4]), rows([1, 2]), sort_bytes=1)
    assert [pq.read_table(one.path)["offset"].to_pylist() for one in files] == [[3, 4], [1, 2]]


@pytest.mark.slow
def test_more_partitions_than_files_may_be_open_are_written(lake: Lake) -> None:
    lake.commit(0, rows(range(130), minutes=60), rows(range(130, 260), minutes=60))
    assert lake.offsets() == dict.fromkeys(range(260), 1)
    assert len(lake.files()) == 260


def test_what_is_discarded_is_removed(lake: Lake) -> None:
    table = prepare_table(lake.catalog, NAME, rows([0]).schema, lake.options)
    writer = TableWriter(WriteTarget.of(table), "test")
    writer.write(rows([0, 100, 200]))
    writer.discard()
    assert lake.files() == set()


def test_the_names_of_partitions_are_those_of_other_writers() -> None:
    assert PartitionBy("a.b", "hour").name == "a_b_hour"
