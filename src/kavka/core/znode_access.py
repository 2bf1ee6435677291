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


class _Permissions:
    """The permissions of an access list by what they are given to: one look-up for an identity, however long it is."""

    __slots__ = ("_by_id", "_by_network", "_of_all", "_of_sasl_super")

    def __init__(self, entries: AccessList) -> None:
        """Read the list."""
        self._of_all = self._of_sasl_super = 0
        self._by_id: dict[tuple[str, str], int] = {}
        self._by_network: dict[tuple[int, int], dict[int, int]] = {}
        """By version of IP and length of the prefix, then by prefix."""
        for permissions, scheme, name in entries:
            if scheme == "world":
                self._of_all |= permissions if name == "anyone" else 0
                continue
            self._by_id[scheme, name] = self._by_id.get((scheme, name), 0) | permissions
            if scheme == "sasl":
                self._of_sasl_super |= permissions
            elif scheme == "ip" and (network := _network(name)) is not None:
                known = self._by_network.setdefault((network.version, network.prefixlen), {})
                prefix = int(network.network_address) >> network.max_prefixlen - network.prefixlen
                known[prefix] = known.get(prefix, 0) | permissions

    def of(self, identities: Collection[Identity]) -> int:
        """Return all permissions of a connection."""
        found = self._of_all
        for identity in identities:
            found |= self._by_id.get(identity, 0)
            if identity.scheme == "ip" and self._by_network:
                found |= self._of_address(identity.id)
        if Identity("sasl", _SASL_SUPER) in identities:
            found |= self._of_sasl_super
        return found

    def _of_address(self, text: str) -> int:
        import ipaddress  # only where there are such entries

        try:
            address = ipaddress.ip_address(text.partition("%")[0])
        except ValueError:
            return 0
        found, number = 0, int(address)
        for (version, length), prefixes in self._by_network.items():
            if version == address.version:
                found |= prefixes.get(number >> address.max_prefixlen - length, 0)
        return found


class _IndexedList(tuple[AclEntry, ...]):
    """An access list that remembers its permissions, from the first question on."""

    permissions: _Permissions | None = None


def indexed(entries: AccessList) -> AccessList:
    """Return an equal list of which questions cost the same however long it is."""
    return (
        entries if entries is OPEN or isinstance(entries, _IndexedList) else _IndexedList(entries)
    )


def allows(entries: AccessList, permissions: int, identities: Collection[Identity] | None) -> bool:
    """Return whether any of these permissions is given to a connection with these identities.

    None for identities is this process itself, which may do everything. A list without entries protects nothing.
    """
    if identities is None or entries is OPEN or not entries or SUPER in identities:
        return True
    if not isinstance(entries, _IndexedList):
        return bool(_Permissions(entries).of(identities) & permissions)
    if entries.permissions is None:
        entries.permissions = _Permissions(entries)
    return bool(entries.permissions.of(identities) & permissions)


def resolve(asked: Iterable[AclEntry], identities: Collection[Identity]) -> AccessList | None:
    """Return the access list that a request asks for: `auth` replaced by identities, each entry once.

    None refuses it: it has no entry or too many, one that cannot match, or `auth` without an authenticated identity.
    """
    found: dict[AclEntry, None] = {}
    of_auth: set[int] = set()
    """Permissions for which `auth` has been replaced: a request may have tens of thousands of such entries."""
    for entry in asked:
        if entry.scheme == "auth":
            if entry.permissions in of_auth:
                continue
            of_auth.add(entry.permissions)
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
    return OPEN if entries == OPEN else indexed(entries) if entries else None


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


def _network(expression: str) -> IPv4Network | IPv6Network | None:
    import ipaddress

    address, slash, bits = expression.partition("/")
    if slash and not bits.isdecimal():
        return None
    try:
        return ipaddress.ip_network(f"{address}{slash}{bits}", strict=False)
    except ValueError:
        return None
