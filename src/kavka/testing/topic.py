"""A topic as a test sees it: send, look at what is there, wait for what is to come."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, NamedTuple, Protocol

from kavka.testing.waiting import NotInTime, wait_for

__tracebackhide__ = True  # pytest shows the line of the test that called
_SHOWN = 10
_SHOWN_BYTES = 60

Text = bytes | str | None


class Helpers(Protocol):
    """The clients of a cluster, in the process of its brokers; see `kavka.testing.cluster.Cluster`."""

    def unique(self, name: str) -> str:
        """Return a name that no other test has."""
        ...

    def helper(self, method: str, *args: Any, **named: Any) -> Any:
        """Call one of them."""
        ...

    def helper_or(self, method: str, default: Any, *args: Any, **named: Any) -> Any:
        """Call one of them; return `default` for a topic that does not exist."""
        ...


class Record(NamedTuple):
    """A record of a topic."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]

    def json(self) -> Any:
        """Return the value, decoded from JSON."""
        return json.loads(self.value or b"null")

    def header(self, name: str) -> bytes | None:
        """Return the value of the last header of a name, None without one."""
        return next((value for key, value in reversed(self.headers) if key == name), None)

    def __str__(self) -> str:
        """Show it in one line, shortened."""
        parts = [f"{self.topic}-{self.partition}@{self.offset}"]
        parts += [] if self.key is None else [f"key={_shown(self.key)}"]
        parts.append("value=" + ("None" if self.value is None else _shown(self.value)))
        parts += [f"headers={dict(self.headers)}"] if self.headers else []
        return " ".join(parts)


class Topic:
    """A topic of a cluster. `str(topic)` is its name."""

    def __init__(self, cluster: Helpers, name: str) -> None:
        """See `Cluster.topic`."""
        self.name = name
        self._cluster = cluster

    def __str__(self) -> str:
        """Return the name."""
        return self.name

    def __repr__(self) -> str:
        """Return the name, as a topic."""
        return f"<topic {self.name}>"

    def send(
        self,
        value: Text = None,
        key: Text = None,
        *,
        headers: Mapping[str, Text] | Sequence[tuple[str, Text]] = (),
        partition: int | None = None,
        timestamp_ms: int | None = None,
    ) -> int:
        """Write a record, acks=all, and return its offset; texts are written as UTF-8."""
        row = row_of(value, key, headers, partition, timestamp_ms)
        ((_, offset),) = self._cluster.helper("send", self.name, [row])
        return int(offset)

    def send_json(self, value: Any, key: Text = None, **options: Any) -> int:
        """Write a value as JSON; otherwise as `send`."""
        return self.send(json.dumps(value), key, **options)

    def send_many(self, values: Iterable[Text | tuple[Text, Text]]) -> list[int]:
        """Write values, or (key, value) pairs, in order; return their offsets."""
        if isinstance(values, str | bytes):
            raise TypeError(f"{values!r} is one value: `send` writes it, `send_many` takes a list")
        if isinstance(values, Mapping):
            raise TypeError("a dictionary: give its .items() to write keys and values")
        rows = [_row_of_pair(each) if isinstance(each, tuple) else row_of(each) for each in values]
        return [offset for _, offset in self._cluster.helper("send", self.name, rows)]

    def transaction(self) -> AbstractContextManager[Transaction]:
        """Begin a transaction, as `Cluster.transaction`; `send` of it without a topic writes here."""
        return Transaction(self._cluster, self)

    def records(self, *, committed: bool = True) -> list[Record]:
        """Return all records, by partition and offset.

        With `committed=False`, those of open and aborted transactions too. A topic that does not exist (yet) has none.
        """
        rows: list[Any] = self._cluster.helper_or("records", [], self.name, committed=committed)
        return [Record(self.name, *row) for row in rows]

    def values(self, *, committed: bool = True) -> list[bytes | None]:
        """Return the values of all records."""
        return [record.value for record in self.records(committed=committed)]

    def keys(self) -> list[bytes | None]:
        """Return the keys of all records."""
        return [record.key for record in self.records()]

    def json(self) -> list[Any]:
        """Return the values of all records, decoded from JSON."""
        return [record.json() for record in self.records()]

    def end_offsets(self, *, committed: bool = True) -> dict[int, int]:
        """Return the end of each partition, as read_committed or read_uncommitted consumers see it."""
        found: dict[int, int] = self._cluster.helper_or(
            "end_offsets", {}, self.name, committed=committed
        )
        return dict(found)

    def committed(self, group: str) -> dict[int, int]:
        """Return the offset that a group has committed for each partition; those without one are left out."""
        return dict(self._cluster.helper("committed", group, self.name))

    def lag(self, group: str) -> int:
        """Return how many offsets a group has not committed yet, over all partitions."""
        return sum(self._lags(group).values())

    def _lags(self, group: str) -> dict[int, int]:
        """Return the lag in each partition; empty without a topic."""
        committed = self.committed(group)
        return {index: end - committed.get(index, 0) for index, end in self.end_offsets().items()}

    def wait_for(
        self,
        wanted: int | Callable[[list[Record]], Any],
        *,
        timeout_s: float = 10.0,
        committed: bool = True,
    ) -> list[Record]:
        """Wait for a number of records, or until a function of all records is true; return all records.

        More records than the number are returned too. Raise NotInTime, which shows the last records that are there.
        """
        if isinstance(wanted, bool) or not (isinstance(wanted, int) or callable(wanted)):
            raise TypeError(f"wait_for({wanted!r}): give a number, or a function of the records")
        found: list[Record] = []

        def is_there() -> Any:
            found[:] = self.records(committed=committed)
            return len(found) >= wanted if isinstance(wanted, int) else wanted(found)

        what = _counted(wanted) if isinstance(wanted, int) else _name_of(wanted)
        try:
            wait_for(is_there, f"{what} in {self.name}", timeout_s=timeout_s, poll_s=0.02)
        except NotInTime as error:
            raise NotInTime(f"{error}\n{_table(self.name, found)}") from error.__cause__
        return found

    def wait_until_read(self, group: str, *, timeout_s: float = 10.0) -> None:
        """Wait until the topic exists and a group has committed the end of each partition."""

        def is_read() -> bool:
            lags = self._lags(group)
            return bool(lags) and not any(lags.values())

        def message() -> str:
            return (
                f"group {group} to read {self.name} to its end: "
                f"committed {self.committed(group)}, ends {self.end_offsets()}"
            )

        wait_for(is_read, message, timeout_s=timeout_s, poll_s=0.02)


class Transaction:
    """A transaction: committed at the end of its block, aborted when the block raises or `abort` was called."""

    _count = 0

    def __init__(self, cluster: Helpers, topic: Topic | None = None) -> None:
        """See `Cluster.transaction`."""
        Transaction._count += 1
        self._number = Transaction._count
        self._cluster = cluster
        self._topic = topic
        self._is_open = False

    def __enter__(self) -> Transaction:
        """Begin."""
        self._cluster.helper("begin", self._number, self._cluster.unique("transaction"))
        self._is_open = True
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        """Commit or abort."""
        if self._is_open:
            self._end(commit=kind is None)

    def send(
        self,
        value: Text = None,
        key: Text = None,
        *,
        topic: Topic | str | None = None,
        **options: Any,
    ) -> int:
        """Write a record and return its offset; it is read (committed) after the commit."""
        if not self._is_open:
            raise RuntimeError("no transaction is open: use it in its `with`, before its end")
        name = str(topic or self._topic or "")
        if not name:
            raise ValueError("say which topic: send(value, topic=...)")
        ((_, offset),) = self._cluster.helper(
            "send_in", self._number, name, [row_of(value, key, **options)]
        )
        return int(offset)

    def abort(self) -> None:
        """Abort, and end."""
        self._end(commit=False)

    def commit(self) -> None:
        """Commit, and end."""
        self._end(commit=True)

    def _end(self, *, commit: bool) -> None:
        if not self._is_open:
            raise RuntimeError("the transaction has ended")
        self._is_open = False
        self._cluster.helper("end", self._number, commit=commit)


def row_of(
    value: Text,
    key: Text = None,
    headers: Mapping[str, Text] | Sequence[tuple[str, Text]] = (),
    partition: int | None = None,
    timestamp_ms: int | None = None,
) -> dict[str, Any]:
    """Return a record as the helpers take it."""
    pairs = list(headers.items()) if isinstance(headers, Mapping) else list(headers)
    return {
        "value": _bytes(value),
        "key": _bytes(key),
        "headers": [(name, _bytes(each)) for name, each in pairs],
        "partition": partition,
        "timestamp_ms": timestamp_ms,
    }


def _row_of_pair(pair: tuple[Text, ...]) -> dict[str, Any]:
    if len(pair) != 2:
        raise TypeError(f"{pair!r}: give (key, value)")
    key, value = pair
    return row_of(value, key)


def _bytes(text: Any) -> bytes | None:
    if text is None or isinstance(text, bytes):
        return text
    if isinstance(text, str):
        return text.encode()
    raise TypeError(f"{text!r} is neither bytes nor str; send_json writes other values")


def _shown(data: bytes) -> str:
    return repr(data if len(data) <= _SHOWN_BYTES else data[:_SHOWN_BYTES] + b"...")


def _name_of(function: Any) -> str:
    name = getattr(function, "__name__", "")
    return "records as wanted" if name in ("", "<lambda>") else name


def _counted(number: int) -> str:
    return "1 record" if number == 1 else f"{number} records"


def _table(name: str, records: Sequence[Record]) -> str:
    """Show the last records of a topic."""
    lines = [f"{name} has {_counted(len(records))}" + (", the last ones:" if records else "")]
    return "\n".join(lines + [f"  {record}" for record in records[-_SHOWN:]])


def describe(topic: Topic) -> str:
    """Show the last records of a topic, for the report of a failed test."""
    return _table(topic.name, topic.records(committed=False))
