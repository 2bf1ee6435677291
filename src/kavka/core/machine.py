"""The contract of a machine: *handle decides, apply changes the state*.

A machine has hard state, which is in its log, and soft state (sessions, timers, waiting requests), which is not.
The runtime that drives it works like this:

    decision = machine.handle(event, now_ms)          or machine.tick(now_ms)
    append decision.records, all or none, in order    (nothing to append: at once committed; with must_confirm only
                                                       where no other broker can lead the log, see below)
    committed:  machine.apply(record) for each, in log order; then let decision.effects leave
    refused:    machine.failed(decision, error, now_ms) in place of both; let its effects leave
    always:     ask machine.deadline_ms() again; applying, too, can make something due

The state of a machine is out of date when its broker is deposed and not yet notified. Its records are refused then,
because another broker leads the log; a reply without records would be sent. One that matters is marked
`must_confirm`: the runtime appends an empty record, and the reply is sent when that is committed (decision 013).

Decisions may overlap: a second may be made while the records of the first are on their way. They are applied, and
their effects leave, in the order in which they were made; only one that waits for its confirmation delays no other. So
hard state is always a prefix of the log, and replaying the log of any run into a fresh machine, with `apply` alone,
reproduces it.

A reply belongs to a token that the runtime gave with an event. The first reply of a token counts: one that was
decided with records and overtaken by a later event (a rebalance begins while an assignment is being written) is
dropped by the runtime when its token is answered already.
"""

from __future__ import annotations

from typing import Generic, Protocol, TypeVar

from kavka.errors import ErrorCode
from kavka.values import frozen

Event = TypeVar("Event", contravariant=True)
Record = TypeVar("Record")
Effect = TypeVar("Effect")
Reply = TypeVar("Reply", covariant=True)

Token = int
"""Names a request that waits for its reply; given by the shell, unique in its life."""


@frozen
class SendReply(Generic[Reply]):
    """The effect that answers the request of `token`."""

    token: Token
    reply: Reply


@frozen
class Decision(Generic[Record, Effect]):
    """The result of an event: `records` to append, all or none, and `effects` to perform in order once committed."""

    records: tuple[Record, ...] = ()
    effects: tuple[Effect, ...] = ()
    must_confirm: bool = False
    """The effects rest on no record, and must not leave from a machine of the past."""

    def __bool__(self) -> bool:
        """Return whether anything is to be done at all."""
        return bool(self.records or self.effects)


class Machine(Protocol[Event, Record, Effect]):
    """A state machine over a log. Its methods never wait, and only `apply` changes hard state."""

    def handle(self, event: Event, now_ms: int) -> Decision[Record, Effect]:
        """Return the decision on an event. It may read everything and change soft state."""
        ...

    def apply(self, record: Record) -> None:
        """Remember one committed record; called in log order, while living and while loading."""
        ...

    def failed(
        self, decision: Decision[Record, Effect], error: ErrorCode, now_ms: int
    ) -> Decision[Record, Effect]:
        """Take back the soft state of a decision whose records were refused by the log, and decide on the replies."""
        ...

    def tick(self, now_ms: int) -> Decision[Record, Effect]:
        """Decide one thing that is due; to be called again while `deadline_ms()` is not after `now_ms`.

        One thing each, so that the failed append of one group cannot take another's answers with it.
        """
        ...

    def deadline_ms(self) -> int | None:
        """Return when `tick` next has something to do; None is never."""
        ...
