"""The shapes of the objects that commands print with `--json`: the keys of each, their types and what they mean.

What is printed is compared with these declarations, and the page `docs/reference/json.md` is written from them. A type
that ends with `?` may be null; `[x]` is a list of x, `{x}` an object whose values are x. Times are milliseconds since
1970, sizes bytes, replicas ids of brokers.
"""

from __future__ import annotations

from typing import Final

from kavka.cli.json_lines import pipeline_shapes, tool_shapes
from kavka.cli.json_lines.declaration import Shape, fields_of, shape

ERROR: Final = fields_of("""
    code string Kafka's name of the error, or BAD_USAGE, BAD_VALUE, UNREACHABLE, FAILED
    message string a sentence
""")
FAILURE: Final = shape(
    "any command that fails, on standard error",
    """
    error error why
    exit_code integer with which the command ends
""",
)
WARNING: Final = shape(
    "any command, on standard error",
    """
    warning string a sentence about a command that goes on
""",
)


TOPIC: Final = shape(
    "topics --list",
    """
    topic string its name
""",
)
TOPIC_DESCRIPTION: Final = shape(
    "topics --describe",
    """
    topic string its name
    topic_id string as --topic-id takes it
    internal boolean whether brokers keep their own records in it
    partition_count integer of all partitions, shown or not
    replication_factor integer of its first partition
    configs {string?} the settings that were set for it or for all topics
    partitions [partition] those that the options ask for
""",
    partition="""
    partition integer its number
    leader integer? the broker that leads it, null while none does
    leader_epoch integer -1 where the broker does not say
    replicas [integer] the preferred leader first
    in_sync_replicas [integer] in the order of the leader
    offline_replicas [integer] those whose broker or disk does not run
    adding_replicas [integer] of a move that is under way
    removing_replicas [integer] of a move that is under way
    eligible_leader_replicas [integer]? KIP-966; null where the cluster has none
    last_known_eligible_leader_replicas [integer]? KIP-966; null where the cluster has none
""",
)
NEW_TOPIC: Final = shape(
    "topics --create",
    """
    topic string its name
    created boolean false where it was there, with --if-not-exists
    topic_id string? its id; null where it was not created
    partition_count integer? how many it got; null where it was not created
    replication_factor integer? how many it got; null where it was not created
""",
)
CHANGED_TOPIC: Final = shape(
    "topics --alter, topics --delete",
    """
    topic string its name
    error error? why it was refused
""",
)

GROUP: Final = shape(
    "consumer-groups --list",
    """
    group string its id
    state string? Stable, Empty, PreparingRebalance, ...; null where the broker does not say
    type string? Classic or Consumer; null where the broker does not say
    protocol_type string consumer, or nothing for a group that has offsets only
""",
)
GROUP_OFFSET: Final = shape(
    "consumer-groups --describe",
    """
    group string its id
    state string Stable, Empty, PreparingRebalance, ...
    topic string of the offset
    partition integer of the offset
    leader_epoch integer? of the committed offset
    current_offset integer? the committed offset: the next record to read
    log_end_offset integer? the offset of the next record to come
    lag integer? offsets between both
    lag_seconds number? age of the first record that was not read, with --lag-seconds
    consumer_id string? of the member that reads the partition
    instance_id string? of a static member
    host string? from which the member connects
    client_id string? of the member
""",
)
GROUP_MEMBER: Final = shape(
    "consumer-groups --describe --members",
    """
    group string its id
    state string of the group
    consumer_id string of the member
    instance_id string? of a static member
    host string from which it connects
    client_id string of its client
    assignment [assigned] the partitions that it reads
""",
    assigned="""
    topic string of the partition
    partition integer its number
""",
)
GROUP_STATE: Final = shape(
    "consumer-groups --describe --state",
    """
    group string its id
    state string Stable, Empty, PreparingRebalance, ...
    coordinator_id integer the broker that coordinates it
    coordinator_host string of that broker
    coordinator_port integer of that broker
    assignment_strategy string? range, roundrobin, ...; null while it has no members
    member_count integer how many members it has
""",
)
DELETED_GROUP: Final = shape(
    "consumer-groups --delete",
    """
    group string its id
    error error? why it was not deleted
""",
)
DELETED_OFFSET: Final = shape(
    "consumer-groups --delete-offsets",
    """
    group string its id
    topic string of the offset
    partition integer? of the offset; null where there is no such topic
    error error? why the offset is still there
""",
)
RESET_OFFSET: Final = shape(
    "consumer-groups --reset-offsets",
    """
    group string its id
    topic string of the offset
    partition integer of the offset
    new_offset integer that is set, or would be
    executed boolean whether it was set
""",
)

CONFIG: Final = shape(
    "configs --describe",
    """
    kind string config
    entity {string?} as {"topic":"t"}; null stands for the default of all
    name string of the setting
    value string? null for one that is not shown, because it is secret, or that has no value
    source string? from where the value is: DYNAMIC_TOPIC_CONFIG, ...; null with --zookeeper and --log-dir
    sensitive boolean whether it is secret
    read_only boolean? whether it needs a restart; null with --zookeeper and --log-dir
    synonyms [synonym] the values that hold where this one is removed, the nearest first
""",
    synonym="""
    name string of the setting
    value string? of the setting
    source string DYNAMIC_BROKER_CONFIG, DEFAULT_CONFIG, ...
""",
)
QUOTA: Final = shape(
    "configs --describe, of users, clients and ips",
    """
    kind string quota
    entity {string?} as {"user":"ann","client-id":null}; null stands for the default of all
    quotas {number} by name: producer_byte_rate, ...
""",
)
CREDENTIAL: Final = shape(
    "configs --describe, of users",
    """
    kind string credential
    entity {string?} as {"user":"ann"}
    mechanism string SCRAM-SHA-256 or SCRAM-SHA-512
    iterations integer of the credential
""",
)
ALTERED: Final = shape(
    "configs --alter",
    """
    kind string altered
    entity {string?} as {"topic":"t"}; null stands for the default of all
    set [string] names of the settings that were set
    deleted [string] names of the settings that were removed
""",
)

ACL: Final = shape(
    "acls --list, acls --add, acls --remove",
    """
    resource_type string TOPIC, GROUP, CLUSTER, TRANSACTIONAL_ID, DELEGATION_TOKEN or USER
    resource_name string or *
    pattern_type string LITERAL or PREFIXED
    principal string User:ann
    host string or *
    operation string READ, WRITE, ...
    permission string ALLOW or DENY
""",
)
TOKEN: Final = shape(
    "delegation-tokens --create, delegation-tokens --describe",
    """
    token_id string the user name of a login
    hmac string the password of a login, in base64
    owner string User:ann
    requester string User:ann
    renewers [string] principals that may renew it besides the owner
    issue_ms integer when it was made
    expiry_ms integer until when it holds
    max_ms integer until when it may be renewed
""",
)
TOKEN_END: Final = shape(
    "delegation-tokens --renew, delegation-tokens --expire",
    """
    expiry_ms integer until when it holds now
""",
)

OFFSET: Final = shape(
    "get-offsets",
    """
    topic string of the partition
    partition integer its number
    offset integer? null where no record is that young, or with an error
    timestamp_ms integer? of the record, where --time looked for one
    error error? why there is no answer
""",
)
DELETED_RECORDS: Final = shape(
    "delete-records",
    """
    topic string of the partition
    partition integer its number
    low_watermark integer? its first offset now; null with an error
    error error? why nothing was deleted
""",
)
LOG_DIR: Final = shape(
    "log-dirs --describe",
    """
    broker_id integer whose directory it is
    log_dir string its path
    error error? why it does not work
    total_bytes integer? of its disk; null where the broker does not say
    usable_bytes integer? of its disk; null where the broker does not say
    replicas [replica] in it
""",
    replica="""
    topic string of the replica
    partition integer of the replica
    size integer bytes
    offset_lag integer records behind the high watermark, or behind the replica that it replaces
    is_future boolean whether it will replace another one
""",
)
BROKER_APIS: Final = shape(
    "broker-api-versions",
    """
    broker_id integer the broker that answered
    host string its address
    port integer its port
    rack string? its rack
    error error? why it did not answer
    apis [api] none with an error
""",
    api="""
    api_key integer of the API
    name string? null for an API that this release does not know
    min_version integer? null for one that the broker does not have
    max_version integer? null for one that the broker does not have
    usable_version integer? the newest that both have
""",
)
CLUSTER_ID: Final = shape(
    "cluster cluster-id",
    """
    cluster_id string? null where the brokers do not say
""",
)
ENDPOINT: Final = shape(
    "cluster list-endpoints",
    """
    broker_id integer of the broker
    host string its address
    port integer its port
    rack string? its rack
    state string unfenced
    endpoint_type string broker
""",
)
FEATURE: Final = shape(
    "features describe",
    """
    feature string its name
    supported_min_version integer that all brokers have
    supported_max_version integer that all brokers have
    finalized_version_level integer 0 where it is off
    epoch integer? of the last change of any feature
""",
)
CHANGED_FEATURE: Final = shape(
    "features upgrade, downgrade, disable",
    """
    feature string its name
    level integer that was asked for
    dry_run boolean whether nothing was changed
    error error? why it was refused
""",
)

ELECTION: Final = shape(
    "leader-election, preferred-replica-election",
    """
    topic string of the partition
    partition integer its number
    election_type string PREFERRED or UNCLEAN
    outcome string elected, not_needed, requested (with --zookeeper) or failed
    error error? why it failed
""",
)
PLAN: Final = shape(
    "reassign-partitions --generate",
    """
    current plan how the topics are placed, as --reassignment-json-file takes it
    proposed plan how they would be, as --reassignment-json-file takes it
""",
)
STARTED_MOVES: Final = shape(
    "reassign-partitions --execute",
    """
    rollback plan what undoes it, as --reassignment-json-file takes it
    partitions [moved] that move between brokers: unless a failure follows
    log_dirs [placed] replicas that move between directories: unless a failure follows
    throttle integer? bytes a second between brokers
    log_dir_throttle integer? bytes a second between directories
""",
    moved="""
    topic string of the partition
    partition integer its number
    replicas [integer] where it will be
""",
    placed="""
    topic string of the replica
    partition integer of the replica
    broker_id integer of the replica
    log_dir string where it will be
""",
)
MOVE_STATE: Final = shape(
    "reassign-partitions --verify",
    """
    topic string of the partition
    partition integer its number
    broker_id integer? of a replica that moves between directories; null for a move between brokers
    state string in_progress, completed or not_active
    current string where it is: brokers, by commas, or a directory
    target string where it shall be
""",
)
CANCELLED_MOVE: Final = shape(
    "reassign-partitions --cancel",
    """
    topic string of the partition
    partition integer its number
    broker_id integer? of a replica that moved between directories; null for a move between brokers
""",
)
MOVE: Final = shape(
    "reassign-partitions --list",
    """
    topic string of the partition
    partition integer its number
    replicas [integer] old and new ones
    adding_replicas [integer] that do not have all records yet
    removing_replicas [integer] that will go
""",
)

TRANSACTION: Final = shape(
    "transactions list",
    """
    transactional_id string of the producer
    coordinator_id integer the broker that coordinates it
    producer_id integer of the producer
    state string Ongoing, Empty, CompleteCommit, ...
""",
)
TRANSACTION_DESCRIPTION: Final = shape(
    "transactions describe",
    """
    coordinator_id integer the broker that coordinates it
    transactional_id string of the producer
    producer_id integer of the producer
    producer_epoch integer of the producer
    state string Ongoing, Empty, CompleteCommit, ...
    timeout_ms integer after which the coordinator aborts
    start_time_ms integer? null while no transaction is open
    duration_ms integer? null while no transaction is open
    partitions [written] to which the transaction writes
""",
    written="""
    topic string of the partition
    partition integer its number
""",
)
PRODUCER: Final = shape(
    "transactions describe-producers",
    """
    topic string of the partition
    partition integer its number
    producer_id integer of the producer
    producer_epoch integer of the producer
    coordinator_epoch integer? of the last marker
    last_sequence integer of its last record
    last_timestamp_ms integer of its last record
    current_transaction_start_offset integer? null while no transaction is open
""",
)
HANGING: Final = shape(
    "transactions find-hanging",
    """
    topic string of the partition
    partition integer its number
    producer_id integer of the producer
    producer_epoch integer of the producer
    coordinator_epoch integer? of the last marker
    start_offset integer of the transaction
    last_timestamp_ms integer of its last record
    duration_ms integer since then
""",
)

SINK: Final = shape(
    "spark-sinks --list, spark-sinks --describe",
    """
    sink_id string of the query
    written_ms integer? when it wrote last; null for never
    last_batch integer? null before the first
    open_transactions {string} by transactional id, where they are
    objections [string] why it is not removed without --force; none where it may be
""",
)
REMOVED_SINK: Final = shape(
    "spark-sinks --delete",
    """
    sink_id string of the query
    removed boolean false without --execute
    error error? why it is still there
""",
)

SHAPES: Final = tuple(
    value
    for module in (globals(), vars(tool_shapes), vars(pipeline_shapes))
    for value in list(module.values())
    if isinstance(value, Shape)
)
"""All of them, those of failures first."""
