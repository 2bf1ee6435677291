"""The score of each item, from the votes on it and from how often it was clicked when it was shown.

{{name}}-votes     {"user": "ann", "item": "tea", "vote": 1}    1, -1, or 0 to take it back; a user's last vote counts
{{name}}-views     {"item": "tea", "clicked": true}             the item was shown, and clicked or not
{{name}}-scores    compacted: the totals and the score of each item, by its key
"""

from collections.abc import Iterator
from datetime import datetime
from math import sqrt

from pyspark import pipelines as dp
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming import StatefulProcessor, StatefulProcessorHandle

from kavka.pipelines import expect_or_drop
from kavka.spark.frames import in_key_order

spark: SparkSession  # given by the program that runs the pipeline

BROKERS = "{{bootstrap}}"
VOTES_WEIGHT, CLICKS_WEIGHT = 0.5, 0.5
TOTALS = "up LONG, down LONG, clicked LONG, shown LONG, events LONG"
"""The last is the number of votes and views so far: the row with the most is the newest."""


def score(up: int, down: int, clicked: int, shown: int) -> float:
    """Return what an item is ranked by, from 0 to 1: change it as you like."""
    return VOTES_WEIGHT * lower_bound(up, up + down) + CLICKS_WEIGHT * lower_bound(clicked, shown)


def lower_bound(good: int, all_: int, z: float = 1.96) -> float:
    """Return the least share of the good that is likely (Wilson's interval, 95 %): few votes do not rank high."""
    if not all_:
        return 0.0
    share = good / all_
    spread = z * sqrt((share * (1 - share) + z * z / (4 * all_)) / all_)
    return (share + z * z / (2 * all_) - spread) / (1 + z * z / all_)


class Totals(StatefulProcessor):
    """The last vote of each user on an item, and the item's totals; a row each time that they change."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Name the state."""
        self._votes = handle.getMapState("votes", "user STRING", "vote INT")
        self._totals = handle.getValueState("totals", TOTALS)

    def handleInputRows(self, key, rows, timerValues) -> Iterator[Row]:  # type: ignore[no-untyped-def]
        """Add views, and votes in the order of their records."""
        up, down, clicked, shown, events = self._totals.get() or (0, 0, 0, 0, 0)
        last: dict[str, tuple[tuple[datetime, int], int]] = {}
        for row in rows:
            events += 1
            if row.user is None:
                shown += 1
                clicked += row.clicked
            elif row.user not in last or last[row.user][0] < (row.timestamp, row.offset):
                last[row.user] = ((row.timestamp, row.offset), row.vote)
        for user, (_, vote) in last.items():
            before = self._votes.getValue((user,))
            up += (vote > 0) - (before is not None and before[0] > 0)
            down += (vote < 0) - (before is not None and before[0] < 0)
            self._votes.updateValue((user,), (vote,))
        self._totals.update((up, down, clicked, shown, events))
        yield Row(
            item=key[0],
            up=up,
            down=down,
            clicked=clicked,
            shown=shown,
            events=events,
            score=score(up, down, clicked, shown),
        )


def events(topic: str, fields: str) -> DataFrame:
    """Return the JSON objects of a topic as columns."""
    records = (
        spark.readStream.format("kavka")
        .option("kafka.bootstrap.servers", BROKERS)
        .option("kafka.isolation.level", "read_committed")
        .option("subscribe", topic)
        .option("startingOffsets", "earliest")
        .load()
    )
    event = F.from_json(F.col("value").cast("string"), fields).alias("event")
    return records.select("timestamp", "offset", event).select("timestamp", "offset", "event.*")


def scored() -> DataFrame:
    """Return the new totals of each item, each time that they change."""
    votes = expect_or_drop("a vote", "user IS NOT NULL AND item IS NOT NULL AND vote IS NOT NULL")(
        events("{{name}}-votes", "user STRING, item STRING, vote INT")
    )
    views = expect_or_drop("a view", "item IS NOT NULL AND clicked IS NOT NULL")(
        events("{{name}}-views", "item STRING, clicked BOOLEAN")
    )
    votes_and_views = votes.unionByName(views, allowMissingColumns=True)
    return votes_and_views.groupBy("item").transformWithState(
        Totals(), f"item STRING, {TOTALS}, score DOUBLE", outputMode="append", timeMode="none"
    )


# Here and not in the function below: transformWithState asks Spark for the columns, which a flow must not.
SCORED = scored()


@dp.table(comment="The totals of an item after each batch that changed them; the last row counts.")
def scores() -> DataFrame:
    return SCORED.withColumn("counted_at", F.current_timestamp())


dp.create_sink(
    "score_changes",
    "kavka",
    {
        "kafka.bootstrap.servers": BROKERS,
        "topic": "{{name}}-scores",
        "deliveryGuarantee": "exactly-once",
        "sinkId": "{{name}}-scores",
    },
)


@dp.append_flow(target="score_changes", name="write_scores")
def write_scores() -> DataFrame:
    """Write the totals of each item in their order: the last record of its key is the newest."""
    value = F.to_json(F.struct("up", "down", "clicked", "shown", "score")).alias("value")
    rows = spark.readStream.table("scores").select(F.col("item").alias("key"), value, "events")
    return in_key_order(rows, "events")
