"""Each option of Apache Kafka's scripts, 3.9's and 4.1's, is one of our commands, or is missing for a reason."""

from __future__ import annotations

import io
import re
from contextlib import redirect_stderr, redirect_stdout

import pytest

from kavka.cli.main import main
from kavka_compat.apache import ApacheKafka

pytestmark = [pytest.mark.compat, pytest.mark.long, pytest.mark.timeout(300)]

TOOLS = """
acls
broker-api-versions
cluster cluster-id
cluster list-endpoints
cluster unregister
configs
console-consumer
console-producer
consumer-groups
consumer-perf-test
delegation-tokens
delete-records
dump-log
e2e-latency
features
features describe
features disable
features downgrade
features upgrade
get-offsets
leader-election
log-dirs
producer-perf-test
reassign-partitions
replica-verification
server-start
storage info
storage random-uuid
topics
transactions abort
transactions describe
transactions describe-producers
transactions find-hanging
transactions list
verifiable-consumer
verifiable-producer
"""

MISSING = {
    "--bootstrap-controller": "KRaft's controllers; kavka has ZooKeeper's",
    "--metadata": "metadata.version is KRaft's",
    "--release-version": "metadata.version is KRaft's",
    "--authorizer": "writes to ZooKeeper without a broker: docs/how-to/acls.md",
    "--authorizer-properties": "writes to ZooKeeper without a broker: docs/how-to/acls.md",
    "--zk-tls-config-file": "writes to ZooKeeper without a broker: docs/how-to/acls.md",
    "--validate-regex": "groups of KIP-848, of 4.1",
    "--transactional-id-pattern": "KIP-1152, of 4.1",
    "--disallow-replication-factor-change": "KIP-860, of 4.1",
}
"""Options that our commands do not have, and why."""

# Where a line of Kafka's help breaks inside a name, what is before the break is no name: it ends with a dash.
_OPTION = re.compile(r"(?:^|[\s\[|,(])(--[a-z][a-zA-Z0-9.-]*[a-z0-9])(?![\w-])", re.MULTILINE)


def _options(text: str) -> set[str]:
    return set(_OPTION.findall(text))


def _ours(words: list[str]) -> str:
    printed = io.StringIO()
    with redirect_stdout(printed), redirect_stderr(printed):
        main([*words, "--help"])
    return printed.getvalue()


@pytest.mark.parametrize("release", ["3.9", "4.1"])
def test_every_option_of_kafkas_scripts_is_ours_or_has_a_reason(release: str) -> None:
    kafka = ApacheKafka(release)
    missing: dict[str, list[str]] = {}
    found = 0
    for line in TOOLS.strip().splitlines():
        tool, *sub_command = line.split()
        finished = kafka.tool(f"kafka-{tool}", *sub_command, "--help")
        text = finished.out + finished.err
        if "invalid   choice" in text:  # of 4.1 only
            continue
        theirs = _options(text)
        found += len(theirs)
        own = _options(_ours([tool, *sub_command]) + (_ours([tool]) if sub_command else ""))
        if theirs - own - MISSING.keys():
            missing[line] = sorted(theirs - own - MISSING.keys())
    assert missing == {}
    assert found > 200
