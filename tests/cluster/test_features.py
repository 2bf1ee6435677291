"""Finalised features over three brokers (KIP-584): raised and lowered by the controller, seen by all brokers, kept."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from kavka.broker.broker import Broker
from kavka.cli.commands.features import described
from kavka.client import Admin, Producer
from kavka.client.admin import FeatureUpdate, UpgradeType
from kavka.core.features import TRANSACTION_VERSION
from kavka.errors import ErrorCode
from kavka.registry.local_session import LocalSession
from kavka.wire.apis import ApiKey
from kavka.wire.messages.api_versions import ApiVersionsRequest
from kavka.wire.messages.update_features import (
    UpdateFeaturesRequest,
    UpdateFeaturesRequestFeature,
)
from kavka.wire.stored import znodes

Run = Callable[..., None]
Cluster = Any
UP = {TRANSACTION_VERSION: FeatureUpdate(2)}
DOWN = {TRANSACTION_VERSION: FeatureUpdate(0, UpgradeType.SAFE_DOWNGRADE)}


def levels(cluster: Cluster) -> list[int]:
    return [broker.features.transaction_version for broker in cluster.brokers.values()]


def at(cluster: Cluster) -> dict[str, Any]:
    return {"bootstrap.servers": f"127.0.0.1:{cluster.ports[1]}"}


def test_a_cluster_with_a_shared_registry_begins_without_features_until_they_are_upgraded(
    run: Run,
) -> None:
    async def story(cluster: Cluster) -> None:
        assert levels(cluster) == [0, 0, 0]
        async with Admin(at(cluster)) as admin:
            assert await admin.update_features(UP, validate_only=True) == {
                TRANSACTION_VERSION: None
            }
            assert levels(cluster) == [0, 0, 0]
            assert await admin.update_features(UP) == {TRANSACTION_VERSION: None}
            await cluster.until(lambda: levels(cluster) == [2, 2, 2], "all brokers know")
            found = await admin.describe_features()
            assert (found.supported, found.finalized) == (
                {TRANSACTION_VERSION: (0, 2)},
                {TRANSACTION_VERSION: 2},
            )
            assert described(found) == [
                "Feature: transaction.version\tSupportedMinVersion: 0\tSupportedMaxVersion: 2"
                "\tFinalizedVersionLevel: 2\tEpoch: 1"
            ]
            ruler = cluster.controller
            await cluster.stop(ruler)
            await cluster.start(ruler)
            assert levels(cluster) == [2, 2, 2]
            lowered = {TRANSACTION_VERSION: FeatureUpdate(0)}
            refused = (await admin.update_features(lowered))[TRANSACTION_VERSION]
            assert refused is not None
            assert refused.code is ErrorCode.INVALID_REQUEST
            assert await admin.update_features(DOWN) == {TRANSACTION_VERSION: None}
            await cluster.until(lambda: levels(cluster) == [0, 0, 0], "all brokers know")

    run(story)


def test_a_broker_that_lacks_a_feature_keeps_it_from_being_finalised(run: Run) -> None:
    async def story(cluster: Cluster) -> None:
        foreign = znodes.BrokerNode(
            ["PLAINTEXT://127.0.0.1:1"], {"PLAINTEXT": "PLAINTEXT"}, None, 0, "127.0.0.1", 1
        )
        session = LocalSession(cluster.znode_server, 60_000)
        await session.create(f"{znodes.BROKER_IDS}/9", foreign.encode(), ephemeral=True)
        async with Admin(at(cluster)) as admin:
            refused = (await admin.update_features(UP))[TRANSACTION_VERSION]
            assert refused is not None
            assert refused.detail is not None
            assert refused.detail.endswith("incompatible versions for the feature: 9.")
            await session.delete(f"{znodes.BROKER_IDS}/9")
            assert await admin.update_features(UP) == {TRANSACTION_VERSION: None}

    run(story)


@pytest.mark.parametrize(
    ("version", "of", "may_lower"),
    [
        (0, {"allow_downgrade": True}, True),
        (0, {"allow_downgrade": False}, False),
        (1, {"upgrade_type": 0}, False),
        (1, {"upgrade_type": 1}, False),
        (1, {"upgrade_type": 2}, True),
        (1, {"upgrade_type": 3}, True),
        (1, {"upgrade_type": 4}, False),
    ],
)
def test_a_level_falls_only_by_leave(
    version: int, of: dict[str, Any], may_lower: bool, run: Run
) -> None:
    async def story(cluster: Cluster) -> None:
        row = UpdateFeaturesRequestFeature(feature=TRANSACTION_VERSION, max_version_level=0, **of)
        response = await cluster.send(1, UpdateFeaturesRequest(feature_updates=[row]), version)
        code = ErrorCode.NONE if may_lower else ErrorCode.INVALID_REQUEST
        assert (response.error_code, response.results[0].error_code) == (ErrorCode.NONE, code)
        assert levels(cluster) == [0 if may_lower else 2]

    run(story, brokers=1, kavka__transaction__version="2")


def test_a_broker_ends_when_the_cluster_has_finalised_what_it_lacks(run: Run) -> None:
    async def story(cluster: Cluster) -> None:
        broker: Broker = cluster.brokers[1]
        data = znodes.encode_features({TRANSACTION_VERSION: 9})
        await broker.registry.set(znodes.FEATURE, data)
        await cluster.until(broker.failed.done, "the broker gives up")
        assert broker.failed.result() == (
            "the cluster has finalised features that this release lacks: transaction.version=9"
        )

    run(story)


@pytest.mark.parametrize(("version", "supported"), [(3, []), (4, [(TRANSACTION_VERSION, 0, 2)])])
def test_clients_get_only_features_that_they_can_read(
    version: int, supported: list[Any], run: Run
) -> None:
    async def story(cluster: Cluster) -> None:
        request = ApiVersionsRequest(client_software_name="a", client_software_version="1")
        response = await cluster.send(1, request, version)
        shown = [(f.name, f.min_version, f.max_version) for f in response.supported_features]
        assert shown == supported
        (level,) = response.finalized_features
        assert (level.name, level.min_version_level, level.max_version_level) == (
            TRANSACTION_VERSION, 2, 2,
        )  # fmt: skip
        assert response.finalized_features_epoch == 0

    run(story, brokers=1, kavka__transaction__version="2")


def test_producers_go_over_to_the_version_that_the_cluster_has_when_they_connect(run: Run) -> None:
    async def story(cluster: Cluster) -> None:
        await cluster.create("t", [1, 2, 3])
        settings = at(cluster) | {"transactional.id": "x"}

        async def epochs() -> list[int]:
            """Return the epochs of two transactions in a row."""
            seen = []
            async with Producer(settings) as producer, Admin(at(cluster)) as admin:
                await producer.init_transactions()
                for _ in range(2):
                    async with producer.transaction():
                        producer.append("t", b"v")
                    found: Any = (await admin.describe_transactions(["x"]))["x"]
                    seen.append(found.producer_epoch)
            return seen

        assert await epochs() == [0, 0]
        async with Admin(at(cluster)) as admin:
            await admin.update_features(UP)
            await cluster.until(lambda: levels(cluster) == [2, 2, 2], "all brokers know")
        assert await epochs() == [2, 3]
        async with Admin(at(cluster)) as admin:
            await admin.update_features(DOWN)
            await cluster.until(lambda: levels(cluster) == [0, 0, 0], "all brokers know")
        assert await epochs() == [4, 4]
        assert ApiKey.UPDATE_FEATURES in {a.api_key for a in (await _versions(cluster)).api_keys}

    run(story, transaction__state__log__num__partitions="1")


async def _versions(cluster: Cluster) -> Any:
    request = ApiVersionsRequest(client_software_name="a", client_software_version="1")
    return await cluster.send(1, request, 4)


def test_a_lone_broker_begins_with_version_2(tmp_path: Any) -> None:
    from kavka.broker.environment import OsEnvironment

    async def main() -> int:
        settings = {"listeners": "PLAINTEXT://127.0.0.1:0", "log.dirs": str(tmp_path)}
        broker = Broker(settings, OsEnvironment())
        await broker.start()
        level = broker.features.transaction_version
        await broker.stop()
        return level

    assert asyncio.run(main()) == 2
    assert asyncio.run(main()) == 2
