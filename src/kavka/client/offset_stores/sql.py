"""A store of offsets in a table, beside the results: both are committed in one transaction of the database.

Any database with a module of DB-API 2.0 (PEP 249). A row has an *owner*: the store that has loaded the partition last.
Only its offsets are saved, so that the transaction of a process that was thought dead fails instead of writing twice.
"""

from __future__ import annotations

import re
import secrets
import sys
from collections.abc import Mapping, Sequence
from typing import Any, Final

from kavka.client.offset_stores.stored_offsets import OffsetsTaken
from kavka.client.partitions import offsets_by_partition
from kavka.ids import TopicPartition

_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)?")
_PARAMETER: Final = re.compile(r":(\w+)")
_WHERE: Final = "consumer = :consumer AND topic = :topic AND partition_id = :partition_id"


class SqlOffsets:
    """Offsets of one `consumer` (a name, as that of a group) in a table of a database."""

    def __init__(
        self,
        connection: Any,
        consumer: str,
        *,
        table: str = "kavka_offsets",
        paramstyle: str | None = None,
    ) -> None:
        """Take the connection that the results are written with. Raise ValueError for a name that is none in SQL.

        `paramstyle` is that of the connection's module unless it is given.
        """
        if not _NAME.fullmatch(table):
            raise ValueError(f"{table!r} is not the name of a table")
        self._connection = connection
        self._consumer = consumer
        self._table = table
        self._module = sys.modules[type(connection).__module__.partition(".")[0]]
        self._paramstyle = str(paramstyle or getattr(self._module, "paramstyle", "qmark"))
        self._owner = secrets.token_hex(16)

    def create_table(self) -> None:
        """Create the table unless it is there, and commit."""
        self._execute(
            f"CREATE TABLE IF NOT EXISTS {self._table} (consumer VARCHAR(255) NOT NULL, "
            "topic VARCHAR(249) NOT NULL, partition_id INTEGER NOT NULL, next_offset BIGINT, "
            "owner VARCHAR(32) NOT NULL, PRIMARY KEY (consumer, topic, partition_id))"
        )
        self._connection.commit()

    def load(self, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
        """Take partitions over, and return where to read on, in a transaction of its own, which is committed.

        Raise RuntimeError inside of another one, as far as the connection says so, and what the database raises.
        """
        if getattr(self._connection, "in_transaction", False):
            raise RuntimeError(
                "partitions were assigned within a transaction of the database: commit or roll back before polling"
            )
        refused = getattr(self._module, "IntegrityError", ())
        try:
            return self._take_over(partitions)
        except refused:  # another process has just inserted the same row
            self._connection.rollback()
            return self._take_over(partitions)

    def _take_over(self, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
        found = {}
        try:
            for topic_partition in sorted(partitions):  # in one order: no deadlocks
                row = self._row(topic_partition)
                # First the update, which waits for a transaction of the former owner; then what it has saved.
                taken = self._execute(
                    f"UPDATE {self._table} SET owner = :owner WHERE {_WHERE}", row
                )
                if taken.rowcount == 0:
                    self._execute(
                        f"INSERT INTO {self._table} (consumer, topic, partition_id, owner) "
                        "VALUES (:consumer, :topic, :partition_id, :owner)",
                        row,
                    )
                    continue
                [offset] = self._execute(
                    f"SELECT next_offset FROM {self._table} WHERE {_WHERE}", row
                ).fetchone()
                if offset is not None:
                    found[topic_partition] = int(offset)
            self._connection.commit()
        except BaseException:
            self._connection.rollback()
            raise
        return found

    def save(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Write the offsets of the next records in the transaction that is open: its owner commits it.

        Raise OffsetsTaken when another process has loaded one of the partitions since: roll back then.
        """
        for topic_partition, offset in sorted(offsets_by_partition(offsets).items()):
            row = self._row(topic_partition) | {"next_offset": offset}
            saved = self._execute(
                f"UPDATE {self._table} SET next_offset = :next_offset WHERE {_WHERE} AND owner = :owner",
                row,
            )
            if saved.rowcount != 1:
                raise OffsetsTaken(
                    f"another process has loaded {topic_partition} of {self._consumer}, or this one has not"
                )

    def release(self, partitions: Sequence[TopicPartition]) -> None:
        """Do nothing: the next process takes the partitions over."""

    def _row(self, topic_partition: TopicPartition) -> dict[str, Any]:
        topic, partition = topic_partition
        return {
            "consumer": self._consumer,
            "topic": topic,
            "partition_id": partition,
            "owner": self._owner,
        }

    def _execute(self, statement: str, row: Mapping[str, Any] | None = None) -> Any:
        cursor = self._connection.cursor()
        if row is None:
            cursor.execute(statement)
            return cursor
        text, parameters = in_style(statement, row, self._paramstyle)
        cursor.execute(text, parameters)
        return cursor


def in_style(
    statement: str, row: Mapping[str, Any], paramstyle: str
) -> tuple[str, list[Any] | dict[str, Any]]:
    """Return a statement with `:name` parameters in a style of DB-API 2.0, and its parameters. Raise ValueError."""
    names = _PARAMETER.findall(statement)
    match paramstyle:
        case "named":
            return statement, {name: row[name] for name in names}
        case "pyformat":
            return _PARAMETER.sub(r"%(\1)s", statement), {name: row[name] for name in names}
        case "qmark":
            return _PARAMETER.sub("?", statement), [row[name] for name in names]
        case "format":
            return _PARAMETER.sub("%s", statement), [row[name] for name in names]
        case "numeric":
            numbers = iter(range(1, len(names) + 1))
            text = _PARAMETER.sub(lambda _: f":{next(numbers)}", statement)
            return text, [row[name] for name in names]
        case _:
            raise ValueError(f"{paramstyle!r} is no paramstyle of DB-API 2.0")
