"""`format("kavka")`: the entrance that Spark calls."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource
from pyspark.sql.types import StructType

from kavka.spark.errors import ConnectorError, one_sentence
from kavka.spark.options import parse_source, schema_includes_headers, warn_of_group
from kavka.spark.rows import source_schema
from kavka.spark.sink_options import parse_sink

if TYPE_CHECKING:
    from kavka.spark.exactly_once.writers import ExactlyOnceBatchWriter, ExactlyOnceStreamWriter
    from kavka.spark.sink import BatchWriter, StreamWriter
    from kavka.spark.source import BatchReader, RefusedStreamReader, StreamReader


class KavkaDataSource(DataSource):  # type: ignore[misc]
    """Topics as data frames, with the schema and the options of Spark's own Kafka connector."""

    @classmethod
    def name(cls) -> str:
        """Return what stands in `format(...)`."""
        return "kavka"

    def schema(self) -> StructType:
        """Return the columns of a read. Options are checked here already: it is the first call, in `load()`."""
        with one_sentence():
            return source_schema(schema_includes_headers(self.options))

    def reader(self, schema: StructType) -> BatchReader:
        """Return the reader of `spark.read`."""
        from kavka.spark.source import BatchReader

        with one_sentence():
            options = parse_source(self.options, streaming=False)
            _require_own_schema(schema, options.include_headers)
            warn_of_group(options)
            return BatchReader(options)

    def streamReader(self, schema: StructType) -> StreamReader | RefusedStreamReader:
        """Return the reader of `spark.readStream`; it never raises."""
        from kavka.spark.source import RefusedStreamReader, StreamReader

        try:
            options = parse_source(self.options, streaming=True)
            _require_own_schema(schema, options.include_headers)
        except ConnectorError as error:
            return RefusedStreamReader(str(error))
        warn_of_group(options)
        return StreamReader(options)

    def writer(self, schema: StructType, overwrite: bool) -> BatchWriter | ExactlyOnceBatchWriter:
        """Return the writer of `df.write`."""
        from kavka.spark.sink import BatchWriter, check_columns

        with one_sentence():
            if overwrite:
                raise ConnectorError("A topic cannot be overwritten: write with mode append.")
            options = parse_sink(self.options, streaming=False)
            check_columns(schema, options)
            if options.exactly_once is None:
                return BatchWriter(options)
            from kavka.spark.exactly_once.writers import ExactlyOnceBatchWriter

            return ExactlyOnceBatchWriter(options)

    def streamWriter(
        self, schema: StructType, overwrite: bool
    ) -> StreamWriter | ExactlyOnceStreamWriter:
        """Return the writer of `df.writeStream`; output mode complete appends all rows again, as Spark's sink does."""
        from kavka.spark.sink import StreamWriter, check_columns

        with one_sentence():
            options = parse_sink(self.options, streaming=True)
            check_columns(schema, options)
            if options.exactly_once is None:
                return StreamWriter(options)
            from kavka.spark.exactly_once.writers import ExactlyOnceStreamWriter

            return ExactlyOnceStreamWriter(options)


def _require_own_schema(schema: StructType, include_headers: bool) -> None:
    own = source_schema(include_headers)
    if schema != own:
        raise ConnectorError("Format kavka has a fixed schema, which cannot be replaced.")
