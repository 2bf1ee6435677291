"""Findings that need no Spark and no broker."""

from pathlib import Path
from types import SimpleNamespace

import pytest

from kavka.pipelines.check import option_findings, storage_findings
from kavka.pipelines.definitions import (
    Definitions,
    Finding,
    FlowDefinition,
    Location,
    OutputDefinition,
    TopicRead,
    location_of,
)
from kavka.pipelines.project import Project

AT = Location("transformations/a.py", 7)
SINK = {
    "kafka.bootstrap.servers": "b:1",
    "topic": "out",
    "deliveryGuarantee": "exactly-once",
    "sinkId": "out",
}


def texts(definitions):
    return [str(finding) for finding in option_findings(definitions)]


def sink(name="out", **options):
    given = {name.replace("__", "."): value for name, value in options.items()}
    return OutputDefinition(name, "sink", AT, "kavka", {**SINK, **given})


def test_sound_options_have_no_findings():
    read = TopicRead("kavka", {"kafka.bootstrap.servers": "b:1", "subscribe": "in"}, True)
    assert texts(Definitions([sink()], [FlowDefinition("f", "out", AT, (read,))])) == []


def test_a_misspelt_option_of_a_source_is_found():
    read = TopicRead("kavka", {"kafka.bootstrap.servers": "b:1", "subscribee": "in"}, True)
    [found] = texts(Definitions([], [FlowDefinition("f", "t", AT, (read,))]))
    assert found.startswith("transformations/a.py:7: error: the source of f: ")
    assert "subscribe" in found


def test_options_of_sparks_own_connector_are_left_to_it():
    read = TopicRead("kafka", {"subscribee": "in"}, True)
    assert texts(Definitions([], [FlowDefinition("f", "t", AT, (read,))])) == []


def test_two_sinks_with_one_id_are_found():
    [found] = texts(Definitions([sink("a"), sink("b")], []))
    assert "the sinks a and b share the sinkId 'out'" in found


def test_two_flows_into_one_exactly_once_sink_are_found():
    flows = [FlowDefinition("f", "out", AT), FlowDefinition("g", "out", AT)]
    [found] = texts(Definitions([sink()], flows))
    assert "the flows f, g write into the exactly-once sink out" in found


def test_a_sink_without_an_id_is_a_warning():
    options = {name: value for name, value in SINK.items() if name != "sinkId"}
    [found] = option_findings(Definitions([OutputDefinition("out", "sink", AT, "kavka", options)]))
    assert not found.is_error
    assert "no sinkId" in found.text


def test_an_exception_is_found_in_the_projects_last_line_of_its_traceback(tmp_path):
    path = tmp_path / "a.py"
    path.write_text("def f():\n    raise ValueError('x')\n\nf()\n")
    with pytest.raises(ValueError, match="x") as raised:
        exec(compile(path.read_text(), str(path), "exec"), {})
    assert location_of(raised.value, tmp_path) == Location("a.py", 2)
    assert location_of(raised.value, tmp_path / "elsewhere") is None


def test_a_syntax_error_is_found_where_it_is(tmp_path):
    path = Path(tmp_path) / "a.py"
    with pytest.raises(SyntaxError) as raised:
        compile("x = 1\ny = (\n", str(path), "exec")
    assert location_of(raised.value, tmp_path) == Location("a.py", 2)


def test_a_storage_that_cannot_be_made_says_why_and_what_to_change(tmp_path):
    (tmp_path / "file").touch()
    spec = SimpleNamespace(storage=(tmp_path / "file" / "storage").as_uri())
    [found] = storage_findings(Project(tmp_path / "spark-pipeline.yml", spec))
    assert str(found) == (
        f"spark-pipeline.yml: error: storage {tmp_path}/file/storage cannot be written by this user "
        "(Not a directory): name another folder as `storage`"
    )


def test_a_finding_is_printed_as_compilers_do():
    assert str(Finding(AT, "boom", is_error=False)) == "transformations/a.py:7: warning: boom"
