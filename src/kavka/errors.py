"""Every error code of the protocol, as one table: code, whether trying again can help, and meaning.

Refusals travel as data, because Kafka answers per partition: brokers put an `ErrorCode` into a response,
clients raise `KafkaError` with it. Source: protocol guide, "Error codes".
"""

from __future__ import annotations

from enum import IntEnum
from typing import Any

_MAX_MESSAGE_LENGTH = 1000
RETRIABLE = True
"""The same request may succeed later, as Kafka's own clients judge it."""
FINAL = False
"""It will not."""


class ErrorCode(IntEnum):
    """An error code of the protocol: its number, whether it is `retriable`, and its `message`, one sentence."""

    retriable: bool
    message: str

    def __new__(cls, code: int, retriable: bool, message: str) -> ErrorCode:
        """Make the member `code`."""
        member = int.__new__(cls, code)
        member._value_ = code
        member.retriable = retriable
        member.message = message
        return member

    # fmt: off
    UNKNOWN_SERVER_ERROR = -1, FINAL, "The broker met an error that it did not expect."
    NONE = 0, FINAL, "No error."
    OFFSET_OUT_OF_RANGE = 1, FINAL, "The offset lies outside the range that the partition holds."
    CORRUPT_MESSAGE = 2, RETRIABLE, "The batch fails its checksum, has a wrong size, or is corrupt in another way."
    UNKNOWN_TOPIC_OR_PARTITION = 3, RETRIABLE, "This broker does not know the topic or the partition."
    INVALID_FETCH_SIZE = 4, FINAL, "The fetch size is not valid."
    LEADER_NOT_AVAILABLE = 5, RETRIABLE, "The partition has no leader now: it is being created or elects one."
    NOT_LEADER_OR_FOLLOWER = 6, RETRIABLE, "This broker is not the replica that the request needs."
    REQUEST_TIMED_OUT = 7, RETRIABLE, "The request was not finished within its time."
    BROKER_NOT_AVAILABLE = 8, FINAL, "The broker is not available."
    REPLICA_NOT_AVAILABLE = 9, RETRIABLE, "The replica is not available."
    MESSAGE_TOO_LARGE = 10, FINAL, "The batch is larger than the topic's max.message.bytes."
    STALE_CONTROLLER_EPOCH = 11, FINAL, "The controller has moved to another broker."
    OFFSET_METADATA_TOO_LARGE = 12, FINAL, "The metadata of the committed offset is longer than offset.metadata.max.bytes."  # noqa: E501
    NETWORK_EXCEPTION = 13, RETRIABLE, "The connection broke before an answer came."
    COORDINATOR_LOAD_IN_PROGRESS = 14, RETRIABLE, "The coordinator is loading and cannot answer yet."
    COORDINATOR_NOT_AVAILABLE = 15, RETRIABLE, "The coordinator is not available."
    NOT_COORDINATOR = 16, RETRIABLE, "This broker is not the coordinator."
    INVALID_TOPIC_EXCEPTION = 17, FINAL, "The topic name is not valid, or the topic may not be written."
    RECORD_LIST_TOO_LARGE = 18, FINAL, "The batches of the request are larger than a segment."
    NOT_ENOUGH_REPLICAS = 19, RETRIABLE, "Fewer replicas are in sync than min.insync.replicas asks for."
    NOT_ENOUGH_REPLICAS_AFTER_APPEND = 20, RETRIABLE, "The batch is in the log, but fewer replicas are in sync than min.insync.replicas asks for."  # noqa: E501
    INVALID_REQUIRED_ACKS = 21, FINAL, "acks is none of 0, 1 and -1 (all)."
    ILLEGAL_GENERATION = 22, FINAL, "The generation is not the group's."
    INCONSISTENT_GROUP_PROTOCOL = 23, FINAL, "The member's protocol type or protocols do not fit those of the group."
    INVALID_GROUP_ID = 24, FINAL, "The group id is not valid."
    UNKNOWN_MEMBER_ID = 25, FINAL, "The coordinator does not know this member."
    INVALID_SESSION_TIMEOUT = 26, FINAL, "The session timeout lies outside group.min.session.timeout.ms to group.max.session.timeout.ms."  # noqa: E501
    REBALANCE_IN_PROGRESS = 27, FINAL, "The group rebalances: the member must rejoin."
    INVALID_COMMIT_OFFSET_SIZE = 28, FINAL, "The commit is too large to be stored."
    TOPIC_AUTHORIZATION_FAILED = 29, FINAL, "Topic authorization failed."
    GROUP_AUTHORIZATION_FAILED = 30, FINAL, "Group authorization failed."
    CLUSTER_AUTHORIZATION_FAILED = 31, FINAL, "Cluster authorization failed."
    INVALID_TIMESTAMP = 32, FINAL, "The timestamp of a record is out of the accepted range."
    UNSUPPORTED_SASL_MECHANISM = 33, FINAL, "The broker does not offer this SASL mechanism."
    ILLEGAL_SASL_STATE = 34, FINAL, "The request is not valid in the present SASL state."
    UNSUPPORTED_VERSION = 35, FINAL, "The version of the API is not supported."
    TOPIC_ALREADY_EXISTS = 36, FINAL, "A topic of this name exists."
    INVALID_PARTITIONS = 37, FINAL, "The number of partitions is not valid."
    INVALID_REPLICATION_FACTOR = 38, FINAL, "The replication factor is below 1 or larger than the number of available brokers."  # noqa: E501
    INVALID_REPLICA_ASSIGNMENT = 39, FINAL, "The replica assignment is not valid."
    INVALID_CONFIG = 40, FINAL, "The configuration is not valid."
    NOT_CONTROLLER = 41, RETRIABLE, "This broker is not the controller."
    INVALID_REQUEST = 42, FINAL, "The request breaks the protocol or its own rules."
    UNSUPPORTED_FOR_MESSAGE_FORMAT = 43, FINAL, "The message format of the partition does not support the request."
    POLICY_VIOLATION = 44, FINAL, "The request violates the broker's policy."
    OUT_OF_ORDER_SEQUENCE_NUMBER = 45, FINAL, "The sequence number does not follow the producer's last one."
    DUPLICATE_SEQUENCE_NUMBER = 46, FINAL, "The sequence number was already written."
    INVALID_PRODUCER_EPOCH = 47, FINAL, "The producer epoch is older than the one last seen."
    INVALID_TXN_STATE = 48, FINAL, "The transaction is in a state that does not allow the request."
    INVALID_PRODUCER_ID_MAPPING = 49, FINAL, "The producer id does not belong to this transactional id."
    INVALID_TRANSACTION_TIMEOUT = 50, FINAL, "The transaction timeout is larger than transaction.max.timeout.ms."
    CONCURRENT_TRANSACTIONS = 51, RETRIABLE, "Another operation on the same transaction is in progress."
    TRANSACTION_COORDINATOR_FENCED = 52, FINAL, "The transaction coordinator that sent this is no longer the current one."  # noqa: E501
    TRANSACTIONAL_ID_AUTHORIZATION_FAILED = 53, FINAL, "Transactional id authorization failed."
    SECURITY_DISABLED = 54, FINAL, "Security features are disabled."
    OPERATION_NOT_ATTEMPTED = 55, FINAL, "The operation was not attempted, because another part of the request failed."
    KAFKA_STORAGE_ERROR = 56, RETRIABLE, "The disk failed while the log was accessed."
    LOG_DIR_NOT_FOUND = 57, FINAL, "The broker has no such log directory."
    SASL_AUTHENTICATION_FAILED = 58, FINAL, "SASL authentication failed."
    UNKNOWN_PRODUCER_ID = 59, FINAL, "The partition holds nothing of this producer id any more."
    REASSIGNMENT_IN_PROGRESS = 60, FINAL, "A reassignment of the partition is in progress."
    DELEGATION_TOKEN_AUTH_DISABLED = 61, FINAL, "Delegation token auth disabled."
    DELEGATION_TOKEN_NOT_FOUND = 62, FINAL, "Delegation token not found."
    DELEGATION_TOKEN_OWNER_MISMATCH = 63, FINAL, "Delegation token owner mismatch."
    DELEGATION_TOKEN_REQUEST_NOT_ALLOWED = 64, FINAL, "Delegation token request not allowed."
    DELEGATION_TOKEN_AUTHORIZATION_FAILED = 65, FINAL, "Delegation token authorization failed."
    DELEGATION_TOKEN_EXPIRED = 66, FINAL, "Delegation token expired."
    INVALID_PRINCIPAL_TYPE = 67, FINAL, "Invalid principal type."
    NON_EMPTY_GROUP = 68, FINAL, "The group still has members."
    GROUP_ID_NOT_FOUND = 69, FINAL, "The group does not exist."
    FETCH_SESSION_ID_NOT_FOUND = 70, RETRIABLE, "The broker does not know this fetch session."
    INVALID_FETCH_SESSION_EPOCH = 71, RETRIABLE, "The epoch of the fetch session is not the expected one."
    LISTENER_NOT_FOUND = 72, RETRIABLE, "The leader has no listener of this name."
    TOPIC_DELETION_DISABLED = 73, FINAL, "Topic deletion is disabled (delete.topic.enable)."
    FENCED_LEADER_EPOCH = 74, RETRIABLE, "The leader epoch of the request is older than the broker's."
    UNKNOWN_LEADER_EPOCH = 75, RETRIABLE, "The leader epoch of the request is newer than the broker's."
    UNSUPPORTED_COMPRESSION_TYPE = 76, FINAL, "The version of the request does not support this compression type."
    STALE_BROKER_EPOCH = 77, FINAL, "The broker epoch is older than the registered one."
    OFFSET_NOT_AVAILABLE = 78, RETRIABLE, "The new leader's high watermark has not caught up yet."
    MEMBER_ID_REQUIRED = 79, FINAL, "The member must join again with the member id that it was given."
    PREFERRED_LEADER_NOT_AVAILABLE = 80, RETRIABLE, "The preferred leader is not available."
    GROUP_MAX_SIZE_REACHED = 81, FINAL, "The group has group.max.size members."
    FENCED_INSTANCE_ID = 82, FINAL, "Another member has registered with the same group.instance.id."
    ELIGIBLE_LEADERS_NOT_AVAILABLE = 83, RETRIABLE, "No replica may become leader."
    ELECTION_NOT_NEEDED = 84, RETRIABLE, "The partition already has the leader that was asked for."
    NO_REASSIGNMENT_IN_PROGRESS = 85, FINAL, "No reassignment of the partition is in progress."
    GROUP_SUBSCRIBED_TO_TOPIC = 86, FINAL, "A member of the group is subscribed to the topic."
    INVALID_RECORD = 87, FINAL, "A record breaks a rule of the topic."
    UNSTABLE_OFFSET_COMMIT = 88, RETRIABLE, "The offset is part of a transaction that is not finished."
    THROTTLING_QUOTA_EXCEEDED = 89, RETRIABLE, "The quota is exceeded."
    PRODUCER_FENCED = 90, FINAL, "A newer producer has the same transactional id."
    RESOURCE_NOT_FOUND = 91, FINAL, "The resource does not exist."
    DUPLICATE_RESOURCE = 92, FINAL, "The resource is named twice."
    UNACCEPTABLE_CREDENTIAL = 93, FINAL, "Unacceptable credential."
    INCONSISTENT_VOTER_SET = 94, FINAL, "Inconsistent voter set."
    INVALID_UPDATE_VERSION = 95, FINAL, "Invalid update version."
    FEATURE_UPDATE_FAILED = 96, FINAL, "Feature update failed."
    PRINCIPAL_DESERIALIZATION_FAILURE = 97, FINAL, "Principal deserialization failure."
    SNAPSHOT_NOT_FOUND = 98, FINAL, "Snapshot not found."
    POSITION_OUT_OF_RANGE = 99, FINAL, "Position out of range."
    UNKNOWN_TOPIC_ID = 100, RETRIABLE, "This broker does not know the topic id."
    DUPLICATE_BROKER_REGISTRATION = 101, FINAL, "The broker id is in use."
    BROKER_ID_NOT_REGISTERED = 102, FINAL, "Broker id not registered."
    INCONSISTENT_TOPIC_ID = 103, RETRIABLE, "The topic id is not that of the log."
    INCONSISTENT_CLUSTER_ID = 104, FINAL, "The cluster id is not that of the broker."
    TRANSACTIONAL_ID_NOT_FOUND = 105, FINAL, "Transactional id not found."
    FETCH_SESSION_TOPIC_ID_ERROR = 106, RETRIABLE, "The fetch session mixes topic ids and topic names."
    INELIGIBLE_REPLICA = 107, FINAL, "Ineligible replica."
    NEW_LEADER_ELECTED = 108, FINAL, "New leader elected."
    OFFSET_MOVED_TO_TIERED_STORAGE = 109, FINAL, "Offset moved to tiered storage."
    FENCED_MEMBER_EPOCH = 110, FINAL, "Fenced member epoch."
    UNRELEASED_INSTANCE_ID = 111, FINAL, "Unreleased instance id."
    UNSUPPORTED_ASSIGNOR = 112, FINAL, "Unsupported assignor."
    STALE_MEMBER_EPOCH = 113, FINAL, "Stale member epoch."
    MISMATCHED_ENDPOINT_TYPE = 114, FINAL, "Mismatched endpoint type."
    UNSUPPORTED_ENDPOINT_TYPE = 115, FINAL, "Unsupported endpoint type."
    UNKNOWN_CONTROLLER_ID = 116, FINAL, "Unknown controller id."
    UNKNOWN_SUBSCRIPTION_ID = 117, FINAL, "Unknown subscription id."
    TELEMETRY_TOO_LARGE = 118, FINAL, "Telemetry too large."
    INVALID_REGISTRATION = 119, FINAL, "Invalid registration."
    TRANSACTION_ABORTABLE = 120, FINAL, "Transaction abortable."
    INVALID_RECORD_STATE = 121, FINAL, "Invalid record state."
    SHARE_SESSION_NOT_FOUND = 122, RETRIABLE, "Share session not found."
    INVALID_SHARE_SESSION_EPOCH = 123, RETRIABLE, "Invalid share session epoch."
    FENCED_STATE_EPOCH = 124, FINAL, "Fenced state epoch."
    INVALID_VOTER_KEY = 125, FINAL, "Invalid voter key."
    DUPLICATE_VOTER = 126, FINAL, "Duplicate voter."
    VOTER_NOT_FOUND = 127, FINAL, "Voter not found."
    INVALID_REGULAR_EXPRESSION = 128, FINAL, "Invalid regular expression."
    REBOOTSTRAP_REQUIRED = 129, FINAL, "Rebootstrap required."
    STREAMS_INVALID_TOPOLOGY = 130, FINAL, "Streams invalid topology."
    STREAMS_INVALID_TOPOLOGY_EPOCH = 131, FINAL, "Streams invalid topology epoch."
    STREAMS_TOPOLOGY_FENCED = 132, FINAL, "Streams topology fenced."
    SHARE_SESSION_LIMIT_REACHED = 133, RETRIABLE, "Share session limit reached."
    GROUP_DELETION_FAILED = 134, FINAL, "Group deletion failed."
    STREAMS_TOPOLOGY_DESCRIPTION_UPDATE_FAILED = 135, FINAL, "Streams topology description update failed."
    CONTROLLER_ID_NOT_REGISTERED = 136, FINAL, "Controller id not registered."
    # fmt: on

    @classmethod
    def of(cls, code: int) -> ErrorCode:
        """Return the member of `code`; a code of a newer release is UNKNOWN_SERVER_ERROR."""
        found = cls._value2member_map_.get(code)
        return found if isinstance(found, cls) else cls.UNKNOWN_SERVER_ERROR


def error_message(text: str) -> str:
    """Return a text as it may stand in a response: what a client sent can make one longer than a string may be."""
    if len(text) <= _MAX_MESSAGE_LENGTH:
        return text
    return f"{text[:_MAX_MESSAGE_LENGTH]}... ({len(text)} characters)"


class PickledError(Exception):
    """An exception that is pickled as it is, whatever its constructor takes.

    By Python's own way the constructor gets the message alone: its TypeError ends a pool of processes.
    """

    def __reduce__(self) -> tuple[Any, ...]:
        """Return what makes it again without its constructor."""
        return _unpickled, (type(self), self.args, self.__dict__)


def _unpickled(kind: type[Exception], args: tuple[Any, ...], facts: dict[str, Any]) -> Exception:
    error = kind.__new__(kind)
    error.args = args
    error.__dict__.update(facts)
    return error


class KafkaError(PickledError):
    """A refusal raised to a caller: `code` is the broker's response, `retriable` whether to try again."""

    def __init__(self, code: ErrorCode, detail: str | None = None) -> None:
        """Say `detail` in place of the table's sentence when the response carried one."""
        super().__init__(f"{code.name}: {detail or code.message}")
        self.code = code
        self.detail = detail

    @property
    def retriable(self) -> bool:
        """Return whether the same call may succeed later."""
        return self.code.retriable


class AuthenticationFailed(KafkaError):
    """A broker did not authenticate this client, or the broker could not be: `mechanism` and `reason` say why.

    Another try with the same credential is in vain, so no client makes one by itself.
    """

    def __init__(
        self,
        mechanism: str,
        reason: str,
        code: ErrorCode = ErrorCode.SASL_AUTHENTICATION_FAILED,
    ) -> None:
        """`reason` is the broker's sentence, or the client's; it holds no secret."""
        super().__init__(code, f"{mechanism}: {reason}")
        self.mechanism = mechanism
        self.reason = reason
