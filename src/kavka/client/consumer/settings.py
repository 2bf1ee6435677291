"""From a consumer's checked configuration to what its parts need."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from kavka.client.config import Config
from kavka.client.consumer.batches import Deserializers
from kavka.client.consumer.fetch.messages import FetchSettings
from kavka.client.consumer.group.assignors import ASSIGNORS, Assignor
from kavka.client.consumer.group.requests import GroupSettings
from kavka.client.consumer.subscription import ResetPolicy
from kavka.client.serialization import field_function
from kavka.core.group_member.steps import MemberSettings
from kavka.settings.declaration import InvalidSetting


def fetch_settings(config: Config) -> FetchSettings:
    """Return what the fetcher needs of a checked configuration."""
    resets = {"earliest": ResetPolicy.EARLIEST, "latest": ResetPolicy.LATEST, "none": None}
    return FetchSettings(
        min_bytes=config.integer("fetch.min.bytes"),
        max_bytes=config.integer("fetch.max.bytes"),
        max_wait_ms=config.integer("fetch.max.wait.ms"),
        max_partition_bytes=config.integer("max.partition.fetch.bytes"),
        read_committed=config.text("isolation.level") == "read_committed",
        check_crcs=config.flag("check.crcs"),
        reset=resets[config.text("auto.offset.reset")],
        rack=config.text("client.rack"),
        request_timeout_ms=config.integer("request.timeout.ms"),
        metadata_max_age_ms=config.integer("metadata.max.age.ms"),
        deserializers=Deserializers(
            field_function(config, "key.deserializer"), field_function(config, "value.deserializer")
        ),
    )


def commits_by_itself(config: Config, group_id: str | None) -> bool:
    """Return whether positions are committed in the background. Raise InvalidSetting for true without a group."""
    is_enabled = config.flag("enable.auto.commit")
    if is_enabled and group_id is None and "enable.auto.commit" in config.given:
        raise InvalidSetting("enable.auto.commit", True, "It needs a group.id")
    return is_enabled and group_id is not None


def group_settings(config: Config, group_id: str) -> GroupSettings:
    """Return what membership needs of a checked configuration. Raise InvalidSetting where two do not go together."""
    session_timeout_ms = config.integer("session.timeout.ms")
    heartbeat_interval_ms = config.integer("heartbeat.interval.ms")
    if heartbeat_interval_ms >= session_timeout_ms:
        reason = "It must be lower than session.timeout.ms"
        raise InvalidSetting("heartbeat.interval.ms", heartbeat_interval_ms, reason)
    assignors = _assignors(config.value("partition.assignment.strategy"))
    return GroupSettings(
        member=MemberSettings(
            group_id=group_id,
            instance_id=config.optional_text("group.instance.id") or None,
            session_timeout_ms=session_timeout_ms,
            heartbeat_interval_ms=heartbeat_interval_ms,
            max_poll_interval_ms=config.integer("max.poll.interval.ms"),
            is_cooperative=all(assignor.is_cooperative for assignor in assignors),
        ),
        assignors=assignors,
        rack=config.text("client.rack") or None,
        exclude_internal=config.flag("exclude.internal.topics"),
    )


_JAVA_NAMES = {
    "RangeAssignor": "range",
    "RoundRobinAssignor": "roundrobin",
    "StickyAssignor": "sticky",
    "CooperativeStickyAssignor": "cooperative-sticky",
}


def _assignors(given: Any) -> list[Assignor]:
    """Return assignors by name (Kafka's or Java's class), or objects of the user's own."""
    if given is None:
        given = ["range", "cooperative-sticky"]
    chosen: list[Assignor] = []
    name = "partition.assignment.strategy"
    if not isinstance(given, Iterable):
        raise InvalidSetting(name, given, "Give a list of names and objects")
    for item in given.split(",") if isinstance(given, str) else given:
        if not isinstance(item, str):
            if isinstance(item, type) or not hasattr(item, "is_cooperative"):
                raise InvalidSetting(
                    name,
                    item,
                    "Give names, or objects with name, is_cooperative, user_data and assign",
                )
            chosen.append(item)
            continue
        simple = item.strip().rpartition(".")[2]
        assignor = ASSIGNORS.get(_JAVA_NAMES.get(simple, simple))
        if assignor is None:
            reason = f"Known assignors are {', '.join(ASSIGNORS)}"
            raise InvalidSetting(name, item, reason)
        chosen.append(assignor)
    if not chosen:
        raise InvalidSetting(name, given, "Give at least one assignor")
    return chosen
