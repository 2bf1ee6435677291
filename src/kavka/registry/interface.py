"""The registry as brokers see it: znodes, versions, watches and one session, independent of the implementation."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Sequence
from itertools import islice
from typing import Any, Protocol, TypeVar

from kavka.core.znodes import ANY_VERSION, Check, Create, Event, Operation, Stat, ZnodeError

log = logging.getLogger(__name__)

Watch = Callable[[Event], None]
K = TypeVar("K")
T = TypeVar("T")


class RegistryRefused(Exception):
    """An operation that met `error` at `path`; nothing of its multi happened."""

    def __init__(self, error: ZnodeError, path: str, at: int = 0) -> None:
        """Keep the facts for callers that decide by them; `at` is the number of the operation in its multi."""
        super().__init__(f"{error.name} for {path}")
        self.error = error
        self.path = path
        self.at = at


def require_no_node(refused: RegistryRefused) -> None:
    """Return if a read was refused because there is no such node. Raise ConnectionError for any other reason.

    What any other refusal hides is unknown, and must be read again: it is not the same as nothing.
    """
    if refused.error is not ZnodeError.NO_NODE:
        raise ConnectionError(f"the registry refused a read: {refused}") from refused


class Registry(Protocol):
    """A tree of znodes, as one session sees it.

    Every call raises RegistryRefused where ZooKeeper would refuse, and ConnectionError when no server is reachable or
    the session has expired. While the connection is broken calls wait, for a session timeout at most; a write that ends
    in ConnectionError may have been applied. A watch is notified before a call can return the change; after a
    broken connection it may be notified without a change: read again in any case.
    """

    session_lost: Callable[[], None] | None
    """Called once, on the loop, when the session has expired.

    Its ephemeral nodes and watches are gone.
    """

    @property
    def session_id(self) -> int:
        """The session that owns the ephemeral nodes made here."""
        ...

    async def get(self, path: str, watch: Watch | None = None) -> tuple[bytes, Stat]:
        """Return data and stat; `watch` is called once with the next change of the node."""
        ...

    async def stat(self, path: str, watch: Watch | None = None) -> Stat | None:
        """Return the stat, or None when there is no such node; `watch` is called at the next change of the node."""
        ...

    async def children(self, path: str, watch: Watch | None = None) -> list[str]:
        """Return the names of the children, sorted; `watch` is called once when they change."""
        ...

    async def create(
        self,
        path: str,
        data: bytes | None = None,
        *,
        ephemeral: bool = False,
        sequence: bool = False,
    ) -> str:
        """Make a node and return its path. A node with None for data reads as an empty one."""
        ...

    async def set(self, path: str, data: bytes, version: int = ANY_VERSION) -> Stat:
        """Replace a node's data."""
        ...

    async def delete(self, path: str, version: int = ANY_VERSION) -> None:
        """Remove a node without children."""
        ...

    async def multi(self, operations: Sequence[Operation]) -> list[str]:
        """Apply all operations or none; return the path of each, with the sequence numbers that were given."""
        ...

    async def reconnect(self) -> None:
        """Begin a new session in place of the one that was lost: `session_id` changes, no watch is left."""
        ...

    async def close(self) -> None:
        """End the session: its ephemeral nodes go."""
        ...


async def sync(registry: Registry) -> None:
    """Wait until the session's server has all that is written now: it may lag behind its ensemble.

    A multi that only checks passes the leader of the ensemble, as ZooKeeper's own `sync` does.
    """
    await registry.multi([Check("/", ANY_VERSION)])


async def ensure_paths(registry: Registry, paths: Iterable[str]) -> None:
    """Make all that is missing of some persistent paths, in one multi; another session may do so at the same time."""
    wanted = list(paths)
    while missing := await _missing(registry, wanted):
        try:
            await registry.multi([Create(path) for path in missing])
        except RegistryRefused as refused:
            if refused.error is not ZnodeError.NODE_EXISTS:
                raise


async def _missing(registry: Registry, paths: Iterable[str]) -> dict[str, None]:
    """Return what is missing, parents first."""
    missing: dict[str, None] = {}
    for leaf in paths:
        path, above = leaf, list[str]()
        while path and path not in missing and await registry.stat(path) is None:
            above.append(path)
            path = path.rsplit("/", 1)[0]
        missing.update(dict.fromkeys(reversed(above)))
    return missing


async def ensure_path(registry: Registry, path: str) -> None:
    """Make a persistent node and its parents where they are missing."""
    if path == "/" or await registry.stat(path) is not None:
        return
    await ensure_path(registry, path.rsplit("/", 1)[0] or "/")
    try:
        await registry.create(path)
    except RegistryRefused as refused:
        if refused.error is not ZnodeError.NODE_EXISTS:
            raise


async def existing_children(registry: Registry, path: str) -> list[str]:
    """Return the names of the children of a node, sorted; none where there is no such node. Raise ConnectionError."""
    try:
        return await registry.children(path)
    except RegistryRefused as refused:
        require_no_node(refused)
        return []


async def gathered(
    read: Callable[[K], Coroutine[Any, Any, T]],
    keys: Iterable[K],
    at_once: int,
    rest: Callable[[], Awaitable[None]] | None = None,
) -> list[T]:
    """Read all keys, `at_once` together, which a far registry answers in one round trip.

    `rest` is awaited after each group: an embedded registry answers without yielding to the loop.
    """
    found: list[T] = []
    remaining = iter(keys)
    while group := list(islice(remaining, at_once)):
        if at_once == 1:
            found.append(await read(group[0]))
        else:
            found += await asyncio.gather(*map(read, group))
        if rest is not None:
            await rest()
    return found


def decode_or_none(data: bytes, decode: Callable[[bytes], T], path: str) -> T | None:
    """Return what a znode says, or None, with a warning, when `decode` cannot read it.

    People and tools write znodes, too. One that cannot be read must not stop what works without it.
    """
    try:
        return decode(data)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        log.warning("znode not decoded path=%s reason=%r", path, error)
        return None
