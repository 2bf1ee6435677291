"""InitProducerId: an id and an epoch for a producer (KIP-98, KIP-360, KIP-939)."""

from __future__ import annotations

import logging
from functools import partial
from typing import TYPE_CHECKING

from kavka.broker.control.finalized_features import Features
from kavka.broker.control.producer_ids import NoProducerId
from kavka.broker.coordination.shard_reply import DelayedReply, respond_when_done
from kavka.broker.lazy import Lazy
from kavka.broker.requests.context import RequestContext
from kavka.broker.requests.deferred import SecondStage
from kavka.core.transaction.events import InitProducer, InitProducerReply
from kavka.errors import ErrorCode
from kavka.registry.interface import RegistryRefused
from kavka.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse

if TYPE_CHECKING:
    from kavka.broker.control.producer_ids import ProducerIdManager
    from kavka.broker.coordination.transaction_coordinators import TransactionCoordinators


log = logging.getLogger(__name__)

_FIRST_WITH_PRODUCER_FENCED = 4


def handle(
    features: Features,
    producer_ids: Lazy[ProducerIdManager],
    transactions: Lazy[TransactionCoordinators],
    context: RequestContext,
    request: InitProducerIdRequest,
) -> InitProducerIdResponse | DelayedReply | SecondStage:
    """Allocate a new producer id with epoch 0, with any earlier id; with a transactional id its shard decides.

    INVALID_REQUEST for an empty transactional id, and for an id without epoch or the other way round.
    UNSUPPORTED_VERSION to keep a prepared transaction without transaction.version 2: its end gives a new epoch.
    """
    if (request.producer_id < 0) != (request.producer_epoch < 0) or request.transactional_id == "":
        return _refused(ErrorCode.INVALID_REQUEST)
    if request.keep_prepared_txn and features.transaction_version < 2:
        return _refused(ErrorCode.UNSUPPORTED_VERSION)
    if request.transactional_id is not None:
        return _transactional(transactions, context, request, request.transactional_id)
    producer_id = producer_ids.get().take()
    if producer_id is None:
        return SecondStage(_allocate(producer_ids.get()))
    return InitProducerIdResponse(producer_id=producer_id, producer_epoch=0)


async def _allocate(producer_ids: ProducerIdManager) -> InitProducerIdResponse:
    try:
        producer_id = await producer_ids.next()
    except (ConnectionError, RegistryRefused):
        # What Kafka 3.9 answers while it has no block of ids.
        return _refused(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    except NoProducerId as error:
        log.error("no producer id reason=%s", error)
        return _refused(ErrorCode.UNKNOWN_SERVER_ERROR)
    except Exception:
        # A bug: its producer learns that it has no id, and may ask again.
        log.exception("no producer id")
        return _refused(ErrorCode.UNKNOWN_SERVER_ERROR)
    return InitProducerIdResponse(producer_id=producer_id, producer_epoch=0)


def _transactional(
    transactions: Lazy[TransactionCoordinators],
    context: RequestContext,
    request: InitProducerIdRequest,
    transactional_id: str,
) -> InitProducerIdResponse | DelayedReply:
    reply = transactions.get().ask(
        transactional_id,
        lambda token: InitProducer(
            token,
            transactional_id,
            request.transaction_timeout_ms,
            request.producer_id,
            request.producer_epoch,
            request.enable_2pc,
            request.keep_prepared_txn,
        ),
    )
    result: InitProducerIdResponse | DelayedReply = respond_when_done(
        reply, partial(_response, context.version)
    )
    return result


def _response(version: int, reply: InitProducerReply | ErrorCode) -> InitProducerIdResponse:
    if isinstance(reply, ErrorCode):
        return _refused(reply)
    if reply.error_code is ErrorCode.NONE:
        return InitProducerIdResponse(
            producer_id=reply.producer_id,
            producer_epoch=reply.producer_epoch,
            ongoing_txn_producer_id=reply.ongoing_txn_producer_id,
            ongoing_txn_producer_epoch=reply.ongoing_txn_producer_epoch,
        )
    is_old = version < _FIRST_WITH_PRODUCER_FENCED
    if reply.error_code is ErrorCode.PRODUCER_FENCED and is_old:
        return _refused(ErrorCode.INVALID_PRODUCER_EPOCH)
    return _refused(reply.error_code)


def _refused(code: ErrorCode) -> InitProducerIdResponse:
    return InitProducerIdResponse(error_code=code, producer_id=-1, producer_epoch=-1)
