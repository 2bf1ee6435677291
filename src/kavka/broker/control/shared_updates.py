"""UpdateMetadata of one content to many brokers: encoded once, each broker gets it with its own broker epoch.

    | controller id i32 | is kraft controller bool, 8+ | controller epoch i32 | broker epoch i64, 5+ | the rest |

A new controller sends every broker every partition, and a change of brokers is sent to all. Nothing but the broker
epoch differs between these requests. So the last bodies are kept until the metadata of partitions or brokers may have
changed (`ControllerMachine.revision`); what was encoded before is not sent any more.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from struct import Struct
from typing import Final, NamedTuple

from kavka.core.controller.machine import ControllerMachine
from kavka.ids import TopicId, TopicPartition
from kavka.io import Sendable
from kavka.wire.codec import encode_into
from kavka.wire.frame import frame_request
from kavka.wire.messages.update_metadata import UpdateMetadataRequest

_KEPT: Final = 4
"""Bodies that are kept: live brokers and partitions, for brokers of two versions."""
_EPOCH: Final = Struct(">q")
_FIRST_WITH_EPOCH: Final = 5
_FIRST_WITH_KRAFT: Final = 8


Build = Callable[[], UpdateMetadataRequest]
"""Makes the request from the state at the time of the call."""


class _Content(NamedTuple):
    """The subject of a request: with the state of the cluster it determines the body."""

    shared: tuple[TopicPartition, ...]
    """Partitions that other brokers are sent as well; mostly the same object, which is compared fast."""
    own: tuple[TopicPartition, ...]
    deleted: tuple[tuple[TopicPartition, TopicId], ...]


class EncodedBody(NamedTuple):
    """A body without the broker epoch."""

    before: bytes
    has_epoch: bool
    after: bytes


class SharedBodies:
    """The last bodies of one controller, as long as they are valid."""

    def __init__(self, machine: ControllerMachine) -> None:
        """Keep none yet; `machine` tells when they are outdated."""
        self._machine = machine
        # Invariant: all are of this revision of the machine.
        self._revision = machine.revision
        self._bodies: deque[tuple[_Content, int, EncodedBody]] = deque(maxlen=_KEPT)

    def drop_outdated(self) -> None:
        """Drop the bodies if the metadata may have changed since they were encoded."""
        if self._revision != self._machine.revision:
            self._revision = self._machine.revision
            self._bodies.clear()

    def request(
        self,
        shared: tuple[TopicPartition, ...],
        own: tuple[TopicPartition, ...],
        deleted: Mapping[TopicPartition, TopicId],
        broker_epoch: int,
        build: Build,
    ) -> SharedUpdateMetadata:
        """Return the request to a broker that shows partitions (`PartitionSet.content`), and those that are deleted.

        `build` makes it without sharing.
        """
        content = _Content(shared, own, tuple(deleted.items()))
        return SharedUpdateMetadata(self, content, broker_epoch, build)

    def encoded(self, content: _Content, version: int, build: Build) -> EncodedBody:
        """Return the body for a content; `build` makes the request where it is not kept."""
        self.drop_outdated()
        for known, of_version, body in self._bodies:
            if of_version == version and known == content:
                return body
        body = encode_body(build(), version)
        self._bodies.append((content, version, body))
        return body


def encode_body(request: UpdateMetadataRequest, version: int) -> EncodedBody:
    """Encode a request without its broker epoch. Raise as `codec.encode_into`."""
    out = memoryview(encode_into(request, version, bytearray(), []))
    if version < _FIRST_WITH_EPOCH:
        return EncodedBody(b"", has_epoch=False, after=bytes(out))
    position = 4 + (version >= _FIRST_WITH_KRAFT) + 4
    return EncodedBody(bytes(out[:position]), True, bytes(out[position + _EPOCH.size :]))


class SharedUpdateMetadata:
    """An UpdateMetadata to one broker. It is built when it is sent, or taken from those that others were sent."""

    __slots__ = ("_bodies", "_broker_epoch", "_build", "_content")

    def __init__(
        self,
        bodies: SharedBodies,
        content: _Content,
        broker_epoch: int,
        build: Build,
    ) -> None:
        """`SharedBodies.request` makes it."""
        self._bodies = bodies
        self._content = content
        self._broker_epoch = broker_epoch
        self._build = build

    def frame(self, version: int, correlation_id: int, client_id: str | None) -> list[Sendable]:
        """Return the request as `encode_request` does; its last part is shared. Raise as `codec.encode_into`."""
        before, has_epoch, after = self._bodies.encoded(self._content, version, self._build)
        head = before + _EPOCH.pack(self._broker_epoch) if has_epoch else before
        return frame_request(
            UpdateMetadataRequest, version, correlation_id, client_id, (head, after)
        )
