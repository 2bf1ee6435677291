"""Makes `format("kavka")` known: Spark looks into every top-level package `pyspark_*` for a `DefaultSource`."""

from kavka.spark.data_source import KavkaDataSource

__all__ = ["DefaultSource"]


class DefaultSource(KavkaDataSource):
    """The data source under the name that Spark looks for."""
