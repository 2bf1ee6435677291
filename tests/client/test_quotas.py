"""The admin client's calls about quotas, and what `kavka configs` prints of them, against a real broker."""

import asyncio

import pytest

from kavka.cli.admin.quota_configs import alter_quotas, describe_quotas
from kavka.cli.arguments.options import BadValue
from kavka.client import Admin
from kavka.client.admin import DEFAULT_ENTITY, ClientQuotaEntity, QuotaComponent
from kavka.errors import ErrorCode, KafkaError

ALICE = ClientQuotaEntity("alice")
EACH_CLIENT = ClientQuotaEntity("alice", DEFAULT_ENTITY)


def with_admin(broker, settings, work):
    async def main():
        async with Admin(settings, network=broker) as admin:
            return await asyncio.wait_for(work(admin), 60)

    return asyncio.run(main())


def test_quotas_are_altered_and_described(broker, settings):
    async def work(admin):
        changes = {
            ALICE: {"producer_byte_rate": 1024, "request_percentage": 12.5},
            EACH_CLIENT: {"consumer_byte_rate": 10},
            ClientQuotaEntity(ip="10.0.0.7"): {"producer_byte_rate": 1},
        }
        outcomes = await admin.alter_client_quotas(changes)
        assert [error and error.code for error in outcomes.values()] == [
            None,
            None,
            ErrorCode.INVALID_REQUEST,
        ]
        found = await admin.describe_client_quotas()
        assert found == {
            ALICE: {"producer_byte_rate": 1024.0, "request_percentage": 12.5},
            EACH_CLIENT: {"consumer_byte_rate": 10.0},
        }
        users = [QuotaComponent("user", "alice")]
        assert list(await admin.describe_client_quotas(users, strict=True)) == [ALICE]
        clients = [*users, QuotaComponent("client-id", DEFAULT_ENTITY)]
        assert list(await admin.describe_client_quotas(clients)) == [EACH_CLIENT]
        await admin.alter_client_quotas({ALICE: {"producer_byte_rate": None}}, validate_only=True)
        await admin.alter_client_quotas({EACH_CLIENT: {"consumer_byte_rate": None}})
        assert list(await admin.describe_client_quotas([QuotaComponent("user")])) == [ALICE]
        with pytest.raises(KafkaError, match="IP filter component should not be used"):
            await admin.describe_client_quotas([*users, QuotaComponent("ip")])

    with_admin(broker, settings, work)


def test_quotas_are_printed_as_kafka_prints_them(broker, settings, capsys):
    async def work(admin):
        both = [("users", "alice"), ("clients", "")]
        await alter_quotas(admin, both, {"producer_byte_rate": "2048"}, [])
        await alter_quotas(admin, [("users", "")], {"request_percentage": "200"}, [])
        await alter_quotas(admin, [("ips", "10.0.0.7")], {"connection_creation_rate": "5"}, [])
        for entities in (both, [("users", None)], [("ips", None)], [("clients", None)]):
            await describe_quotas(admin, entities, as_json=False)
        await alter_quotas(admin, both, {}, ["producer_byte_rate"])
        await describe_quotas(admin, both, as_json=False)

    with_admin(broker, settings, work)
    assert capsys.readouterr().out.splitlines() == [
        "Quota configs for user-principal 'alice', the default client-id are producer_byte_rate=2048.0",
        "Quota configs for the default user-principal are request_percentage=200.0",
        "Quota configs for ip '10.0.0.7' are connection_creation_rate=5.0",
    ]


@pytest.mark.parametrize(
    ("entities", "added", "removed", "message"),
    [
        ([("clients", "c")], {"bytes": "1"}, [], "Only quota configs can be added for 'clients'"),
        ([("clients", "c")], {}, ["bytes"], "Only quota configs can be deleted for 'clients'"),
        ([("ips", "::1")], {"request_percentage": "1"}, [], "Only connection quota configs"),
        ([("clients", "c")], {"producer_byte_rate": "many"}, [], "Cannot parse quota"),
        ([("clients", "c")], {}, ["producer_byte_rate"], "Invalid config"),
        ([("users", "u"), ("clients", None)], {"producer_byte_rate": "1"}, [], "Exactly one"),
    ],
)
def test_an_impossible_change_is_refused_before_it_is_sent(
    broker, settings, entities, added, removed, message
):
    with pytest.raises(BadValue, match=message):
        with_admin(broker, settings, lambda admin: alter_quotas(admin, entities, added, removed))
