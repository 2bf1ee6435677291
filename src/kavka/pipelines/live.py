"""Flows that stay live: Spark's own planner of flows, in the driver of this process, with another trigger.

Spark resolves the graph, makes the tables and plans each flow as `spark-pipelines run` does: the same tables, the same
checkpoints, SQL and change flows included. Only the trigger differs: a flow's query runs until it is stopped, where a
triggered update ends when it has read what was there. So a project may be run in either way, in turn.

These are classes inside Spark that no release promises to keep (decision 037): `pyproject.toml` pins Spark's minor
release, and `tests/pipelines` runs all of this.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from kavka.pipelines.errors import query_failure
from kavka.pipelines.session import Session, connect_service
from kavka.spark.queries.flow_progress import unqualified

_POLL_S = 0.02


class LiveQuery:
    """A flow's running query."""

    def __init__(self, jvm: Any, execution: Any) -> None:
        """Control an execution that was started."""
        self._jvm = jvm
        self._execution = execution
        self._query = execution.getStreamingQuery()

    @property
    def is_active(self) -> bool:
        """Return whether the query runs."""
        return bool(self._query.isActive())

    @property
    def has_completed_batch(self) -> bool:
        """Return whether a batch has ended since the start, with rows or without."""
        return self._query.lastProgress() is not None

    def failure(self) -> str | None:
        """Return why the query ended, in one sentence; None without an error."""
        error = self._query.exception()
        return query_failure(error.get().toString()) if error.isDefined() else None

    def process_available(self) -> None:
        """Wait until all is processed that the sources had when it was called. Raise what fails the query."""
        self._query.processAllAvailable()

    def finish(self) -> None:
        """Request the query's end after its current batch, without waiting for it; no further batch starts."""
        query = self._query
        if query.getClass().getSimpleName() == "StreamingQueryWrapper":
            query = query.streamingQuery()
        state = query.state()
        runtime = self._jvm.org.apache.spark.sql.execution.streaming.runtime
        state.set(getattr(getattr(runtime, "TERMINATED$"), "MODULE$"))

    def wait(self, timeout_s: float) -> bool:
        """Wait until a query that was finished has ended, and return whether it has in that time."""
        deadline = time.monotonic() + timeout_s
        while not self._execution.isCompleted():
            if time.monotonic() > deadline:
                return False
            time.sleep(_POLL_S)
        return True

    def stop(self) -> None:
        """Stop the query, in the middle of a batch if need be: that batch is repeated at the next start."""
        self._query.stop()


class LiveGraph:
    """A resolved graph with its tables made. One thread may start flows while another refreshes views."""

    def __init__(self, session: Session, graph_id: str, storage: str, trigger_ms: int) -> None:
        """Resolve the graph of a registry and make its tables. Raise what Spark raises for one that is wrong."""
        assert session.jvm is not None, "the driver is in this process"
        self._jvm = session.jvm
        self._graph = self._jvm.org.apache.spark.sql.pipelines.graph
        self._storage = storage
        self._server_session = self._find_session(session)
        self._activate_session()
        registry = self._holder.dataflowGraphRegistry().getDataflowGraphOrThrow(graph_id)
        self._unresolved = registry.toDataflowGraph()
        case_sensitive = self._server_session.sessionState().conf().caseSensitiveAnalysis()
        self._resolved = self._unresolved.resolve(case_sensitive).validate(case_sensitive)
        trigger = self._jvm.org.apache.spark.sql.streaming.Trigger.ProcessingTime(
            f"{trigger_ms} milliseconds"
        )
        self._trigger_of = self._constant(trigger)
        self._datasets = self._module("DatasetManager")
        # A view is made when it is computed: until then readers keep the old one.
        streaming = [one for one in _sequence(self._resolved.tables()) if one.isStreamingTable()]
        context = self._context(self._some([one.identifier() for one in streaming]))
        self._datasets.materializeDatasets(self._resolved, context)
        self._planner = self._graph.FlowPlanner(self._resolved, context, self._trigger_of)
        # Temporary views have flows as well, which are parts of others.
        self._flows = {_name(flow): flow for flow in _sequence(self._resolved.materializedFlows())}
        self.views = [name for name, flow in self._flows.items() if _is_view(flow)]
        """The names of the flows of materialized views, in the order of the graph."""
        self.streams = [name for name in self._flows if name not in self.views]
        """The names of the streaming flows, in the order of the graph."""

    def _find_session(self, session: Session) -> Any:
        user = session.spark.client._user_id or ""
        key = self._jvm.org.apache.spark.sql.connect.service.SessionKey(
            user, session.spark.session_id
        )
        none = getattr(getattr(self._jvm.scala, "None$"), "MODULE$")
        self._holder = connect_service(self._jvm).sessionManager().getIsolatedSession(key, none)
        return self._holder.session()

    def _activate_session(self) -> None:
        """Make the session that of this thread: py4j has a thread in the JVM for each of ours."""
        self._jvm.org.apache.spark.sql.classic.SparkSession.setActiveSession(self._server_session)

    def _module(self, name: str) -> Any:
        return getattr(getattr(self._graph, f"{name}$"), "MODULE$")

    def _constant(self, value: Any) -> Any:
        """Return a function of Scala that always returns the same: a map with a default is one."""
        return self._jvm.scala.collection.immutable.HashMap().withDefaultValue(value)

    def _some(self, identifiers: Sequence[Any]) -> Any:
        """Return the selection of these tables."""
        chosen = self._jvm.scala.collection.immutable.HashSet()
        for identifier in identifiers:
            chosen = chosen.incl(identifier)
        return self._graph.SomeTables(chosen)

    def _context(self, tables: Any) -> Any:
        """Return the context of an update of these tables, whose events go nowhere."""
        return self._graph.PipelineUpdateContextImpl(
            self._unresolved, self._constant(None), tables, self._module("NoTables"), self._storage
        )

    def start(self, name: str) -> LiveQuery:
        """Start a flow from its checkpoint. Raise what Spark raises."""
        self._activate_session()
        execution = self._planner.plan(self._flows[name])
        execution.executeAsync()
        return LiveQuery(self._jvm, execution)

    def refresh(self, name: str) -> None:
        """Compute a materialized view and put it in the place of the old one. Raise what Spark raises."""
        self._activate_session()
        flow = self._flows[name]
        context = self._context(self._some([flow.destinationIdentifier()]))
        self._datasets.materializeDatasets(self._resolved, context)
        planner = self._graph.FlowPlanner(self._resolved, context, self._trigger_of)
        execution = planner.plan(flow)
        execution.executeAsync()
        while not execution.isCompleted():
            time.sleep(_POLL_S)
        failure = execution.exception()
        if failure.isDefined():
            raise RefreshFailed(query_failure(failure.get().toString()))


class RefreshFailed(Exception):
    """A view could not be computed; the message is Spark's, in one sentence."""


def _sequence(scala_sequence: Any) -> Sequence[Any]:
    """Return a sequence of Scala as a list."""
    return [scala_sequence.apply(index) for index in range(scala_sequence.size())]


def _name(flow: Any) -> str:
    return unqualified(flow.identifier().unquotedString())


def _is_view(flow: Any) -> bool:
    return str(flow.getClass().getSimpleName()) == "CompleteFlow"
