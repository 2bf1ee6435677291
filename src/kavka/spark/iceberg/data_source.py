"""`format("kavka-iceberg")`: the entrance that Spark calls."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource
from pyspark.sql.types import StructType

from kavka.lake.errors import require_pyiceberg
from kavka.spark.errors import ConnectorError, one_sentence

if TYPE_CHECKING:
    from kavka.spark.iceberg.sink import LakeBatchWriter, LakeSink, LakeStreamWriter


class IcebergDataSource(DataSource):  # type: ignore[misc]
    """Lake tables as a sink, without a jar."""

    @classmethod
    def name(cls) -> str:
        """Return what stands in `format(...)`."""
        return "kavka-iceberg"

    def schema(self) -> StructType:
        """Refuse to be read: Spark calls this first, in `load()`."""
        with one_sentence():
            raise ConnectorError(
                "format kavka-iceberg only writes: read the table with pyiceberg, DuckDB, Polars, or Iceberg's jar."
            )

    def writer(self, schema: StructType, overwrite: bool) -> LakeBatchWriter:
        """Return the writer of `df.write`."""
        with one_sentence():
            sink = self._sink(schema, streaming=False, overwrite=overwrite)
            from kavka.spark.iceberg.sink import LakeBatchWriter

            return LakeBatchWriter(sink)

    def streamWriter(self, schema: StructType, overwrite: bool) -> LakeStreamWriter:
        """Return the writer of `df.writeStream`. Raise ConnectorError for output mode complete."""
        with one_sentence():
            if overwrite:
                raise ConnectorError(
                    "Output mode complete would append all rows again with each batch: use append."
                )
            sink = self._sink(schema, streaming=True, overwrite=False)
            from kavka.spark.iceberg.sink import LakeStreamWriter

            return LakeStreamWriter(sink)

    def _sink(self, schema: StructType, *, streaming: bool, overwrite: bool) -> LakeSink:
        require_pyiceberg()
        from pyspark.sql.pandas.types import to_arrow_schema

        from kavka.lake.schemas import iceberg_schema
        from kavka.spark.iceberg.options import parse_lake
        from kavka.spark.iceberg.sink import LakeSink, check_columns

        options = parse_lake(self.options, streaming=streaming, overwrite=overwrite)
        columns = to_arrow_schema(schema, timezone="UTC")
        iceberg_schema(columns)
        check_columns(columns, options)
        return LakeSink(options, columns, streaming)
