"""Directed graphs of numbers: strongly connected components and shortest ways. Pure."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Mapping

Graph = Mapping[int, Collection[int]]
"""The successors of each node; nodes without successors may be missing."""


def components(graph: Graph) -> list[list[int]]:
    """Return the strongly connected components of more than one node (Tarjan's algorithm, without recursion)."""
    index: dict[int, int] = {}
    low: dict[int, int] = {}
    stack: list[int] = []
    on_stack: set[int] = set()
    finished: list[list[int]] = []
    for root in graph:
        if root in index:
            continue
        index[root] = low[root] = len(index)
        stack.append(root)
        on_stack.add(root)
        work = [(root, iter(graph.get(root, ())))]
        while work:
            node, successors = work[-1]
            for successor in successors:
                if successor not in index:
                    index[successor] = low[successor] = len(index)
                    stack.append(successor)
                    on_stack.add(successor)
                    work.append((successor, iter(graph.get(successor, ()))))
                    break
                if successor in on_stack:
                    low[node] = min(low[node], index[successor])
            else:
                work.pop()
                if work:
                    parent = work[-1][0]
                    low[parent] = min(low[parent], low[node])
                if low[node] == index[node]:
                    component = _unwind(stack, on_stack, node)
                    if len(component) > 1:
                        finished.append(component)
    return finished


def _unwind(stack: list[int], on_stack: set[int], node: int) -> list[int]:
    """Pop a finished component, of which `node` is the root, from the stack."""
    component: list[int] = []
    while True:
        member = stack.pop()
        on_stack.discard(member)
        component.append(member)
        if member == node:
            return component


def shortest_way(graph: Graph, start: int, goal: int) -> list[int] | None:
    """Return the nodes of a shortest way of at least one edge, both ends included; None when there is none."""
    before: dict[int, int] = {}
    queue = deque([start])
    while queue:
        node = queue.popleft()
        for successor in graph.get(node, ()):
            if successor in before:
                continue
            before[successor] = node
            if successor == goal:
                return _walk_back(before, start, goal)
            queue.append(successor)
    return None


def _walk_back(before: dict[int, int], start: int, goal: int) -> list[int]:
    way = [goal]
    while True:
        way.append(before[way[-1]])
        if way[-1] == start:
            return way[::-1]
