"""Plans with Spark's package and no JVM: reads of a flow, a backfill's filter, specifications that are none."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kavka.pipelines.backfill import with_filter
from kavka.pipelines.definitions import TopicRead, plan_reads
from kavka.pipelines.project import PipelineError, load_project
from kavka.pipelines.testing.isolation import Replacements

pytestmark = pytest.mark.spark


def relation() -> Any:
    from pyspark.sql.connect.proto import Relation

    return Relation()


def topic_read(name: str = "kavka", *, streaming: bool = True, plan_id: int = 3) -> Any:
    made = relation()
    made.common.plan_id = plan_id
    made.read.is_streaming = streaming
    made.read.data_source.format = name
    made.read.data_source.options["subscribe"] = "in"
    return made


def projected(inner: Any) -> Any:
    made = relation()
    made.common.plan_id = 9
    made.project.input.CopyFrom(inner)
    made.project.expressions.add().unresolved_star.SetInParent()
    return made


def test_reads_of_topics_and_tables_are_found_anywhere_in_a_plan() -> None:
    table = relation()
    table.read.named_table.unparsed_identifier = "pages"
    join = relation()
    join.join.left.CopyFrom(projected(topic_read()))
    join.join.right.CopyFrom(table)
    reads, tables, is_stateful = plan_reads(join)
    assert reads == [TopicRead("kavka", {"subscribe": "in"}, True)]
    assert tables == ["pages"]
    assert is_stateful


def test_a_plain_flow_keeps_no_state() -> None:
    assert plan_reads(projected(topic_read()))[2] is False
    counted = relation()
    counted.aggregate.input.CopyFrom(topic_read())
    assert plan_reads(counted)[2] is True


def test_other_formats_are_no_topics() -> None:
    assert plan_reads(topic_read("parquet"))[0] == []


def test_a_backfill_filters_each_streaming_read_of_topics() -> None:
    plan = projected(topic_read())
    changed = with_filter(plan, "offset < 9")
    assert plan == projected(topic_read()), "the plan itself stays"
    found = changed.project.input
    assert found.common.plan_id == 3
    assert found.filter.condition.expression_string.expression == "offset < 9"
    assert found.filter.input.read.data_source.options["subscribe"] == "in"
    assert plan_reads(changed)[0] == plan_reads(plan)[0]


@pytest.mark.parametrize(("name", "streaming"), [("parquet", True), ("kavka", False)])
def test_a_backfill_leaves_other_reads_alone(name: str, streaming: bool) -> None:
    other = topic_read(name, streaming=streaming)
    assert with_filter(projected(other), "true") == projected(other)


def test_a_test_replaces_the_brokers_of_all_reads_in_a_copy_of_the_plan() -> None:
    table = relation()
    table.read.named_table.unparsed_identifier = "pages"
    join = relation()
    join.join.left.CopyFrom(projected(topic_read()))
    join.join.right.CopyFrom(table)
    before = relation()
    before.CopyFrom(join)
    changed = Replacements("here:1", Path("/lake")).plan("flow", join)
    assert join == before
    [read], tables, _ = plan_reads(changed)
    assert tables == ["pages"]
    assert read.options == {
        "subscribe": "in",
        "kafka.bootstrap.servers": "here:1",
        "startingOffsets": "earliest",
    }


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (b"", "is not a valid specification of a pipeline: it is empty"),
        ("name: a".encode("utf-16"), "is not UTF-8 at byte 0"),
        (b"name: " + b"[" * 5000, "nests values too deeply"),
        (b"name: !!python/object/apply:os.system [ls]", "is not valid YAML"),
        (b"name: a\nstorage: x\nlibraries: x", "a field has the wrong type"),
    ],
)
def test_a_specification_that_is_none_is_one_sentence_with_its_path(
    tmp_path: Path, text: bytes, said: str
) -> None:
    (tmp_path / "spark-pipeline.yml").write_bytes(text)
    with pytest.raises(PipelineError, match=said) as caught:
        load_project(tmp_path)
    assert str(caught.value).startswith(str(tmp_path))
