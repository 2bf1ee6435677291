"""Offsets kept elsewhere: in files and in a database, with and without a group, and fenced."""

from __future__ import annotations

import asyncio
import json
import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from kavka.client import (
    CheckpointFile,
    Consumer,
    OffsetsTaken,
    OutputFiles,
    RebalanceListener,
    SqlOffsets,
    StoredOffsets,
    TopicPartition,
    blocking,
)
from kavka.client.offset_stores.sql import in_style

AT = TopicPartition("t", 0)
OTHER = TopicPartition("t", 1)
READING = {"auto.offset.reset": "earliest", "enable.auto.commit": False}


@pytest.fixture
def database(tmp_path: Path) -> Any:
    """A database with results."""
    made = sqlite3.connect(tmp_path / "results.sqlite")
    made.execute("CREATE TABLE results (number INTEGER)")
    yield made
    made.close()


def another(tmp_path: Path) -> sqlite3.Connection:
    return sqlite3.connect(tmp_path / "results.sqlite")


def write(broker: Any, settings: dict[str, Any], numbers: range) -> None:
    with blocking.Producer(settings, network=broker) as producer:
        producer.send_many("t", [(None, b"%d" % n) for n in numbers])


def test_rows_and_offset_are_one_transaction_of_the_database(broker, settings, database):
    write(broker, settings, range(10))
    store = SqlOffsets(database, "one")
    store.create_table()

    def step(fails: bool) -> None:
        with blocking.Consumer(settings | READING, network=broker) as consumer:
            StoredOffsets(consumer, store).assign([AT])
            [batch] = consumer.poll(5000, max_records=4)
            with database:
                rows = [(int(record.value),) for record in batch.records()]
                database.executemany("INSERT INTO results VALUES (?)", rows)
                store.save({AT: batch.next_offset})
                if fails:
                    raise LookupError

    for fails in (False, True, True, False):
        if fails:
            with pytest.raises(LookupError):
                step(fails)
        else:
            step(fails)
    assert [n for (n,) in database.execute("SELECT number FROM results")] == list(range(8))


def test_what_another_process_has_loaded_is_not_saved(database, tmp_path):
    old = SqlOffsets(database, "one")
    old.create_table()
    assert old.load([AT, OTHER]) == {}
    with database:
        old.save({AT: 5, OTHER: 6})
    database_of_new = another(tmp_path)
    assert SqlOffsets(database_of_new, "two").load([AT]) == {}
    new = SqlOffsets(database_of_new, "one")
    assert new.load([AT]) == {AT: 5}
    database.execute("INSERT INTO results VALUES (1)")
    with pytest.raises(OffsetsTaken, match="t-0 of one"), database:
        old.save({OTHER: 7, AT: 7})
    assert database.execute("SELECT count(*) FROM results").fetchone() == (0,)
    assert new.load([OTHER]) == {OTHER: 6}
    database_of_new.close()


def test_a_rebalance_within_a_transaction_is_refused(database):
    store = SqlOffsets(database, "one")
    store.create_table()
    database.execute("INSERT INTO results VALUES (1)")
    with pytest.raises(RuntimeError, match="commit or roll back before polling"):
        store.load([AT])
    with pytest.raises(ValueError, match="not the name of a table"):
        SqlOffsets(database, "one", table="x; DROP TABLE results")


@pytest.mark.parametrize(
    ("style", "text", "parameters"),
    [
        ("qmark", "a = ? AND b = ? AND c = ?", [1, 2, 1]),
        ("format", "a = %s AND b = %s AND c = %s", [1, 2, 1]),
        ("numeric", "a = :1 AND b = :2 AND c = :3", [1, 2, 1]),
        ("named", "a = :x AND b = :y AND c = :x", {"x": 1, "y": 2}),
        ("pyformat", "a = %(x)s AND b = %(y)s AND c = %(x)s", {"x": 1, "y": 2}),
    ],
)
def test_statements_have_the_style_of_their_module(style, text, parameters):
    made = in_style("a = :x AND b = :y AND c = :x", {"x": 1, "y": 2}, style)
    assert made == (text, parameters)
    with pytest.raises(ValueError, match="paramstyle"):
        in_style("", {}, "other")


def test_an_output_file_is_cut_back_to_what_was_saved(tmp_path):
    outputs = OutputFiles(tmp_path)
    assert outputs.load([AT]) == {}
    outputs.write(AT, b"lost")
    outputs.close()
    assert outputs.load([AT]) == {}
    outputs.write(AT, b"kept")
    outputs.save({AT: 3})
    outputs.write(AT, b"lost, too")
    outputs.close()
    assert outputs.path(AT).read_bytes() == b"keptlost, too"
    with outputs:
        assert outputs.load([AT, OTHER]) == {AT: 3}
    assert outputs.path(AT).read_bytes() == b"kept"


def test_a_partition_is_one_processs_until_it_is_released(tmp_path):
    old, new = OutputFiles(tmp_path), OutputFiles(tmp_path, wait_ms=0)
    old.load([AT])
    with pytest.raises(OffsetsTaken, match="another process has"):
        new.load([AT])
    old.release([AT])
    with pytest.raises(OffsetsTaken, match="t-0 is not loaded"):
        old.write(AT, b"late")
    assert new.load([AT]) == {}
    new.close()


def test_output_that_lacks_saved_bytes_or_is_another_programs_is_refused(tmp_path):
    outputs = OutputFiles(tmp_path)
    outputs.load([AT])
    outputs.write(AT, b"1234")
    outputs.save({AT: 1})
    outputs.close()
    outputs.path(AT).write_bytes(b"123")
    with pytest.raises(ValueError, match="has 3 bytes, and 4 were saved"):
        outputs.load([AT])
    outputs.path(OTHER).write_bytes(b"mine")
    with pytest.raises(ValueError, match=r"4 bytes, and .*t-1\.offset is not there"):
        outputs.load([OTHER])
    assert outputs.path(OTHER).read_bytes() == b"mine"


def test_a_checkpoint_file_remembers_all_partitions(tmp_path):
    path = tmp_path / "checkpoint.json"
    checkpoint = CheckpointFile(path)
    assert checkpoint.load([AT]) == {}
    checkpoint.save({AT: 4})
    checkpoint.save({OTHER: 5})
    with pytest.raises(OffsetsTaken, match="another process"):
        CheckpointFile(path)
    checkpoint.close()
    assert json.loads(path.read_bytes()) == {"t": {"0": 4, "1": 5}}
    again = CheckpointFile(path)
    assert again.load([AT, OTHER, TopicPartition("u", 0)]) == {AT: 4, OTHER: 5}
    again.close()
    path.write_text("{")
    with pytest.raises(ValueError, match="is no file of offsets"):
        CheckpointFile(path)


def test_a_lock_ends_with_its_process(tmp_path):
    program = (
        "import os, sys; from kavka.client import OutputFiles, TopicPartition;"
        f"outputs = OutputFiles({str(tmp_path)!r}); outputs.load([TopicPartition('t', 0)]);"
        "outputs.write(TopicPartition('t', 0), b'half'); os.kill(os.getpid(), 9)"
    )
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == -9
    with OutputFiles(tmp_path, wait_ms=0) as outputs:
        assert outputs.load([AT]) == {}


class Kept:
    """A store in memory, with coroutines."""

    def __init__(self, offsets: dict[TopicPartition, int]) -> None:
        self.offsets = offsets
        self.released: list[TopicPartition] = []

    async def load(self, partitions):
        await asyncio.sleep(0)
        return {one: self.offsets[one] for one in partitions if one in self.offsets}

    async def release(self, partitions):
        self.released += partitions


class Saving(RebalanceListener):
    """Saves before partitions are released."""

    def __init__(self, save: Any) -> None:
        self._save = save

    def on_revoked(self, partitions):
        return self._save(partitions)


def test_a_groups_positions_come_from_the_store_on_asyncio(broker, settings):
    write(broker, settings, range(10))
    store = Kept({AT: 7})
    seen: list[object] = []

    async def save(partitions):
        seen.append((list(partitions), list(store.released)))

    async def main() -> list[int]:
        more = settings | READING | {"group.id": "g"}
        async with Consumer(more, network=broker) as consumer:
            stored = StoredOffsets(consumer, store, listener=Saving(save))
            consumer.subscribe(["t"], listener=stored)
            return [int((await anext(consumer)).value) for _ in range(3)]

    assert asyncio.run(main()) == [7, 8, 9]
    assert seen == [([AT], [])]  # it saves, then the partition is released
    assert store.released == [AT]


@pytest.mark.parametrize(("start", "first"), [("earliest", 0), ("latest", 10), ("group", 4)])
def test_where_a_partition_begins_that_was_never_saved(broker, settings, tmp_path, start, first):
    write(broker, settings, range(10))
    more = settings | READING | {"group.id": "g"}
    with blocking.Consumer(more, network=broker) as consumer:
        consumer.commit({AT: 4})
        checkpoint = CheckpointFile(tmp_path / "checkpoint")
        StoredOffsets(consumer, checkpoint, start=start).assign([AT])
        assert consumer.position(AT) == first
        checkpoint.close()


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"enable.auto.commit": True, "group.id": "g"}, "enable.auto.commit to false"),
        ({"auto.offset.reset": "latest"}, "would skip the records"),
    ],
)
def test_a_consumer_that_would_lose_records_is_refused(broker, settings, tmp_path, change, reason):
    consumer = blocking.Consumer(settings | READING | change, network=broker)
    with consumer, pytest.raises(ValueError, match=reason):
        StoredOffsets(consumer, OutputFiles(tmp_path))


def test_partitions_are_released_also_when_saving_fails(broker, settings, tmp_path):
    write(broker, settings, range(1))
    outputs = OutputFiles(tmp_path)

    def fail(partitions):
        raise OSError("disk full")

    consumer = blocking.Consumer(settings | READING | {"group.id": "g"}, network=broker)
    stored = StoredOffsets(consumer, outputs, listener=Saving(fail))
    consumer.subscribe(["t"], listener=stored)
    next(consumer)
    with pytest.raises(OSError, match="disk full"):
        consumer.close()
    with OutputFiles(tmp_path, wait_ms=0) as outputs:
        assert outputs.load([AT]) == {}


@pytest.mark.parametrize(
    ("given", "error", "needed"),
    [
        ([AT], TypeError, "give a dictionary by TopicPartition"),
        ({"t": 3}, TypeError, "a partition is TopicPartition"),
        ({AT: "3"}, TypeError, "the offset of t-0 is str, not int"),
        ({AT: -1}, ValueError, "the offset of t-0 is negative: -1"),
    ],
)
def test_what_is_no_offset_is_not_stored(database, tmp_path, given, error, needed):
    rows = SqlOffsets(database, "one")
    rows.create_table()
    rows.load([AT])
    with OutputFiles(tmp_path / "outputs") as outputs:
        outputs.load([AT])
        checkpoint = CheckpointFile(tmp_path / "checkpoint")
        for store in (rows, outputs, checkpoint):
            with pytest.raises(error, match=needed):
                store.save(given)
        assert not database.in_transaction
        assert checkpoint.load([AT]) == {}
        checkpoint.close()


def test_the_how_to_names_the_table(database):
    SqlOffsets(database, "one").create_table()
    rows = database.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
    text = Path("docs/how-to/offsets-elsewhere.md").read_text()
    assert [name for (name,) in rows if f"the table `{name}`" in text] == ["kavka_offsets"]


def test_what_is_no_store_is_refused(broker, settings):
    wrong: Any = 3
    with (
        blocking.Consumer(settings | READING, network=broker) as consumer,
        pytest.raises(TypeError, match="the store has no load and release: 3"),
    ):
        StoredOffsets(consumer, wrong)
