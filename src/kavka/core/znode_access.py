"""Access to znodes: the access list of a node, the identities of a connection, and the match of both. Pure.

    scheme   an identity is                                   an entry matches
    world    -                                                every connection, as `world:anyone`
    ip       the address of the connection                    that address, or its network: `10.0.0.0/8`
    digest   user and hash of `user:password` (AUTH)          the same
    sasl     the user of a SASL login                         the same; the user `super` matches every one
    x509     the name of the client's certificate             the same
    auth     -                                                stands for all authenticated identities of who writes it
    super    given by the server's settings                   everything

Source: ZooKeeper programmer's guide, "ZooKeeper access control using ACLs"; administrator's guide, "Authentication &
Authorization Options".
"""

from __future__ import annotations

import base64
from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from ipaddress import IPv4Network, IPv6Network

READ: Final = 1
WRITE: Final = 2
CREATE: Final = 4
DELETE: Final = 8
ADMIN: Final = 16
ALL: Final = 31

MAX_ENTRIES: Final = 1000
"""Entries of one access list: each request for the node is compared with them."""
_AUTHENTICATED: Final = ("digest", "sasl", "x509")
_SASL_SUPER: Final = "super"


class AclEntry(NamedTuple):
    """Permissions, the bits above, for one id of a scheme."""

    permissions: int
    scheme: str
    id: str


class Identity(NamedTuple):
    """An id by which a connection is known in a scheme."""

    scheme: str
    id: str


AccessList = tuple[AclEntry, ...]
OPEN: Final[AccessList] = (AclEntry(ALL, "world", "anyone"),)
"""Everything is allowed to every connection."""
SUPER: Final = Identity("super", "")


def allows(entries: AccessList, permissions: int, identities: Collection[Identity] | None) -> bool:
    """Return whether any of these permissions is given to a connection with these identities.

    None for identities is this process itself, which may do everything. A list without entries protects nothing.
    """
    if identities is None or entries is OPEN or not entries or SUPER in identities:
        return True
    return any(entry.permissions & permissions and _matches(entry, identities) for entry in entries)


def _matches(entry: AclEntry, identities: Collection[Identity]) -> bool:
    scheme, expression = entry.scheme, entry.id
    if scheme == "world":
        return expression == "anyone"
    if (scheme, expression) in identities:
        return True
    if scheme == "sasl":
        return Identity("sasl", _SASL_SUPER) in identities
    if scheme == "ip":
        return any(
            identity.scheme == "ip" and is_in_network(identity.id, expression)
            for identity in identities
        )
    return False


def resolve(asked: Iterable[AclEntry], identities: Collection[Identity]) -> AccessList | None:
    """Return the access list that a request asks for: `auth` replaced by identities, each entry once.

    None refuses it: it has no entry or too many, one that cannot match, or `auth` without an authenticated identity.
    """
    found: dict[AclEntry, None] = {}
    for entry in asked:
        if entry.scheme == "auth":
            own = [one for one in identities if one.scheme in _AUTHENTICATED]
            if not own:
                return None
            found.update({AclEntry(entry.permissions, *one): None for one in own})
        elif not _is_valid(entry):
            return None
        else:
            found[entry] = None
        if len(found) > MAX_ENTRIES:
            return None
    entries = tuple(found)
    return OPEN if entries == OPEN else entries or None


def _is_valid(entry: AclEntry) -> bool:
    """Return whether an entry can match an identity."""
    match entry.scheme:
        case "world":
            return entry.id == "anyone"
        case "digest":
            return entry.id.count(":") == 1
        case "sasl" | "x509":
            return bool(entry.id)
        case "ip":
            return _network(entry.id) is not None
    return False


def masked(entries: AccessList) -> AccessList:
    """Return an access list without the hashes of passwords, for those who may read and not administrate a node."""
    return tuple(
        entry._replace(id=entry.id.partition(":")[0] + ":x") if entry.scheme == "digest" else entry
        for entry in entries
    )


def digest_id(credentials: bytes) -> str:
    """Return the id of `user:password` in the scheme digest: `user:` and the hash of both in Base64."""
    # The hash is ZooKeeper's, and identifies rather than protects: use SASL or TLS over a network.
    import hashlib  # a start without access lists does without it

    hashed = hashlib.sha1(credentials, usedforsecurity=False).digest()
    user = credentials.partition(b":")[0].decode("utf-8", "replace")
    return f"{user}:{base64.b64encode(hashed).decode()}"


def is_in_network(address: str, expression: str) -> bool:
    """Return whether an address is the one, or in the network, of an entry `address` or `address/bits`."""
    network = _network(expression)
    if network is None:
        return False
    import ipaddress  # only where there are such entries

    try:
        return ipaddress.ip_address(address.partition("%")[0]) in network
    except ValueError:
        return False


def _network(expression: str) -> IPv4Network | IPv6Network | None:
    import ipaddress

    address, slash, bits = expression.partition("/")
    if slash and not bits.isdecimal():
        return None
    try:
        return ipaddress.ip_network(f"{address}{slash}{bits}", strict=False)
    except ValueError:
        return None
