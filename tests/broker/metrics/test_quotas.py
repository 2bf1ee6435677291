"""Rates and throttle times of clients with quotas, under the names of Apache Kafka."""

from __future__ import annotations

from typing import Any

from kavka.wire.messages.create_topics import CreateTopicsRequest
from support.one_broker import Served
from support.quotas import alter, stop_time
from support.waiting import until

ON = {"kavka__metrics__port": "0", "max.connection.creation.rate": "1000"}


def test_clients_with_quotas_have_rates_and_throttle_times(run: Any, page: Any) -> None:
    async def story(served: Served) -> None:
        await served.topic("t")
        before = await page(served.broker)
        assert not any(name.startswith("kafka_server_produce_") for name in before)
        rates = {"producer_byte_rate": 10, "consumer_byte_rate": 1000, "request_percentage": 99}
        await alter(served, {"client-id": None}, {**rates, "controller_mutation_rate": 1})
        await until(lambda: served.broker.quotas.client_quotas is not None)
        other = await served.another()
        await other.create("u", 20)
        await (await served.another()).produce("t", b"x" * 5000)
        found = await page(served.broker)
        of = '{user="",client_id="other"}'
        assert 400 < found[f"kafka_server_produce_byte_rate{of}"] < 1000
        assert found[f"kafka_server_produce_throttle_time{of}"] > 100_000
        assert found[f"kafka_server_request_request_time{of}"] > 0
        times = "kafka_network_requestmetrics_throttletimems"
        assert found[f'{times}_sum{{request="Produce"}}'] > 100_000
        assert found[f'{times}_count{{request="Produce"}}'] == 1
        assert found[f'{times}_sum{{request="Metadata"}}'] == 0
        assert found[f"kafka_server_request_throttle_time{of}"] == 0
        assert found[f"kafka_server_controllermutation_mutation_rate{of}"] >= 1
        assert -20 < found[f"kafka_server_controllermutation_tokens{of}"] < 0
        by = '{listener="PLAINTEXT"}'
        sockets = "kafka_server_socket_server_metrics_"
        assert found[f"{sockets}connection_accept_rate{by}"] > 0
        assert found[f"{sockets}connection_accept_throttle_time{by}"] == 0

    run(story, **ON)


def test_the_throttle_time_of_changes_is_shown(run: Any, page: Any) -> None:
    async def story(served: Served) -> None:
        stop_time(served)
        await alter(served, {"client-id": "other"}, {"controller_mutation_rate": 1})
        await until(lambda: served.broker.quotas.client_quotas is not None)
        other = await served.another()
        topics = [served.new_topic("a", 20), served.new_topic("b", 1)]
        await other.send(CreateTopicsRequest(topics=topics, timeout_ms=30_000))
        found = await page(served.broker)
        throttled = found[
            'kafka_server_controllermutation_throttle_time{user="",client_id="other"}'
        ]
        assert throttled == 9000

    run(story, **ON)
