"""The demo's decision that its pipeline is done, without Spark."""

from __future__ import annotations

from pathlib import Path

from kavka.demo.pipeline import DemoPipeline
from kavka.pipelines.definitions import Definitions
from kavka.pipelines.observer import Observer
from kavka.spark.queries.flow_progress import ProgressTable


def test_a_pipeline_whose_flows_have_read_nothing_is_not_done(tmp_path: Path) -> None:
    pipeline = DemoPipeline("localhost:9092", tmp_path, print, 5.0)
    table = ProgressTable("demo")
    pipeline._observer = Observer(table, Definitions(), None)
    for flow in ("feed", "alerts"):
        table.waits(flow, 0)
    assert not pipeline.has_processed(records=3, well_formed=2)
    table.of("feed").rows_in = 3
    assert not pipeline.has_processed(records=3, well_formed=2)
    table.of("alerts").rows_in = 2
    assert pipeline.has_processed(records=3, well_formed=2)
