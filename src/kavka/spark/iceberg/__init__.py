"""`format("kavka-iceberg")`: Spark's sink for lake tables, and the reload of a range of a topic."""
