"""Limits of connections, of all and of one address, and of the memory that their requests may take."""

from __future__ import annotations

import pytest

from kavka.broker.configs.broker_config import BrokerConfig
from kavka.broker.configs.effective_configs import EffectiveConfigs
from kavka.broker.lifecycle import periodic_tasks
from kavka.broker.requests.connection_limits import ConnectionLimits, budget_limits
from kavka.net.memory import memory_bytes
from kavka.net.transport import host_of
from kavka.settings.declaration import InvalidSetting
from kavka.wire.messages.api_versions import ApiVersionsRequest
from support.one_broker import Run, Served

_MIB = 1 << 20


def limits(**settings: str) -> ConnectionLimits:
    texts = {name.replace("_", "."): value for name, value in settings.items()}
    return ConnectionLimits(EffectiveConfigs(BrokerConfig(texts)))


def test_connections_of_one_address_are_bounded_and_those_that_close_give_room() -> None:
    counted = limits(max_connections_per_ip="2")
    for _ in range(2):
        assert counted.enter("10.0.0.1") is None
    assert counted.enter("10.0.0.1") == "max.connections.per.ip"
    assert counted.enter("10.0.0.2") is None
    counted.leave("10.0.0.1")
    assert counted.enter("10.0.0.1") is None


def test_some_addresses_have_a_number_of_their_own() -> None:
    overrides = "10.0.0.1:1, ::1:3,10.0.0.9:0"
    counted = limits(max_connections_per_ip="2", max_connections_per_ip_overrides=overrides)
    named = "max.connections.per.ip.overrides"
    assert [counted.enter("10.0.0.1") for _ in range(2)] == [None, named]
    assert [counted.enter("::1") for _ in range(4)] == [None, None, None, named]
    assert counted.enter("10.0.0.9") == named
    assert [counted.enter("10.0.0.2") for _ in range(3)] == [None, None, "max.connections.per.ip"]


def test_an_ipv4_client_of_an_ipv6_listener_is_the_same_address() -> None:
    assert host_of(("::ffff:10.0.0.1", 9092, 0, 0)) == host_of(("10.0.0.1", 9092)) == "10.0.0.1"
    assert host_of(("::1", 9092, 0, 0)) == "::1"
    assert host_of(None) == ""


@pytest.mark.parametrize("text", ["10.0.0.1", "10.0.0.1:", "10.0.0.1:-1", "host:5", "a:b:c"])
def test_overrides_that_are_not_addresses_with_numbers_are_refused(text: str) -> None:
    with pytest.raises(InvalidSetting, match=r"max\.connections\.per\.ip\.overrides"):
        BrokerConfig({"max.connections.per.ip.overrides": text})


def test_a_connection_too_many_from_one_address_is_closed(run: Run) -> None:
    async def alone(served: Served) -> None:
        first = await served.another()
        with pytest.raises(ConnectionError):
            await served.another()
        assert (await first.send(ApiVersionsRequest(), 0)).error_code == 0

    run(alone, **{"max.connections.per.ip": "2"})


def budget(memory: int, **settings: str) -> tuple[int, int]:
    texts = {name.replace("_", "."): value for name, value in settings.items()}
    found = budget_limits(BrokerConfig(texts), memory)
    return found.limit_bytes, found.max_bytes


def test_a_connection_on_which_nothing_moves_is_closed(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def story(served: Served) -> None:
        silent = (await served.another()).peer
        while not silent.is_closed:
            await served.send(ApiVersionsRequest(), 0)  # this one is not silent

    monkeypatch.setattr(periodic_tasks, "_IDLE_CHECK_MS", 10)
    run(story, connections__max__idle__ms="300")


def test_requests_may_take_a_share_of_the_memory() -> None:
    for memory, share in ((64 << 30, 1 << 30), (16 << 30, 1 << 30), (8 << 30, 512 * _MIB)):
        limit, most = budget(memory)
        assert most + limit // 8 <= share
        assert limit > share * 6 // 10
    assert budget(1 << 30)[0] == 32 * _MIB


def test_the_setting_and_kafkas_bound_both_hold() -> None:
    assert budget(1 << 40, kavka_queued_max_request_bytes=str(100 * _MIB))[0] == 50 * _MIB
    assert budget(1 << 40, queued_max_request_bytes=str(200 * _MIB))[0] == 200 * _MIB
    assert budget(1 << 40, queued_max_request_bytes="-1") == budget(1 << 40)
    assert budget(1 << 40, queued_max_request_bytes="0") == budget(1 << 40)


def test_kafkas_bound_must_hold_one_request() -> None:
    with pytest.raises(InvalidSetting, match=r"socket\.request\.max\.bytes"):
        BrokerConfig({"queued.max.request.bytes": "1000"})


def test_the_memory_of_the_machine_is_read() -> None:
    assert memory_bytes() > 64 * _MIB
