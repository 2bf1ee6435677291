"""Makes `format("kavka-iceberg")` known: Spark looks into every top-level package `pyspark_*` for a `DefaultSource`."""

from kavka.spark.iceberg.data_source import IcebergDataSource

__all__ = ["DefaultSource"]


class DefaultSource(IcebergDataSource):
    """The data source under the name that Spark looks for."""
