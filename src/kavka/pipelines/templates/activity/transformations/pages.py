"""Pages in windows of ten minutes, one every five minutes, and the first of each."""

from pyspark import pipelines as dp
from pyspark.sql import DataFrame, SparkSession

from kavka.pipelines import activity

spark: SparkSession  # given by the program that runs the pipeline

LENGTH = 20


@dp.materialized_view
def page_counts() -> DataFrame:
    return activity.page_counts(spark.read.table("events"))


@dp.materialized_view
def top_pages() -> DataFrame:
    return activity.top_pages(spark.read.table("page_counts"), LENGTH)
