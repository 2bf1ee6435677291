"""Every page of the console: an address of each, and a cluster that has something to show on it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlencode

from kavka.client import blocking
from kavka.client.admin import NewTopic
from kavka.spark.queries.flow_progress import FlowProgress
from kavka.spark.queries.topic import PROGRESS_TOPIC
from support.console import Cluster

RULES = """\
channels:
  - channel: hook
    webhook: http://127.0.0.1:9/hook
rules:
  - {alert: Offline, watch: offline}
"""
SCHEMA = '{"type": "record", "name": "R", "fields": [{"name": "n", "type": "long"}]}'
ACL: dict[str, Any] = {
    "resource_type": "Topic",
    "name": "orders",
    "principal": "User:alice",
    "operation": "Read",
}
USER: dict[str, Any] = {"user": "carol", "mechanism": "SCRAM-SHA-256"}
OPEN: dict[str, Any] = {"topic": "hung", "partition": 0, "start_offset": 0}
ADDRESSES = {
    "/": "/",
    "/api": "/api",
    "/openapi.json": "/openapi.json",
    "/brokers": "/brokers",
    "/brokers/{broker}": "/brokers/1",
    "/brokers/{broker}/settings": "/brokers/1/settings?name=log.retention.ms&value=60000",
    "/topics": "/topics?internal=true",
    "/topics/{topic}": "/topics/orders",
    "/topics/{topic}/messages": "/topics/orders/messages?path=n>3",
    "/topics/{topic}/records/{partition}/{offset}": "/topics/orders/records/0/0",
    "/topics/{topic}/records/{partition}/{offset}/value": "/topics/orders/records/0/0/value",
    "/topics/{topic}/records/{partition}/{offset}/copy": "/topics/orders/records/0/0/copy",
    "/topics/{topic}/settings": "/topics/orders/settings?name=retention.ms",
    "/topics/{topic}/delete": "/topics/orders/delete",
    "/topics/{topic}/export": "/topics/orders/export?format=csv&start=oldest",
    "/topics/{topic}/partitions": "/topics/orders/partitions",
    "/topics/{topic}/produce": "/topics/orders/produce?from=0:0",
    "/create-topic": "/create-topic",
    "/groups": "/groups",
    "/group": "/group?id=billing",
    "/group/reset": "/group/reset?id=billing&scenario=earliest",
    "/group/delete": "/group/delete?id=billing",
    "/history": "/history?kind=group&name=billing",
    "/alerts": "/alerts",
    "/alerts/rules": "/alerts/rules",
    "/alerts/rule": "/alerts/rule",
    "/alerts/rule/delete": "/alerts/rule/delete?rule=Offline",
    "/alerts/history": "/alerts/history",
    "/alerts/silence": "/alerts/silence",
    "/alerts/end-silence": "/alerts/end-silence?id=none",
    "/alerts/test": "/alerts/test?channel=hook",
    "/reassign": "/reassign?topics=moved&brokers=1",
    "/moves": "/moves",
    "/elect": "/elect",
    "/transactions": "/transactions",
    "/transactions/hanging": "/transactions/hanging?find=true&minutes=0",
    "/transaction": "/transaction?id=pay",
    "/transactions/abort": f"/transactions/abort?{urlencode(OPEN)}",
    "/acls": "/acls",
    "/acls/new": "/acls/new",
    "/acls/remove": f"/acls/remove?{urlencode(ACL)}",
    "/users": "/users",
    "/users/password": "/users/password?user=carol",
    "/users/remove": f"/users/remove?{urlencode(USER)}",
    "/quotas": "/quotas",
    "/quotas/change": "/quotas/change?user=carol",
    "/schemas": "/schemas",
    "/schema": "/schema?name=orders-value",
    "/schema/new": "/schema/new?name=orders-value",
    "/pipelines": "/pipelines",
    "/sql": "/sql?statement=select+count(*)+n+from+orders&seconds=60",
    "/audit": "/audit",
}
"""An address of each page, by its path in `NEEDS`."""
NO_PAGE = {"/openapi.json", "/topics/{topic}/export"}
FOLLOWED = {"/topics/{topic}/tail"}
"""It does not end; test_messages.py and test_browser.py follow it."""


def fill(cluster: Cluster, act: Callable[..., object]) -> None:
    """Fill a cluster of two brokers or more; `act` makes a change of the console's API."""
    with blocking.Admin(cluster.settings) as admin:
        topics = [("orders", 3, 2), ("hung", 1, 1), ("moved", 2, 1), ("copies", 1, 1)]
        found = admin.create_topics([NewTopic(*topic) for topic in topics])
        assert not [one for one in found.values() if isinstance(one, Exception)], found
    cluster.write("orders", [(b"k%d" % n, b'{"n": %d}' % n) for n in range(30)])
    cluster.write("moved", [(None, bytes(100_000))] * 20)
    cluster.commit("billing", {("orders", 0): 10})
    cluster.create(PROGRESS_TOPIC)
    flow = FlowProgress("shop", "orders", state="running", updated_ms=time.time_ns() // 1_000_000)
    cluster.write(PROGRESS_TOPIC, [(b"shop/orders", flow.to_json().encode())])
    act("/schema/new", name="orders-value", kind="AVRO", schema=SCHEMA)
    act("/acls/new", **ACL)
    act("/users/password", **USER, password="pw-of-carol", again="pw-of-carol")
    act("/quotas/change", user="carol", key="consumer_byte_rate", value="1000")


@contextmanager
def open_transactions(cluster: Cluster) -> Iterator[int]:
    """Hold a transaction open in each of two topics; yield the `start_offset` of that in `hung`."""
    settings = {**cluster.settings, "transaction.timeout.ms": "900000"}
    with (
        blocking.Producer({**settings, "transactional.id": "pay"}) as pay,
        blocking.Producer({**settings, "transactional.id": "hang"}) as hang,
    ):
        for producer in (pay, hang):
            producer.init_transactions()
            producer.begin_transaction()
        pay.send("orders", b"v", partition=0)
        started = hang.send("hung", b"v", partition=0)
        yield started.offset
