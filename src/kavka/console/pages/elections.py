"""Elections of leaders, and more partitions for a topic: each with what would change before it is changed."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from kavka.client.admin.elections import ElectionType
from kavka.client.admin.topics import NewPartitions
from kavka.console.failures import bad_request
from kavka.console.pages.reassignments import ALL, chosen_topics, names_of, offered_topics
from kavka.console.pages.topics import PAGE, TOPIC_PATH, describe
from kavka.console.parameters import Arguments, Parameter
from kavka.console.sentences import NOTHING, say
from kavka.console.subject import Action, Outcome, Page, Services
from kavka.console.views.moves import ElectionPlan, ElectionRow, election_rows
from kavka.console.views.paging import paged
from kavka.errors import ErrorCode
from kavka.ids import TopicPartition

_ROWS_OF_A_PAGE = 100
_MOST_PARTITIONS = 100_000


# Elections


async def _rows(services: Services, arguments: Arguments) -> tuple[list[ElectionRow], list[str]]:
    services.cluster.forget_topics()  # leaders as they are now
    cluster, topics = await asyncio.gather(
        services.cluster.ask(lambda admin: admin.describe_cluster()), services.cluster.topics()
    )
    text = arguments.text("topics")
    every = ALL in names_of(text) or not names_of(text)
    chosen = topics if every else chosen_topics(topics, text)
    live = {broker.broker_id for broker in cluster.brokers}
    rows = election_rows(chosen.values(), arguments.text("kind"), live)
    return rows, offered_topics(topics)


async def _load_election(services: Services, arguments: Arguments) -> ElectionPlan:
    rows, topics = await _rows(services, arguments)
    shown, paging = paged(rows, arguments.number("page"), _ROWS_OF_A_PAGE)
    possible = sum(row.is_possible for row in rows)
    return ElectionPlan(arguments.text("kind"), list(shown), paging, possible, topics)


async def _elect(services: Services, arguments: Arguments) -> Outcome:
    kind = arguments.text("kind")
    if kind == "unclean":
        refusal = say(
            "No leader was elected: an unclean election loses records, and was not confirmed."
        )
        arguments.confirm(kind, refusal, say("hold it"))
    rows, _ = await _rows(services, arguments)
    wanted = [TopicPartition(row.topic, row.partition) for row in rows if row.is_possible]
    if not wanted:
        raise bad_request(say("There is no partition to elect a leader for."), say("Look again."))
    outcomes = await services.cluster.ask(
        lambda admin: admin.elect_leaders(ElectionType[kind.upper()], wanted)
    )
    services.cluster.forget_topics()
    failed = {
        key: error
        for key, error in outcomes.items()
        if error is not None and error.code is not ErrorCode.ELECTION_NOT_NEEDED
    }
    if len(failed) == len(wanted):
        raise next(iter(failed.values()))
    count = len(wanted) - len(failed)
    rest = NOTHING
    if failed:
        first = next(iter(failed.values()))
        rest = say(
            "; {failed} could not be held, the first: {first}", failed=len(failed), first=first
        )
    return Outcome(
        say(
            "{count} partition{s_have} leader, by {kind} election{rest}.",
            count=count,
            s_have=" has its" if count == 1 else "s have their",
            kind=kind,
            rest=rest,
        ),
        f"/elect?kind={kind}",
    )


_ELECTION = Page(
    path="/elect",
    summary="Partitions that are not led by their preferred replica, or by none, and what an election would change.",
    template="elect.html",
    view=ElectionPlan,
    load=_load_election,
    parameters=(
        Parameter("topics", "text", "Only these topics; empty: all."),
        Parameter(
            "kind",
            "choice",
            "preferred: the first replica, if it is in sync; unclean: any live one, where there is no leader.",
            "preferred",
            ("preferred", "unclean"),
        ),
        Parameter("confirm", "text", "For unclean: the word unclean, typed."),
        PAGE,
    ),
)


# More partitions


@dataclass(frozen=True, slots=True)
class PartitionsForm:
    """The form for more partitions."""

    topic: str
    partitions: int
    replication_factor: int
    wanted: int


async def _load_partitions(services: Services, arguments: Arguments) -> PartitionsForm:
    topic = await describe(services, arguments.path["topic"])
    count = len(topic.partitions)
    factor = max((len(part.replicas) for part in topic.partitions), default=0)
    return PartitionsForm(topic.name, count, factor, arguments.integer("total") or count + 1)


async def _add_partitions(services: Services, arguments: Arguments) -> Outcome:
    topic, total = arguments.path["topic"], arguments.integer("total")
    if total is None:
        raise bad_request(say("total is missing: the number of partitions to have."))
    check = arguments.flag("check")
    await services.change(
        topic,
        lambda admin: admin.create_partitions({topic: NewPartitions(total)}, validate_only=check),
    )
    services.cluster.forget_topics()
    if check:
        return Outcome(
            say("Topic {topic} could have {total} partitions.", topic=topic, total=total),
            f"/topics/{topic}/partitions?total={total}",
        )
    return Outcome(
        say("Topic {topic} has {total} partitions now.", topic=topic, total=total),
        f"/topics/{topic}",
    )


_PARTITIONS = Page(
    path="/topics/{topic}/partitions",
    summary="The form for more partitions of a topic.",
    template="topic_partitions.html",
    view=PartitionsForm,
    load=_load_partitions,
    parameters=(
        Parameter(
            "total",
            "integer",
            "The number of partitions to have, more than now.",
            minimum=1,
            maximum=_MOST_PARTITIONS,
        ),
        Parameter("check", "flag", "Only check whether it could be done.", "false"),
    ),
    path_parameters=TOPIC_PATH,
)

PAGES = (_ELECTION, _PARTITIONS)
ACTIONS = (
    Action(_ELECTION, "Elect leaders of the partitions that the page lists.", _elect),
    Action(
        _PARTITIONS,
        "Add partitions to a topic; keys may go to others from then on.",
        _add_partitions,
    ),
)
