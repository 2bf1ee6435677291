"""Spark's `create_auto_cdc_flow` as in docs/how-to/tables.md. `test_stream_programs.py` copies it into a project."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from kavka.pipelines.testing import Pipeline, Record, UpdateFailed

PAGE = Path(os.environ["PAGES"], "tables.md")


def block(name: str) -> str:
    found = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(), re.S | re.M)
    [code] = [one for one in found if name in one]
    return code


def test_auto_cdc_wants_a_table_with_merge_and_a_view_does_the_same_without(
    pipeline: Pipeline,
) -> None:
    transformations = pipeline.project.directory / "transformations"
    (transformations / "customers.py").write_text(block("create_auto_cdc_flow"))
    rows = [
        Record({"name": "Ann", "city": "Rome"}, "1"),
        Record({"name": "Bob", "city": "Oslo"}, "2"),
        Record({"name": "Ann", "city": "Bern"}, "1"),
        Record(None, "2"),
    ]
    pipeline.feed("customers", rows)
    with pytest.raises(UpdateFailed, match=r"AUTOCDC_TARGET_DOES_NOT_SUPPORT_MERGE.*parquet"):
        pipeline.run()
    (transformations / "customers.py").write_text(block("def customer_changes"))
    pipeline.run()
    assert pipeline.table("customers_now") == [{"customer": "1", "name": "Ann", "city": "Bern"}]
