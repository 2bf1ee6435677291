"""Events and effects of the verification machine."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import NamedTuple, Protocol

from kavka.core.machine import Token
from kavka.errors import ErrorCode
from kavka.ids import BrokerId, TopicPartition
from kavka.values import frozen

VerificationCodes = Mapping[tuple[str, TopicPartition], ErrorCode]
"""Error codes of an AddPartitionsToTxn response, by transactional id and partition."""


@frozen
class VerificationSettings:
    """The settings of the broker that the decisions need."""

    retry_backoff_ms: int = 20
    """`add.partitions.to.txn.retry.backoff.ms`."""
    retry_backoff_max_ms: int = 100
    """`add.partitions.to.txn.retry.backoff.max.ms`."""


class KnownCoordinators(Protocol):
    """The coordinators of transactional ids, as this broker's metadata has them at the time."""

    def known_leader_of(self, transactional_id: str, /) -> BrokerId | ErrorCode:
        """Return the coordinator of an id, or why there is none."""
        ...


class VerificationRequest(NamedTuple):
    """A request whether a partition belongs to a producer's transaction, or to add it."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    topic_partition: TopicPartition
    adds: bool


class TransactionalProducer(NamedTuple):
    """The producer of a transaction."""

    transactional_id: str
    producer_id: int
    producer_epoch: int


# Events


class VerificationNeeded(NamedTuple):
    """A batch, or offsets, wait for a verification; those of one `key` share it and its response.

    The key of a batch is of its producer, epoch and partition.
    """

    token: Token
    key: Hashable
    request: VerificationRequest


class AddSubmitted(NamedTuple):
    """A batch waits for this broker's own coordinator, which was asked at once (`may_add_at_once`)."""

    token: Token
    key: Hashable
    request: VerificationRequest


class ResponseReceived(NamedTuple):
    """A coordinator has answered. `error` is that of the whole request."""

    number: int
    codes: VerificationCodes
    error: ErrorCode


class RequestFailed(NamedTuple):
    """A coordinator has not answered."""

    number: int


class CoordinatorTooOld(NamedTuple):
    """A coordinator does not know such requests; nothing was sent."""

    number: int


class VerifiedHere(NamedTuple):
    """This broker's own coordinator has answered `VerifyHere`."""

    number: int
    code: ErrorCode


class AddedHere(NamedTuple):
    """This broker's own coordinator has answered `AddHere`."""

    producer: TransactionalProducer
    code: ErrorCode


class MetadataChanged(NamedTuple):
    """Brokers or leaders have changed."""


class Stopped(NamedTuple):
    """The broker stops: nothing is asked any more."""


Event = (
    VerificationNeeded
    | AddSubmitted
    | ResponseReceived
    | RequestFailed
    | CoordinatorTooOld
    | VerifiedHere
    | AddedHere
    | MetadataChanged
    | Stopped
)


# Effects


class SendRequest(NamedTuple):
    """Send what `take_requests` gives in the next iteration of the loop to another broker, and report the result.

    So verifications that come in one iteration are in one request. When none is left it is answered, without codes.
    """

    number: int
    broker_id: BrokerId


class GiveUpRequest(NamedTuple):
    """Wait for a request no longer, and close its connection: the next one must not wait behind it."""

    number: int
    broker_id: BrokerId


class VerifyHere(NamedTuple):
    """Submit to this broker's own coordinator whether a partition takes part."""

    number: int
    request: VerificationRequest


class AddHere(NamedTuple):
    """Submit what `take_partitions` gives in the next iteration of the loop to this broker's own coordinator."""

    producer: TransactionalProducer


class VerificationEnded(NamedTuple):
    """Resume the requests that waited for a verification, in this order: accepted with NONE, else refused."""

    tokens: tuple[Token, ...]
    code: ErrorCode


Effect = SendRequest | GiveUpRequest | VerifyHere | AddHere | VerificationEnded
