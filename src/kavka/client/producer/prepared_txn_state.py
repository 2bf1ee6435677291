"""The name of one transaction that is prepared: all is written, and somebody is to decide (KIP-939). Pure."""

from __future__ import annotations

from typing import NamedTuple, Self

_MAX_PRODUCER_ID = 2**63 - 1
_MAX_EPOCH = 2**15 - 1


class PreparedTxnState(NamedTuple):
    """The producer of a prepared transaction, besides its transactional id, which the caller knows.

    `str` gives Kafka's text, `producer id:epoch`, for a database or a checkpoint; `parse` reads it.
    """

    producer_id: int
    epoch: int

    def __str__(self) -> str:
        """Return `producer id:epoch`."""
        return f"{self.producer_id}:{self.epoch}"

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read what `str` gave. Raise ValueError for anything else."""
        producer_id, colon, epoch = text.partition(":")
        if not (colon and producer_id.isdecimal() and epoch.isdecimal()):
            raise ValueError(f"{text!r} is not the state of a prepared transaction")
        state = cls(int(producer_id), int(epoch))
        if state.producer_id > _MAX_PRODUCER_ID or state.epoch > _MAX_EPOCH:
            raise ValueError(f"{text!r} is not the state of a prepared transaction")
        return state
