"""A client that may not do what it asks for: the error names the resource, or the setting."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kavka.client import Consumer, Producer
from kavka.client.admin.acls import (
    AclBinding,
    AclEntry,
    AclOperation,
    AclPermission,
    AclResourceType,
    ResourcePattern,
)
from kavka.client.admin.admin import Admin
from kavka.client.admin.topics import NewTopic
from kavka.client.connections import BootstrapError
from kavka.errors import ErrorCode, KafkaError
from support.access import AUTHORIZER
from support.sasl import Server, run_beside


def test_an_error_names_what_bob_may_not_use(tmp_path: Path) -> None:
    async def story(server: Server) -> None:
        bob: dict[str, Any] = server.config("bob", "b,o=b")
        async with Admin(server.config("alice", "alice secret")) as admin:
            await admin.create_topics([NewTopic("orders", 1, 1)])
            described = AclEntry("User:bob", "*", AclOperation.DESCRIBE, AclPermission.ALLOW)
            orders = ResourcePattern(AclResourceType.TOPIC, "orders")
            await admin.create_acls([AclBinding(orders, described)])
            with pytest.raises(KafkaError, match="Write on a topic") as refused:
                async with Producer(bob) as producer:
                    await producer.send("orders", b"v")
            assert refused.value.code is ErrorCode.CLUSTER_AUTHORIZATION_FAILED
            with pytest.raises(KafkaError, match="group billing: Group auth"):
                await consume(bob)
            with pytest.raises(KafkaError, match="topic invoices: Topic auth") as refused:
                async with Producer(bob) as producer:
                    await producer.send("invoices", b"v")
            assert refused.value.code is ErrorCode.TOPIC_AUTHORIZATION_FAILED
            group = ResourcePattern(AclResourceType.GROUP, "billing")
            await admin.create_acls([AclBinding(group, described)])  # found, and not joined
            with pytest.raises(KafkaError, match="group billing: Group auth"):
                await consume(bob)
            x = {**bob, "transactional.id": "x"}
            with pytest.raises(KafkaError, match="transactional id x: "):
                async with Producer(x) as producer:
                    await producer.init_transactions()

    settings = {"authorizer.class.name": AUTHORIZER, "super.users": "User:alice"}
    run_beside(tmp_path, story, **settings)


async def consume(config: dict[str, Any]) -> None:
    async with Consumer({**config, "group.id": "billing"}) as consumer:
        consumer.subscribe(["orders"])
        await anext(consumer)


def test_a_client_without_a_login_hears_of_sasl(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def story(server: Server) -> None:
        at = {
            "bootstrap.servers": f"127.0.0.1:{server.port}",
            "default.api.timeout.ms": 1,
            "request.timeout.ms": 1000,
        }
        with pytest.raises(BootstrapError, match=r"is security\.protocol SASL_SSL"):
            async with Admin(at):
                pass
        assert "request before authentication: the client needs" in caplog.text

    run_beside(tmp_path, story)
