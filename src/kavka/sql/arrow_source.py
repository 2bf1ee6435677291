"""The interface between the engine's scan and a topic: projection and predicates of each scan of a statement.

DuckDB reads Python objects through sources: of a scan it hands over which columns it needs and which predicates a
source accepted, with constants folded, also from within views, joins and common table expressions. The classes are
DuckDB's own and not public, so that this module is the only one that knows them, and the extra `sql` pins their
release. `tests/sql/test_pushdown.py` fails when they change.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from duckdb._sources import nodes
from duckdb._sources.arrow import ArrowScanSource

from kavka.sql.bounds import COMPARISONS, And, Compare, In, IsNull, Or, Predicate

if TYPE_CHECKING:
    import pyarrow as pa

PREDICATE_COLUMNS = ("topic", "partition", "offset", "timestamp")
"""The columns whose predicates a scan applies itself."""
OpenScan = Callable[[Sequence[str], list[Predicate]], "pa.RecordBatchReader"]
"""Begins a scan: the names of the columns to return, in order, and predicates that every row must satisfy."""


class TopicSource(ArrowScanSource):  # type: ignore[misc]
    """A table of the engine with a fixed schema, read by a function."""

    schema_is_stable = True

    def __init__(self, schema: pa.Schema, open_scan: OpenScan) -> None:
        """Set the columns, and the function that starts a scan."""
        super().__init__(self)
        self._schema = schema
        self._open_scan = open_scan

    def __arrow_c_schema__(self) -> object:
        """Return the columns."""
        return self._schema.__arrow_c_schema__()

    def accepts(self, predicate: nodes.Node) -> bool:
        """Return whether a scan applies a predicate; the engine applies all others."""
        return translated(predicate) is not None

    def stream(
        self, columns: Sequence[int] | None, filters: Sequence[nodes.Node]
    ) -> tuple[object, bool]:
        """Start a scan; True means that it has exactly the requested columns."""
        names = self._schema.names
        # A statement such as count(*) needs no column, and Arrow cannot count rows without one.
        chosen = names if columns is None else [names[index] for index in columns] or ["partition"]
        predicates = [predicate for node in filters if (predicate := translated(node)) is not None]
        assert len(predicates) == len(filters), "only accepted predicates come back"
        reader = self._open_scan(chosen, predicates)
        return reader.__arrow_c_stream__(), columns is not None


def translated(node: Any) -> Predicate | None:
    """Return the engine's predicate as ours, None for one that a scan leaves to the engine."""
    match node:
        case nodes.Binary(op="AND" | "OR" as op, left=left, right=right):
            first, second = translated(left), translated(right)
            if first is None or second is None:
                return None
            return And(first, second) if op == "AND" else Or(first, second)
        case nodes.Binary(op=op, left=nodes.Col(parts=(column,)), right=nodes.Lit() as constant):
            value = _constant(column, constant)
            return None if value is None or op not in COMPARISONS else Compare(op, column, value)
        case nodes.In(operand=nodes.Col(parts=(column,)), values=values):
            constants = [_constant(column, value) for value in values]
            non_null = tuple(value for value in constants if value is not None)
            return In(column, non_null) if non_null and len(non_null) == len(constants) else None
        case nodes.Postfix(op=op, operand=nodes.Col(parts=(column,))):
            return IsNull(column, op == "IS NULL") if column in PREDICATE_COLUMNS else None
        case _:
            return None


_TYPES = {
    "topic": "VARCHAR",
    "partition": "INTEGER",
    "offset": "BIGINT",
    "timestamp": "TIMESTAMP WITH TIME ZONE",
}


def _constant(column: str, constant: Any) -> int | str | None:
    """Return the value of a constant that is of its column's type."""
    if not isinstance(constant, nodes.Lit) or _TYPES.get(column) != constant.type:
        return None
    value = constant.value
    kind = str if column == "topic" else int
    return value if isinstance(value, kind) and not isinstance(value, bool) else None
