"""`format("kavka-watched")`: our data source, whose exactly-once sink notes each step that it reaches, and stops there.

The option `watch` is a directory. Each step is noted as a file `<step>.<n>`, n from 1, with the process's id. A
file `<step>.<n>.hold` has the process stay there until the file is gone, one `<step>.<n>.die` has it kill itself.
"""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import Awaitable, Callable, Iterator
from functools import partial
from pathlib import Path
from typing import TypeVar

import pyarrow as pa
from pyspark.sql.types import StructType

from kavka.spark.data_source import KavkaDataSource
from kavka.spark.exactly_once.decisions import Batch
from kavka.spark.exactly_once.driver import Driver
from kavka.spark.exactly_once.writers import (
    ExactlyOnceBatchWriter,
    ExactlyOnceSink,
    ExactlyOnceStreamWriter,
    Prepared,
)
from kavka.spark.sink import BatchWriter, StreamWriter
from kavka.spark.sink_options import SinkOptions
from support.spark.crash_points import crash_points

T = TypeVar("T")


async def watch(directory: Path, step: str) -> None:
    """Note a step, and stop or die where a test wants it."""
    number = 1
    own = directory / f".{os.getpid()}-{time.monotonic_ns()}"
    own.write_text(str(os.getpid()))
    while True:
        noted = directory / f"{step}.{number}"
        try:
            os.link(own, noted)  # with all that is in it, so that no reader finds it empty
            break
        except FileExistsError:
            number += 1
    own.unlink()
    if noted.with_suffix(f".{number}.die").exists():
        os.kill(os.getpid(), signal.SIGKILL)
    while noted.with_suffix(f".{number}.hold").exists():  # noqa: ASYNC110  another process has the say
        await asyncio.sleep(0.02)  # time: a worker of Spark stands still here


class WatchedSink(ExactlyOnceSink):
    """A sink that passes crash points, in whatever process it runs."""

    def __init__(self, options: SinkOptions, directory: Path) -> None:
        """Note steps in a directory."""
        super().__init__(options)
        self._directory = directory

    def run(self, rows: Iterator[pa.RecordBatch], batch: Batch) -> Prepared:
        """Run a task."""
        with crash_points(partial(watch, self._directory)):
            return super().run(rows, batch)

    def _drive(self, call: Callable[[Driver], Awaitable[T]]) -> T:
        with crash_points(partial(watch, self._directory)):
            return super()._drive(call)


class WatchedDataSource(KavkaDataSource):
    """Spark finds it by its class."""

    def __init__(self, options: dict[str, str]) -> None:
        """Take the option `watch` away from the others."""
        self._directory = Path(options["watch"])
        super().__init__({name: value for name, value in options.items() if name != "watch"})

    @classmethod
    def name(cls) -> str:
        """Return what stands in `format(...)`."""
        return "kavka-watched"

    def writer(self, schema: StructType, overwrite: bool) -> BatchWriter | ExactlyOnceBatchWriter:
        """Return the writer of a data frame."""
        writer = super().writer(schema, overwrite)
        if isinstance(writer, ExactlyOnceBatchWriter):
            writer.sink = WatchedSink(writer.sink.options, self._directory)
        return writer

    def streamWriter(
        self, schema: StructType, overwrite: bool
    ) -> StreamWriter | ExactlyOnceStreamWriter:
        """Return the writer of a stream."""
        writer = super().streamWriter(schema, overwrite)
        if isinstance(writer, ExactlyOnceStreamWriter):
            writer.sink = WatchedSink(writer.sink.options, self._directory)
        return writer
