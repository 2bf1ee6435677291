"""Progress of flows from Spark's reports, as records, tables, lines and metrics."""

import io
import json

import pytest

from kavka.ids import TopicPartition
from kavka.metrics.server import page
from kavka.pipelines.definitions import Definitions
from kavka.pipelines.observer import Observer
from kavka.pipelines.view import PlainView, plain, rich_table
from kavka.spark.queries.flow_progress import PartitionLag, ProgressTable, progress_from_json
from kavka.spark.queries.metrics import families
from kavka.spark.queries.topic import status_table

AT = TopicPartition("in", 0)


def report(batch_id=0, rows=10, **more):
    return {
        "name": "spark_catalog.default.events",
        "batchId": batch_id,
        "numInputRows": rows,
        "durationMs": {"triggerExecution": 500, "addBatch": 300},
        "sources": [{"endOffset": '{"in": {"0": 12}, "in@aaa": {}}'}],
        "sink": {"numOutputRows": rows},
        "stateOperators": [],
        "eventTime": {},
        **more,
    }


def test_a_batch_adds_to_the_totals_of_its_flow():
    table = ProgressTable("shop")
    table.batch(report(0), 1_000)
    table.batch(report(1, rows=5), 2_000)
    [flow] = table
    assert (flow.flow, flow.batch_id, flow.rows_in, flow.rows_out) == ("events", 1, 15, 15)
    assert flow.phases_ms["addBatch"] == 300
    assert flow.rows_per_second == 10.0


def test_a_flow_that_makes_a_batch_runs_unless_it_waits_after_a_failure():
    table = ProgressTable("shop")
    table.batch(report(0), 1)
    assert table.of("events").state == "running"
    table.failed("events", "no leader", 2, restarts=True)
    table.batch(report(1), 3)
    assert table.of("events").state == "waiting"


def test_a_flow_without_news_has_no_rate_and_keeps_its_batch():
    table = ProgressTable("shop")
    table.batch(report(0), 1_000)
    table.batch(report(0, rows=0, durationMs={"latestOffset": 1}), 9_000)
    [flow] = table
    assert (flow.batch_id, flow.batch_ms, flow.rows_in) == (0, 500, 10)
    assert (flow.rows_per_second, flow.updated_ms) == (0.0, 9_000)


def test_a_sink_that_does_not_count_adds_nothing():
    table = ProgressTable("shop")
    table.batch(report(sink={"numOutputRows": -1}), 1)
    assert next(iter(table)).rows_out is None


def test_state_late_rows_and_watermark_are_those_of_the_operators():
    operators = [
        {"numRowsDroppedByWatermark": 2, "numRowsTotal": 7, "memoryUsedBytes": 100},
        {"numRowsDroppedByWatermark": 1, "numRowsTotal": 3, "memoryUsedBytes": 50},
    ]
    table = ProgressTable("shop")
    event_time = {"watermark": "1970-01-01T00:00:10.000Z"}
    table.batch(report(stateOperators=operators, eventTime=event_time), 25_000)
    [flow] = table
    assert (flow.late_rows, flow.state_rows, flow.state_bytes) == (3, 10, 150)
    assert flow.watermark_delay_s == 15.0


def test_a_watermark_of_1970_is_none_yet():
    table = ProgressTable("shop")
    table.batch(report(eventTime={"watermark": "1970-01-01T00:00:00.000Z"}), 25_000)
    assert next(iter(table)).watermark_delay_s is None


@pytest.mark.parametrize("end", ['{"logOffset":3}', None, '"7"', '{"in": {"zero": 1}}'])
def test_offsets_of_other_sources_are_no_positions(end):
    table = ProgressTable("shop")
    table.batch(report(sources=[{"endOffset": end}]), 1)
    assert table.positions("events") == [{}]


def test_positions_are_those_of_the_topics():
    table = ProgressTable("shop")
    table.batch(report(), 1)
    assert table.positions("spark_catalog.default.events") == [{AT: 12}]


def test_the_lag_is_the_sum_of_records_and_the_longest_time():
    table = ProgressTable("shop")
    flow = table.of("events")
    assert (flow.lag_records, flow.lag_seconds) == (0, None)
    other = TopicPartition("in", 1)
    table.lags("events", {AT: PartitionLag(3, 2.5), other: PartitionLag(4, None)})
    assert (flow.lag_records, flow.lag_seconds) == (7, 2.5)


def test_progress_survives_its_record():
    table = ProgressTable("shop")
    table.batch(report(), 1_000)
    table.lags("events", {AT: PartitionLag(3, 2.5)})
    table.failed("events", "no leader", 2_000, restarts=True)
    [flow] = table
    assert progress_from_json(flow.to_json()) == flow


def test_fields_of_a_later_release_are_left_out():
    known = progress_from_json('{"pipeline":"p","flow":"f","colour":"red","lag":{}}')
    assert (known.pipeline, known.flow) == ("p", "f")


@pytest.mark.parametrize(
    "text",
    [
        "[]",
        "7",
        "{",
        '{"pipeline": "p"}',
        '{"pipeline": "p", "flow": "f", "phases_ms": []}',
        '{"pipeline": "p", "flow": "f", "watermark_delay_s": ""}',
        '{"pipeline": "p", "flow": "f", "lag": {"t-0": {"records": 1, "seconds": ""}}}',
    ],
)
def test_other_records_are_refused(text):
    with pytest.raises(ValueError, match=r"\S"):
        progress_from_json(text)


def test_a_flow_of_a_run_that_died_is_shown_as_lost():
    table = ProgressTable("shop")
    table.started("events", 1_000)
    assert " running " in status_table(list(table), 2_000)
    assert " lost " in status_table(list(table), 1_000_000)


def test_the_last_errors_stand_below_the_table():
    table = ProgressTable("shop")
    table.failed("events", "no leader", 2_000, restarts=True)
    shown = status_table(list(table), 2_000)
    assert shown.endswith("last errors:\nshop/events: no leader")
    assert "waiting" in shown


def test_a_flow_that_waits_for_its_turn_is_in_the_table():
    table = ProgressTable("shop")
    table.waits("spark_catalog.default.events", 1_000)
    [flow] = table
    assert (flow.flow, flow.state, flow.rows_in, flow.updated_ms) == ("events", "waiting", 0, 1_000)
    table.started("events", 2_000)
    assert (flow.state, flow.restarts) == ("running", 0)


def test_a_line_says_rows_lag_and_restarts():
    table = ProgressTable("shop")
    table.batch(report(), 1)
    table.lags("events", {AT: PartitionLag(3, 2.5)})
    table.failed("events", "x", 1, restarts=True)
    line = plain(next(iter(table)))
    assert (
        line
        == "events: waiting; batch 0 in 500 ms; rows 10 in, 10 out, 20/s; lag 3 records, 2.5 s; 1 restarts"
    )


def test_lines_appear_when_a_state_changes_and_else_every_ten_seconds():
    table, out, now = ProgressTable("shop"), io.StringIO(), [0.0]
    view = PlainView(out, clock=lambda: now[0])
    table.started("events", 1)
    view.show(list(table))
    table.batch(report(), 2)
    view.show(list(table))
    now[0] = 11.0
    view.show(list(table))
    view.show(list(table))
    table.ended("events", "done", 3)
    view.show(list(table))
    lines = [line.partition(" ")[2] for line in out.getvalue().splitlines()]
    assert [line.partition(";")[0] for line in lines] == [
        "events: running",
        "events: running",
        "events: done",
    ]


def test_metrics_have_a_sample_for_each_flow_and_partition():
    table = ProgressTable("shop")
    table.started("events", 1_000)
    table.batch(report(), 1_000)
    table.lags("events", {TopicPartition("in-side", 0): PartitionLag(3, 2.5)})
    text = page(families(table)).decode()
    assert 'kavka_pipeline_rows_in_total{pipeline="shop",flow="events"} 10\n' in text
    assert 'kavka_pipeline_running{pipeline="shop",flow="events"} 1\n' in text
    labels = 'pipeline="shop",flow="events",topic="in-side",partition="0"'
    assert f"kavka_pipeline_lag_records{{{labels}}} 3\n" in text
    assert f"kavka_pipeline_lag_seconds{{{labels}}} 2.5\n" in text
    assert 'phase="addBatch"} 300\n' in text


def test_a_terminal_shows_a_table_with_errors_below():
    from rich.console import Console

    table, out = ProgressTable("shop"), io.StringIO()
    table.batch(report(rows=1234), 1)
    table.lags("events", {AT: PartitionLag(3, 2.5)})
    table.failed("events", "no leader", 1, restarts=True)
    table.refreshed("by_page", 300, 2)
    Console(file=out, width=120).print(rich_table(list(table)))
    lines = out.getvalue().splitlines()
    assert lines[1].split() == [
        "events", "waiting", "0", "500", "1,234", "1,234", "2,468", "3", "2.5", "0", "-", "1",
    ]  # fmt: skip
    assert lines[2].split()[:5] == ["by_page", "waiting", "0", "300", "-"]
    assert lines[3].strip() == "events: no leader"


OBSERVED = {
    "expect_or_drop:has a user": {"passed": 7, "failed": 3},
    "my own": {"count": 4},
    "expect:empty": {"passed": None, "failed": None},
}


def test_expectations_are_counted_over_batches_and_other_metrics_are_not():
    table = ProgressTable("shop")
    table.batch(report(0, observedMetrics=OBSERVED), 1_000)
    table.batch(report(1, observedMetrics=OBSERVED), 2_000)
    table.batch(report(1, rows=0, observedMetrics=OBSERVED), 3_000)  # idle, with the last counts
    [flow] = table
    assert flow.failed_rows == 6
    assert plain(flow).split("; ")[-2:] == [
        'expect_or_drop "has a user": 6 of 20 rows failed',
        'expect "empty": 0 of 0 rows failed',
    ]
    assert progress_from_json(flow.to_json()) == flow
    labels = 'pipeline="shop",flow="events",expectation="has a user",action="expect_or_drop"'
    text = page(families(table)).decode()
    assert f"kavka_pipeline_expectation_failed_total{{{labels}}} 6\n" in text
    assert f"kavka_pipeline_expectation_passed_total{{{labels}}} 14\n" in text
    assert 'shop/events: expect_or_drop "has a user": 6 of 20 rows failed' in status_table(
        [flow], 1
    )


def test_progress_of_an_older_release_has_no_expectations():
    old = json.loads(ProgressTable("shop").of("events").to_json())
    del old["expectations"]
    assert progress_from_json(json.dumps(old)).failed_rows is None


def test_the_last_reports_are_those_of_all_streams_that_ended_well():
    table = ProgressTable("shop")
    table.started("by_page", 1, kind="view")  # reports nothing
    observer = Observer(table, Definitions(), None)
    ended = ["events", "alerts", "by_page"]
    observer.record_termination()
    assert not observer.wait_for_reports(ended, 0)
    observer.record_termination()
    assert observer.wait_for_reports(ended, 0)
