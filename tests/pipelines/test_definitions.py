"""The definitions of a file of SQL, and the names of flows."""

import runpy

import pytest

from kavka.pipelines.definitions import (
    BadDefinition,
    Definitions,
    FlowDefinition,
    Location,
    OutputDefinition,
    TopicRead,
    line_of_sql,
    located_errors,
    sql_definitions,
)
from kavka.pipelines.reset import streaming_readers
from kavka.spark.queries.flow_progress import unqualified

SQL = """-- sales
CREATE STREAMING TABLE sales AS SELECT * FROM STREAM raw;

CREATE OR REFRESH MATERIALIZED VIEW
  by_day AS
SELECT day, sum(price) FROM sales JOIN `shops` ON shop = id GROUP BY day;
create temporary view late as select * from stream(sales);
"""


def test_outputs_of_sql_have_kind_and_line():
    outputs, _ = sql_definitions(SQL, "transformations/sales.sql")
    assert [(one.name, one.kind, one.at.line) for one in outputs] == [
        ("sales", "table", 2),
        ("by_day", "materialized view", 4),
        ("late", "temporary view", 7),
    ]


def test_flows_of_sql_name_the_tables_that_they_read():
    _, flows = sql_definitions(SQL, "sales.sql")
    assert [flow.tables for flow in flows] == [("raw",), ("sales", "`shops`"), ("sales",)]


def test_state_of_flows_in_sql_is_known_by_its_words():
    _, flows = sql_definitions(SQL, "sales.sql")
    assert [flow.is_stateful for flow in flows] == [False, True, False]
    _, [counted] = sql_definitions("CREATE STREAMING TABLE n AS SELECT count(*) FROM STREAM x", "")
    assert counted.is_stateful


def test_a_file_of_sql_that_creates_nothing_has_no_definitions():
    for text in ("", "-- nothing yet\n", "SET x.y = 1;", "SELEC nonsense"):
        assert sql_definitions(text, "notes.sql") == ([], [])


def test_a_refused_statement_is_named_with_file_and_line():
    of_spark = type("ParseException", (Exception,), {"__module__": "pyspark.errors"})
    error = of_spark(
        "[PARSE_SYNTAX_ERROR] Syntax error at or near 'SELEC'. SQLSTATE: 42601 (line 3, pos 0)\n\n"
        "== SQL ==\nSELEC nonsense\n^^^"
    )
    refused = BadDefinition(line_of_sql(str(error), "transformations/a.sql"), error)
    assert str(refused) == (
        "transformations/a.sql:3: [PARSE_SYNTAX_ERROR] Syntax error at or near 'SELEC'."
    )
    assert line_of_sql("no place", "a.sql") == Location("a.sql")


def test_the_last_part_of_a_qualified_name_is_the_short_one():
    assert unqualified("spark_catalog.default.events") == "events"
    assert unqualified("`shops`") == "shops"
    assert unqualified("to_out") == "to_out"


def test_reads_of_temporary_views_belong_to_the_flow_that_reads_them():
    read = TopicRead("kavka", {"subscribe": "in"}, True)
    at = Location("a.py", 1)
    view = FlowDefinition("view", "view", at, reads=(read,))
    flow = FlowDefinition("flow", "table", at, tables=("view", "other"))
    other = FlowDefinition("other", "other", at, reads=(read, read))
    outputs = [
        OutputDefinition("view", "temporary view", at),
        OutputDefinition("other", "table", at),
    ]
    definitions = Definitions(outputs, [view, other, flow])
    assert definitions.topic_reads(flow) == [read]


def test_streams_that_read_a_table_are_named_and_views_are_not():
    at = Location("a.py", 1)
    flows = [
        FlowDefinition("by_page", "by_page", at, tables=("events",)),
        FlowDefinition("failed", "alerts", at, tables=("spark_catalog.default.events",)),
        FlowDefinition("other", "other", at, tables=("else",)),
    ]
    outputs = [
        OutputDefinition("by_page", "materialized view", at),
        OutputDefinition("alerts", "sink", at),
        OutputDefinition("other", "table", at),
    ]
    assert streaming_readers(Definitions(outputs, flows), "events") == ["failed"]


def test_a_location_is_written_as_compilers_do():
    assert str(Location("a.py", 3)) == "a.py:3"
    assert str(Location("a.py")) == "a.py"


def test_what_a_file_raises_is_named_with_its_last_line(tmp_path):
    file = tmp_path / "transformations" / "bad.py"
    file.parent.mkdir()
    file.write_text("\nraise KeyError('x')\n")
    with pytest.raises(BadDefinition) as refused, located_errors(tmp_path):
        runpy.run_path(str(file))
    assert str(refused.value) == "transformations/bad.py:2: KeyError: 'x'"
    assert isinstance(refused.value.__cause__, KeyError)
    file.write_text("def f(:\n")
    with (
        pytest.raises(BadDefinition, match=r"^transformations/bad.py:1: SyntaxError: "),
        located_errors(tmp_path),
    ):
        runpy.run_path(str(file))
    with pytest.raises(KeyError), located_errors(tmp_path / "transformations" / "other"):
        raise KeyError("elsewhere")
