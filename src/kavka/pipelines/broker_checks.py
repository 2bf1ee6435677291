"""Checks of a project against its brokers: connections, topics, offsets, transactions of sinks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from kavka.client.admin import Admin, OffsetSpec
from kavka.client.admin.acls import AclOperation
from kavka.client.admin.configs import ConfigResource, ResourceType
from kavka.client.list_offsets import OffsetAndTimestamp
from kavka.core.java_patterns import java_pattern
from kavka.errors import ErrorCode, KafkaError
from kavka.ids import TopicPartition
from kavka.pipelines.checkpoints import Checkpoints
from kavka.pipelines.definitions import (
    Definitions,
    Finding,
    FlowDefinition,
    Location,
    OutputDefinition,
    TopicRead,
)
from kavka.spark.errors import ConnectorError
from kavka.spark.offsets import Offsets
from kavka.spark.options import (
    Assign,
    Selection,
    Specific,
    Subscribe,
    SubscribePattern,
    parse_source,
)
from kavka.spark.queries.flow_progress import unqualified
from kavka.spark.queries.watch import client_settings
from kavka.spark.sink_options import SinkOptions, parse_sink

_STATE_TOPIC = "__transaction_state"
_TIMEOUT_MS = 5_000
_SINK_TIMEOUT_MS = 900_000
"""The sink's `transaction.timeout.ms` unless its options say otherwise."""


class BrokerChecks:
    """All checks of one project, with one client for each cluster."""

    def __init__(self, definitions: Definitions, checkpoints: Checkpoints) -> None:
        """Check the project's definitions, with the checkpoints of its flows."""
        self._definitions = definitions
        self._checkpoints = checkpoints
        self._admins: dict[tuple[tuple[str, str], ...], Admin | None] = {}
        self._findings: list[Finding] = []

    async def run(self) -> list[Finding]:
        """Return the findings."""
        try:
            for flow in self._definitions.flows:
                for read in flow.reads:
                    await self._check_read(flow, read)
            for output in self._definitions.outputs:
                if output.kind == "sink" and output.format in ("kavka", "kafka"):
                    await self._check_sink(output)
        finally:
            for admin in self._admins.values():
                if admin is not None:
                    await admin.close()
        return self._findings

    def _error(self, at: Location, text: str) -> None:
        self._findings.append(Finding(at, text))

    def _warn(self, at: Location, text: str) -> None:
        self._findings.append(Finding(at, text, is_error=False))

    async def _admin(self, options: Mapping[str, str], at: Location, owner: str) -> Admin | None:
        """Return the client of a cluster; None, with a finding at each place, when it cannot be reached."""
        settings = client_settings(options)
        servers = settings.get("bootstrap.servers", "")
        key = tuple(sorted(settings.items()))
        if key not in self._admins:
            try:
                admin = Admin({"default.api.timeout.ms": str(_TIMEOUT_MS), **settings})
                await admin.start()
                self._admins[key] = admin
            except (KafkaError, OSError, ValueError) as error:
                self._admins[key] = None
                self._error(at, f"the brokers of {owner} ({servers}) cannot be reached: {error}")
                return None
            return self._admins[key]
        if self._admins[key] is None:
            self._error(at, f"the brokers of {owner} ({servers}) cannot be reached")
        return self._admins[key]

    # Sources

    async def _check_read(self, flow: FlowDefinition, read: TopicRead) -> None:
        name = f"the source of {unqualified(flow.name)}"
        admin = await self._admin(read.options, flow.at, name)
        if admin is None:
            return
        try:
            options = parse_source(read.options, streaming=read.is_streaming)
            servers = options.client["bootstrap.servers"]
            partitions = await self._partitions(admin, servers, flow, options.selection)
            if not partitions:
                return
            if read.is_streaming and self._checkpoints.positions(flow):
                await self._check_stored(admin, flow, partitions, options.fail_on_data_loss)
            elif isinstance(options.starting, Specific):
                await self._check_specific(admin, flow, partitions, options.starting.offsets)
        except (ConnectorError, KafkaError, OSError, ValueError) as error:
            self._error(flow.at, f"{name}: {error}")

    async def _partitions(
        self, admin: Admin, servers: str, flow: FlowDefinition, selection: Selection
    ) -> list[TopicPartition]:
        """Return the partitions that a source reads; what does not exist is a finding."""
        match selection:
            case Subscribe(topics):
                names: Iterable[str] = topics
            case Assign(partitions):
                names = {at.topic for at in partitions}
            case SubscribePattern(pattern):
                matching = java_pattern(pattern)
                names = [name for name in await admin.list_topics() if matching.search(name)]
                if not names:
                    self._warn(
                        flow.at,
                        f"no topic matches the pattern {pattern!r} of {unqualified(flow.name)}",
                    )
        counts = await self._partition_counts(admin, servers, names, flow.at, AclOperation.READ)
        existing = [
            TopicPartition(name, number)
            for name, count in counts.items()
            for number in range(count)
        ]
        if isinstance(selection, Assign):
            for at in selection.partitions:
                if at.topic in counts and at not in existing:
                    self._error(
                        flow.at,
                        f"the topic {at.topic} has no partition {at.partition}: it has {counts[at.topic]}",
                    )
            existing = [at for at in existing if at in selection.partitions]
        return existing

    async def _partition_counts(
        self,
        admin: Admin,
        servers: str,
        names: Iterable[str],
        at: Location,
        needed: AclOperation,
    ) -> dict[str, int]:
        """Return the partitions of topics; one that is not there, or may not be used so, is a finding."""
        topics = sorted(names)
        counts: dict[str, int] = {}
        if not topics:
            return counts
        found = await admin.describe_topics(topics, include_authorized_operations=True)
        for name, topic in found.items():
            if not isinstance(topic, KafkaError):
                counts[name] = len(topic.partitions)
                allowed = topic.authorized_operations
                if allowed is not None and not {needed, AclOperation.ALL} & allowed:
                    self._refused(at, servers, name, needed)
            elif topic.code is ErrorCode.TOPIC_AUTHORIZATION_FAILED:
                self._refused(at, servers, name, needed)
            elif topic.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                self._error(
                    at,
                    f"the topic {name} does not exist: create it with `kavka topics --bootstrap-server {servers} "
                    f"--create --topic {name}`",
                )
            else:
                self._error(at, f"the topic {name} cannot be described: {topic}")
        return counts

    def _refused(self, at: Location, servers: str, topic: str, needed: AclOperation) -> None:
        verb = "read" if needed is AclOperation.READ else "write into"
        self._error(
            at,
            f"the user of this project may not {verb} the topic {topic}: allow it with `kavka acls --bootstrap-server "
            f"{servers} --add --allow-principal User:NAME --operation {needed.title} --topic {topic}`",
        )

    async def _check_stored(
        self, admin: Admin, flow: FlowDefinition, partitions: list[TopicPartition], fails: bool
    ) -> None:
        """Find records that were deleted before the flow has read them, and logs that are shorter than it knows."""
        stored: Offsets = {}
        for offsets in self._checkpoints.positions(flow):
            stored |= offsets
        first, last = await _bounds(admin, partitions)
        for at, offset in sorted(stored.items()):
            if at not in first:
                continue
            text = ""
            if offset < first[at]:
                count = first[at] - offset
                text = f"{count} records of {at} were deleted before {unqualified(flow.name)} has read them"
            elif offset > last[at]:
                text = (
                    f"{unqualified(flow.name)} has read {at} up to offset {offset}, and its log ends at {last[at]}: "
                    "was the topic deleted and created again?"
                )
            if text and fails:
                self._error(
                    flow.at,
                    f"{text}; `kavka pipelines reset {unqualified(flow.name)}`, or failOnDataLoss=false",
                )
            elif text:
                self._warn(flow.at, text)

    async def _check_specific(
        self,
        admin: Admin,
        flow: FlowDefinition,
        partitions: list[TopicPartition],
        starting_offsets: Offsets,
    ) -> None:
        first, last = await _bounds(admin, partitions)
        for at in partitions:
            if at not in starting_offsets:
                self._error(
                    flow.at, f"startingOffsets of {unqualified(flow.name)} name no offset of {at}"
                )
        for at, offset in sorted(starting_offsets.items()):
            if at in first and offset >= 0 and not first[at] <= offset <= last[at]:
                text = (
                    f"startingOffsets of {unqualified(flow.name)} begin at {offset} in {at}, which has offsets "
                    f"{first[at]} to {last[at]}"
                )
                self._error(flow.at, text)

    # Sinks

    async def _check_sink(self, output: OutputDefinition) -> None:
        name = f"the sink {output.name}"
        admin = await self._admin(output.options, output.at, name)
        if admin is None:
            return
        try:
            options = parse_sink({"checkpointLocation": "checkpoint", **output.options})
            if options.topic is not None:
                servers = options.client["bootstrap.servers"]
                names = [options.topic]
                await self._partition_counts(admin, servers, names, output.at, AclOperation.WRITE)
            if options.exactly_once is not None:
                await self._check_transactions(admin, output, options)
        except (ConnectorError, KafkaError, OSError, ValueError) as error:
            self._error(output.at, f"{name}: {error}")

    async def _check_transactions(
        self, admin: Admin, output: OutputDefinition, options: SinkOptions
    ) -> None:
        """Find settings of brokers with which the sink's transactions are refused or cannot be committed."""
        cluster = await admin.describe_cluster()
        broker = cluster.brokers[0]
        resource = ConfigResource(ResourceType.BROKER, str(broker.broker_id))
        [configs] = (await admin.describe_configs([resource])).values()
        if isinstance(configs, KafkaError):
            self._warn(output.at, f"the brokers' settings cannot be read: {configs}")
            return
        settings = {entry.name: entry.value for entry in configs}
        wanted_ms = int(options.client.get("transaction.timeout.ms", _SINK_TIMEOUT_MS))
        max_ms = int(settings.get("transaction.max.timeout.ms") or wanted_ms)
        if "transaction.timeout.ms" in options.client and wanted_ms > max_ms:
            self._error(
                output.at,
                f"kafka.transaction.timeout.ms of the sink {output.name} is {wanted_ms}, and the brokers allow "
                f"{max_ms} (transaction.max.timeout.ms)",
            )
        await self._check_state_topic(admin, output)

    async def _check_state_topic(self, admin: Admin, output: OutputDefinition) -> None:
        """Find partitions of the coordinators' topic that take no writes; it appears with the first transaction."""
        resource = ConfigResource(ResourceType.TOPIC, _STATE_TOPIC)
        [topic] = (await admin.describe_topics([_STATE_TOPIC])).values()
        if isinstance(topic, KafkaError):
            return
        [configs] = (await admin.describe_configs({resource: ["min.insync.replicas"]})).values()
        if isinstance(configs, KafkaError):
            return
        min_in_sync = int(configs[0].value or 1)
        unwritable = [
            part.partition for part in topic.partitions if len(part.in_sync_replicas) < min_in_sync
        ]
        if unwritable:
            self._error(
                output.at,
                f"{len(unwritable)} partitions of {_STATE_TOPIC} have fewer than {min_in_sync} replicas in sync: "
                "transactions of these coordinators wait; are all brokers up?",
            )


async def _bounds(admin: Admin, partitions: list[TopicPartition]) -> tuple[Offsets, Offsets]:
    """Return the first offsets and the ends of partitions. Raise the first refusal."""
    bounds: list[Offsets] = []
    for spec in (OffsetSpec.EARLIEST, OffsetSpec.LATEST):
        offsets: Offsets = {}
        for at, result in (await admin.list_offsets(dict.fromkeys(partitions, spec))).items():
            if not isinstance(result, OffsetAndTimestamp):
                raise result
            offsets[at] = result.offset
        bounds.append(offsets)
    return bounds[0], bounds[1]
