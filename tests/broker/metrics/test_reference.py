"""docs/reference/metrics.md has a row for each name that a broker's page can have, and no other.

A broker with everything that adds names is asked: SASL, TLS, ACLs, an audit, delegation tokens, quotas. That it is
everything is seen in the sources: each name that they can form is on its page.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

import kavka.broker.metrics
import kavka.metrics.process
from kavka.broker.broker import Broker
from kavka.broker.metrics.page import families
from kavka.broker.metrics.samples import Samples
from kavka.client.admin import DEFAULT_ENTITY, Admin, ClientQuotaEntity, NewTopic
from kavka.collect.group_page import GroupPage
from kavka.ids import TopicPartition
from kavka.metrics.families import Family
from kavka.metrics.rates import Rates
from kavka.net.peer import Peer
from kavka.spark.queries.metrics import families as pipeline_families
from kavka.wire.messages.fetch import FetchRequest, FetchRequestPartition, FetchRequestTopic
from support.access import AUTHORIZER
from support.produce import batch, produce
from support.sasl import Server, run_beside
from support.tls import TlsFiles
from support.waiting import until

DOCS = Path(__file__).parents[3] / "docs"
PAGE = DOCS / "reference" / "metrics.md"
GUIDE = DOCS / "how-to" / "monitor.md"
ROW = re.compile(r"\| `((?:kafka|kavka|process|python)_\w+)` \| (\w+) \| ([^|]*) \| ([^|]+) \|")
NAME = re.compile(r"(?:kafka|kavka|process|python)_\w*[a-z]")
WORD = re.compile(rf"(?<![\w.]){NAME.pattern}\b(?!_)")
LABEL = re.compile(r'(\w+)="(?:[^"\\]|\\.)*"')
QUOTAS = {
    "producer_byte_rate": 1e9,
    "consumer_byte_rate": 1e9,
    "request_percentage": 1e6,
    "controller_mutation_rate": 1e6,
}

WITHOUT_SAMPLES = {
    "kafka_server_fetcherlagmetrics_consumerlag",
    "kafka_server_fetcherstats_bytes_total",
    "kafka_server_fetcherstats_requests_total",
    "kavka_network_connections_refused_total",
    "kavka_network_requests_failed_total",
    "kavka_network_requests_refused_total",
}
"""Names whose labels this broker does not show: it follows no other one, and refuses and gives up nothing."""


class Row(NamedTuple):
    """A row of the reference."""

    kind: str
    labels: frozenset[str]


def documented() -> dict[str, Row]:
    rows: dict[str, Row] = {}
    for name, kind, labels, meaning in ROW.findall(PAGE.read_text()):
        assert name not in rows, f"two rows for {name}"
        assert meaning.endswith("."), f"{name}: {meaning}"
        rows[name] = Row(kind, frozenset(re.findall(r"`(\w+)`", labels)))
    return rows


def labels_of(family: Family) -> frozenset[str]:
    """Return the labels of all samples, without the quantiles of a summary."""
    return frozenset(
        label for labels, _value in family.samples for label in LABEL.findall(labels)
    ) - {"quantile"}


def settings(directory: Path) -> dict[str, str]:
    """Return what adds names to the page of a broker."""
    tls = {n.replace("__", "."): v for n, v in TlsFiles(directory).broker_settings().items()}
    del tls["security.inter.broker.protocol"]
    return tls | {
        "listeners": "CLIENTS://127.0.0.1:0,TLS://127.0.0.1:0",
        "listener.security.protocol.map": "CLIENTS:SASL_PLAINTEXT,TLS:SSL",
        "kavka.metrics.port": "0",
        "authorizer.class.name": AUTHORIZER,
        "super.users": "User:alice",
        "kavka.audit.log": str(directory / "audit.json"),
        "kavka.audit.topic": "audit",
        "delegation.token.secret.key": "a secret",
        "max.connection.creation.rate": "1000",
    }


async def shown(broker: Broker) -> dict[str, Family]:
    """Return the families of a broker's page, with their samples read."""
    samples = Samples()
    await samples.read_space(broker.replica_manager.store.directories)
    found = families(broker.metrics_sources(), 1.0, Rates(broker.clock.tick_ms()), samples)
    return {each.name: each._replace(samples=list(each.samples)) for each in found}


def patterns() -> Iterator[tuple[str, str]]:
    """Yield the metrics' names in the sources, as patterns, each with its file."""
    directory = Path(kavka.broker.metrics.__file__).parent
    for path in (*sorted(directory.glob("*.py")), Path(kavka.metrics.process.__file__)):
        module = ast.parse(path.read_text())
        prefixes = {
            node.targets[0].id: node.value.value
            for node in module.body
            if isinstance(node, ast.Assign)
            and isinstance(node.targets[0], ast.Name)
            and isinstance(node.value, ast.Constant)
        }
        inside: set[ast.AST] = set()
        for node in ast.walk(module):
            if isinstance(node, ast.JoinedStr):
                inside.update(node.values)
                parts = [_part(value, prefixes) for value in node.values]
                if NAME.match("".join(parts)):
                    yield "".join(parts), path.name
            elif (
                isinstance(node, ast.Constant)
                and node not in inside
                and NAME.fullmatch(str(node.value))
            ):
                yield str(node.value), path.name


def _part(node: ast.expr, prefixes: Mapping[str, object]) -> str:
    match node:
        case ast.Constant(value=str(text)):
            return re.escape(text)
        case ast.FormattedValue(value=ast.Name(id=name)) if name in prefixes:
            return str(prefixes[name])
    return r"\w+"


async def work(server: Server) -> Peer:
    """Have the broker count: quotas, a topic, a batch, reads, and an error; return a client that is connected."""
    async with Admin(server.config("alice", "alice secret")) as admin:
        everyone = {ClientQuotaEntity(client_id=DEFAULT_ENTITY): QUOTAS}
        assert set((await admin.alter_client_quotas(everyone)).values()) == {None}
        await until(lambda: server.broker.quotas.client_quotas is not None)
        await admin.create_topics([NewTopic("t", 1, 1)])
        await admin.delete_topics(["missing"])
    peer = await server.connect("alice", "alice secret")
    assert (await produce(peer, TopicPartition("t", 0), batch(b"x"), acks=1)).error_code == 0
    read = FetchRequestPartition(partition=0, fetch_offset=0, partition_max_bytes=1000)
    topics = [FetchRequestTopic(topic="t", partitions=[read])]
    await peer.send(FetchRequest(max_wait_ms=0, min_bytes=1, max_bytes=1000, topics=topics), 11)
    return peer


def test_each_exposed_name_has_a_row_and_each_row_is_exposed(tmp_path: Path) -> None:
    async def story(server: Server) -> None:
        peer = await work(server)
        page = await shown(server.broker)
        peer.close()
        rows = documented()
        assert sorted(set(page) - set(rows)) == []
        assert sorted(set(rows) - set(page)) == []
        kinds = {name: family.kind.value for name, family in page.items()}
        assert {name: row.kind for name, row in rows.items()} == kinds
        labels = {name: seen for name, family in page.items() if (seen := labels_of(family))}
        with_labels = {name for name, row in rows.items() if row.labels}
        assert with_labels - set(labels) == WITHOUT_SAMPLES
        assert {name: rows[name].labels for name in labels} == labels
        unseen = [p for p in patterns() if not any(re.fullmatch(p[0], name) for name in page)]
        assert unseen == [], "names of the sources that this broker does not show"

    run_beside(tmp_path, story, **settings(tmp_path))


def test_the_guide_to_monitoring_names_metrics_that_there_are() -> None:
    """A name may end in `_sum` or `_count`; one that ends in `_` is a beginning of names."""
    pages = GroupPage({}, re.compile(""), print).families(), pipeline_families(())
    known = set(documented()) | {family.name for families in pages for family in families}
    spans = re.findall(r"`([^`\n]+)`", GUIDE.read_text())
    named = {name for span in spans for name in WORD.findall(re.sub(r'"[^"]*"', "", span))}
    assert len(named) > 30
    assert sorted(name for name in named if re.sub("_(sum|count)$", "", name) not in known) == []
