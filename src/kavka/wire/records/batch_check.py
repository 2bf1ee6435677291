"""The check of a produced batch in steps, so that what is big is done outside of the loop's thread.

    number_produced ----- small ------------------------------------------> numbered, or refused
            '---- its next step is larger than the request's allowance ---> BatchCheck
                                                     finish(), in the pool ----'----> result

Steps are a checksum over a large batch, a piece of a compressed body, and a recompression. What a step takes is
counted in bytes, weighted by what the codec costs.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Final, NamedTuple

from kavka.errors import ErrorCode
from kavka.values import frozen
from kavka.wire.records.header import BatchHeader

_UNLIMITED: Final = 1 << 62


class RecordError(NamedTuple):
    """The fault of the record at `batch_index`."""

    batch_index: int
    message: str


@frozen
class Refusal:
    """The refusal of produced bytes, as Produce 8 and later answer it."""

    code: ErrorCode
    message: str
    record_errors: tuple[RecordError, ...] = ()


class Checked(NamedTuple):
    """A batch without fault, ready to be numbered: the client's own bytes, or recompressed ones."""

    buffer: bytearray | memoryview
    header: BatchHeader


Steps = Generator[int, None, Checked | Refusal]
"""A check; it yields what the next step takes, and counts what was taken in the allowance."""


class Allowance:
    """Bytes of a request that may be checked before other requests run, and that it may decompress to in all."""

    __slots__ = ("bytes_left", "decompressed_bytes_left", "ratio")

    def __init__(
        self,
        bytes_left: int = _UNLIMITED,
        decompressed_bytes_left: int = _UNLIMITED,
        ratio: int = 0,
    ) -> None:
        """Begin with both; without them nothing is bounded."""
        self.bytes_left = bytes_left
        """Checked inline, weighted. Below zero when the last step took more than there was."""
        self.decompressed_bytes_left = decompressed_bytes_left
        self.ratio = ratio
        """Factor of its size that each compressed batch may decompress to in addition."""


class BatchCheck:
    """A check that may have stopped in front of a step. `advance` and `finish` must not run at the same time."""

    __slots__ = ("_allowance", "_cost", "_steps", "buffer", "result")

    def __init__(self, buffer: bytearray | memoryview, steps: Steps, allowance: Allowance) -> None:
        """Check nothing yet; `buffer` is what the client sent."""
        self.buffer = buffer
        self.result: Checked | Refusal | None = None
        """The result, after all steps are done."""
        self._steps = steps
        self._allowance = allowance
        self._cost = 0

    def __len__(self) -> int:
        """Return how many bytes the client sent."""
        return len(self.buffer)

    def advance(self) -> bool:
        """Continue as far as the allowance permits; return whether the check is done."""
        while self.result is None and self._cost <= self._allowance.bytes_left:
            self._step()
        return self.result is not None

    def finish(self) -> Checked | Refusal:
        """Continue to the end: nearly all of it are calls that release the interpreter."""
        while self.result is None:
            self._step()
        return self.result

    def _step(self) -> None:
        try:
            self._cost = next(self._steps)
        except StopIteration as stop:
            self.result = stop.value
