"""Imports form no circle, TYPE_CHECKING imports included, nor do packages; no part of a broker imports the broker."""

import ast
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1] / "src"
BROKER = "kavka.broker.broker"
COMPOSERS = ("kavka.cli.", "kavka.testing.", "kavka.simulation.")

Graph = dict[str, set[str]]


def module_name(path: Path) -> str:
    parts = path.relative_to(SOURCE).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imported_names(path: Path) -> set[str]:
    """Return the absolute names that a module imports."""
    package = (
        module_name(path) if path.name == "__init__.py" else module_name(path).rpartition(".")[0]
    )
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = (
                package.split(".")[: len(package.split(".")) - node.level + 1] if node.level else []
            )
            base = ".".join([*above, *([node.module] if node.module else [])])
            names.update(f"{base}.{alias.name}" for alias in node.names)
    return names


def module_graph() -> Graph:
    paths = {module_name(path): path for path in SOURCE.glob("kavka/**/*.py")}
    graph: Graph = {}
    for name, path in paths.items():
        targets = {
            target if target in paths else target.rpartition(".")[0]
            for target in imported_names(path)
        }
        graph[name] = (targets & paths.keys()) - {name}
    return graph


def circles(graph: Graph) -> list[tuple[str, ...]]:
    """Return the strongly connected components of more than one module (Kosaraju's algorithm)."""
    finished: list[str] = []
    visited: set[str] = set()
    for start in sorted(graph):
        visit(start, graph, visited, finished)
    importers: Graph = {name: set() for name in graph}
    for name, targets in graph.items():
        for target in targets:
            importers[target].add(name)
    visited.clear()
    components = []
    for start in reversed(finished):
        component: list[str] = []
        visit(start, importers, visited, component)
        if len(component) > 1:
            components.append(tuple(sorted(component)))
    return sorted(components)


def visit(name: str, graph: Graph, visited: set[str], finished: list[str]) -> None:
    """Append the unvisited modules reachable from one, each after its own targets."""
    if name in visited:
        return
    visited.add(name)
    for target in sorted(graph[name]):
        visit(target, graph, visited, finished)
    finished.append(name)


def children_graph(graph: Graph, package: str) -> Graph:
    """Return the imports between the modules and packages that lie directly in a package."""
    prefix = f"{package}."

    def child(name: str) -> str:
        return prefix + name.removeprefix(prefix).partition(".")[0]

    children: Graph = {child(name): set() for name in graph if name.startswith(prefix)}
    for name, targets in graph.items():
        if name.startswith(prefix):
            children[child(name)] |= {child(to) for to in targets if to.startswith(prefix)}
    return children


@pytest.fixture(scope="module")
def graph() -> Graph:
    return module_graph()


def test_a_circle_is_found_with_its_modules_alone() -> None:
    assert circles({"a": {"b"}, "b": {"c"}, "c": {"b"}, "d": {"a", "e"}, "e": {"e"}}) == [
        ("b", "c")
    ]


def test_imports_form_no_circle(graph: Graph) -> None:
    assert circles(graph) == []


def test_a_circle_of_packages_is_found_where_no_module_is_in_one() -> None:
    graph = {"p.a.x": {"p.b.y"}, "p.b.y": set(), "p.b.z": {"p.a.w"}, "p.a.w": set()}
    assert circles(graph) == []
    assert circles(children_graph(graph, "p")) == [("p.a", "p.b")]


def test_packages_form_no_circle(graph: Graph) -> None:
    packages = {name.rpartition(".")[0] for name in graph if "." in name}
    assert {
        p: found for p in sorted(packages) if (found := circles(children_graph(graph, p)))
    } == {}


def test_only_composers_import_the_broker(graph: Graph) -> None:
    importers = [
        name
        for name, targets in graph.items()
        if BROKER in targets and not name.startswith(COMPOSERS)
    ]
    assert importers == []
