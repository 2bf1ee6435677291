"""Topics: the list, and one topic with its partitions."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from kavka.client.admin.records import OffsetSpec
from kavka.client.admin.topics import TopicDescription
from kavka.client.metadata import PartitionMetadata
from kavka.console.leaders import offsets_by_leader
from kavka.console.pages.brokers import SEARCH, log_dirs_or_reasons
from kavka.console.parameters import Arguments, Parameter
from kavka.console.subject import Page, Services
from kavka.console.views.brokers import Unanswered, unanswered_sizes
from kavka.console.views.paging import paged
from kavka.console.views.topics import (
    PartitionView,
    TopicList,
    TopicView,
    matching_topics,
    partition_view,
    replica_sizes,
    sorted_topics,
    topic_row,
    topic_size,
    topic_view,
)
from kavka.errors import KafkaError

_TOPICS_OF_A_PAGE = 50
_PARTITIONS_OF_A_PAGE = 100
_INT_MAX = 2**31 - 1

PAGE = Parameter(
    "page", "integer", "The page of the list, from 1.", "1", minimum=1, maximum=_INT_MAX
)
TOPIC_PATH = {"topic": "The name of the topic."}


async def describe(services: Services, name: str) -> TopicDescription:
    """Return a topic as it is now. Raise KafkaError UNKNOWN_TOPIC_OR_PARTITION."""
    found = (await services.cluster.ask(lambda admin: admin.describe_topics([name])))[name]
    if isinstance(found, KafkaError):
        raise found
    return found


# The list


async def _load_list(services: Services, arguments: Arguments) -> TopicList:
    topics = await services.cluster.topics()
    search, sort = arguments.text("search"), arguments.text("sort")
    internal = arguments.flag("internal")
    history = services.sampler.history
    latest = {name: history.latest(name) or 0.0 for name in topics} if sort == "rate" else {}
    chosen = sorted_topics(
        matching_topics(topics.values(), search, internal=internal), sort, latest
    )
    shown, paging = paged(chosen, arguments.number("page"), _TOPICS_OF_A_PAGE)
    wanted = {topic.name: [part.partition for part in topic.partitions] for topic in shown}
    log_dirs = await log_dirs_or_reasons(services, {**wanted}) if wanted else {}
    sizes = replica_sizes(log_dirs)
    return TopicList(
        rows=[topic_row(topic, sizes, history.rates(topic.name)) for topic in shown],
        paging=paging,
        total=sum(internal or not topic.is_internal for topic in topics.values()),
        search=search,
        sort=sort,
        internal=internal,
        unanswered=unanswered_sizes(log_dirs),
    )


_LIST = Page(
    path="/topics",
    summary="The topics with their partitions, sizes, rates and state.",
    template="topics.html",
    view=TopicList,
    load=_load_list,
    parameters=(
        SEARCH,
        Parameter(
            "sort",
            "choice",
            "The order: by name, or the largest first.",
            "name",
            ("name", "partitions", "rate", "state"),
        ),
        Parameter("internal", "flag", "Internal topics, too.", "false"),
        PAGE,
    ),
)


# One topic


async def load_topic(services: Services, arguments: Arguments) -> TopicView:
    """Return a topic with a page of its partitions. Raise KafkaError."""
    topic = await describe(services, arguments.path["topic"])
    only = arguments.flag("problems")
    parts = [p for p in topic.partitions if not only or len(p.in_sync_replicas) < len(p.replicas)]
    shown, paging = paged(parts, arguments.number("page"), _PARTITIONS_OF_A_PAGE)
    partitions, size, silent = await _partitions(services, topic, shown)
    rates = services.sampler.history.rates(topic.name)
    return topic_view(topic, partitions, paging, size, rates, silent)


async def _partitions(
    services: Services, topic: TopicDescription, shown: Sequence[PartitionMetadata]
) -> tuple[list[PartitionView], int | None, list[Unanswered]]:
    """Return the partitions of a page, the bytes of all, and the brokers that did not say what they hold."""
    cluster, log_dirs, starts, ends = await asyncio.gather(
        services.cluster.ask(lambda admin: admin.describe_cluster()),
        log_dirs_or_reasons(services, {topic.name: [p.partition for p in topic.partitions]}),
        offsets_by_leader(services.cluster, {topic.name: shown}, OffsetSpec.EARLIEST),
        offsets_by_leader(services.cluster, {topic.name: shown}, OffsetSpec.LATEST),
    )
    live = {broker.broker_id for broker in cluster.brokers}
    sizes = replica_sizes(log_dirs)
    views = [partition_view(topic.name, part, live, sizes, starts, ends) for part in shown]
    return views, topic_size(topic, sizes), unanswered_sizes(log_dirs)


PROBLEMS = Parameter("problems", "flag", "Only partitions that lack replicas.", "false")

PAGES = (
    _LIST,
    Page(
        path="/topics/{topic}",
        summary="One topic with leaders, replicas, in-sync sets, sizes and offsets of its partitions.",
        template="topic.html",
        view=TopicView,
        load=load_topic,
        parameters=(PROBLEMS, PAGE),
        path_parameters=TOPIC_PATH,
    ),
)
ACTIONS = ()
