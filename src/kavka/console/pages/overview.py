"""The overview."""

from __future__ import annotations

import asyncio

from kavka.client.admin.admin import Admin
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
        cluster.ask(_count_groups),
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
    )


async def _count_groups(admin: Admin) -> int | None:
    """Return the number of groups, None where not all coordinators say."""
    try:
        return len(await admin.list_groups(timeout_ms=2000))
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
