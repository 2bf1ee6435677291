"""The product uses clock, random, disk and network through `kavka.io` only: otherwise seeds would not repeat."""

from __future__ import annotations

import ast
from pathlib import Path

import kavka

ROOT = Path(kavka.__file__).parent
PACKAGES = ("wire", "core", "storage", "registry", "broker", "client")
IMPLEMENTATIONS = {"storage/disk/os_disk.py"}
"""Modules of these packages that implement an interface of `kavka.io`; the others are in `net`."""
OUTSIDE = {
    "client/metrics/open_telemetry.py": "a reporter, which OpenTelemetry's own thread asks",
    "client/offset_stores/files.py": "the files of an application",
    "client/offset_stores/sql.py": "the database of an application",
}
"""Modules beside the clients that an application gives to them, and what they use; the simulator runs none of them."""
THREADS = {
    "broker/security/callbacks.py": "users' own code",
    "broker/security/delegation_tokens.py": "OpenSSL salts the HMAC of a token",
    "broker/security/kerberos.py": "MIT's library reads the key tab and the file of replays",
    "broker/security/security_parts.py": "key stores and JAAS files",
    "broker/security/signed_tokens.py": "the keys of an issuer, by HTTP",
    "broker/security/tls.py": "key stores",
    "client/admin/user_credentials.py": "OpenSSL salts a password",
    "client/bearer_tokens.py": "users' own code, and tokens by HTTP",
    "registry/zookeeper_access.py": "a JAAS file",
}
"""Modules that may run something in a thread, and what; the simulator runs none of it."""

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
    tree = ast.parse(path.read_text(), str(path))
    modules = {
        alias.asname or alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.Import)
        for alias in node.names
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            module, name = node.value.id, node.attr
            if module not in modules:
                continue  # a variable of that name
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


def test_no_module_uses_io_that_is_not_injected() -> None:
    found = []
    for package in PACKAGES:
        for path in sorted((ROOT / package).rglob("*.py")):
            name = str(path.relative_to(ROOT))
            if name not in IMPLEMENTATIONS and name not in OUTSIDE:
                found += [
                    use
                    for use in uses(path)
                    if not (name in THREADS and use.endswith(" asyncio.to_thread"))
                ]
    assert found == []


def test_direct_use_is_noticed() -> None:
    assert uses(ROOT / "storage" / "disk" / "os_disk.py"), "the real disk uses the operating system"
