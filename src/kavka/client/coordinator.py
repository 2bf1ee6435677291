"""The coordinator of a group or of a transactional id, and the dialogues with it that machines of `kavka.core` lead."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator
from typing import Any, TypeVar

from kavka.client.cluster import Channel, Cluster, CoordinatorKind
from kavka.ids import BrokerId
from kavka.net.peer import Peer

Step = TypeVar("Step")
T = TypeVar("T")


class Coordinator:
    """The coordinator of one key, looked up when it is not known."""

    def __init__(self, cluster: Cluster, kind: CoordinatorKind, key: str) -> None:
        """Begin without a coordinator; `peer` finds it."""
        self._cluster = cluster
        self._kind = kind
        self._key = key
        self._broker_id: BrokerId | None = None

    async def peer(self, channel: Channel = Channel.MAIN) -> Peer:
        """Return a connection to it, finding it if need be. Raise KafkaError, OSError."""
        if self._broker_id is None:
            self._broker_id = await self._cluster.find_coordinator(self._key, self._kind)
        try:
            return await self._cluster.peer(self._broker_id, channel)
        except OSError:
            self._broker_id = None
            raise

    def forget(self) -> None:
        """Forget the coordinator, so that it is looked up again."""
        self._broker_id = None


async def run_dialogue(
    steps: Generator[Step, Any, T], perform: Callable[[Step], Awaitable[Any]]
) -> T:
    """Perform the steps of a dialogue, and return its outcome; what a step raises is raised into the dialogue."""
    reply: Any = None
    failure: Exception | None = None
    try:
        while True:
            try:
                step = steps.send(reply) if failure is None else steps.throw(failure)
            except StopIteration as end:
                outcome: T = end.value
                return outcome
            reply = failure = None
            try:
                reply = await perform(step)
            except Exception as error:  # noqa: BLE001  the dialogue decides, and raises what it does not know
                failure = error
    finally:
        steps.close()
