"""A change that a broker without a session missed, for longer than notifications stand, holds when it is back."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kavka.wire.messages.create_acls import CreateAclsRequest
from kavka.wire.stored import acl_znodes
from support.access import SETTINGS, acl, creation
from support.config_requests import BROKER, DELETE, SET, TOPIC, altered
from support.quotas import alter

Run = Callable[..., None]
ROOTS = ("/config/changes", *acl_znodes.CHANGES.values())


async def forget_notifications(cluster: Any) -> int:
    """Remove all notifications, as brokers do after a quarter of an hour; return how many there were."""
    session = cluster.sessions[1]
    paths = [f"{root}/{name}" for root in ROOTS for name in await session.children(root)]
    for path in paths:
        await session.delete(path)
    return len(paths)


def test_changes_that_no_notification_tells_of_any_more_are_read(run: Run) -> None:
    async def story(cluster: Any) -> None:
        for name in ("t", "u", "v"):
            await cluster.create(name, [1, 2])
        one, missed = await cluster.peer(1), cluster.brokers[2]
        await altered(one, (TOPIC, "u", [("retention.ms", SET, "5000")]))
        await altered(one, (BROKER, "", [("log.cleaner.threads", SET, "2")]))
        await cluster.until(
            lambda: missed.context.effective_configs.topic("u")["retention.ms"] == 5000
        )
        await cluster.until(
            lambda: missed.context.effective_configs.broker_values()["log.cleaner.threads"] == 2
        )
        session = cluster.sessions[2]
        session.cut()
        await altered(
            one,
            (TOPIC, "t", [("retention.ms", SET, "7000"), ("min.insync.replicas", SET, "2")]),
            (TOPIC, "u", [("retention.ms", DELETE, None)]),
            (BROKER, "", [("log.cleaner.threads", DELETE, None), ("max.connections", SET, "77")]),
        )
        await alter(one, {"user": "alice"}, {"producer_byte_rate": 1024.0})
        await one.send(CreateAclsRequest(creations=[creation(acl("User:alice Read Topic:t"))]))
        assert await forget_notifications(cluster) > 4
        assert missed.context.effective_configs.topic("t")["retention.ms"] != 7000
        cluster.znode_server.expire(session)
        session.heal()
        topic = missed.context.effective_configs.topic
        await cluster.until(lambda: topic("t")["retention.ms"] == 7000, "a new override")
        await cluster.until(lambda: topic("u")["retention.ms"] != 5000, "a removed override")
        (partition,) = [
            r.partition for r in missed.replica_manager if r.topic_partition.topic == "t"
        ]
        assert partition.min_insync_replicas == 2  # it is in force, and not only known
        values = missed.context.effective_configs.broker_values
        await cluster.until(lambda: values()["max.connections"] == 77, "of all brokers")
        assert values()["log.cleaner.threads"] == 1
        await cluster.until(lambda: missed.quotas.client_quotas is not None, "a quota")
        rules = missed.security.access_control.acls.rules
        await cluster.until(lambda: rules.count == 1, "an ACL")
        assert missed.context.effective_configs.topic_overrides("v") == {}

    run(story, brokers=2, **SETTINGS)
