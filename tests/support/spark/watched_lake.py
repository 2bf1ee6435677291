"""`format("kavka-iceberg-watched")`: our lake sink, which notes each step that it reaches, and stops there.

As `watched_sink`: the option `watch` is a directory of steps. They are `planned` of a plan, `begun-N` and `written-N`
of task N, `committing` before a table's commit, `staged` when its files of metadata are written and nothing is swapped,
`swapped` when the catalogue has it, `committed` when the sink knows.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pyarrow as pa
from pyiceberg.catalog.sql import SqlCatalog
from pyspark import TaskContext
from pyspark.sql.types import StructType

from kavka.spark.iceberg.data_source import IcebergDataSource
from kavka.spark.iceberg.sink import LakeBatchWriter, LakeSink, LakeStreamWriter
from support.spark.watched_sink import watch


class WatchedLakeSink(LakeSink):
    """A sink that passes crash points, in whatever process it runs."""

    def __init__(self, sink: LakeSink, directory: Path) -> None:
        """Take over what a sink knows; note steps in a directory."""
        super().__init__(sink.options, sink._columns, sink._is_stream)
        self._directory = directory

    def _planned(self) -> Any:
        plan = super()._planned()
        self._pass("planned")
        return plan

    def _load(self, loader: Any, rows: Iterator[pa.RecordBatch]) -> Any:
        task = TaskContext.get().partitionId()
        self._pass(f"begun-{task}")
        report = super()._load(loader, rows)
        self._pass(f"written-{task}")
        return report

    def _commit_table(self, *arguments: Any) -> None:
        self._pass("committing")
        with self._swaps():
            super()._commit_table(*arguments)
        self._pass("committed")

    @contextmanager
    def _swaps(self) -> Iterator[None]:
        swap = SqlCatalog.commit_table
        write = SqlCatalog._write_metadata

        def watched_write(*arguments: Any, **named: Any) -> Any:
            write(*arguments, **named)
            self._pass("staged")

        def watched_swap(*arguments: Any, **named: Any) -> Any:
            response = swap(*arguments, **named)
            self._pass("swapped")
            return response

        with (
            patch.object(SqlCatalog, "commit_table", watched_swap),
            patch.object(SqlCatalog, "_write_metadata", staticmethod(watched_write)),
        ):
            yield

    def _pass(self, step: str) -> None:
        asyncio.run(watch(self._directory, step))


class WatchedIcebergDataSource(IcebergDataSource):
    """Spark finds it by its class."""

    def __init__(self, options: dict[str, str]) -> None:
        """Take the option `watch` away from the others."""
        self._directory = Path(options["watch"])
        super().__init__({name: value for name, value in options.items() if name != "watch"})

    @classmethod
    def name(cls) -> str:
        """Return what stands in `format(...)`."""
        return "kavka-iceberg-watched"

    def writer(self, schema: StructType, overwrite: bool) -> LakeBatchWriter:
        """Return the writer of a data frame."""
        writer = super().writer(schema, overwrite)
        writer.sink = WatchedLakeSink(writer.sink, self._directory)
        return writer

    def streamWriter(self, schema: StructType, overwrite: bool) -> LakeStreamWriter:
        """Return the writer of a stream."""
        writer = super().streamWriter(schema, overwrite)
        writer.sink = WatchedLakeSink(writer.sink, self._directory)
        return writer
