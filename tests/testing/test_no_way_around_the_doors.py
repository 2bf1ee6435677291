"""The product reads clocks, draws numbers and touches files through its doors only, or seeds would not repeat."""

from __future__ import annotations

import ast
from pathlib import Path

import kavka

ROOT = Path(kavka.__file__).parent
ROOMS = ("wire", "core", "storage", "registry", "broker", "client")
DOORS = {"storage/disk.py"}
"""Where a real door lives in one of these rooms; the others are in `net`."""

FORBIDDEN = {
    "time": {"time", "time_ns", "monotonic", "monotonic_ns", "perf_counter", "sleep"},
    "random": set(),
    "secrets": set(),
    "uuid": {"uuid1", "uuid4"},
    "os": {"urandom", "open", "listdir", "rename", "remove", "fsync", "stat", "scandir"},
    "datetime": set(),
    "asyncio": {"to_thread", "open_connection", "start_server"},
}
"""Modules with the names that must not be used; none named means any call of the module's own functions."""
WHOLE_MODULES = {"random", "secrets"}


def uses(path: Path) -> list[str]:
    found = []
    for node in ast.walk(ast.parse(path.read_text(), str(path))):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            module, name = node.value.id, node.attr
            if module in WHOLE_MODULES or name in FORBIDDEN.get(module, set()):
                found.append(f"{path.relative_to(ROOT)}:{node.lineno} {module}.{name}")
        elif isinstance(node, ast.ImportFrom) and node.module in FORBIDDEN:
            names = {alias.name for alias in node.names}
            if node.module in WHOLE_MODULES or names & FORBIDDEN[node.module]:
                found.append(f"{path.relative_to(ROOT)}:{node.lineno} from {node.module}")
        elif (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Name)
            and node.func.id == "open"
        ):
            found.append(f"{path.relative_to(ROOT)}:{node.lineno} open()")
    return found


def test_no_module_of_the_product_goes_around_its_doors() -> None:
    found = []
    for room in ROOMS:
        for path in sorted((ROOT / room).rglob("*.py")):
            if str(path.relative_to(ROOT)) not in DOORS:
                found += uses(path)
    assert found == []


def test_a_way_around_is_noticed() -> None:
    assert uses(ROOT / "storage" / "disk.py"), "the real disk uses the operating system"
