"""The types of the clients, as type checkers and editors see them."""

from __future__ import annotations

import inspect
import runpy
import subprocess
import sys
import typing
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

import kavka.client
from kavka.client import Admin, Consumer, ExactlyOnce, Producer, blocking

ROOT = Path(__file__).resolve().parents[2]

MISTAKES = """\
import asyncio

from kavka.client import Consumer, NewTopic, Producer, Prodcer  # 3
from kavka.client.blocking import Admin as BlockingAdmin, Consumer as BlockingConsumer
from kavka.client.blocking import Producer as BlockingProducer


def blocking(p: BlockingProducer, c: BlockingConsumer, a: BlockingAdmin) -> None:
    p.sned("t")  # 9
    p.send("t", b"v", partition="1")  # 10
    p.flush(timeout=3)  # 11
    p.close(timeout=3)  # 12
    c.pol()  # 13
    c.subscribe("t", lisener=None)  # 14
    for record in c:
        record.valeu  # 16
    a.create_topics(["t"])  # 17
    a.list_topics().keys()  # 18
    offset: int = p.send("t").offset
    names: list[str] = a.list_topics(include_internal=True)
    a.create_topics([NewTopic("t", 1, 1)], validate_only=True)


async def on_asyncio(p: Producer, c: Consumer) -> None:
    await p.sned("t")  # 25
    p.append("t", b"v", hedaers=[])  # 26
    (await c.poll(1000))[0].recrods()  # 27
    await p.send("t", b"v", headers=[("h", b"v")])
"""


@pytest.mark.slow
def test_a_type_checker_finds_mistyped_names_and_wrong_arguments(tmp_path: Path) -> None:
    program = tmp_path / "mistakes.py"
    program.write_text(MISTAKES)
    command = [sys.executable, "-m", "mypy", "--strict", "--no-error-summary", str(program)]
    # With the cache of `make lint`, of which only the program is new.
    found = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert found.returncode == 1, found.stdout + found.stderr
    lines = {int(line.split(":")[1]) for line in found.stdout.splitlines() if ": error:" in line}
    wanted = {n for n, line in enumerate(MISTAKES.splitlines(), 1) if line.endswith(f"# {n}")}
    assert lines == wanted, found.stdout


def test_the_stub_of_the_blocking_clients_is_that_of_the_asynchronous_ones() -> None:
    script = runpy.run_path(str(ROOT / "scripts" / "blocking_signatures.py"))
    assert script["stub"]() == script["STUB"].read_text(), "run `make reference`"


IO = "kavka.io"
"""The keywords `network`, `clock` and `random` of constructors are for the simulator and tests."""
INTERNAL = {"Deserializers", "FieldFunction", "Default"}
"""Parameters of results that users do not construct, and the type of DEFAULT_ENTITY."""


@pytest.mark.parametrize(
    "client",
    [Admin, Consumer, ExactlyOnce, Producer, blocking.Admin, blocking.Consumer, blocking.Producer],
    ids=lambda client: client.__module__,
)
def test_what_a_signature_names_is_exported(client: type) -> None:
    named = {
        kind
        for kind in named_types(client)
        if not kind.__module__.startswith(IO) and kind.__name__ not in INTERNAL
    }
    found = [kind for kind in named if kind.__name__ not in kavka.client.__all__]
    assert not found
    assert all(getattr(kavka.client, kind.__name__) is kind for kind in named - {client})


def named_types(client: type) -> set[type]:
    """Return kavka's types in the signatures of a class, and in those of these types."""
    found: set[type] = set()
    left = [client]
    while left:
        for hint in hints(left.pop()):
            for kind in parts(hint):
                if kind not in found:
                    found.add(kind)
                    if not kind.__module__.startswith(IO):
                        left.append(kind)
    return found


def hints(owner: type) -> Iterator[object]:
    """Return the annotations of the public members of a class."""
    for base in owner.__mro__:
        own = vars(base).get("__annotations__", {})
        public = {name: hint for name, hint in own.items() if not name.startswith("_")}
        known = vars(sys.modules[base.__module__])
        yield from typing.get_type_hints(SimpleNamespace(__annotations__=public), known).values()
    for name, member in inspect.getmembers(owner):
        function = member.fget if isinstance(member, property) else member
        is_public = not name.startswith("_") or name == "__init__"
        if is_public and inspect.isfunction(function):
            yield from typing.get_type_hints(inspect.unwrap(function)).values()


def parts(hint: object) -> Iterator[type]:
    """Return kavka's types within an annotation."""
    if isinstance(hint, type) and hint.__module__.startswith("kavka"):
        yield hint
    for part in hint if isinstance(hint, list) else typing.get_args(hint):
        yield from parts(part)


def test_all_exported_names_are_there() -> None:
    for name in kavka.client.__all__:
        assert getattr(kavka.client, name) is not None
    with pytest.raises(AttributeError, match="Prodcer"):
        kavka.client.__getattr__("Prodcer")
