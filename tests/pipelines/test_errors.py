"""Errors of Spark as sentences."""

from kavka.pipelines.errors import event_and_error, is_late_worker, query_failure


def test_the_connectors_sentence_wins():
    text = (
        "org.apache.spark.sql.streaming.StreamingQueryException: Job aborted\n"
        "kavka.spark.errors.ConnectorError: The topic in does not exist.\n\tat x"
    )
    assert query_failure(text) == "The topic in does not exist."


def test_classes_stack_and_sql_state_are_cut_off():
    text = (
        "org.apache.spark.sql.AnalysisException: [TABLE_OR_VIEW_NOT_FOUND] The table `x` cannot be found. "
        "SQLSTATE: 42P01\n\tat org.apache.spark.Foo.bar(Foo.scala:1)"
    )
    assert query_failure(text) == "[TABLE_OR_VIEW_NOT_FOUND] The table `x` cannot be found."


def test_an_exception_in_parentheses_is_cut_off():
    text = "(org.apache.spark.sql.X$Y) org.apache.spark.Z: boom"
    assert query_failure(text) == "boom"


def test_what_to_do_is_said_where_it_is_known():
    said = query_failure("[LOCATION_ALREADY_EXISTS] Cannot name the managed table")
    assert said.startswith("[LOCATION_ALREADY_EXISTS] Cannot name the managed table: ")
    assert "spark-defaults.conf" in said


def test_a_process_of_python_that_started_too_slowly_is_told_from_other_failures():
    said = query_failure(
        "[STREAM_FAILED] Query [id = 1, runId = 2] terminated with exception: "
        "Python worker failed to connect back. SQLSTATE: XXKST\n=== Streaming Query ==="
    )
    assert said.startswith(
        "Python worker failed to connect back: a process of Python did not start"
    )
    assert is_late_worker(said)
    assert not is_late_worker("Python worker exited unexpectedly (crashed)")


def test_nothing_is_still_a_sentence():
    assert query_failure("") == "an error without a message"


def test_a_long_message_is_cut():
    assert len(query_failure("x" * 10_000)) < 700


def test_an_expectation_that_fails_a_query_is_said_in_its_own_words():
    said = "the expectation 'a status' (status < 600) is not met by the row {\"status\":700}"
    text = (
        "[STREAM_FAILED] Query [id = d1e121a1, runId = 5d5bced6] terminated with exception: "
        f"[USER_RAISED_EXCEPTION] {said} SQLSTATE: P0001 SQLSTATE: XXKST\n=== Streaming Query ===\nmore"
    )
    assert query_failure(text) == said


def test_an_event_and_its_error_are_told_apart_wherever_the_error_begins():
    error = (
        "[STREAM_FAILED] Query [id = d1, runId = 5d] terminated with exception: "
        "[PYTHON_STREAMING_DATA_SOURCE_RUNTIME_ERROR] Failed when Python streaming data source perform initialOffset: "
        "kavka.spark.errors.ConnectorError: cannot reach any of bootstrap.servers [h:1] SQLSTATE: 38000 "
        "SQLSTATE: XXKST\n"
        "=== Streaming Query ===\nIdentifier: x"
    )
    for between in (" ", "\n"):
        assert event_and_error(f"Flow 'a.b'  has FAILED.{between}Error: {error}") == (
            "Flow 'a.b' has FAILED.",
            "cannot reach any of bootstrap.servers [h:1]",
        )
    assert event_and_error("Flow 'a.b' is\nRUNNING.") == ("Flow 'a.b' is RUNNING.", "")
