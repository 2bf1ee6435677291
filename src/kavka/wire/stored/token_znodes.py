"""Paths and payloads of the znodes of delegation tokens.

    /delegation_token/tokens/<id>                            a token without its secret
    /delegation_token/token_changes/token_change_NNNNNNNNNN  the id of a token that has changed, as text

Source: protocol of Apache Kafka 3.9's `kafka.zk.ZkData` and `DelegationTokenManagerZk`. Version 1 and 2 of a token have
no requester: it is the owner. The decoder raises ValueError, KeyError, TypeError or AttributeError for what does not
fit.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from kavka.wire.stored.znodes import entity_name, sanitized_name

TOKENS: Final = "/delegation_token/tokens"
CHANGES: Final = "/delegation_token/token_changes"
CHANGE: Final = "/delegation_token/token_changes/token_change_"
"""A sequence node is made at this path."""
_VERSION: Final = 3
_FIRST_WITH_REQUESTER: Final = 3


class TokenRow(NamedTuple):
    """A token in its znode; principals are texts like `User:alice`, times milliseconds since 1970."""

    token_id: str
    owner: str
    requester: str
    renewers: Sequence[str]
    issue_ms: int
    expiry_ms: int
    max_ms: int


def token_path(token_id: str) -> str:
    """Return the znode of a token."""
    return f"{TOKENS}/{token_id}"


def encode_token(row: TokenRow) -> bytes:
    """Return version 3 of the payload."""
    fields = {
        "version": _VERSION,
        "owner": sanitized_name(row.owner),
        "tokenRequester": sanitized_name(row.requester),
        "renewers": [sanitized_name(renewer) for renewer in row.renewers],
        "issueTimestamp": row.issue_ms,
        "maxTimestamp": row.max_ms,
        "expiryTimestamp": row.expiry_ms,
        "tokenId": row.token_id,
    }
    return json.dumps(fields, separators=(",", ":")).encode()


def decode_token(data: bytes) -> TokenRow:
    """Read the payload of versions 1 to 3."""
    fields = json.loads(data)
    version = fields["version"]
    if version not in range(1, _VERSION + 1):
        raise ValueError(f"a delegation token of version {version!r}, which is not known")
    owner = _name(fields["owner"])
    requester = owner
    if version >= _FIRST_WITH_REQUESTER:
        requester = _name(fields["tokenRequester"])
    return TokenRow(
        _text(fields["tokenId"]),
        owner,
        requester,
        tuple(_name(renewer) for renewer in fields["renewers"]),
        _number(fields["issueTimestamp"]),
        _number(fields["expiryTimestamp"]),
        _number(fields["maxTimestamp"]),
    )


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r} is no text")
    return value


def _name(value: Any) -> str:
    return entity_name(_text(value))


def _number(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"{value!r} is no number")
    return value
