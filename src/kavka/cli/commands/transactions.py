"""`kavka transactions`: see transactions and end those that hang, as `kafka-transactions.sh` does."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Awaitable, Callable

from kavka.cli.admin.connection import FAILURES, with_admin
from kavka.cli.admin.hanging_transactions import hanging_table
from kavka.cli.arguments.options import Given, whole_number
from kavka.cli.arguments.tool_parser import ToolParser
from kavka.cli.json_lines import shapes
from kavka.cli.json_lines.lines import print_rows
from kavka.cli.json_rows.transactions import (
    described_row,
    hanging_rows,
    listed_rows,
    producer_rows,
)
from kavka.cli.text.failures import TerseFailure
from kavka.cli.text.java_errors import spelt
from kavka.cli.text.tab_table import tab_table
from kavka.cli.text.times import current_time_ms
from kavka.client.admin.admin import Admin
from kavka.client.admin.hanging_transactions import find_hanging
from kavka.client.admin.transactions import HangingTransaction
from kavka.errors import ErrorCode, KafkaError
from kavka.ids import BrokerId, TopicPartition

_PURPOSE = (
    "This tool is used to analyze the transactional state of producers in the cluster. "
    "It can be used to detect and recover from hanging transactions."
)
_STATES = frozenset(
    {
        "Ongoing",
        "PrepareAbort",
        "PrepareCommit",
        "CompleteAbort",
        "CompleteCommit",
        "Empty",
        "PrepareEpochFence",
    }
)
_LIST = ("TransactionalId", "Coordinator", "ProducerId", "TransactionState")
_DESCRIBE = (
    "CoordinatorId",
    "TransactionalId",
    "ProducerId",
    "ProducerEpoch",
    "TransactionState",
    "TransactionTimeoutMs",
    "CurrentTransactionStartTimeMs",
    "TransactionDurationMs",
    "TopicPartitions",
)
_PRODUCERS = (
    "ProducerId",
    "ProducerEpoch",
    "LatestCoordinatorEpoch",
    "LastSequence",
    "LastTimestamp",
    "CurrentTransactionStartOffset",
)


def main(argv: list[str]) -> int:
    """Run the command; 1 when it is not understood or a broker refuses."""
    parser = _parser()
    if not argv:
        print(
            f"{parser.format_usage()}kavka transactions: error: too few arguments", file=sys.stderr
        )
        return 1
    try:
        chosen = parser.parse_args(argv)
    except SystemExit as end:
        return 0 if "--version" in argv and not end.code else 1  # 1 after --help, as Kafka's script
    given = {"bootstrap-server": [chosen.bootstrap_server]}
    if chosen.command_config is not None:
        given["command-config"] = [chosen.command_config]
    if chosen.json:
        given["json"] = []
    doing = "the command"

    async def act(admin: Admin) -> int:
        nonlocal doing
        action, doing = _ACTIONS[chosen.command](chosen)
        try:
            await action(admin)
        except TerseFailure as error:
            if chosen.json:
                raise
            print(error, file=sys.stderr)
            return 1
        return 0

    return with_admin(Given(given), act, lambda error: _failed(doing, error))


def _failed(doing: str, error: Exception) -> int:
    print(_sentence(doing, error), file=sys.stderr)
    return 1


def _sentence(doing: str, error: Exception) -> str:
    _, reason = spelt(error)
    return f"Failed to {doing}: {reason}. Enable debug logging for additional detail."


# Options


def _parser() -> ToolParser:
    from kavka import __version__

    parser = ToolParser("kavka transactions", description=_PURPOSE, allow_abbrev=False)
    parser.add_argument("-v", "--version", action="version", version=__version__)
    parser.add_argument(
        "--command-config",
        metavar="FILE",
        help="property file containing configs to be passed to admin client",
    )
    parser.add_argument(
        "--bootstrap-server",
        metavar="host:port",
        required=True,
        help="hostname and port for the broker to connect to (several: host:port,host:port)",
    )
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    for name, purpose, arguments in _COMMANDS:
        command = commands.add_parser(name, help=purpose, description=purpose, allow_abbrev=False)
        parser.add_json(command)
        for flags, kind, is_required, text in arguments:
            command.add_argument(*flags, type=kind, required=is_required, help=text)
    return parser


def _number(bits: int, kind: str) -> Callable[[str], int]:
    def parse(text: str) -> int:
        try:
            return whole_number(text, bits)
        except ValueError:
            sentence = f"could not convert '{text}' to {kind} (For input string: \"{text}\")"
            raise argparse.ArgumentTypeError(sentence) from None

    return parse


_SHORT, _INTEGER, _LONG = _number(16, "Short"), _number(32, "Integer"), _number(64, "Long")
_ID = (("--transactional-id",), str, True, "transactional id")
_TOPIC = (("--topic",), str, True, "topic name")
_PARTITION = (("--partition",), _INTEGER, True, "partition number")
_COMMANDS: tuple[tuple[str, str, tuple[tuple[tuple[str, ...], Callable[[str], object], bool, str], ...]], ...] = (
    ("list", "list transactions", (
        (("--duration-filter",), _LONG, False, "Duration (in millis) to filter by: if < 0, all transactions will be "
         "returned; otherwise, only transactions running longer than this duration will be returned"),
    )),
    ("describe", "describe the state of an active transactional-id", (_ID,)),
    ("describe-producers", "describe the states of active producers for a topic partition", (
        (("--broker-id",), _INTEGER, False, "optional broker id to describe the producer state on a specific replica"),
        _TOPIC, _PARTITION,
    )),
    ("abort", "abort a hanging transaction (requires administrative privileges)", (
        _TOPIC, _PARTITION,
        (("--start-offset",), _LONG, False, "start offset of the transaction to abort (brokers from 3.0 on)"),
        (("--producer-id",), _LONG, False, "producer id (older brokers, with both epochs)"),
        (("--producer-epoch",), _SHORT, False, "producer epoch"),
        (("--coordinator-epoch",), _INTEGER, False, "coordinator epoch"),
    )),
    ("find-hanging", "find hanging transactions", (
        (("--broker-id",), _INTEGER, False, "broker id to search for hanging transactions"),
        (("--max-transaction-timeout",), _INTEGER, False, "maximum transaction timeout in minutes to limit the scope "
         "of the search (15 minutes by default)"),
        (("--topic",), str, False, "topic name to limit search to (required if --partition is specified)"),
        (("--partition",), _INTEGER, False, "partition number"),
    )),
    ("forceTerminateTransaction", "force abort an ongoing transaction of a transactional id (requires administrative "
     "privileges)", ((("--transactionalId", "--transactional-id"), str, True, "transactional id"),)),
)  # fmt: skip


# Actions: each takes the options, and returns what to do and its name in a sentence of failure.

_Action = tuple[Callable[[Admin], Awaitable[None]], str]


def _list(chosen: argparse.Namespace) -> _Action:
    async def act(admin: Admin) -> None:
        longer = -1 if chosen.duration_filter is None else chosen.duration_filter
        found = await admin.list_transactions(longer_than_ms=longer)
        rows = [
            (t.transactional_id, broker_id, t.producer_id, _state(t.state))
            for broker_id, listed in found.items()
            for t in listed
        ]
        if chosen.json:
            print_rows(shapes.TRANSACTION, listed_rows(found))
        else:
            sys.stdout.write(tab_table(_LIST, rows))

    return act, "list transactions"


def _describe(chosen: argparse.Namespace) -> _Action:
    name: str = chosen.transactional_id

    async def act(admin: Admin) -> None:
        found = (await admin.describe_transactions([name]))[name]
        if isinstance(found, KafkaError) and found.code is ErrorCode.TRANSACTIONAL_ID_NOT_FOUND:
            request = f"DescribeTransactions request for transactionalId `{name}`"
            raise KafkaError(found.code, f"{request} failed because the ID could not be found")
        if isinstance(found, Exception):
            raise found
        now_ms = current_time_ms()
        if chosen.json:
            row = described_row(name, found, now_ms)
            print_rows(shapes.TRANSACTION_DESCRIPTION, [row])
            return
        start = found.start_time_ms
        cells = (
            found.coordinator_id,
            name,
            found.producer_id,
            found.producer_epoch,
            _state(found.state),
            found.timeout_ms,
            "None" if start is None else start,
            "None" if start is None else now_ms - start,
            ",".join(map(str, found.partitions)),
        )
        sys.stdout.write(tab_table(_DESCRIBE, [cells]))

    return act, f"describe transaction state of transactional-id `{name}`"


def _state(name: str) -> str:
    return name if name in _STATES else "Unknown"


def _describe_producers(chosen: argparse.Namespace) -> _Action:
    topic_partition = TopicPartition(chosen.topic, chosen.partition)
    broker_id = None if chosen.broker_id is None else BrokerId(chosen.broker_id)
    where = "leader" if broker_id is None else f"broker {broker_id}"

    async def act(admin: Admin) -> None:
        found = (await admin.describe_producers([topic_partition], broker_id=broker_id))[
            topic_partition
        ]
        if isinstance(found, KafkaError):
            raise found
        if chosen.json:
            print_rows(shapes.PRODUCER, producer_rows(topic_partition, found))
            return
        rows = [
            (
                p.producer_id,
                p.producer_epoch,
                -1 if p.coordinator_epoch is None else p.coordinator_epoch,
                p.last_sequence,
                p.last_timestamp_ms,
                p.current_transaction_start_offset,
            )
            for p in found
        ]
        sys.stdout.write(tab_table(_PRODUCERS, rows))

    return act, f"describe producers for partition {topic_partition} on {where}"


def _abort(chosen: argparse.Namespace) -> _Action:
    topic_partition = TopicPartition(chosen.topic, chosen.partition)

    async def act(admin: Admin) -> None:
        if chosen.start_offset is not None:
            hanging = await _open_at(admin, topic_partition, chosen.start_offset)
        else:
            hanging = _transaction_from_arguments(topic_partition, chosen)
        try:
            await admin.abort_transaction(hanging)
        except FAILURES as error:
            spec = (
                f"AbortTransactionSpec(topicPartition={topic_partition}, producerId={hanging.producer_id}, "
                f"producerEpoch={hanging.producer_epoch}, coordinatorEpoch={hanging.coordinator_epoch})"
            )
            raise TerseFailure(_sentence(f"abort transaction {spec}", error)) from error

    return act, f"validate producer state for partition {topic_partition}"


def _transaction_from_arguments(
    topic_partition: TopicPartition, chosen: argparse.Namespace
) -> HangingTransaction:
    if chosen.producer_id is None:
        raise TerseFailure(
            "The transaction to abort must be identified either with --start-offset (for brokers on 3.0 or above) "
            "or with --producer-id, --producer-epoch, and --coordinator-epoch (for older brokers)"
        )
    for name in ("producer_epoch", "coordinator_epoch"):
        if getattr(chosen, name) is None:
            raise TerseFailure(f"Missing required argument --{name.replace('_', '-')}")
    # -1: no coordinator has written here yet; 0 is not above any that could.
    return HangingTransaction(
        topic_partition, chosen.producer_id, chosen.producer_epoch, max(chosen.coordinator_epoch, 0)
    )


async def _open_at(
    admin: Admin, topic_partition: TopicPartition, start_offset: int
) -> HangingTransaction:
    found = (await admin.describe_producers([topic_partition]))[topic_partition]
    if isinstance(found, KafkaError):
        raise found
    for p in found:
        if p.current_transaction_start_offset == start_offset:
            return HangingTransaction(
                topic_partition, p.producer_id, p.producer_epoch, p.coordinator_epoch or 0
            )
    raise TerseFailure(
        f"Could not find any open transactions starting at offset {start_offset} on partition {topic_partition}"
    )


def _find_hanging(chosen: argparse.Namespace) -> _Action:
    async def act(admin: Admin) -> None:
        if chosen.topic is None and chosen.broker_id is None:
            raise TerseFailure(
                "The `find-hanging` command requires either --topic or --broker-id to limit the scope of the search"
            )
        if chosen.partition is not None and chosen.topic is None:
            raise TerseFailure("The --partition argument requires --topic to be provided")
        minutes = 15 if chosen.max_transaction_timeout is None else chosen.max_transaction_timeout
        now_ms = current_time_ms()
        found = await find_hanging(
            admin, chosen.topic, chosen.partition, chosen.broker_id, now_ms - minutes * 60_000
        )
        if chosen.json:
            print_rows(shapes.HANGING, hanging_rows(found, now_ms))
        else:
            sys.stdout.write(hanging_table(found, now_ms))

    return act, "find hanging transactions"


def _force_terminate(chosen: argparse.Namespace) -> _Action:
    name: str = chosen.transactionalId

    async def act(admin: Admin) -> None:
        refused = (await admin.fence_producers([name]))[name]
        if refused is not None:
            raise refused

    return act, f"force terminate transactionalId `{name}`"


_ACTIONS: dict[str, Callable[[argparse.Namespace], _Action]] = {
    "list": _list,
    "describe": _describe,
    "describe-producers": _describe_producers,
    "abort": _abort,
    "find-hanging": _find_hanging,
    "forceTerminateTransaction": _force_terminate,
}
