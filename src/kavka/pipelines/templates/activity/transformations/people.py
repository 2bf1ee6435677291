"""Topics about people and crawlers: sessions, alerts, limits, feed. Each record is written exactly once."""

from pyspark import pipelines as dp
from pyspark.sql import DataFrame, SparkSession

from kavka.pipelines import activity

spark: SparkSession  # given by the program that runs the pipeline

BROKERS = "{{bootstrap}}"
SESSION_GAP = "30 minutes"
CRAWLER_REQUESTS, VISITOR_REQUESTS = 30, 60  # in a minute; above it there is an alert
DISALLOWED = "/private/"  # what robots.txt forbids to crawlers
LIMIT, LIMITED_FOR = 100, "10 minutes"  # requests in a minute; above it there is a limit

for name in ("sessions", "alerts", "limits", "feed"):
    dp.create_sink(
        name,
        "kavka",
        {
            "kafka.bootstrap.servers": BROKERS,
            "topic": f"{{name}}-{name}",
            "deliveryGuarantee": "exactly-once",
            "sinkId": f"{{name}}-{name}",
        },
    )


@dp.append_flow(target="sessions", name="sessions")
def sessions() -> DataFrame:
    """Join a visitor's requests up to a silence; written when the watermark has passed the silence."""
    sessions_by_visitor = activity.sessions(spark.readStream.table("on_time"), SESSION_GAP)
    return activity.as_records(sessions_by_visitor, "visitor")


@dp.append_flow(target="alerts", name="alerts")
def alerts() -> DataFrame:
    """Find crawlers that are too fast or ignore robots.txt, and abusers, in each minute."""
    requests = spark.readStream.table("on_time")
    crawlers = activity.crawler_alerts(requests, CRAWLER_REQUESTS, VISITOR_REQUESTS, DISALLOWED)
    return activity.as_records(crawlers, "visitor")


@dp.append_flow(target="feed", name="feed")
def feed() -> DataFrame:
    """Publish what people did, by user: the retention of the topic says how far back.

    It reads the topic of lines, for their order: rows of a table come in none.
    """
    events = activity.events(spark.readStream.table("lines"))
    return activity.as_records(activity.feed(events), "actor")


# Spark looks at the columns of what a function with state gets. It must not within a flow's function, and cannot for a
# table of the pipeline: so the flow reads the topic itself, and is built here.
access = (
    spark.readStream.format("kavka")
    .option("kafka.bootstrap.servers", BROKERS)
    .option("subscribe", "{{name}}-access")
    .option("startingOffsets", "earliest")
    .load()
)
above_limit = activity.limits(activity.events(activity.parse(access)), LIMIT, LIMITED_FOR)


@dp.append_flow(target="limits", name="limits")
def limits() -> DataFrame:
    """Find clients above the limit, each minute once, as soon as they are."""
    return activity.as_records(above_limit, "client")
