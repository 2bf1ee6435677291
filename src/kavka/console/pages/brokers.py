"""Brokers, one broker with its log directories and settings."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence

from kavka.client.admin.configs import ConfigEntry, ConfigResource, ResourceType
from kavka.client.admin.nodes import LogDir
from kavka.console.failures import bad_request, not_found
from kavka.console.parameters import Arguments, Parameter
from kavka.console.sentences import as_is, say
from kavka.console.subject import Page, Services
from kavka.console.views.brokers import (
    BrokerList,
    BrokerView,
    LogDirs,
    broker_rows,
    log_dir_views,
)
from kavka.console.views.settings import setting_views
from kavka.errors import KafkaError
from kavka.ids import BrokerId


async def log_dirs_or_reasons(
    services: Services, topic_partitions: dict[str, Sequence[int]] | None = None
) -> LogDirs:
    """Return the log directories of all brokers, nothing where the console may not see them.

    A broker that does not answer in its part of the time has its error in place of them; nothing is returned where the
    one that was asked for the brokers' addresses does not.
    """
    part_ms = services.cluster.options.part_ms
    try:
        found: Mapping[BrokerId, Mapping[str, LogDir] | Exception] = await services.cluster.ask(
            lambda admin: admin.describe_log_dirs(
                topic_partitions=topic_partitions, timeout_ms=part_ms
            )
        )
    except (KafkaError, OSError):
        return {}
    return found


async def _load_all(services: Services, arguments: Arguments) -> BrokerList:
    description, topics, log_dirs = await asyncio.gather(
        services.cluster.ask(lambda admin: admin.describe_cluster()),
        services.cluster.topics(),
        log_dirs_or_reasons(services),
    )
    return BrokerList(
        description.cluster_id or "", broker_rows(description, topics.values(), log_dirs)
    )


async def _load_one(services: Services, arguments: Arguments) -> BrokerView:
    text = arguments.path["broker"]
    if not text.isdecimal() or len(text) > 10:
        raise bad_request(say("{text!r} is no id of a broker.", text=text[:100]))
    search, changed = arguments.text("search"), arguments.flag("changed")
    brokers = await _load_all(services, arguments)
    row = next((row for row in brokers.rows if row.broker_id == int(text)), None)
    if row is None:
        raise not_found(
            say("The cluster has no broker {text}.", text=text), say("Look at the list.")
        )
    if not row.is_live:
        return BrokerView(row, [], [], say("The broker is not in the cluster."), search, changed)
    part_ms = services.cluster.options.part_ms
    answers, settings = await asyncio.gather(
        services.cluster.ask(
            lambda admin: admin.describe_log_dirs([int(text)], timeout_ms=part_ms)
        ),
        settings_or_error(services, text),
    )
    entries, note = ([], str(settings)) if isinstance(settings, Exception) else (settings, "")
    answer = answers[BrokerId(int(text))]
    return BrokerView(
        broker=row,
        log_dirs=[] if isinstance(answer, Exception) else log_dir_views(answer),
        settings=setting_views(entries, search, changed=changed),
        settings_note=as_is(note),
        search=search,
        changed=changed,
    )


async def settings_or_error(
    services: Services, broker: int | str, names: Sequence[str] | None = None
) -> list[ConfigEntry] | Exception:
    """Return settings of a broker, all by default; those of no broker ("") hold for all.

    One that fails, or does not answer in its part of the time, has its error in place of them.
    """
    resource = ConfigResource(ResourceType.BROKER, str(broker))
    part_ms = services.cluster.options.part_ms
    try:
        found = await services.cluster.ask(
            lambda admin: admin.describe_configs(
                {resource: names},
                include_synonyms=True,
                include_documentation=names is None,
                timeout_ms=part_ms,
            )
        )
    except OSError as error:
        return error
    return found[resource]


SEARCH = Parameter("search", "text", "Words that a name has, in any case.")
CHANGED = Parameter("changed", "flag", "Only settings that are not the default.", "false")

PAGES = (
    Page(
        path="/brokers",
        summary="The brokers with what they lead and hold, and their disks.",
        template="brokers.html",
        view=BrokerList,
        load=_load_all,
    ),
    Page(
        path="/brokers/{broker}",
        summary="One broker with its log directories and settings.",
        template="broker.html",
        view=BrokerView,
        load=_load_one,
        parameters=(SEARCH, CHANGED),
        path_parameters={"broker": "The id of the broker."},
    ),
)
ACTIONS = ()
