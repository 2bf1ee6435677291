"""`--json` of `kavka pipelines`: objects of the declared shapes, and one failure."""

import asyncio
import io
import json
from contextlib import redirect_stdout

import pytest

from kavka.cli.commands.pipelines import main
from kavka.cli.json_lines import pipeline_shapes as shapes
from kavka.cli.json_lines.shapes import FAILURE
from kavka.cli.json_rows.pipelines import finding_row, flow_row, incident_row, reset_row
from kavka.cli.pipelines.run_view import JsonView
from kavka.client import blocking
from kavka.client.consumer.batches import ConsumerRecord
from kavka.pipelines.definitions import Finding, Location
from kavka.pipelines.operations.delivery import idempotency_key
from kavka.pipelines.reset import Reset
from kavka.pipelines.testing.topics import create_topics
from kavka.spark.queries.flow_progress import ExpectationCounts, PartitionLag, ProgressTable
from kavka.spark.queries.topic import PROGRESS_TOPIC, StatusPublisher
from kavka.testing.local_cluster import LocalCluster
from support.json_shapes import check

LETTER = [
    ("__kavka.errors.topic", b"clicks"),
    ("__kavka.errors.partition", b"0"),
    ("__kavka.errors.offset", b"7"),
]
DEEP = b"[" * 100_000
"""JSON that Python's parser refuses with an error of its own."""
ODD_ALERT = json.dumps(
    {"event": "firing", "incident": 7, "alert": "A\x1b[2J", "since": "t", "labels": ["x"]}
).encode()


@pytest.fixture(scope="module")
def servers(tmp_path_factory):
    with LocalCluster(tmp_path_factory.mktemp("cluster"), brokers=1) as running:
        topics = {"clicks": 1, "dead": 1, "alerts": 1, PROGRESS_TOPIC: 1}
        asyncio.run(create_topics(running.bootstrap_servers, topics))
        with blocking.Producer({"bootstrap.servers": running.bootstrap_servers}) as producer:
            producer.send("dead", b"x", headers=LETTER)
            producer.send("dead", b"y")
            for value in (b"nonsense", DEEP, b'{"pipeline": "p", "flow": 1}', b"[]"):
                producer.send(PROGRESS_TOPIC, value, b"another program's")
            for value in (b"nonsense", DEEP, ODD_ALERT):
                producer.send("alerts", value)
        yield running.bootstrap_servers


@pytest.fixture
def call(capsys):
    def run(shape, *words, code=0):
        assert main([*words, "--json"]) == code
        out, err = capsys.readouterr()
        rows = [json.loads(line) for line in out.splitlines()]
        for row in rows:
            check(row, shape.fields, shape.parts)
        said = [json.loads(line) for line in err.splitlines()]
        failures = [one for one in said if list(one) != ["warning"]]
        assert len(failures) == (1 if code else 0), err
        for failure in failures:
            check(failure, FAILURE.fields, {})
            assert failure["exit_code"] == code
        return failures[0]["error"]["code"] if code else rows

    return run


def flow(**fields):
    table = ProgressTable("shop")
    table.started("events", 1_000)
    found = table.of("events")
    for name, value in fields.items():
        setattr(found, name, value)
    return found


def test_a_new_project_and_mistakes(call, tmp_path):
    [made] = call(shapes.PROJECT, "init", str(tmp_path / "shop"))
    assert "transformations/events.py" in made["files"]
    assert call(shapes.PROJECT, "init", str(tmp_path / "shop"), code=1) == "FAILED"
    assert call(shapes.FLOW, "run", "--conf", "no-value", code=1) == "BAD_USAGE"
    assert call(shapes.FINDING, "check", "--project", str(tmp_path), code=1) == "FAILED"
    at = ("backfill", "--project", str(tmp_path / "shop"))
    assert call(shapes.FLOW, *at, "--from", "soon", code=1) == "FAILED"


def test_the_progress_of_flows_is_read_from_the_topic(call, servers):
    async def publish():
        publisher = StatusPublisher({"bootstrap.servers": servers})
        await publisher.start()
        lags = {"clicks-0": PartitionLag(3, None)}
        counts = {"expect:a page": ExpectationCounts(2, 1)}
        await publisher.publish([flow(lag=lags, expectations=counts, updated_ms=1_000)], 2_000)
        await publisher.close()

    asyncio.run(publish())
    # Records of other programs in the topic are left out.
    [found] = call(shapes.FLOW, "status", "--bootstrap-server", servers)
    assert (found["flow"], found["state"]) == ("events", "running")
    assert found["lag"] == {"clicks-0": {"records": 3, "seconds": None}}
    assert found["expectations"] == {"expect:a page": {"passed": 2, "failed": 1}}


def test_dead_letters_and_slices_are_counted(call, servers, tmp_path):
    at = ("--bootstrap-server", servers)
    words = ("redrive", "dead", *at)
    letter, total = (json.loads(line) for line in _printed(words, "--dry-run"))
    check(letter, shapes.LETTER.fields, {})
    assert (letter["to_topic"], letter["from_offset"]) == ("clicks", 7)
    check(total, shapes.REDRIVEN.fields, {})
    assert (total["sent"], total["left"], total["dry_run"]) == ({"clicks": 1}, 1, True)
    [total] = call(shapes.REDRIVEN, *words)
    assert (total["sent"], total["unknown"], total["dry_run"]) == ({"clicks": 1}, 1, False)
    file = tmp_path / "slice.jsonl"
    [found] = call(shapes.SLICE, "record", "dead", *at, "--output", str(file), "--max-records", "1")
    assert (found["records"], found["complete"]) == (1, False)
    assert call(shapes.SLICE, "record", "none", *at, "--output", f"{file}2", code=1) == "FAILED"


def test_records_of_other_programs_neither_hide_incidents_nor_steer_a_terminal(
    call, servers, capsys
):
    words = ("alerts", "--bootstrap-server", servers, "--topic", "alerts")
    [found] = call(shapes.INCIDENT, *words)
    assert (found["incident"], found["labels"]) == ("7", {})
    assert main(list(words)) == 0
    assert "A\\x1b[2J" in capsys.readouterr().out
    record = ConsumerRecord("alerts", 0, 1, 0, 0, None, DEEP, ())
    assert idempotency_key(record) == "alerts-0-1"


def _printed(words, *more):
    out = io.StringIO()
    with redirect_stdout(out):
        assert main([*words, *more, "--json"]) == 0
    return out.getvalue().splitlines()


def test_a_run_prints_a_flow_when_its_state_changes_and_every_ten_seconds(capsys):
    now = [0.0]
    view = JsonView(lambda: now[0])
    for second, state, rows in (
        (0, "waiting", 0),
        (1, "running", 5),
        (5, "running", 6),
        (11, "running", 7),
        (12, "running", 8),
    ):
        now[0] = second
        view.show([flow(state=state, rows_in=rows)])
    view.print_message("is in the objects")
    view.close()
    printed = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [(row["state"], row["rows_in"]) for row in printed] == [
        ("waiting", 0), ("running", 5), ("running", 7), ("running", 8),
    ]  # fmt: skip
    check(printed[0], shapes.FLOW.fields, shapes.FLOW.parts)
    assert flow_row(flow(), is_lost=True)["state"] == "lost"


def test_findings_resets_and_foreign_incidents_have_their_shapes():
    for finding in (
        Finding(Location("a.py", 3), "wrong"),
        Finding(Location("a.yml"), "odd", False),
    ):
        check(finding_row(finding), shapes.FINDING.fields, {})
    done = Reset("events", "table", True, readers=("alerts",))
    check(reset_row(done), shapes.RESET.fields, {})
    assert done.lines()[1].endswith("reset them too (alerts)")
    row = incident_row({"incident": 7, "value": True, "labels": ["odd"], "since": None})
    check(row, shapes.INCIDENT.fields, {})
    assert (row["incident"], row["value"], row["labels"], row["since"]) == ("7", None, {}, "")
