"""Paths and JSON of the znodes that Apache Kafka 3.9 keeps in ZooKeeper. Source: protocol of `kafka.zk.ZkData`.

Encoders write what 3.9 writes; decoders accept older forms and ignore names that they do not know. People write such
znodes, too, so decoders check what they read, and raise ValueError, KeyError, TypeError or AttributeError for what does
not fit. A number that stands there as a text is taken (Kafka does not), and is a number when it is written again.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from kavka.ids import NO_TOPIC_ID, TopicId, TopicPartition, uuid_bytes, uuid_text

_PLAIN: Final = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-")
"""Characters that Kafka's sanitizer leaves."""

CLUSTER_ID = "/cluster/id"
CONTROLLER = "/controller"
CONTROLLER_EPOCH = "/controller_epoch"
BROKER_IDS = "/brokers/ids"
BROKER_SEQUENCE = "/brokers/seqid"
TOPICS = "/brokers/topics"
DELETED_TOPICS = "/admin/delete_topics"
PRODUCER_ID_BLOCK = "/latest_producer_id_block"
REASSIGN_PARTITIONS = "/admin/reassign_partitions"
PREFERRED_ELECTION = "/admin/preferred_replica_election"
CONFIG_CHANGES = "/config/changes"
CONFIG_CHANGE = "/config/changes/config_change_"
"""A sequence node is made at this path."""
LOG_DIR_EVENTS = "/log_dir_event_notification"
LOG_DIR_EVENT = "/log_dir_event_notification/log_dir_event_"
"""A sequence node is made at this path."""
ISR_CHANGES = "/isr_change_notification"
FEATURE = "/feature"
PERSISTENT_ROOTS = (
    "/consumers",
    BROKER_IDS,
    TOPICS,
    "/config/changes",
    DELETED_TOPICS,
    BROKER_SEQUENCE,
    "/isr_change_notification",
    PRODUCER_ID_BLOCK,
    "/log_dir_event_notification",
    "/config/topics",
    "/config/clients",
    "/config/users",
    "/config/brokers",
    "/config/ips",
    "/config/client-metrics",
)
DEFAULT_ENTITY = "<default>"
UNSTORABLE = (".", "..")
"""Names of users and clients that no znode can have."""


def topic_path(topic: str) -> str:
    """Return the znode that holds a topic's id and assignment."""
    return f"{TOPICS}/{topic}"


def partition_path(topic: str, partition: int) -> str:
    """Return the parent of a partition's state."""
    return f"{TOPICS}/{topic}/partitions/{partition}"


def state_path(topic: str, partition: int) -> str:
    """Return the znode that holds a partition's leader and in-sync set."""
    return f"{partition_path(topic, partition)}/state"


def config_path(entity_type: str, name: str) -> str:
    """Return the znode of an entity's dynamic configuration; `entity_type` is `topics`, `brokers`, ...."""
    return f"/config/{entity_type}/{_sanitized(name)}"


def sanitized_name(name: str) -> str:
    """Return the node of a user, client or address of any name, also of one that is called like the default."""
    return "%3Cdefault%3E" if name == DEFAULT_ENTITY else _sanitized(name)


def entity_name(node: str) -> str:
    """Return the entity that a child of `/config/<type>` stands for."""
    if node == DEFAULT_ENTITY or "%" not in node:
        return node
    from urllib.parse import unquote

    return unquote(node)


def _sanitized(name: str) -> str:
    """Return a name as Kafka's sanitizer writes it; what topics and brokers are called stays as it is."""
    if name == DEFAULT_ENTITY or _PLAIN.issuperset(name):
        return name
    from urllib.parse import quote

    return quote(name, safe="").replace("~", "%7E")  # which `quote` leaves


class TopicNode(NamedTuple):
    """`/brokers/topics/<topic>`: replicas of each partition, the preferred leader first."""

    topic_id: TopicId
    assignment: dict[int, list[int]]
    adding: dict[int, list[int]] = {}
    removing: dict[int, list[int]] = {}

    def encode(self) -> bytes:
        """Return version 3 of the payload."""
        fields: dict[str, Any] = {
            "removing_replicas": _by_text(self.removing),
            "partitions": _by_text(self.assignment),
            "topic_id": uuid_text(self.topic_id),
            "adding_replicas": _by_text(self.adding),
            "version": 3,
        }
        return _dump(fields)

    @classmethod
    def decode(cls, data: bytes) -> TopicNode:
        """Read versions 1 to 3; a topic of an old cluster has no id. Each partition has replicas."""
        fields = json.loads(data)
        text = fields.get("topic_id")
        assignment = _by_number(fields["partitions"])
        if not all(assignment.values()):
            raise ValueError("a partition without replicas")
        return cls(
            TopicId(uuid_bytes(text)) if text else NO_TOPIC_ID,
            assignment,
            _by_number(fields.get("adding_replicas", {})),
            _by_number(fields.get("removing_replicas", {})),
        )


class StateNode(NamedTuple):
    """`.../partitions/<p>/state`. The znode's version is the partition epoch."""

    leader: int
    leader_epoch: int
    controller_epoch: int
    in_sync_replicas: list[int]
    recovering: bool = False

    def encode(self) -> bytes:
        """Return the payload; the recovery state is written only while it is not the ordinary one."""
        fields: dict[str, Any] = {
            "controller_epoch": self.controller_epoch,
            "leader": self.leader,
            "version": 1,
            "leader_epoch": self.leader_epoch,
            "isr": self.in_sync_replicas,
        }
        if self.recovering:
            fields["leader_recovery_state"] = 1
        return _dump(fields)

    @classmethod
    def decode(cls, data: bytes) -> StateNode:
        """Read the payload."""
        fields = json.loads(data)
        return cls(
            _number(fields["leader"]),
            _number(fields["leader_epoch"]),
            _number(fields["controller_epoch"]),
            _replicas(fields["isr"]),
            fields.get("leader_recovery_state", 0) == 1,
        )


class BrokerNode(NamedTuple):
    """`/brokers/ids/<id>`, ephemeral. Its czxid is the broker epoch."""

    endpoints: list[str]
    """Each `NAME://host:port`."""
    protocols: dict[str, str]
    """The security protocol of each listener name."""
    rack: str | None
    timestamp_ms: int
    host: str | None
    port: int
    features: Mapping[str, tuple[int, int]] = {}
    """The lowest and the highest level of each feature that the broker supports."""

    def encode(self) -> bytes:
        """Return version 5 of the payload."""
        fields: dict[str, Any] = {
            "features": {
                name: {"min_version": lowest, "max_version": highest}
                for name, (lowest, highest) in self.features.items()
            },
            "listener_security_protocol_map": self.protocols,
            "endpoints": self.endpoints,
            "jmx_port": -1,
            "port": self.port,
            "host": self.host,
            "version": 5,
            "timestamp": str(self.timestamp_ms),
        }
        if self.rack is not None:
            fields["rack"] = self.rack
        return _dump(fields)

    @classmethod
    def decode(cls, data: bytes) -> BrokerNode:
        """Read versions 4 and 5."""
        fields = json.loads(data)
        rack, host = fields.get("rack"), fields.get("host")
        return cls(
            [_text(endpoint) for endpoint in fields["endpoints"]],
            {
                name: _text(protocol)
                for name, protocol in fields.get("listener_security_protocol_map", {}).items()
            },
            None if rack is None else _text(rack),
            int(fields.get("timestamp", -1)),
            None if host is None else _text(host),
            _number(fields.get("port", -1)),
            {
                name: (_level(levels["min_version"]), _level(levels["max_version"]))
                for name, levels in fields.get("features", {}).items()
            },
        )


def encode_features(levels: Mapping[str, int]) -> bytes:
    """Return the payload of `/feature`: what the cluster has finalised, all levels above 0."""
    features = {name: {"max_version_level": level} for name, level in levels.items()}
    return _dump({"version": 2, "status": 1, "features": features})


def decode_features(data: bytes) -> dict[str, int]:
    """Return the finalised level of each feature; none while the node says that features are not in use."""
    fields = json.loads(data)
    if fields["status"] != 1:
        return {}
    features = fields.get("features", {}).items()
    return {str(name): _level(levels["max_version_level"]) for name, levels in features}


def encode_cluster_id(cluster_id: str) -> bytes:
    """Return the payload of `/cluster/id`; its version is a text."""
    return _dump({"version": "1", "id": cluster_id})


def decode_cluster_id(data: bytes) -> str:
    """Return the cluster id."""
    return str(json.loads(data)["id"])


def encode_controller(broker_id: int, now_ms: int) -> bytes:
    """Return the payload of `/controller`."""
    return _dump(
        {"version": 2, "brokerid": broker_id, "timestamp": str(now_ms), "kraftControllerEpoch": -1}
    )


def decode_controller(data: bytes) -> int:
    """Return the broker that `/controller` names."""
    return _number(json.loads(data)["brokerid"])


def encode_reassignments(targets: Mapping[TopicPartition, Sequence[int]]) -> bytes:
    """Return the payload of `/admin/reassign_partitions`."""
    rows = [
        {
            "topic": topic_partition.topic,
            "partition": topic_partition.partition,
            "replicas": list(replicas),
        }
        for topic_partition, replicas in targets.items()
    ]
    return _dump({"version": 1, "partitions": rows})


def decode_reassignments(data: bytes) -> dict[TopicPartition, tuple[int, ...]]:
    """Return the replicas that each partition shall have."""
    return {
        _partition(row): tuple(_numbers(row["replicas"])) for row in json.loads(data)["partitions"]
    }


def encode_partitions(partitions: Iterable[TopicPartition]) -> bytes:
    """Return the payload of `/admin/preferred_replica_election`, and of an ISR change notification."""
    rows = [
        {"topic": topic_partition.topic, "partition": topic_partition.partition}
        for topic_partition in partitions
    ]
    return _dump({"version": 1, "partitions": rows})


def decode_partitions(data: bytes) -> list[TopicPartition]:
    """Return the partitions that the payload of `encode_partitions` names."""
    return [_partition(row) for row in json.loads(data)["partitions"]]


def encode_config_change(entity_path: str) -> bytes:
    """Return the payload that notifies brokers of changed settings; `entity_path` is `topics/foo`, ...."""
    return _dump({"version": 2, "entity_path": entity_path})


def decode_config_change(data: bytes) -> str:
    """Return the entity path of versions 1 and 2 of the payload."""
    fields = json.loads(data)
    if fields["version"] == 1:
        return f"{fields['entity_type']}/{fields['entity_name']}"
    return str(fields["entity_path"])


def encode_log_dir_event(broker: int) -> bytes:
    """Return the payload by which a broker says that one of its log directories failed."""
    return _dump({"version": 1, "broker": broker, "event": 1})


def decode_log_dir_event(data: bytes) -> int:
    """Return the broker that says so."""
    return _number(json.loads(data)["broker"])


def encode_config(config: Mapping[str, str]) -> bytes:
    """Return the payload of a configuration znode."""
    return _dump({"version": 1, "config": dict(config)})


def decode_config(data: bytes) -> dict[str, str]:
    """Return the dynamic configuration of an entity; numbers and truths that are no texts are taken as if they were."""
    if not data:
        return {}
    config = json.loads(data).get("config", {})
    return {
        name: value if isinstance(value, str) else _plain(value) for name, value in config.items()
    }


class ProducerIdBlock(NamedTuple):
    """`/latest_producer_id_block`: the block that was allocated last; both ends belong to it."""

    broker: int
    start: int
    end: int

    def encode(self) -> bytes:
        """Return version 1 of the payload; its numbers are texts."""
        fields = {"version": 1, "broker": self.broker}
        return _dump({**fields, "block_start": str(self.start), "block_end": str(self.end)})

    @classmethod
    def decode(cls, data: bytes) -> ProducerIdBlock:
        """Read the payload; block ends are numbers of 64 bits, the last -1 or more."""
        fields = json.loads(data)
        start, end = _number(fields["block_start"], 64), _number(fields["block_end"], 64)
        if end < -1:
            raise ValueError(f"no producer id: {end}")
        return cls(_number(fields["broker"]), start, end)


def _dump(fields: Mapping[str, Any]) -> bytes:
    return json.dumps(fields, separators=(",", ":")).encode()


def _by_text(replicas: Mapping[int, Sequence[int]]) -> dict[str, list[int]]:
    return {str(partition): list(brokers) for partition, brokers in replicas.items()}


def _by_number(replicas: Mapping[str, object]) -> dict[int, list[int]]:
    return {_index(partition): _replicas(brokers) for partition, brokers in replicas.items()}


def _partition(row: Mapping[str, Any]) -> TopicPartition:
    return TopicPartition(_text(row["topic"]), _index(row["partition"]))


def _numbers(values: object) -> list[int]:
    if not isinstance(values, list):
        raise TypeError(f"no list: {values!r}")
    return [_number(value) for value in values]


def _replicas(values: object) -> list[int]:
    """Return brokers, each once."""
    return list(dict.fromkeys(_numbers(values)))


def _number(value: object, bits: int = 32) -> int:
    """Return a number that fits the messages which it goes into."""
    if isinstance(value, bool) or not isinstance(value, int | str):
        raise TypeError(f"no number: {value!r}")
    number = int(value)
    if not -(1 << bits - 1) <= number < 1 << bits - 1:
        raise ValueError(f"no number of {bits} bits: {value!r}")
    return number


def _index(value: object) -> int:
    number = _number(value)
    if number < 0:
        raise ValueError(f"no partition: {value!r}")
    return number


def _level(value: object) -> int:
    return _number(value, bits=16)


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(f"no text: {value!r}")
    return value


def _plain(value: object) -> str:
    if not isinstance(value, bool | int | float):
        raise TypeError(f"no setting: {value!r}")
    return json.dumps(value)
