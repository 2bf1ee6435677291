"""The project of the page on dead letters, with a test that also runs the commands of the page."""

from __future__ import annotations

from pathlib import Path

from kavka.pipelines.project import make_project
from support.spark.pages import blocks

CLICK = """{"type": "record", "name": "Click", "fields": [
  {"name": "user", "type": "string"}, {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}}]}"""
TEST = """
import shlex
import subprocess
import sys

from confluent_kafka import Consumer, Producer, TopicPartition
from kavka.client.schemas import AvroCodec
from pathlib import Path

MINUTE = 60_000
NOW = 1_764_115_200_000
CODEC = AvroCodec(Path("SCHEMA").read_text())


def value(user, at):
    return b"\\0\\0\\0\\0\\7" + CODEC.encode({"user": user, "at": at})


def test_bad_and_late_records_are_dead_letters_and_go_back(pipeline):
    for name, partitions in (("clicks", 2), ("clicks-dead", 1), ("clicks-repaired", 1)):
        pipeline.create_topic(name, partitions)
    producer = Producer({"bootstrap.servers": pipeline.bootstrap_servers})
    for user, at in (("ann", NOW), ("bob", NOW - 10 * MINUTE), ("late", NOW - 10 * MINUTE - 1)):
        producer.produce("clicks", value(user, at), b"k", partition=1, timestamp=NOW, headers=[("h", b"v")])
    producer.produce("clicks", b"junk", b"k", partition=1, timestamp=NOW)
    assert producer.flush(30) == 0
    updated = pipeline.run()
    assert [row["user"] for row in pipeline.table("clicks", "user")] == ["ann", "bob"]
    counts = updated.expectations("clicks")
    assert (counts["decode"].passed, counts["decode"].failed) == (3, 1)
    assert (counts["late"].passed, counts["late"].failed) == (2, 1)

    dead = read(pipeline, "clicks-dead", 2)
    headers = {one.value(): dict(one.headers()) for one in dead}
    assert headers[b"junk"]["__kavka.errors.offset"] == b"3"
    assert headers[b"junk"]["__kavka.errors.stage"] == b"decode"
    late = headers[value("late", NOW - 10 * MINUTE - 1)]
    assert (late["h"], late["__kavka.errors.stage"], late["__kavka.errors.partition"]) == (b"v", b"late", b"1")

    dry, wet = (run(line, pipeline) for line in COMMANDS)
    assert "-> clicks (of clicks-1 offset 3): decode FramingError: it has 4 bytes" in dry
    assert "-> clicks (of clicks-1 offset 2): late Late: the event is of" in dry
    assert "2 records would be sent to clicks" in dry
    assert "1 records sent to clicks-repaired" in wet
    [back] = read(pipeline, "clicks-repaired", 1)
    assert (back.key(), back.value(), back.headers(), back.timestamp()[1]) == (b"k", b"junk", None, NOW)


def run(line, pipeline):
    words = shlex.split(line.replace("localhost:9092", pipeline.bootstrap_servers))
    command = [sys.executable, "-m", *words]
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout


def read(pipeline, topic, count):
    settings = {"bootstrap.servers": pipeline.bootstrap_servers, "group.id": "t", "isolation.level": "read_committed"}
    with Consumer(settings) as consumer:
        consumer.assign([TopicPartition(topic, 0, 0)])
        return consumer.consume(count, timeout=30)
"""


def make_dead_letter_project(directory: Path, test: str) -> None:
    """Make the project; `test` is the file that the page names as that which runs its blocks."""
    make_project(directory, "blank", "localhost:9092")
    for old in [*directory.glob("transformations/*"), *directory.glob("tests/*")]:
        old.unlink()
    [code] = blocks("dead-letters", test, "python")
    [commands] = blocks("dead-letters", test, "sh")
    (directory / "transformations" / "clicks.py").write_text(code)
    (directory / "schemas").mkdir()
    schema = directory / "schemas" / "click.avsc"
    schema.write_text(CLICK)
    lines = f"\n\nCOMMANDS = {commands.strip().splitlines()!r}\n"
    file = directory / "tests" / "test_dead_letters.py"
    file.write_text(TEST.replace("SCHEMA", str(schema)) + lines)
