"""`create_auto_cdc_flow` from a topic into tables that support MERGE: as they are now, and with their history."""

from __future__ import annotations

import os
import re
from pathlib import Path

from kavka.pipelines.testing import Pipeline, Record

PAGE = Path(os.environ["PAGES"], "tables.md")
HISTORY = """

dp.create_streaming_table("customer_history")
dp.create_auto_cdc_flow(
    target="customer_history",
    source="changes",
    keys=["customer"],
    sequence_by="offset",
    apply_as_deletes="deleted",
    except_column_list=["deleted", "offset"],
    stored_as_scd_type=2,
)
"""


def rows(pipeline: Pipeline, table: str, *columns: str) -> list[tuple[object, ...]]:
    frame = pipeline.spark.table(f"merging.shop.{table}").select(*columns)
    return sorted(tuple(row) for row in frame.collect())


def test_changes_of_a_topic_are_merged_by_key(pipeline: Pipeline) -> None:
    pipeline.spark.sql("CREATE NAMESPACE merging.shop")
    found = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(), re.S | re.M)
    [code] = [one for one in found if "create_auto_cdc_flow" in one]
    transformations = pipeline.project.directory / "transformations"
    (transformations / "customers.py").write_text(code + HISTORY)
    ann, bob = {"name": "Ann", "city": "Rome"}, {"name": "Bob", "city": "Oslo"}
    pipeline.feed("customers", [Record(ann, "1"), Record(bob, "2"), Record(None, "2")])
    pipeline.run()
    columns = ("customer", "name", "city")
    assert rows(pipeline, "customers", *columns) == [("1", "Ann", "Rome")]

    moved = {**ann, "city": "Bern"}
    pipeline.feed("customers", [Record(moved, "1"), Record(bob, "3")])
    pipeline.run()
    assert rows(pipeline, "customers", *columns) == [("1", "Ann", "Bern"), ("3", "Bob", "Oslo")]
    history = rows(pipeline, "customer_history", "customer", "city", "__START_AT", "__END_AT")
    assert [row[:3] for row in history] == [
        ("1", "Bern", 3), ("1", "Rome", 0), ("2", "Oslo", 1), ("3", "Oslo", 4),
    ]  # fmt: skip
    assert {row[:2]: row[3] for row in history} == {
        ("1", "Rome"): 3, ("1", "Bern"): None, ("2", "Oslo"): 2, ("3", "Oslo"): None,
    }  # fmt: skip
