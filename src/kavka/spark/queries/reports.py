"""Spark's reports of any query, as a listener gets them, into a table of progress. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kavka.spark.errors import message_of, sentence_of
from kavka.spark.queries.flow_progress import STOPPED, ProgressTable

_ID_CHARACTERS = 8
MAX_ENDED = 20
"""Queries that have ended and are still shown, the last ones: a session may run any number, most without a name."""


class QueryReports:
    """Takes reports of queries into a table of progress. Pure."""

    def __init__(self, table: ProgressTable) -> None:
        """Set the table."""
        self._table = table
        self._names: dict[str, str] = {}
        """Of queries that run, by their ids."""
        self._ended: dict[str, bool] = {}
        """Of queries that have ended, in that order: whether they failed."""

    def started(self, query_id: str, name: str | None, now_ms: int) -> None:
        """Note a query that runs; one that has failed before was restarted."""
        known = self._name_of(query_id, name)
        self._table.started(known, now_ms)
        if self._ended.pop(known, False):
            self._table.restarted(known)

    def batch(self, progress: Mapping[str, Any], now_ms: int) -> None:
        """Record Spark's report of a batch or of an idle query."""
        name = self._name_of(str(progress["id"]), progress.get("name"))
        self._table.batch({**progress, "name": name}, now_ms)

    def terminated(self, query_id: str, exception: str | None, now_ms: int) -> None:
        """Note how a query ended, and forget the one that ended the longest ago when there are too many."""
        name = self._name_of(query_id, None)
        del self._names[query_id]
        if exception is None:
            self._table.ended(name, STOPPED, now_ms)
        else:
            error = sentence_of(Exception(exception)) or message_of(exception)
            self._table.failed(name, error, now_ms, restarts=False)
        self._ended.pop(name, None)
        self._ended[name] = exception is not None
        if len(self._ended) > MAX_ENDED:
            oldest = next(iter(self._ended))
            del self._ended[oldest]
            self._table.forget(oldest)

    def _name_of(self, query_id: str, name: str | None) -> str:
        """Return the name of a query; one with dots is not shortened, as a flow's is."""
        flow = self._names.get(query_id)
        if flow is None:
            flow = (name or f"query-{query_id[:_ID_CHARACTERS]}").replace(".", "_")
            self._names[query_id] = flow
        return flow
