"""Moves of partitions to other brokers: a plan to look at, its start, and the moves in progress."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from kavka.client.admin.admin import Admin
from kavka.client.admin.placement_plans import RacksMissing, TooFewBrokers, proposed_assignment
from kavka.client.admin.reassignments import Reassignment
from kavka.client.admin.replication_throttles import (
    BROKER_RATES,
    clear_broker_throttles,
    clear_topic_throttles,
    moves_of,
    throttle_moves,
)
from kavka.client.admin.topics import TopicDescription
from kavka.client.metadata import BrokerAddress
from kavka.console.failures import Failure, Refused, bad_request, not_found
from kavka.console.pages.brokers import log_dirs_or_reasons, settings_or_error
from kavka.console.pages.topics import PAGE
from kavka.console.parameters import Arguments, Parameter
from kavka.console.sentences import NOTHING, Sentence, as_is, say
from kavka.console.subject import Action, Outcome, Page, Services
from kavka.console.views.moves import (
    MoveList,
    MovePlan,
    SeededRandom,
    broker_loads,
    changed_partitions,
    move_rows,
    plan_id,
    planned_moves,
    share_of,
    total_bytes,
)
from kavka.console.views.paging import paged
from kavka.console.views.topics import Sizes, replica_sizes
from kavka.errors import KafkaError
from kavka.ids import TopicPartition

_ROWS_OF_A_PAGE = 100
_MOST_LISTED_TOPICS = 2_000
"""Names that a form offers; others are typed."""
ALL = "*"


def names_of(text: str) -> list[str]:
    """Return the names of a list that commas or spaces separate."""
    return list(dict.fromkeys(word for word in re.split(r"[\s,]+", text) if word))


def chosen_topics(topics: Mapping[str, TopicDescription], text: str) -> dict[str, TopicDescription]:
    """Return the topics that a form names, `*` for all that are not internal. Raise Refused."""
    names = names_of(text)
    if ALL in names:
        return {name: topic for name, topic in topics.items() if not topic.is_internal}
    missing = [name for name in names if name not in topics]
    if missing:
        raise not_found(
            say("There is no topic {missing!r}.", missing=missing[0][:250]),
            say("Look at the list of topics."),
        )
    return {name: topics[name] for name in names}


def offered_topics(topics: Mapping[str, TopicDescription]) -> list[str]:
    """Return the names that forms offer."""
    return list(topics)[:_MOST_LISTED_TOPICS]


async def _sizes(services: Services, partitions: Iterable[TopicPartition]) -> Sizes:
    """Return the sizes of the replicas of partitions, those that brokers say."""
    wanted: dict[str, list[int]] = {}
    for key in partitions:
        wanted.setdefault(key.topic, []).append(key.partition)
    return replica_sizes(await log_dirs_or_reasons(services, {**wanted}) if wanted else {})


# The plan


@dataclass(frozen=True, slots=True)
class _Planned:
    """A plan's input, and its targets."""

    topics: Mapping[str, TopicDescription]
    brokers: list[BrokerAddress]
    chosen: list[int]
    current: dict[TopicPartition, tuple[int, ...]]
    proposed: dict[TopicPartition, list[int]]
    targets: dict[TopicPartition, list[int]]
    under_way: Mapping[TopicPartition, Reassignment]

    @property
    def moving(self) -> list[str]:
        """Partitions of the plan's topics that move already."""
        return [str(key) for key in sorted(self.under_way) if key in self.current]


async def _plan(services: Services, arguments: Arguments) -> _Planned:
    services.cluster.forget_topics()  # a plan is made of what is there now
    cluster, every, under_way = await asyncio.gather(
        services.cluster.ask(lambda admin: admin.describe_cluster()),
        services.cluster.topics(),
        services.cluster.ask(lambda admin: admin.list_partition_reassignments()),
    )
    topics = chosen_topics(every, arguments.text("topics"))
    brokers = _chosen_brokers(cluster.brokers, arguments.text("brokers"))
    current = {
        TopicPartition(name, part.partition): tuple(map(int, part.replicas))
        for name, topic in topics.items()
        for part in topic.partitions
    }
    try:
        proposed = proposed_assignment(
            current, brokers, arguments.flag("racks"), SeededRandom(arguments.number("variant"))
        )
    except (TooFewBrokers, RacksMissing) as error:
        advice = (
            say("Choose more brokers.")
            if isinstance(error, TooFewBrokers)
            else say("Untick the spread over racks.")
        )
        raise bad_request(as_is(str(error)), advice) from error
    return _Planned(
        topics=every,
        brokers=cluster.brokers,
        chosen=[int(broker.broker_id) for broker in brokers],
        current=current,
        proposed=proposed,
        targets=changed_partitions(current, proposed),
        under_way=under_way,
    )


def _chosen_brokers(known: list[BrokerAddress], text: str) -> list[BrokerAddress]:
    """Return the brokers that a form names, all without a name. Raise Refused."""
    names = names_of(text)
    if not names:
        return known
    by_id = {str(broker.broker_id): broker for broker in known}
    missing = [name for name in names if name not in by_id]
    if missing:
        raise bad_request(
            say("{missing!r} is no broker of the cluster.", missing=missing[0][:50]),
            say("Its brokers are {brokers}.", brokers=", ".join(sorted(by_id, key=int))),
        )
    return [by_id[name] for name in names]


async def _load_plan(services: Services, arguments: Arguments) -> MovePlan:
    if not names_of(arguments.text("topics")):
        cluster, topics = await asyncio.gather(
            services.cluster.ask(lambda admin: admin.describe_cluster()), services.cluster.topics()
        )
        brokers = sorted(int(broker.broker_id) for broker in cluster.brokers)
        return MovePlan(False, offered_topics(topics), brokers, 0, 0, [], None, None, [], "", [])
    plan = await _plan(services, arguments)
    sizes = await _sizes(services, plan.targets)
    moves = planned_moves(plan.current, plan.targets, plan.topics, sizes)
    rows, paging = paged(moves, arguments.number("page"), _ROWS_OF_A_PAGE)
    return MovePlan(
        is_planned=True,
        topics=offered_topics(plan.topics),
        brokers=sorted(int(broker.broker_id) for broker in plan.brokers),
        partitions=len(plan.current),
        moves=len(moves),
        rows=list(rows),
        paging=paging,
        copied_bytes=total_bytes(move.copied_bytes for move in moves),
        loads=broker_loads(plan.current, plan.proposed, plan.brokers, plan.chosen),
        plan_id=plan_id(plan.targets),
        moving=plan.moving,
    )


async def _start(services: Services, arguments: Arguments) -> Outcome:
    if not names_of(arguments.text("topics")):
        raise bad_request(say("topics is missing: the topics to move."))
    plan = await _plan(services, arguments)
    if not plan.targets:
        raise bad_request(say("The plan moves nothing."), say("Ask for another plan."))
    if plan.moving:
        raise Refused(
            _conflict(
                say("{moving} is moving already.", moving=plan.moving[0]),
                say("Wait, or cancel the move."),
            )
        )
    if arguments.text("plan") != plan_id(plan.targets):
        raise Refused(
            _conflict(
                say(
                    "The plan is not the one that was looked at: topics or brokers have changed since."
                ),
                say("Look at the plan again."),
            )
        )
    rate = arguments.integer("throttle")
    await services.cluster.ask(lambda admin: _begin(admin, plan, rate))
    services.cluster.forget_topics()
    count = len(plan.targets)
    throttled = (
        NOTHING if rate is None else say(", at {rate:,} bytes a second of each broker", rate=rate)
    )
    return Outcome(
        say(
            "{count} partition{s} began to move{throttled}.",
            count=count,
            s="" if count == 1 else "s",
            throttled=throttled,
        ),
        "/moves",
    )


def _conflict(detail: Sentence, advice: Sentence) -> Failure:
    return Failure(409, say("The cluster has changed"), detail, advice)


async def _begin(admin: Admin, plan: _Planned, rate: int | None) -> None:
    if rate is not None:
        await throttle_moves(admin, moves_of(plan.under_way, plan.targets, plan.current), rate)
    outcomes = await admin.alter_partition_reassignments(plan.targets)
    refused = {key: error for key, error in outcomes.items() if error is not None}
    if refused:
        key, error = next(iter(sorted(refused.items(), key=lambda item: item[0])))
        others = f"; {len(refused) - 1} more were refused" if len(refused) > 1 else ""
        raise KafkaError(error.code, f"{key}: {error.detail or error.code.message}{others}")


_PLAN = Page(
    path="/reassign",
    summary="A plan that moves topics to brokers, spread as those of new topics are. Nothing is moved by looking.",
    template="reassign.html",
    view=MovePlan,
    load=_load_plan,
    parameters=(
        Parameter("topics", "text", "The topics to move: names, or * for all but internal ones."),
        Parameter("brokers", "text", "The ids of the brokers to move to; empty: all."),
        Parameter(
            "racks", "flag", "Spread the replicas over racks, where brokers name any.", "true"
        ),
        Parameter(
            "variant",
            "integer",
            "The number of the plan: there are others that are as good.",
            "1",
            minimum=1,
            maximum=1_000_000,
        ),
        Parameter("plan", "text", "The digest of the plan that was looked at (`plan_id`)."),
        Parameter(
            "throttle",
            "integer",
            "Bytes a second that the moves may cause on each broker; empty: no limit.",
            minimum=1,
            maximum=2**62,
        ),
        PAGE,
    ),
)


# Moves in progress


async def _load_moves(services: Services, arguments: Arguments) -> MoveList:
    moves, topics, cluster = await asyncio.gather(
        services.cluster.ask(lambda admin: admin.list_partition_reassignments()),
        services.cluster.topics(),
        services.cluster.ask(lambda admin: admin.describe_cluster()),
    )
    sizes = await _sizes(services, moves)
    brokers = [int(broker.broker_id) for broker in cluster.brokers]
    throttled, note = await _throttled(services, brokers)
    rows = move_rows(moves, topics, sizes)
    shown, paging = paged(rows, arguments.number("page"), _ROWS_OF_A_PAGE)
    copied = total_bytes(row.copied_bytes for row in rows)
    total = total_bytes(row.total_bytes for row in rows)
    return MoveList(
        list(shown), paging, copied, total, share_of(copied, total), throttled, as_is(note)
    )


async def _throttled(services: Services, brokers: list[int]) -> tuple[list[int], str]:
    """Return the brokers with a throttle for moves, or why the console does not see it."""
    answers = await asyncio.gather(
        *(settings_or_error(services, broker, BROKER_RATES) for broker in brokers)
    )
    throttled, note = [], ""
    for broker, entries in zip(brokers, answers, strict=True):
        if isinstance(entries, Exception):
            note = note or f"broker {broker}: {entries}"
        elif any(entry.value and not entry.is_default for entry in entries):
            throttled.append(broker)
    return sorted(throttled), note


async def _change_moves(services: Services, arguments: Arguments) -> Outcome:
    if arguments.text("do") == "unthrottle":
        return await _unthrottle(services)
    topic, partition = arguments.text("topic"), arguments.integer("partition")
    moves = await services.cluster.ask(lambda admin: admin.list_partition_reassignments())
    chosen = [
        key
        for key, move in moves.items()
        if (move.adding or move.removing)
        and (not topic or key.topic == topic)
        and (partition is None or key.partition == partition)
    ]
    if not chosen:
        raise not_found(
            say("No such move is in progress."), say("It may be done: look at the topic.")
        )
    outcomes = await services.cluster.ask(
        lambda admin: admin.alter_partition_reassignments(dict.fromkeys(chosen))
    )
    refused = [error for error in outcomes.values() if error is not None]
    if refused:
        raise refused[0]
    services.cluster.forget_topics()
    named = str(chosen[0]) if len(chosen) == 1 else f"{len(chosen)} partitions"
    return Outcome(
        say("The move of {named} was cancelled: its brokers are those of before.", named=named),
        "/moves",
    )


async def _unthrottle(services: Services) -> Outcome:
    topics = await services.cluster.topics()

    async def clear(admin: Admin) -> None:
        brokers = (await admin.describe_cluster()).brokers
        await clear_broker_throttles(admin, (int(broker.broker_id) for broker in brokers))
        await clear_topic_throttles(admin, topics)

    await services.cluster.ask(clear)
    return Outcome(
        say("The throttles of moves were removed from all brokers and topics."), "/moves"
    )


_MOVES = Page(
    path="/moves",
    summary="The moves in progress, with how much of each was copied.",
    template="moves.html",
    view=MoveList,
    load=_load_moves,
    parameters=(
        Parameter("do", "choice", "For a change: what to do.", "cancel", ("cancel", "unthrottle")),
        Parameter("topic", "text", "For cancel: only moves of this topic; empty: all."),
        Parameter("partition", "integer", "For cancel: only this partition.", minimum=0),
        PAGE,
    ),
)

PAGES = (_PLAN, _MOVES)
ACTIONS = (
    Action(_PLAN, "Begin the moves of the plan whose digest is `plan`.", _start),
    Action(_MOVES, "Cancel moves in progress, or remove the throttles of moves.", _change_moves),
)
