"""Options of `format("kavka-iceberg")`, the table of each row, and a task, without Spark."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from kavka.ids import TopicPartition
from kavka.lake.catalogs import Identifier
from kavka.lake.errors import LakeError
from kavka.lake.sink_state import BatchId, SinkState, Verdict
from kavka.lake.table_writer import WriteTarget
from kavka.lake.tables import prepare_table
from kavka.spark.errors import ConnectorError
from kavka.spark.iceberg.options import LakeOptions, parse_lake
from kavka.spark.iceberg.reload import Reload, columns_by_name
from kavka.spark.iceberg.table_names import TableNames
from kavka.spark.iceberg.task import TablePlan, TaskLoader, verdict_for
from support.lake import NAME, Lake, rows


def parse(streaming: bool = True, overwrite: bool = False, **given: str) -> LakeOptions:
    base = {"table": "lake.t", "checkpointLocation": "/c"} if streaming else {"table": "lake.t"}
    options = {name.replace("__", "."): value for name, value in (base | given).items()}
    return parse_lake(options, streaming=streaming, overwrite=overwrite)


def test_options_are_read_in_any_case() -> None:
    found = parse(
        CATALOG__URI="x", TableProperty__a__b="c", TARGETFILESIZE="64 MB".replace(" ", ""), mergeschema="TRUE"
    )  # fmt: skip
    assert found.catalog == {"uri": "x"}
    assert found.table.properties == {"a.b": "c", "write.target-file-size-bytes": str(64 << 20)}
    assert found.table.may_evolve


def test_a_stream_is_named_by_its_checkpoint_wherever_that_is_written() -> None:
    one, other = parse(checkpointLocation="/a/b/"), parse(checkpointLocation="file:///a/b")
    assert one.sink_id == other.sink_id
    assert parse(sinkId="mine").sink_id == "mine"
    assert not one.accepts_other_writes
    assert parse(onNewCheckpoint="reset").accepts_other_writes


def test_a_data_frame_is_named_only_where_it_is_to_be_recognised() -> None:
    assert parse(False).sink_id is None
    assert parse(False, sinkId="daily", writeId="monday").write_id == "monday"
    assert parse(False, True, replaceOffsets='{"t": {"0": [0, 1]}}').sink_id is None


@pytest.mark.parametrize(
    ("streaming", "overwrite", "given", "words"),
    [
        (True, False, {"sinkid": "a/b"}, "letters"),
        (True, False, {"writeId": "x"}, "batch writes"),
        (True, False, {"checkpointLocation": " "}, "is empty"),
        (True, False, {"replaceOffsets": '{"t": {"0": [0, 1]}}'}, "mode overwrite"),
        (False, True, {}, "replaceOffsets"),
        (
            False,
            True,
            {"replaceOffsets": '{"t": {"0": [0, 1]}}', "sinkId": "x"},
            "cannot be combined with",
        ),
        (False, False, {"writeId": "x"}, "sinkId"),
        (False, False, {"onNewCheckpoint": "reset"}, "of streams"),
        (False, False, {"partitionby": "x y"}, "partitionBy"),
        (False, False, {"sortby": "x y z"}, "sortBy"),
        (False, False, {"mergeSchema": "yes"}, "true or false"),
        (False, False, {"targetFileSize": "0"}, "a size"),
        (False, False, {"partitionedBy": "x"}, "did you mean partitionBy"),
        (False, False, {"table": "t"}, "namespace"),
        (False, False, {"table": "lake.{"}, "braces"),
    ],
)
def test_what_is_wrong_is_said(
    streaming: bool, overwrite: bool, given: dict[str, str], words: str
) -> None:
    with pytest.raises(ConnectorError, match=words):
        parse(streaming, overwrite, **given)


# Tables of rows


def split(template: str, batch: pa.RecordBatch) -> dict[tuple[str, ...], list[int]]:
    return {name: piece["offset"].to_pylist() for name, piece in TableNames(template).split(batch)}


def test_rows_are_cut_by_the_columns_of_the_template() -> None:
    batch = rows(range(4), tenant=["a", "b", "a", "b"])
    assert split("lake.t", batch) == {("lake", "t"): [0, 1, 2, 3]}
    assert split("{tenant}.x_{topic}", batch) == {
        ("a", "x_clicks"): [0, 2],
        ("b", "x_clicks"): [1, 3],
    }
    assert split("lake.{topic}", rows([1], topic="web.clicks-1")) == {("lake", "web_clicks_1"): [1]}


def test_a_row_without_a_table_is_refused() -> None:
    for tenant in (None, ""):
        with pytest.raises(LakeError, match="tenant is null or empty"):
            split("lake.{tenant}", rows([1], tenant=pa.array([tenant], pa.string())))


# A task


def loader(
    lake: Lake, state: SinkState | None = None, table: str = "lake.clicks", **more: int
) -> TaskLoader:
    def plan(name: Identifier) -> TablePlan:
        made = prepare_table(lake.catalog, name, rows([0]).schema, lake.options)
        return TablePlan(WriteTarget.of(made), state)

    batch = BatchId("q", 1)
    return TaskLoader(TableNames(table), plan, verdict_for(batch, False, True, True), batch, "p", **more)  # fmt: skip


def test_a_task_reports_its_files_and_offsets(lake: Lake) -> None:
    report = loader(lake).run(iter([rows([0, 1]), rows([]), rows([2])]))
    part = report.parts[NAME]
    assert (report.rows, sum(one.rows for one in part.files)) == (3, 3)
    assert part.ranges[TopicPartition("clicks", 0)].end == 3


def test_a_task_of_a_batch_that_is_there_reads_its_rows_and_writes_nothing(lake: Lake) -> None:
    state = SinkState(BatchId("q", 1), {})
    report = loader(lake, state).run(iter([rows([0, 1])]))
    assert (report.rows, report.parts[NAME].files, report.parts[NAME].was_skipped) == (2, (), True)
    assert lake.files() == set()


def test_a_task_that_fails_removes_its_files(lake: Lake) -> None:
    def failing() -> Iterator[pa.RecordBatch]:
        yield rows([0, 100])
        raise RuntimeError("as the test wants it")

    with pytest.raises(RuntimeError):
        loader(lake).run(failing())
    assert lake.files() == set()


def test_the_tables_of_a_task_share_its_memory(lake: Lake) -> None:
    many = loader(lake, table="lake.{topic}", max_buffered=1)
    report = many.run(iter([rows([0], topic="a"), rows([0], topic="b"), rows([1], topic="a")]))
    assert {
        name[1]: sum(one.rows for one in part.files) for name, part in report.parts.items()
    } == {"a": 2, "b": 1}
    (file,) = report.parts["lake", "a"].files
    assert pq.ParquetFile(file.path).num_row_groups == 2


def test_without_a_sink_every_batch_is_written() -> None:
    decide = verdict_for(BatchId("q", 1), True, False, has_sink=False)
    assert decide(SinkState(BatchId("q", 1), {})) is Verdict.WRITE


# Reload


def test_a_reload_says_its_range_as_the_options_of_source_and_sink() -> None:
    plan = Reload({TopicPartition("a", 1): (3, 5), TopicPartition("a", 0): (0, 2)})
    assert plan.assign == '{"a": [0, 1]}'
    assert plan.starting_offsets == '{"a": {"0": 0, "1": 3}}'
    assert plan.ending_offsets == '{"a": {"0": 2, "1": 5}}'
    assert plan.replace_offsets == '{"a": {"0": [0, 2], "1": [3, 5]}}'
    assert plan.rows == 4


def test_columns_of_the_source_are_found_by_name(lake: Lake) -> None:
    lake.commit(0, rows([0], key=["k"]))
    assert columns_by_name(lake.table.schema()) == [
        "`value` AS `value`", "`topic` AS `topic`", "`partition` AS `partition`", "`offset` AS `offset`",
        "`timestamp` AS `event_time`", "CAST(key AS STRING) AS `key`",
    ]  # fmt: skip
    lake.sink = None
    other = Lake(lake.directory / "other")
    other.commit(0, rows([0], colour=["red"]))
    with pytest.raises(ConnectorError, match="column colour is not one of the topic's"):
        columns_by_name(other.table.schema())
