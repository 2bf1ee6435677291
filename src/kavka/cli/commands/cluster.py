"""`kavka cluster`: the cluster's id and its endpoints, as `kafka-cluster.sh` prints them."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from kavka.cli.admin.connection import with_admin
from kavka.cli.arguments.options import Given, whole_number
from kavka.cli.arguments.tool_parser import ToolParser
from kavka.cli.json_lines import shapes
from kavka.cli.json_lines.lines import print_failure, print_rows
from kavka.cli.json_rows.cluster import endpoint_rows
from kavka.cli.text.java_errors import spelt
from kavka.client.admin.admin import Admin
from kavka.client.metadata import BrokerAddress
from kavka.errors import ErrorCode
from kavka.wire.apis import ApiKey

_NO_FENCED = "Attempted to write a non-default includeFencedBrokers at version 1"
_MIN_HOST_WIDTH = 100
_MIN_RACK_WIDTH = 10


def main(argv: list[str]) -> int:
    """Run the command; 1 when it is not understood or the broker refuses."""
    parser = _parser()
    if not argv:
        print(f"{parser.format_usage()}kavka cluster: error: too few arguments", file=sys.stderr)
        return 1
    try:
        chosen = parser.parse_args(argv)
    except SystemExit:
        return 1  # also after --help, as Kafka's script
    given = {"bootstrap-server": [chosen.bootstrap_server]}
    if chosen.config is not None:
        given["command-config"] = [chosen.config]
    if chosen.json:
        given["json"] = []

    async def act(admin: Admin) -> int:
        match chosen.command:
            case "cluster-id":
                await _cluster_id(admin, as_json=chosen.json)
            case "unregister":
                return await _refuse_unregistration(admin, as_json=chosen.json)
            case "list-endpoints":
                fenced = chosen.include_fenced_brokers
                return await _list_endpoints(admin, fenced, as_json=chosen.json)
        return 0

    return with_admin(Given(given), act, _failed)


def _failed(error: Exception) -> int:
    name, sentence = spelt(error)
    print(f"{sentence}\n{name}: {sentence}\n", file=sys.stderr)
    return 1


def _parser() -> ToolParser:
    parser = ToolParser("kavka cluster", description="The Kafka cluster tool.", allow_abbrev=False)
    commands = parser.add_subparsers(dest="command", required=True)
    for name, what in (
        ("cluster-id", "Get information about the ID of a cluster."),
        ("unregister", "Unregister a broker; only clusters without ZooKeeper can."),
        ("list-endpoints", "List endpoints"),
    ):
        command = commands.add_parser(name, help=what, description=what, allow_abbrev=False)
        command.add_argument(
            "--bootstrap-server",
            "-b",
            required=True,
            help="A list of host/port pairs to use for establishing the connection to the Kafka cluster.",
        )
        command.add_argument(
            "--config", "-c", help="A properties file with settings of the client."
        )
        parser.add_json(command)
        if name == "unregister":
            command.add_argument(
                "--id",
                "-i",
                required=True,
                type=_broker_id,
                help="The ID of the broker to unregister.",
            )
        if name == "list-endpoints":
            command.add_argument(
                "--include-fenced-brokers",
                action="store_true",
                help="Whether to include fenced brokers when listing broker endpoints",
            )
    return parser


def _broker_id(text: str) -> int:
    try:
        return whole_number(text, 32)
    except ValueError:
        sentence = f"could not convert '{text}' to Integer (For input string: \"{text}\")"
        raise argparse.ArgumentTypeError(sentence) from None


async def _cluster_id(admin: Admin, *, as_json: bool) -> None:
    cluster_id = (await admin.describe_cluster()).cluster_id
    if as_json:
        print_rows(shapes.CLUSTER_ID, [{"cluster_id": cluster_id}])
    elif cluster_id is None:
        print("No cluster ID found. The Kafka version is probably too old.")
    else:
        print(f"Cluster ID: {cluster_id}")


async def _refuse_unregistration(admin: Admin, *, as_json: bool) -> int:
    """Print that with ZooKeeper a registration ends with its session alone. Kafka's exit code is 0."""
    responses = (await admin.api_versions()).values()
    keys = {a.api_key for v in responses if not isinstance(v, Exception) for a in v.api_keys}
    without_zookeeper = ApiKey.UNREGISTER_BROKER in keys
    sentence = (
        "This release unregisters no brokers of clusters without ZooKeeper."
        if without_zookeeper
        else "The target cluster does not support the broker unregistration API."
    )
    if as_json:
        return print_failure(ErrorCode.UNSUPPORTED_VERSION.name, sentence)
    print(sentence, file=sys.stderr if without_zookeeper else sys.stdout)
    return 1 if without_zookeeper else 0


async def _list_endpoints(admin: Admin, include_fenced: bool, *, as_json: bool) -> int:
    if include_fenced:
        if as_json:
            return print_failure(ErrorCode.UNSUPPORTED_VERSION.name, _NO_FENCED)
        print(_NO_FENCED)
        return 0
    brokers = (await admin.describe_cluster()).brokers
    if as_json:
        print_rows(shapes.ENDPOINT, endpoint_rows(brokers))
    else:
        print("\n".join(endpoint_lines(brokers)))
    return 0


def endpoint_lines(brokers: Sequence[BrokerAddress]) -> list[str]:
    """Return the table of brokers; the columns of host and rack are as wide as their longest cell."""
    host = max((len(broker.host) for broker in brokers), default=_MIN_HOST_WIDTH)
    rack = max((len(b.rack) for b in brokers if b.rack is not None), default=_MIN_RACK_WIDTH)

    def line(*cells: object) -> str:
        widths = (10, host, 10, rack, 10, 15)
        return " ".join(f"{cell!s:<{width}}" for cell, width in zip(cells, widths, strict=True))

    rows = [
        line(
            b.broker_id, b.host, b.port, "null" if b.rack is None else b.rack, "unfenced", "broker"
        )
        for b in brokers
    ]
    return [line("ID", "HOST", "PORT", "RACK", "STATE", "ENDPOINT_TYPE"), *rows]
