"""Progress of queries of Spark, of pipelines and of any other: a table, metrics, the topic of progress, lag."""
