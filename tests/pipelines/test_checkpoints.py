"""Reading the checkpoints of flows, and setting them back."""

import json
import os
from pathlib import Path

import pytest

from kavka.ids import TopicPartition
from kavka.pipelines.backfill import Range, chosen_flows, condition, limits_of, parse_range
from kavka.pipelines.checkpoints import (
    Checkpoints,
    last_number,
    parse_batch,
    replace_batch,
    require_no_backfill,
    topic_offsets,
    uncommitted,
    with_sources,
)
from kavka.pipelines.definitions import (
    Definitions,
    FlowDefinition,
    Location,
    OutputDefinition,
    TopicRead,
)
from kavka.pipelines.project import PipelineError

FLOW = FlowDefinition("events", "events", Location("a.py", 1))
OFFSETS = '{"in": {"0": 7}}'


def made(storage, number, batches, committed=None):
    folder = (
        storage / "_checkpoints" / "spark_catalog" / "default" / "events" / "events" / str(number)
    )
    (folder / "offsets").mkdir(parents=True)
    (folder / "commits").mkdir()
    for batch in range(batches):
        (folder / "offsets" / str(batch)).write_text(f"v1\n{{}}\n{OFFSETS}")
        (folder / "offsets" / f".{batch}.crc").write_text("sum")
    for batch in range(batches if committed is None else committed):
        (folder / "commits" / str(batch)).write_text('v1\n{"nextBatchWatermarkMs":0}')
    return folder


def test_a_flow_continues_in_its_newest_checkpoint(tmp_path):
    made(tmp_path, 0, 3)
    newest = made(tmp_path, 10, 2)
    made(tmp_path, 9, 5)
    checkpoints = Checkpoints(tmp_path)
    assert checkpoints.of(FLOW) == newest
    assert checkpoints.positions(FLOW) == [{TopicPartition("in", 0): 7}]
    assert last_number(newest / "offsets") == 1


def test_a_flow_that_has_not_run_has_no_position(tmp_path):
    assert Checkpoints(tmp_path).of(FLOW) is None
    assert Checkpoints(tmp_path).positions(FLOW) == []
    assert Checkpoints(None).positions(FLOW) == []


def test_a_batch_that_is_not_complete_is_seen(tmp_path):
    assert not uncommitted(made(tmp_path, 0, 2))
    assert uncommitted(made(tmp_path, 1, 2, committed=1))


def test_a_batch_is_read_and_written_as_spark_has_it(tmp_path):
    folder = made(tmp_path, 0, 2)
    batch = Checkpoints(tmp_path).last_batch(folder)
    assert batch is not None
    assert batch.text() == (folder / "offsets" / "1").read_text()
    replace_batch(folder, with_sources(batch, ['{"in": {"0": 3}}']))
    assert Checkpoints(tmp_path).positions(FLOW) == [{TopicPartition("in", 0): 3}]
    assert not uncommitted(folder)


def test_sums_of_files_that_were_replaced_are_removed(tmp_path):
    folder = made(tmp_path, 0, 2)
    batch = Checkpoints(tmp_path).last_batch(folder)
    assert batch is not None
    replace_batch(folder, with_sources(batch, [OFFSETS]))
    assert not (folder / "offsets" / ".1.crc").exists()
    assert (folder / "offsets" / ".0.crc").exists()


def test_an_unfinished_backfill_stops_other_runs(tmp_path):
    require_no_backfill(tmp_path)
    require_no_backfill(None)
    (tmp_path / "backfill.json").write_text("{}")
    with pytest.raises(PipelineError, match="backfill was not finished"):
        require_no_backfill(tmp_path)


def test_another_version_of_the_file_is_refused():
    with pytest.raises(ValueError, match="version 'v2'"):
        parse_batch(3, "v2\n{}\n{}")


def test_other_sources_have_no_topic_offsets():
    assert topic_offsets('{"logOffset":1}') is None
    assert topic_offsets("-") is None
    assert topic_offsets(json.dumps({"in": {"0": 1}, "in@id": {}})) == {TopicPartition("in", 0): 1}


def test_a_range_of_time_is_read_from_words():
    assert parse_range("2026-01-01T00:00:00Z", None) == Range(1767225600000, None)
    assert parse_range("0", "2026-01-01T02:00:00+02:00") == Range(0, 1767225600000)


@pytest.mark.parametrize(
    ("start", "end", "said"),
    [
        ("yesterday", None, "no time"),
        ("2026-01-01T00:00:00", None, "no time zone"),
        ("5", "5", "not after"),
        ("99999999999999", None, "future"),
    ],
)
def test_other_ranges_are_refused(start, end, said):
    with pytest.raises(PipelineError, match=said):
        parse_range(start, end)


def test_a_range_is_a_condition_up_to_what_was_processed():
    limit = {TopicPartition("in", 1): 9, TopicPartition("in", 0): 7}
    found = condition(Range(5, None), limit)
    ends = "map('in-0', 7L, 'in-1', 9L)"
    assert found.startswith("timestamp >= timestamp_millis(5) AND offset < ")
    assert f"try_element_at({ends}, concat(topic, '-', partition))" in found
    assert "AND timestamp < timestamp_millis(9) AND offset" in condition(Range(5, 9), limit)
    assert condition(Range(5, None), {}).endswith(" AND false")


AT = Location("a.py", 1)
READ = TopicRead("kavka", {"subscribe": "in"}, True)


def definitions_of(*flows, views=()):
    outputs = {flow.target: OutputDefinition(flow.target, "table", AT) for flow in flows}
    outputs |= {view.name: OutputDefinition(view.name, "temporary view", AT) for view in views}
    return Definitions(list(outputs.values()), [*views, *flows])


def test_a_backfill_takes_all_flows_of_a_table_or_none():
    one, two = (FlowDefinition(name, "table", AT, (READ,)) for name in ("one", "two"))
    definitions = definitions_of(one, two)
    assert chosen_flows(definitions, ["table"]) == chosen_flows(definitions, []) == [one, two]
    with pytest.raises(PipelineError, match="two writes into table as well"):
        chosen_flows(definitions, ["one"])


def test_a_backfill_refuses_state_in_a_view_that_a_flow_reads():
    view = FlowDefinition("view", "view", AT, (READ,), is_stateful=True)
    flow = FlowDefinition("flow", "table", AT, tables=("view",))
    with pytest.raises(PipelineError, match="flow keeps state"):
        chosen_flows(definitions_of(flow, views=[view]), [])


def test_a_backfill_reads_up_to_where_each_flow_was():
    view = FlowDefinition("view", "view", AT, (READ,))
    one, two = (FlowDefinition(name, "table", AT, tables=("view",)) for name in ("one", "two"))
    definitions = definitions_of(one, two, views=[view])
    ends = {"one": [OFFSETS], "two": [OFFSETS, '{"logOffset": 1}']}
    limit = {TopicPartition("in", 0): 7}
    assert limits_of([one, two], definitions, ends) == {"one": limit, "view": limit, "two": limit}
    with pytest.raises(PipelineError, match="run the pipeline once first"):
        limits_of([one, two], definitions, {**ends, "two": ['{"in": {"0": 8}}']})


def test_what_a_backfill_relies_on_is_on_the_disk_before_it_goes_on(tmp_path, monkeypatch):
    """Recorded at the system calls: the file before its name, the name before the next step."""
    calls = []
    fsync, replace = os.fsync, Path.replace

    def synced(descriptor):
        calls.append(os.path.basename(os.readlink(f"/proc/self/fd/{descriptor}")))
        fsync(descriptor)

    def replaced(self, target):
        calls.append(f"rename to {target.name}")
        return replace(self, target)

    monkeypatch.setattr(os, "fsync", synced)
    monkeypatch.setattr(Path, "replace", replaced)
    folder = made(tmp_path, 0, 1)
    batch = Checkpoints(tmp_path).last_batch(folder)
    assert batch is not None
    replace_batch(folder, batch)
    assert calls == [".0.kavka", "rename to 0", "offsets"]
