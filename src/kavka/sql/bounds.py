"""The ranges of a topic that predicates on topic, partition, offset and timestamp leave. Pure.

A predicate is a tree that the engine hands to a scan. `narrowed` gives a box around the rows that can satisfy it,
which decides what is fetched; `mask` decides for each fetched row.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from kavka.wire.records.arrow import constant

if TYPE_CHECKING:
    import pyarrow as pa

INT64_MIN: Final = -(2**63)
INT64_MAX: Final = 2**63 - 1
COMPARISONS: Final = ("=", "!=", "<", "<=", ">", ">=")


class Compare(NamedTuple):
    """A column compared with a constant; timestamps are microseconds since 1970."""

    op: str
    column: str
    value: int | str


class In(NamedTuple):
    """A column that has one of some values."""

    column: str
    values: tuple[int | str, ...]


class And(NamedTuple):
    """Both predicates hold."""

    left: Predicate
    right: Predicate


class Or(NamedTuple):
    """One of two predicates holds."""

    left: Predicate
    right: Predicate


class IsNull(NamedTuple):
    """A column is null, or is not."""

    column: str
    is_null: bool


Predicate = Compare | In | And | Or | IsNull


class Interval(NamedTuple):
    """Whole numbers from `low` to `high`, both included; empty when `low` is above `high`."""

    low: int = INT64_MIN
    high: int = INT64_MAX

    @property
    def is_empty(self) -> bool:
        """Return whether no number is in it."""
        return self.low > self.high

    def meet(self, other: Interval) -> Interval:
        """Return what is in both."""
        return Interval(max(self.low, other.low), min(self.high, other.high))

    def hull(self, other: Interval) -> Interval:
        """Return the smallest interval around both."""
        return Interval(min(self.low, other.low), max(self.high, other.high))


class Box(NamedTuple):
    """Rows of one partition: its place, and intervals of offsets and of timestamps in microseconds."""

    topic: str
    partition: int
    offset: Interval = Interval()
    timestamp: Interval = Interval()


def narrowed(predicates: Iterable[Predicate], box: Box) -> Box | None:
    """Return a box around the rows of `box` that satisfy all predicates, None when there can be none."""
    narrowed_box: Box | None = box
    for predicate in predicates:
        if narrowed_box is None:
            return None
        narrowed_box = _narrow(predicate, narrowed_box)
    return narrowed_box


def _narrow(predicate: Predicate, box: Box) -> Box | None:
    match predicate:
        case And(left, right):
            return narrowed((left, right), box)
        case Or(left, right):
            return _hull(_narrow(left, box), _narrow(right, box))
        case In(column, values):
            hull: Box | None = None
            for value in values:
                hull = _hull(hull, _narrow(Compare("=", column, value), box))
            return hull
        case IsNull(column, is_null):
            # Of these columns only a timestamp can be null: of a record without one.
            return None if is_null and column != "timestamp" else box
        case Compare(op, column, value):
            return _compared(op, column, value, box)


def _hull(one: Box | None, other: Box | None) -> Box | None:
    if one is None or other is None:
        return other if one is None else one
    return one._replace(
        offset=one.offset.hull(other.offset), timestamp=one.timestamp.hull(other.timestamp)
    )


def _compared(op: str, column: str, value: Any, box: Box) -> Box | None:
    if column in ("topic", "partition"):
        return box if _HOLDS[op](getattr(box, column), value) else None
    allowed = _interval(op, value)
    if column == "offset":
        offset = box.offset.meet(allowed)
        return None if offset.is_empty else box._replace(offset=offset)
    timestamp = box.timestamp.meet(allowed)
    return None if timestamp.is_empty else box._replace(timestamp=timestamp)


_HOLDS: Final[Mapping[str, Callable[[Any, Any], bool]]] = {
    "=": lambda a, b: a == b,
    "!=": lambda a, b: a != b,
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
}


def _interval(op: str, value: int) -> Interval:
    match op:
        case "=":
            return Interval(value, value)
        case "<":
            return Interval(high=value - 1)
        case "<=":
            return Interval(high=value)
        case ">":
            return Interval(low=value + 1)
        case ">=":
            return Interval(low=value)
        case _:
            return Interval()


def columns_of(predicate: Predicate) -> set[str]:
    """Return the columns that a predicate reads."""
    match predicate:
        case And(left, right) | Or(left, right):
            return columns_of(left) | columns_of(right)
        case In(column, _) | IsNull(column, _) | Compare(_, column, _):
            return {column}


def mask(predicate: Predicate, arrays: Mapping[str, pa.Array]) -> pa.Array:
    """Return for each row whether a predicate is true; where it is unknown, the row is null.

    `arrays` has the columns that the predicate reads, a timestamp as int64 microseconds.
    """
    import pyarrow.compute as pc

    match predicate:
        case And(left, right):
            return pc.and_kleene(mask(left, arrays), mask(right, arrays))
        case Or(left, right):
            return pc.or_kleene(mask(left, arrays), mask(right, arrays))
        case IsNull(column, is_null):
            return arrays[column].is_null() if is_null else arrays[column].is_valid()
        case In(column, values):
            selected = _row_mask("=", arrays[column], values[0])
            for value in values[1:]:
                selected = pc.or_kleene(selected, _row_mask("=", arrays[column], value))
            return selected
        case Compare(op, column, value):
            return _row_mask(op, arrays[column], value)


def _row_mask(op: str, array: pa.Array, value: int | str) -> pa.Array:
    import pyarrow.compute as pc

    functions = {
        "=": pc.equal,
        "!=": pc.not_equal,
        "<": pc.less,
        "<=": pc.less_equal,
        ">": pc.greater,
        ">=": pc.greater_equal,
    }
    return functions[op](array, constant(value, array.type))
