"""Reports of any query's progress, as a listener takes them, without Spark."""

from kavka.metrics.server import page
from kavka.spark.queries.flow_progress import ProgressTable
from kavka.spark.queries.metrics import families
from kavka.spark.queries.reports import MAX_ENDED, QueryReports

ID = "d1e121a1-4bd5-4bb0-a8f8-6a5bd6a4d2ff"


def report(batch_id=0, rows=10, **more):
    return {
        "id": ID,
        "name": None,
        "batchId": batch_id,
        "numInputRows": rows,
        "durationMs": {"triggerExecution": 500},
        "sources": [{"endOffset": {"in": {"0": 12}}}],
        "sink": {"numOutputRows": -1},
        **more,
    }


def test_a_query_without_a_name_has_the_beginning_of_its_id():
    table = ProgressTable("shop")
    reports = QueryReports(table)
    reports.started(ID, None, 1_000)
    reports.batch(report(), 2_000)
    [query] = table
    assert (query.flow, query.rows_in, query.state) == ("query-d1e121a1", 10, "running")


def test_a_name_with_dots_is_kept_whole():
    table = ProgressTable("shop")
    reports = QueryReports(table)
    reports.started(ID, "shop.events.v2", 1_000)
    reports.batch(report(name="shop.events.v2"), 2_000)
    [query] = table
    assert (query.flow, query.rows_in) == ("shop_events_v2", 10)


def test_a_start_after_a_failure_is_a_restart():
    table = ProgressTable("shop")
    reports = QueryReports(table)
    reports.started(ID, "events", 1_000)
    trace = (
        "org.apache.spark.SparkException: Job aborted.\n\tat org.apache.Some.where(Some.scala:1)"
    )
    reports.terminated(ID, trace, 2_000)
    [query] = table
    assert (query.state, query.last_error, query.restarts) == ("failed", "Job aborted.", 0)
    assert (
        'kavka_pipeline_running{pipeline="shop",flow="events"} 0' in page(families(table)).decode()
    )

    reports.started(ID, "events", 3_000)
    assert (query.state, query.restarts) == ("running", 1)
    reports.terminated(ID, None, 4_000)
    reports.started(ID, "events", 5_000)
    assert (query.state, query.restarts) == ("running", 1)


def test_of_queries_that_ended_the_last_twenty_are_kept():
    table = ProgressTable("shop")
    reports = QueryReports(table)
    reports.started(ID, "events", 1_000)
    reports.started("a" * 36, "fails", 1_000)
    reports.terminated("a" * 36, "no more", 1_000)
    for number in range(10 * MAX_ENDED):
        query = f"{number:08d}-4bd5"
        reports.started(query, None, number)
        reports.batch(report(id=query), number)
        reports.terminated(query, None, number)
    ended = [f"query-{number:08d}" for number in range(9 * MAX_ENDED, 10 * MAX_ENDED)]
    assert [query.flow for query in table] == ["events", *ended]
    assert table.positions("query-00000000") == []
    assert table.positions(ended[0]) != []
    # What the brokers said too late brings none back.
    table.lags("query-00000000", {})
    assert len(list(table)) == 1 + MAX_ENDED

    reports.started(f"{10 * MAX_ENDED - 1:08d}-4bd5", None, 1)
    for number in range(MAX_ENDED):
        reports.started(f"x{number:07d}", None, 1)
        reports.terminated(f"x{number:07d}", None, 1)
    assert [query.flow for query in table][:2] == ["events", ended[-1]]
    assert len(list(table)) == 2 + MAX_ENDED
