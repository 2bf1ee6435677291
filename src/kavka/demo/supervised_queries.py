"""Queries that run: Spark's slow first steps on a busy machine are forgiven, real failures are not."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql.streaming import StreamingQuery

_MAX_RESTARTS = 10
_SLOW_START = "Python worker failed to connect back"


class SupervisedQueries:
    """Queries by their names.

    Spark gives each Python process ten seconds to start, and no setting for it, which is short for a dozen at once on
    a busy machine. A query that fails so before its first batch is over, when it has written nothing, starts again;
    ten times for all queries together.
    """

    def __init__(self) -> None:
        """Begin without queries."""
        self._queries: dict[str, StreamingQuery] = {}
        self._starts: dict[str, Callable[[], StreamingQuery]] = {}
        self._restarts = _MAX_RESTARTS

    def start(self, name: str, start: Callable[[], StreamingQuery]) -> None:
        """Start a query, and remember how."""
        self._starts[name] = start
        self._queries[name] = start()

    def check(self) -> None:
        """Start again what was too slow; raise the exception of the first query that has failed otherwise."""
        for name, query in list(self._queries.items()):
            error = query.exception()
            if error is None:
                continue
            was_slow = query.lastProgress is None and _SLOW_START in str(error)
            if not (was_slow and self._restarts):
                raise error
            self._restarts -= 1
            self._queries[name] = self._starts[name]()

    def __iter__(self) -> Iterator[tuple[str, StreamingQuery]]:
        """Yield the queries with their names."""
        return iter(self._queries.items())
