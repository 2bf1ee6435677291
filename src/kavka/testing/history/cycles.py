"""Findings about transactions as a whole: cycles of dependencies, as Adya and Jepsen's Elle name them.

Nodes are units: transactions, and operations outside of them. An edge says that one came before the other:

    ww   both wrote to a partition, and nothing known lies between their records
    wr   one wrote what the other read
    rw   one's highest read of a partition is just below what the other wrote

Kafka isolates reads (of committed records) but not writes, and a poll is no snapshot; so only a cycle of wr alone
contradicts its promises. Without transactions nothing is promised about several records, and no graph is made.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice, pairwise

from kavka.ids import TopicPartition
from kavka.testing.history.anomalies import (
    AntiCycle,
    Cycle,
    InformationCycle,
    ReadCycle,
    SingleAntiCycle,
    Step,
    WriteCycle,
)
from kavka.testing.history.facts import Facts, Outcome, Transaction, Unit
from kavka.testing.history.graph import Graph, components, shortest_way
from kavka.testing.history.operations import Operation, Poll

_TRIED = 100
"""Edges of a component from which a cycle is looked for: one example is enough, a short one is nicer."""

Edge = tuple[int, int]


def dependency_cycles(facts: Facts) -> Iterator[Cycle]:
    """Yield a short cycle of each kind for each set of units that depend on each other."""
    if not facts.transactions:
        return
    graph = _Dependencies(facts)
    yield from graph.cycles(WriteCycle, ("ww",), through="ww")
    yield from graph.cycles(ReadCycle, ("wr",), through="wr")
    yield from graph.cycles(
        InformationCycle, ("ww", "wr"), through="wr", accepts=lambda kinds: "ww" in kinds
    )
    yield from graph.anti_cycles()


class _Dependencies:
    """The edges of a history, by kind; each with the place that is its reason."""

    def __init__(self, facts: Facts) -> None:
        self._facts = facts
        self._units: dict[int, Unit] = {}
        self._edges: dict[str, dict[int, dict[int, str]]] = {"ww": {}, "wr": {}, "rw": {}}
        for topic_partition in facts.orders:
            self._add_writes(topic_partition)
        highest: dict[tuple[int, TopicPartition], int] = {}
        for operation in facts.operations:
            if isinstance(operation.action, Poll):
                self._add_reads(operation, operation.action, highest)
        for (reader, topic_partition), offset in highest.items():
            self._add_anti_dependency(reader, topic_partition, offset)

    def cycles(
        self,
        kind: type[Cycle],
        kinds: Sequence[str],
        *,
        through: str,
        accepts: Callable[[set[str]], bool] = lambda _: True,
    ) -> Iterator[Cycle]:
        """Yield cycles over edges of `kinds` with an edge of kind `through`, one for each component."""
        graph = self._graph(kinds)
        for component in components(graph):
            steps = self._cycle(graph, kinds, self._inside(component, through), accepts)
            if steps is not None:
                yield kind(steps)

    def anti_cycles(self) -> Iterator[Cycle]:
        """Yield cycles with rw edges: with a single one if there is such a cycle, else with several."""
        everything, forward = ("ww", "wr", "rw"), ("ww", "wr")
        graph, forward_graph = self._graph(everything), self._graph(forward)
        for component in components(graph):
            edges = list(self._inside(component, "rw"))
            single = self._cycle(forward_graph, forward, edges, lambda _: True)
            if single is not None:
                yield SingleAntiCycle(single)
                continue
            several = self._cycle(graph, everything, edges, lambda _: True)
            if several is not None:
                yield AntiCycle(several)

    def _cycle(
        self,
        graph: Graph,
        kinds: Sequence[str],
        edges: Iterable[tuple[str, Edge]],
        accepts: Callable[[set[str]], bool],
    ) -> list[Step] | None:
        """Close one of the edges to a cycle over the graph; return the shortest that is accepted."""
        best: list[Step] | None = None
        for through, (first, then) in islice(edges, _TRIED):
            way = shortest_way(graph, then, first)
            if way is None:
                continue
            steps = [self._step(first, then, (through,))]
            steps += [self._step(a, b, kinds) for a, b in pairwise(way)]
            if accepts({step.kind for step in steps}) and (best is None or len(steps) < len(best)):
                best = steps
        return best

    def _step(self, first: int, then: int, kinds: Sequence[str]) -> Step:
        for kind in kinds:
            why = self._edges[kind].get(first, {}).get(then)
            if why is not None:
                return Step(self._units[first], self._units[then], kind, why)
        raise AssertionError("a way goes over edges of its graph")

    def _inside(self, component: list[int], kind: str) -> Iterator[tuple[str, Edge]]:
        members = set(component)
        for node in component:
            for successor in self._edges[kind].get(node, ()):
                if successor in members:
                    yield kind, (node, successor)

    def _graph(self, kinds: Sequence[str]) -> Graph:
        merged: dict[int, dict[int, str]] = {}
        for kind in kinds:
            for node, successors in self._edges[kind].items():
                merged.setdefault(node, {}).update(successors)
        return merged

    def _add(self, kind: str, first: int, then: int, why: str) -> None:
        if first != then:
            self._edges[kind].setdefault(first, {}).setdefault(then, why)

    def _node(self, unit: Unit) -> int:
        number = unit.began.number if isinstance(unit, Transaction) else unit.number
        self._units[number] = unit
        return number

    def _writer(self, value: str) -> int | None:
        write = self._facts.writes.get(value)
        return None if write is None or write.outcome is Outcome.FAILED else self._node(write.unit)

    def _add_writes(self, topic_partition: TopicPartition) -> None:
        order = self._facts.orders[topic_partition]
        for low, high in pairwise(order.offsets):
            first, then = self._writer(order.values[low]), self._writer(order.values[high])
            if first is not None and then is not None:
                self._add("ww", first, then, f"{topic_partition} offset {low} before {high}")

    def _add_reads(
        self, operation: Operation, poll: Poll, highest: dict[tuple[int, TopicPartition], int]
    ) -> None:
        reader = self._node(self._facts.unit(operation))
        for record in poll.records:
            writer = self._writer(record.value)
            if writer is not None:
                why = f"{record.value!r} at {record.partition} offset {record.offset}"
                self._add("wr", writer, reader, why)
            key = reader, record.partition
            highest[key] = max(record.offset, highest.get(key, -1))

    def _add_anti_dependency(
        self, reader: int, topic_partition: TopicPartition, offset: int
    ) -> None:
        order = self._facts.orders[topic_partition]
        following = order.after(offset)
        if following is not None:
            writer = self._writer(order.values[following])
            if writer is not None:
                self._add(
                    "rw", reader, writer, f"{topic_partition} read up to {offset}, not {following}"
                )
