"""Spelling of errors in Kafka's tools: scripts look for the names of Java's exceptions and for their sentences."""

from __future__ import annotations

import sys
import time

from kavka.errors import ErrorCode, KafkaError

_PACKAGE = "org.apache.kafka.common.errors."

_NAMES = {
    ErrorCode.UNKNOWN_SERVER_ERROR: "UnknownServerException",
    ErrorCode.CORRUPT_MESSAGE: "CorruptRecordException",
    ErrorCode.REQUEST_TIMED_OUT: "TimeoutException",
    ErrorCode.MESSAGE_TOO_LARGE: "RecordTooLargeException",
    ErrorCode.STALE_CONTROLLER_EPOCH: "ControllerMovedException",
    ErrorCode.OFFSET_METADATA_TOO_LARGE: "OffsetMetadataTooLarge",
    ErrorCode.NETWORK_EXCEPTION: "NetworkException",
    ErrorCode.INVALID_TOPIC_EXCEPTION: "InvalidTopicException",
    ErrorCode.RECORD_LIST_TOO_LARGE: "RecordBatchTooLargeException",
    ErrorCode.TOPIC_ALREADY_EXISTS: "TopicExistsException",
    ErrorCode.INVALID_CONFIG: "InvalidConfigurationException",
    ErrorCode.NON_EMPTY_GROUP: "GroupNotEmptyException",
    ErrorCode.KAFKA_STORAGE_ERROR: "KafkaStorageException",
    ErrorCode.TOPIC_AUTHORIZATION_FAILED: "TopicAuthorizationException",
    ErrorCode.GROUP_AUTHORIZATION_FAILED: "GroupAuthorizationException",
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED: "ClusterAuthorizationException",
    ErrorCode.SASL_AUTHENTICATION_FAILED: "SaslAuthenticationException",
    ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED: "DelegationTokenDisabledException",
    ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED: "UnsupportedByAuthenticationException",
    ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED: "DelegationTokenAuthorizationException",
}
"""The codes with an exception of another name."""

_SENTENCES = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: "This server does not host this topic-partition.",
    ErrorCode.OFFSET_OUT_OF_RANGE: "The requested offset is not within the range of offsets maintained by the server.",
    ErrorCode.UNKNOWN_MEMBER_ID: "The coordinator is not aware of this member.",
    ErrorCode.NON_EMPTY_GROUP: "The group is not empty.",
    ErrorCode.GROUP_ID_NOT_FOUND: "The group id does not exist.",
    ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC: "Deleting offsets of a topic is forbidden while the consumer group is "
    "actively subscribed to it.",
    ErrorCode.INVALID_GROUP_ID: "The group id is invalid.",
    ErrorCode.COORDINATOR_NOT_AVAILABLE: "The coordinator is not available.",
    ErrorCode.NOT_COORDINATOR: "This is not the correct coordinator.",
    ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED: "Delegation Token feature is not enabled.",
    ErrorCode.DELEGATION_TOKEN_NOT_FOUND: "Delegation Token is not found on server.",
    ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH: "Specified Principal is not valid Owner/Renewer.",
    ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED: "Delegation Token requests are not allowed on PLAINTEXT/1-way SSL "
    "channels and on delegation token authenticated channels.",
    ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED: "Delegation Token authorization failed.",
    ErrorCode.DELEGATION_TOKEN_EXPIRED: "Delegation Token is expired.",
    ErrorCode.INVALID_PRINCIPAL_TYPE: "Supplied principalType is not supported.",
}
"""Sentences of Kafka's tools for codes without a message; other codes have the message of `kavka.errors`."""


def java_name(code: ErrorCode) -> str:
    """Return the full name of the exception that Kafka's clients raise for a code."""
    if code is ErrorCode.INVALID_RECORD:  # the one that stands in another package
        return "org.apache.kafka.common.InvalidRecordException"
    return _PACKAGE + (
        _NAMES.get(code)
        or code.name.title().replace("_", "").removesuffix("Exception") + "Exception"
    )


def sentence(code: ErrorCode) -> str:
    """Return what Kafka's clients say about a code when the broker gave no text."""
    return _SENTENCES.get(code, code.message)


def spelt(error: BaseException, *, by_code: bool = False) -> tuple[str, str]:
    """Return (exception, text); `by_code` ignores the text of an error when the response has only a code."""
    if isinstance(error, KafkaError):
        text = None if by_code else error.detail
        return java_name(error.code), text or sentence(error.code)
    if isinstance(error, TimeoutError):
        return _PACKAGE + "TimeoutException", str(error)
    if isinstance(error, OSError):
        return _PACKAGE + "DisconnectException", str(error)
    return "java.lang.IllegalArgumentException", str(error)


def spelt_together(error: BaseException, *, by_code: bool = False) -> str:
    """Return `exception: text`."""
    return ": ".join(spelt(error, by_code=by_code))


def log_line(level: str, text: str, logger: str) -> None:
    """Write a line to standard error as the logger of Kafka's tools would."""
    now = time.time()
    stamp = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(now))
    print(f"[{stamp},{int(now * 1000) % 1000:03d}] {level} {text} ({logger})", file=sys.stderr)
