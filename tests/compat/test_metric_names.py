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
    r"|server_socket_server_metrics_(clientsoftware\w*|successful_authentication_no_reauth\w*|reauth\w*"
    r"|io_?\w*|network_io|request|response|select"
    r"|(network_io|request|response|select|connection_accept)_rate|\w*_(avg|max))"
    r"|controller_controllerchannelmanager_\w*"
    r"|controller_kafkacontroller_(controllerstate|zkmigrationstate)|server_metadataloader_\w*"
    r"|controller_controllerstats_(autoleaderbalance|controllershutdown|updatefeatures"
    r"|topicuncleanleaderelectionenable|idle)rateandtimems"
    r"|server_replicaalterlogdirsmanager_\w*|server_delayedfetchmetrics_expires"
    r"|server_sessionexpirelistener_zookeepersaslauthentications"
    r"|server_kafkarequesthandlerpool_requesthandleravgidlepercent"
    r"|server_kafkaserver_yammer_metrics)"
)
OF_OTHERS = {"kafka_server_fetcherlagmetrics_consumerlag"}
"""Names that need another broker, so they are not on the page of one without samples."""
OF_OTHER_RULES = re.compile(
    r"kafka_server_group_coordinator_metrics_(offset_commit|group_completed_rebalance)(_rate)?"
    r"|kafka_server_socket_server_metrics_connections_software"
)
"""Names by rules that the exporter's sample lacks, and that Strimzi's and others have."""


def names(url: str) -> set[str]:
    """Return the names of a page without the endings of counters and counts, which differ by release of the agent."""
    with urllib.request.urlopen(url, timeout=60) as response:
        text = response.read().decode()
    found = re.findall(r"^(kafka_\w+)", text, re.MULTILINE)
    return {re.sub(r"(_count)?(_total)?$|_(count|sum)$", "", name) for name in found}


def load(broker: Broker) -> None:
    """Produce, consume in a group, and commit."""
    producer = Producer({"bootstrap.servers": broker.bootstrap, "acks": "all"})
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


def test_our_names_are_those_of_kafka_behind_the_jmx_exporter(tmp_path: Path) -> None:
    option, url = agent_option(tmp_path)
    options = (*SMALL, option)
    with ApacheKafka("3.9").run_broker(tmp_path / "apache", "zookeeper", options=options) as theirs:
        load(theirs)
        wanted = names(url)
    settings = {"kavka.metrics.port": "0"}
    (tmp_path / "kavka").mkdir()
    with run_kavka(tmp_path / "kavka", settings) as ours:
        load(ours)
        found_url = re.search(r"metrics served url=(\S+)", ours.process.text())
        assert found_url is not None
        found = names(found_url[1])
    assert "kafka_server_brokertopicmetrics_messagesin" in wanted
    lacking = {name for name in wanted if LACKING.fullmatch(name)}
    assert sorted(wanted - found - lacking) == []
    assert sorted(found & lacking) == []
    others = {name for name in found if OF_OTHER_RULES.fullmatch(name)}
    assert sorted(found - wanted - OF_OTHERS - others) == []
