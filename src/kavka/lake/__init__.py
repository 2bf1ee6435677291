"""Lake tables: Iceberg tables that hold the records of topics, written exactly once, maintained and audited.

Built on pyiceberg (extra `lake`), without Spark; `kavka.spark.iceberg` is Spark's side of it.
"""
