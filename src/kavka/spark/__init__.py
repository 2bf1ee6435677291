"""Spark: the data source `format("kavka")`, and pipelines as functions from data frames to data frames."""
