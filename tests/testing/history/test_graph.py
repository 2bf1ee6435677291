"""Components and ways, against a plain search."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from kavka.testing.history.graph import components, shortest_way

graphs = st.dictionaries(st.integers(0, 8), st.sets(st.integers(0, 8), max_size=4), max_size=9)


def reachable(graph: dict[int, set[int]], start: int) -> set[int]:
    found: set[int] = set()
    waiting = [start]
    while waiting:
        for successor in graph.get(waiting.pop(), ()):
            if successor not in found:
                found.add(successor)
                waiting.append(successor)
    return found


@given(graphs)
def test_nodes_are_in_a_component_together_when_each_reaches_the_other(
    graph: dict[int, set[int]],
) -> None:
    component_of = {node: index for index, c in enumerate(components(graph)) for node in c}
    for a in range(9):
        for b in range(9):
            if a != b:
                together = b in reachable(graph, a) and a in reachable(graph, b)
                assert (
                    a in component_of and component_of.get(a) == component_of.get(b)
                ) == together


@given(graphs, st.integers(0, 8), st.integers(0, 8))
def test_a_shortest_way_leads_over_edges(graph: dict[int, set[int]], start: int, goal: int) -> None:
    way = shortest_way(graph, start, goal)
    assert (way is not None) == (goal in reachable(graph, start))
    if way is not None:
        assert (way[0], way[-1]) == (start, goal)
        assert all(then in graph[first] for first, then in pairwise(way))
        assert len(set(way[:-1])) == len(way) - 1


def test_a_long_chain_needs_no_recursion() -> None:
    circle = {node: [(node + 1) % 50_000] for node in range(50_000)}
    (component,) = components(circle)
    assert len(component) == 50_000
