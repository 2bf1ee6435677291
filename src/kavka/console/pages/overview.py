"""The overview."""

from __future__ import annotations

import asyncio

from kavka.console.pages.brokers import log_dirs_or_reasons
from kavka.console.parameters import Arguments
from kavka.console.subject import Page, Services
from kavka.console.views.brokers import broker_rows
from kavka.console.views.overview import BusyTopic, Overview, overview
from kavka.errors import KafkaError

_BUSIEST = 5


async def _load(services: Services, arguments: Arguments) -> Overview:
    cluster = services.cluster
    description, topics, log_dirs, groups = await asyncio.gather(
        cluster.ask(lambda admin: admin.describe_cluster()),
        cluster.topics(),
        log_dirs_or_reasons(services),
        _count_groups(services),
    )
    history = services.sampler.history
    rates = {name: history.latest(name) or 0.0 for name in topics}
    busiest = sorted((name for name in rates if rates[name] > 0), key=lambda name: -rates[name])
    return overview(
        description,
        list(topics.values()),
        broker_rows(description, topics.values(), log_dirs),
        groups,
        history.rates(),
        [BusyTopic(name, rates[name]) for name in busiest[:_BUSIEST]],
        services.history.fault,
    )


async def _count_groups(services: Services) -> int | None:
    """Return the number of groups, None where not all coordinators say."""
    part_ms = services.cluster.options.part_ms
    try:
        return len(await services.cluster.ask(lambda admin: admin.list_groups(timeout_ms=part_ms)))
    except (KafkaError, OSError):
        return None


OVERVIEW = Page(
    path="/",
    summary="The state of the cluster: findings, brokers, partitions, disks and rates.",
    template="overview.html",
    view=Overview,
    load=_load,
    live_s=5,
)
PAGES = (OVERVIEW,)
ACTIONS = ()
