"""The names on our page are those that the JMX exporter gives an Apache Kafka 3.9 broker under the same load.

What we lack is listed here, as in docs/reference/metrics.md: a name of Kafka's that is neither on our page nor in the
list fails, and so does one of the list that we have.
"""

from __future__ import annotations

import re
import urllib.request
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer

from kavka_compat.apache import SMALL, ApacheKafka
from kavka_compat.brokers import Broker
from kavka_compat.jmx import agent_option
from kavka_compat.ours import run_kavka

pytestmark = [pytest.mark.compat, pytest.mark.long, pytest.mark.timeout(600)]

LACKING = re.compile(
    r"kafka_("
    r"coordinator_transaction_\w*|server_addpartitionstotxnmanager_\w*"
    r"|network_requestmetrics_(requestqueue|responsequeue|responsesend|messageconversions)timems"
    r"|network_requestmetrics_(requestbytes|temporarymemorybytes)"
    r"|network_requestchannel_responsequeuesize"
    r"|server_brokertopicmetrics_(invalid\w*|nokeycompactedtopicrecords)"
    r"|network_(acceptor|processor)_\w*"
    r"|network_socketserver_(memorypool(avg)?depleted\w*|controlplane\w*)"
    r"|server_socket_server_metrics_(successful_authentication_no_reauth\w*|reauth\w*"
    r"|io_?\w*|network_io|request|response|select"
    r"|(network_io|request|response|select|connection_accept)_rate|\w*_(avg|max))"
    r"|controller_controllerchannelmanager_\w*"
    r"|controller_kafkacontroller_(controllerstate|zkmigrationstate)|server_metadataloader_\w*"
    r"|controller_controllerstats_(autoleaderbalance|controllershutdown|updatefeatures"
    r"|topicuncleanleaderelectionenable|idle)rateandtimems"
    r"|server_replicaalterlogdirsmanager_\w*|server_delayedfetchmetrics_expires"
    r"|server_sessionexpirelistener_zookeepersaslauthentications"
    r"|server_kafkarequesthandlerpool_requesthandleravgidlepercent"
    r"|server_group_coordinator_metrics_(offset_deletion|offset_expiration|partition_load_time)\w*"
    r"|server_kafkaserver_yammer_metrics)"
)
OF_OTHERS = {"kafka_server_fetcherlagmetrics_consumerlag"}
"""Names that need another broker, so they are not on the page of one without samples."""
GROUPS = "kafka_server_group_coordinator_metrics_"


def page(url: str) -> str:
    with urllib.request.urlopen(url, timeout=60) as response:
        text: str = response.read().decode()
    return text


def names(text: str) -> set[str]:
    """Return the names of a page without the endings of counters and counts, which differ by release of the agent."""
    found = re.findall(r"^(kafka_\w+)", text, re.MULTILINE)
    return {re.sub(r"(_count)?(_total)?$|_(count|sum)$", "", name) for name in found}


def load(broker: Broker) -> Producer:
    """Produce, consume in a group, and commit; return the producer, which stays connected."""
    producer = Producer({"bootstrap.servers": broker.bootstrap, "acks": "all", "log_level": 2})
    for number in range(100):
        producer.produce("t", str(number).encode())
    assert producer.flush(60) == 0
    consumer = Consumer(
        {
            "bootstrap.servers": broker.bootstrap,
            "group.id": "g",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
        }
    )
    try:
        consumer.subscribe(["t"])
        assert len(consumer.consume(100, timeout=120)) == 100
        consumer.commit(asynchronous=False)
    finally:
        consumer.close()
    return producer


def group_counts(text: str) -> list[float]:
    """Return how many offsets were committed, and how many rebalances were completed."""
    wanted = (f"{GROUPS}offset_commit_count", f"{GROUPS}group_completed_rebalance_count")
    lines = dict(line.rsplit(" ", 1) for line in text.splitlines() if line[:1] != "#")
    return [float(lines[name]) for name in wanted]


def software(text: str) -> set[tuple[str, ...]]:
    """Return the names and versions of the clients' software."""
    found = re.findall(r"^kafka_server_socket_server_metrics_connections_software\{.*", text, re.M)
    words = [dict(re.findall(r'(\w+)="([^"]*)"', line)) for line in found]
    return {(each["clientSoftwareName"], each["clientSoftwareVersion"]) for each in words}


def test_our_names_are_those_of_kafka_behind_the_jmx_exporter(tmp_path: Path) -> None:
    option, url = agent_option(tmp_path)
    options = (*SMALL, option)
    with ApacheKafka("3.9").run_broker(tmp_path / "apache", "zookeeper", options=options) as theirs:
        _connected = load(theirs)
        their_page = page(url)
    settings = {"kavka.metrics.port": "0"}
    (tmp_path / "kavka").mkdir()
    with run_kavka(tmp_path / "kavka", settings) as ours:
        _connected = load(ours)
        our_page = page(ours.metrics_url)
    wanted, found = names(their_page), names(our_page)
    assert "kafka_server_brokertopicmetrics_messagesin" in wanted
    lacking = {name for name in wanted if LACKING.fullmatch(name)}
    assert sorted(wanted - found - lacking) == []
    assert sorted(found & lacking) == []
    assert sorted(found - wanted - OF_OTHERS) == []
    assert group_counts(our_page) == group_counts(their_page)
    clients = {each for each in software(their_page) if each[0] == "confluent-kafka-python"}
    assert clients
    assert clients <= software(our_page)
