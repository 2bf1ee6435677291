"""Large requests, and large responses: in slices of the loop's time.

    frame --decode_slice, rest, decode_slice, rest ...--> message --handler--> result --encode_slice, rest ...--> parts

Meanwhile the loop serves other connections. The connection of a large request is blocked (`net.connection`).
"""

from __future__ import annotations

from collections.abc import Generator
from typing import TYPE_CHECKING, Any, Final

from kavka.broker.requests.memory import (
    RESPONSE_SETTING,
    DecodedBound,
    RequestMemory,
    RequestTooLarge,
)
from kavka.broker.requests.pace import Pace
from kavka.broker.requests.refusals import RefusalReason
from kavka.io import Sendable
from kavka.wire.apis import ApiKey
from kavka.wire.codec import SlicedDecoding

if TYPE_CHECKING:
    from kavka.wire.messages.fetch import FetchResponse

_STEPS_A_SLICE: Final = 8
"""Of a pace, for one step of the codec: about 0.2 ms."""

Encoding = Generator[int, None, list[Sendable]]
"""The generator of `wire.frame.encode_response_in_slices`."""


class LargeRequest:
    """A frame that is being decoded, and what its request has taken until it is answered."""

    __slots__ = (
        "_api",
        "_bound",
        "_decoding",
        "_frame_bytes",
        "_total",
        "blocks_connection",
        "memory",
        "memory_to_build",
        "pace",
    )

    def __init__(
        self,
        api: str,
        decoding: SlicedDecoding,
        frame_bytes: int,
        bound: DecodedBound,
        pace: Pace,
        total: RequestMemory,
    ) -> None:
        """Continue to decode within a bound; its memory is of `total`."""
        self._api = api
        self._decoding: SlicedDecoding | None = decoding
        self._frame_bytes = frame_bytes
        self._bound = bound
        self.pace = pace
        self._total = total
        self.memory = 0
        """Bytes of `RequestMemory` that it has."""
        self.memory_to_build = 0
        """Bytes of it that are to be taken again when its deferred response is built."""
        self.blocks_connection = False

    @property
    def max_weight(self) -> int:
        """Bytes of memory that its objects may take."""
        return self._bound.max_bytes

    @property
    def weight(self) -> int:
        """Bytes of memory of the objects made so far; 0 after `take_message`."""
        return 0 if self._decoding is None else self._decoding.weight

    async def take_memory(self, size: int) -> None:
        """Wait for so much of the memory of all large requests."""
        await self._total.take(size)
        self.memory += size

    def give_memory(self, size: int | None = None) -> None:
        """Release some of its memory, or all."""
        size = self.memory if size is None else size
        self.memory -= size
        self._total.give(size)

    def decode_slice(self) -> bool:
        """Decode until the time is over; return whether all is decoded. Raise CorruptFrame or RequestTooLarge."""
        decoding = self._decoding
        assert decoding is not None
        while not decoding.step():
            if decoding.weight > self._bound.max_bytes:
                raise RequestTooLarge(
                    f"a {self._api} of {self._frame_bytes} bytes takes more than "
                    f"{self._bound.max_bytes} bytes of memory when it is decoded: {self._bound.remedy}",
                    RefusalReason.DECODED_SIZE,
                )
            if self.pace.is_over(_STEPS_A_SLICE):
                return False
        return True

    def take_message(self) -> Any:
        """Return the message, once; it is not kept here."""
        decoding, self._decoding = self._decoding, None
        assert decoding is not None
        return decoding.message


def release_records(response: FetchResponse) -> None:
    """Release the ranges of files in a FetchResponse that is not sent."""
    for topic in response.responses:
        for partition in topic.partitions:
            records, partition.records = partition.records, b""
            if records is not None and not isinstance(records, bytes | bytearray | memoryview):
                records.release()


def encode_slice(steps: Encoding, pace: Pace, api: ApiKey, most: int) -> list[Sendable] | None:
    """Encode until the time is over; return the parts, None if there is more. Raise RequestTooLarge, or as `steps`."""
    try:
        while True:
            length = next(steps)
            if length > most:
                raise RequestTooLarge(
                    f"the response to a {api.name} is larger than {most} bytes: {RESPONSE_SETTING}",
                    RefusalReason.RESPONSE_SIZE,
                )
            if pace.is_over(_STEPS_A_SLICE):
                return None
    except StopIteration as stop:
        parts: list[Sendable] = stop.value
        return parts
