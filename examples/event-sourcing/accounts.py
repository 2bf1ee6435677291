"""Accounts whose events are the truth: balances are computed from them, and can be computed again.

account-events   every deposit and withdrawal, never deleted
balances         compacted: the balance of each account now
"""

import argparse
import os
import time

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from kavka.client.blocking import Producer

SERVERS = os.environ.get("KAVKA_BOOTSTRAP_SERVERS", "localhost:9092")
EVENTS, BALANCES = "account-events", "balances"


def balances_of(events: DataFrame) -> DataFrame:
    """Fold events into balances. The same function serves a stream and a replay."""
    event = f.from_json(f.col("value").cast("string"), "type STRING, amount LONG")
    signed = f.when(event.type == "deposited", event.amount).otherwise(-event.amount)
    return events.groupBy(f.col("key").cast("string").alias("account")).agg(
        f.sum(signed).alias("balance")
    )


def record(account: str, kind: str, amount: int, servers: str = SERVERS) -> None:
    """Append an event."""
    value = f'{{"type": "{kind}", "amount": {amount}}}'
    with Producer({"bootstrap.servers": servers}) as producer:
        producer.send(EVENTS, value.encode(), key=account.encode())


def project(spark: SparkSession, checkpoint: str, servers: str = SERVERS) -> None:
    """Bring the topic of balances up to date: each change of a balance is written exactly once."""

    def write(changed: DataFrame, batch_id: int) -> None:
        (
            changed.selectExpr("account AS key", "CAST(balance AS STRING) AS value")
            .write.format("kavka")
            .mode("append")
            .option("kafka.bootstrap.servers", servers)
            .option("topic", BALANCES)
            .option("deliveryGuarantee", "exactly-once")
            .option("sinkId", f"balances-{os.path.basename(checkpoint)}")
            .option("writeId", f"batch-{batch_id}")
            .save()
        )

    events = (
        spark.readStream.format("kavka")
        .option("kafka.bootstrap.servers", servers)
        .option("subscribe", EVENTS)
        .option("startingOffsets", "earliest")
        .load()
    )
    query = (
        balances_of(events)
        .writeStream.outputMode("update")
        .foreachBatch(write)
        .option("checkpointLocation", checkpoint)
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()


def now(spark: SparkSession, servers: str = SERVERS) -> DataFrame:
    """Return the balances as they are: the compacted topic as a table."""
    table = (
        spark.read.format("kavka")
        .option("kafka.bootstrap.servers", servers)
        .option("kafka.isolation.level", "read_committed")
        .option("subscribe", BALANCES)
        .option("view", "latest")
        .load()
    )
    return table.selectExpr(
        "CAST(key AS STRING) AS account", "CAST(CAST(value AS STRING) AS LONG) AS balance"
    )


def replay(spark: SparkSession, until_ms: int, servers: str = SERVERS) -> DataFrame:
    """Return the balances as they were at a time, from the events alone."""
    events = (
        spark.read.format("kavka")
        .option("kafka.bootstrap.servers", servers)
        .option("subscribe", EVENTS)
        .option("endingTimestamp", until_ms)
        .load()
    )
    return balances_of(events)


def main() -> None:
    """Run one command."""
    commands = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    command = commands.add_subparsers(dest="command", required=True)
    for name in ("deposited", "withdrawn"):
        event = command.add_parser(name, help=f"record that an amount was {name}")
        event.add_argument("account")
        event.add_argument("amount", type=int)
    projecting = command.add_parser("project", help="bring the topic of balances up to date")
    projecting.add_argument("--checkpoint", default="checkpoints/balances")
    command.add_parser("now", help="print the balances")
    replaying = command.add_parser(
        "replay", help="print the balances as they were, from the events"
    )
    replaying.add_argument("--seconds-ago", type=float, default=0)
    given = commands.parse_args()
    if given.command in ("deposited", "withdrawn"):
        record(given.account, given.command, given.amount)
        return
    spark = SparkSession.builder.master("local[2]").appName("accounts").getOrCreate()
    spark.conf.set("spark.sql.shuffle.partitions", 2)
    match given.command:
        case "project":
            project(spark, given.checkpoint)
        case "now":
            now(spark).orderBy("account").show()
        case "replay":
            replay(spark, int((time.time() - given.seconds_ago) * 1000)).orderBy("account").show()
    spark.stop()


if __name__ == "__main__":
    main()
