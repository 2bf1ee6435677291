"""Transactions: the list, one, those that hang, and ending them."""

from __future__ import annotations

import time
from urllib.parse import urlencode

from kavka.client.admin.admin import Admin
from kavka.client.admin.hanging_transactions import find_hanging
from kavka.client.admin.transactions import (
    HangingTransaction,
    ProducerState,
    TransactionDescription,
)
from kavka.console.failures import bad_request, not_found
from kavka.console.pages.brokers import SEARCH
from kavka.console.pages.topics import PAGE
from kavka.console.parameters import Arguments, Parameter
from kavka.console.sentences import say
from kavka.console.subject import Action, Outcome, Page, Services
from kavka.console.views.brokers import unanswered
from kavka.console.views.paging import paged
from kavka.console.views.transactions import (
    AbortView,
    HangingList,
    TransactionList,
    TransactionView,
    hanging_row,
    sorted_listings,
    transaction_row,
    transaction_view,
)
from kavka.errors import ErrorCode, KafkaError
from kavka.ids import BrokerId, TopicPartition

_ROWS_OF_A_PAGE = 50


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


ID = Parameter("id", "text", say("The transactional id."), required=True)


# The list


async def _load_list(services: Services, arguments: Arguments) -> TransactionList:
    search, state = arguments.text("search"), arguments.text("state")
    failures: dict[BrokerId, Exception] = {}
    part_ms = services.cluster.options.part_ms
    found = await services.cluster.ask(
        lambda admin: admin.list_transactions(timeout_ms=part_ms, failures=failures)
    )
    chosen, states, count = sorted_listings(found, search, state)
    shown, paging = paged(chosen, arguments.number("page"), _ROWS_OF_A_PAGE)
    names = [one.transactional_id for _, one in shown]
    described = await services.cluster.ask(
        lambda admin: admin.describe_transactions(names, timeout_ms=part_ms)
    )
    now_ms = _now_ms()
    return TransactionList(
        rows=[transaction_row(each, described[each[1].transactional_id], now_ms) for each in shown],
        paging=paging,
        total=sum(map(len, found.values())),
        open=count,
        search=search,
        state=state,
        states=states,
        unanswered=unanswered(
            failures, say("the transactional ids that it coordinates are missing")
        ),
    )


# One, and its end


async def _describe(services: Services, name: str) -> TransactionDescription:
    found = (await services.cluster.ask(lambda admin: admin.describe_transactions([name])))[name]
    if isinstance(found, KafkaError) and found.code is ErrorCode.TRANSACTIONAL_ID_NOT_FOUND:
        raise not_found(
            say("There is no transactional id {name!r}.", name=name), say("Look at the list.")
        )
    if isinstance(found, Exception):
        raise found
    return found


async def _load_one(services: Services, arguments: Arguments) -> TransactionView:
    name = arguments.text("id")
    return transaction_view(name, await _describe(services, name), _now_ms())


async def _end(services: Services, arguments: Arguments) -> Outcome:
    name = arguments.text("id")
    refusal = say("The transaction was not ended: the confirmation is not the transactional id.")
    arguments.confirm(name, refusal, say("end it"))
    await _describe(services, name)  # fencing an id that does not exist would make it
    await services.change(name, lambda admin: admin.fence_producers([name]))
    return Outcome(
        say("The producer of {name} was fenced, and its open transaction is aborted.", name=name),
        "/transaction?" + urlencode({"id": name}),
    )


# Hanging transactions


async def _load_hanging(services: Services, arguments: Arguments) -> HangingList:
    topic, minutes = arguments.text("topic").strip(), arguments.number("minutes")
    partition = arguments.integer("partition")
    if partition is not None and not topic:
        raise bad_request(say("topic is missing: partition needs it."))
    rows = []
    if arguments.flag("find"):
        now_ms = _now_ms()
        before_ms = now_ms - minutes * 60_000
        found = await services.cluster.ask(
            lambda admin: find_hanging(admin, topic or None, partition, None, before_ms)
        )
        rows = [hanging_row(each, now_ms) for each in found]
    return HangingList(arguments.flag("find"), topic, minutes, rows)


async def _open_at(
    services: Services, arguments: Arguments
) -> tuple[TopicPartition, ProducerState]:
    """Return the open transaction of the arguments. Raise Refused where there is none."""
    partition, offset = arguments.integer("partition"), arguments.integer("start_offset")
    if partition is None or offset is None:
        raise bad_request(say("partition or start_offset is missing."))
    key = TopicPartition(arguments.text("topic"), partition)
    found = (await services.cluster.ask(lambda admin: admin.describe_producers([key])))[key]
    if isinstance(found, KafkaError):
        raise found
    for producer in found:
        if producer.current_transaction_start_offset == offset:
            return key, producer
    raise not_found(
        say(
            "No transaction that begins at offset {offset} is open in {key}.",
            offset=offset,
            key=key,
        ),
        say("It may have ended: search again."),
    )


async def _load_abort(services: Services, arguments: Arguments) -> AbortView:
    key, producer = await _open_at(services, arguments)
    return AbortView(
        topic=key.topic,
        partition=key.partition,
        start_offset=producer.current_transaction_start_offset or 0,
        producer_id=producer.producer_id,
        producer_epoch=producer.producer_epoch,
        coordinator_epoch=producer.coordinator_epoch,
        last_timestamp_ms=producer.last_timestamp_ms,
        confirmation=str(key),
    )


async def _abort(services: Services, arguments: Arguments) -> Outcome:
    key, producer = await _open_at(services, arguments)
    refusal = say("The transaction was not aborted: the confirmation is not the partition.")
    arguments.confirm(str(key), refusal, say("abort it there"))
    hanging = HangingTransaction(
        key, producer.producer_id, producer.producer_epoch, producer.coordinator_epoch or 0
    )

    async def abort(admin: Admin) -> None:
        await admin.abort_transaction(hanging)

    await services.cluster.ask(abort)
    return Outcome(
        say(
            "The transaction of producer {producer_id} was aborted in {key}.",
            producer_id=producer.producer_id,
            key=key,
        ),
        "/transactions/hanging?" + urlencode({"topic": key.topic, "find": "true"}),
    )


_ONE = Page(
    path="/transaction",
    summary="One transactional id with the partitions of its open transaction, and the form to end that.",
    template="transaction.html",
    view=TransactionView,
    load=_load_one,
    parameters=(ID, Parameter("confirm", "text", "For a change: the transactional id, typed.")),
)
_ABORT = Page(
    path="/transactions/abort",
    summary="An open transaction in one partition, and what its abort does.",
    template="transaction_abort.html",
    view=AbortView,
    load=_load_abort,
    parameters=(
        Parameter("topic", "text", say("The topic."), required=True),
        Parameter("partition", "integer", say("The partition."), required=True, minimum=0),
        Parameter(
            "start_offset",
            "integer",
            say("The first offset of the transaction."),
            required=True,
            minimum=0,
        ),
        Parameter("confirm", "text", "For a change: the partition as topic-number, typed."),
    ),
)

PAGES = (
    Page(
        path="/transactions",
        summary="The transactional ids with their state, those with an open transaction first.",
        template="transactions.html",
        view=TransactionList,
        load=_load_list,
        parameters=(SEARCH, Parameter("state", "text", "Only ids in this state."), PAGE),
    ),
    Page(
        path="/transactions/hanging",
        summary="Transactions that partitions hold open and no coordinator will end.",
        template="transactions_hanging.html",
        view=HangingList,
        load=_load_hanging,
        parameters=(
            Parameter("topic", "text", "Only this topic; empty: all."),
            Parameter("partition", "integer", "Only this partition of the topic.", minimum=0),
            Parameter(
                "minutes",
                "integer",
                "Minutes without a write after which an open transaction is checked: the longest timeout.",
                "15",
                minimum=0,
                maximum=100_000,
            ),
            Parameter("find", "flag", "Search; without it the page is a form alone.", "false"),
        ),
    ),
    _ONE,
    _ABORT,
)
ACTIONS = (
    Action(
        _ONE, "Fence the producer of a transactional id, which aborts its open transaction.", _end
    ),
    Action(_ABORT, "Abort a hanging transaction in one partition.", _abort),
)
