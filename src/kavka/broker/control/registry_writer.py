"""Decisions as multis: a few hundred operations each, all of them fenced by the epoch of this election."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from kavka.core.controller.records import Record, StateWritten, TopicRemoved, operations_of
from kavka.core.znodes import (
    Check,
    Create,
    Delete,
    Operation,
    SetData,
    ZnodeError,
    size_of,
)
from kavka.registry.interface import Registry, RegistryRefused
from kavka.wire.stored import znodes

_MAX_OPERATIONS = 500
_MAX_BYTES = 500_000
"""Of paths and data. ZooKeeper takes 1 MiB in one packet."""


class ControllerMovedError(Exception):
    """Another broker was elected: the decisions of this one are refused."""


class _NotWritten(Exception):
    """A record was refused; records before it are written."""

    def __init__(self, applied: int, refused: RegistryRefused) -> None:
        """Note the refusal, and the number of written records in `applied`."""
        super().__init__(str(refused))
        self.applied = applied


class VersionConflict(_NotWritten):
    """Another writer changed the znode of a record."""


class WriteRefused(_NotWritten):
    """The registry refuses a record permanently: it is too large."""


class RegistryWriter:
    """Writes records in order, and has each applied as soon as it is written."""

    def __init__(self, registry: Registry, epoch_version: int) -> None:
        """`epoch_version` is that of `/controller_epoch` since this election, by the registry's session of now."""
        self._session_id = registry.session_id
        self._registry = registry
        self._fence = Check(znodes.CONTROLLER_EPOCH, epoch_version)

    async def write(
        self,
        records: Sequence[Record],
        apply: Callable[[Record], None],
        written: Callable[[], None] = lambda: None,
    ) -> None:
        """Write the records; `written` is called when brokers may be sent what is written so far.

        Raise ControllerMovedError, VersionConflict, WriteRefused, or ConnectionError: then the last multi may have
        happened.
        """
        at = 0
        while at < len(records):
            operations: list[Operation] = []
            end, size = at, 0
            while end < len(records):
                more = await self._operations(records[end])
                size += sum(map(size_of, more))
                is_full = len(operations) + len(more) > _MAX_OPERATIONS or size > _MAX_BYTES
                if operations and is_full:
                    break
                operations += more
                end += 1
            try:
                await self._multi(operations)
            except RegistryRefused as refused:
                if refused.error is ZnodeError.BAD_ARGUMENTS:
                    raise WriteRefused(at, refused) from refused
                raise VersionConflict(at, refused) from refused
            for record in records[at:end]:
                apply(record)
            at = end
            if all(isinstance(record, StateWritten) for record in records[at - 1 : at + 1]):
                written()  # elections need not wait for each other; new topics are shown whole

    async def delete(self, path: str) -> None:
        """Remove a node. Raise RegistryRefused, ControllerMovedError (the next controller sees it), ConnectionError."""
        await self._multi([Delete(path)])

    async def put(self, path: str, data: bytes, version: int | None) -> None:
        """Write a node that must have this version, or with None must not be there. Raise as `delete`."""
        await self._multi([Create(path, data) if version is None else SetData(path, data, version)])

    async def _operations(self, record: Record) -> list[Operation]:
        if not isinstance(record, TopicRemoved):
            return operations_of(record)
        config = znodes.config_path("topics", record.topic)
        below = await self._below(znodes.topic_path(record.topic))
        below += [config] if await self._registry.stat(config) is not None else []
        operations = operations_of(record, below)
        # The mark goes last: it is what continues after a crash.
        while len(operations) > _MAX_OPERATIONS:
            await self._multi(operations[:_MAX_OPERATIONS])
            operations = operations[_MAX_OPERATIONS:]
        return operations

    async def _below(self, path: str) -> list[str]:
        """Return a node and all below it, children first; nothing when it does not exist."""
        try:
            children = await self._registry.children(path)
        except RegistryRefused:
            return []
        found: list[str] = []
        for child in children:
            found += await self._below(f"{path}/{child}")
        return [*found, path]

    async def _multi(self, operations: Sequence[Operation]) -> None:
        if self._registry.session_id != self._session_id:
            # The controller znode ended with it, though no other may exist yet.
            raise ControllerMovedError("the session is over")
        try:
            await multi_merging_configs(self._registry, [self._fence, *operations])
        except RegistryRefused as refused:
            is_too_large = refused.error is ZnodeError.BAD_ARGUMENTS
            if refused.path == znodes.CONTROLLER_EPOCH and not is_too_large:
                raise ControllerMovedError("another controller was elected") from refused
            raise


async def multi_merging_configs(registry: Registry, operations: Sequence[Operation]) -> None:
    """Run a multi, merged with znodes that tools have created or removed. Raise RegistryRefused.

    Existing settings of a topic that is created are replaced; a request in `/admin` that is to be changed or
    removed, and is gone already, is left out.
    """
    todo = list(operations)
    while True:
        try:
            await registry.multi(todo)
            return
        except RegistryRefused as refused:
            path = refused.path
            if refused.error is ZnodeError.NODE_EXISTS and path.startswith("/config/topics/"):
                todo = [_replacing(operation, path) for operation in todo]
            elif refused.error is ZnodeError.NO_NODE and path.startswith("/admin/"):
                todo = [operation for operation in todo if operation.path != path]
            else:
                raise


def _replacing(operation: Operation, path: str) -> Operation:
    if isinstance(operation, Create) and operation.path == path:
        return SetData(path, operation.data)
    return operation
