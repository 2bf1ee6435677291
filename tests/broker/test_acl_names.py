"""ACLs with names that look alike, or are long, or of any script: each is only what it is, and survives a restart."""

from __future__ import annotations

import unicodedata
from typing import Any

from kavka.core.access.entries import AclBinding, AclEntry, Principal, ResourcePattern
from kavka.core.access.names import AclOperation, AclPermission, AclResourceType, PatternType
from kavka.core.access.rules import AccessRules
from kavka.errors import ErrorCode
from kavka.wire.messages.create_acls import CreateAclsRequest
from kavka.wire.messages.describe_acls import DescribeAclsRequest
from kavka.wire.messages.find_coordinator import FindCoordinatorRequest
from support.access import SETTINGS, connected_as, creation
from support.one_broker import Run, Served

_ANY: dict[str, Any] = {"resource_type_filter": 3, "pattern_type_filter": 1}
NAMES = [
    "caf\N{LATIN SMALL LETTER E WITH ACUTE}",
    unicodedata.normalize("NFD", "caf\N{LATIN SMALL LETTER E WITH ACUTE}"),
    "admin",
    "\N{CYRILLIC SMALL LETTER A}dmin",
    "ADMIN",
    "admin\N{ZERO WIDTH SPACE}",
    "\N{RIGHT-TO-LEFT OVERRIDE}nimda",
    "admin ",
    "\N{FULLWIDTH ASTERISK}",
    "\N{ARABIC LETTER ALEF WITH MADDA ABOVE}\N{CJK UNIFIED IDEOGRAPH-6771}",
    "\N{LATIN SMALL LETTER SHARP S}",
    "SS",
    "\N{KELVIN SIGN}",
    "k:l,m=n\"o'p\\q",
    "%2F..%00",
    "n" * 5_000,
]
REFUSED = ["a/b", "..", "a\0b", "a\N{CARRIAGE RETURN}b", "\ue000", "\N{PILE OF POO}"]
"""Names that no znode of Apache ZooKeeper can have."""


def binding(name: str, user: str, *, is_prefix: bool = False) -> AclBinding:
    kind = PatternType.PREFIXED if is_prefix else PatternType.LITERAL
    entry = AclEntry(f"User:{user}", "*", AclOperation.DESCRIBE, AclPermission.ALLOW)
    return AclBinding(ResourcePattern(AclResourceType.GROUP, name, kind), entry)


async def created(served: Served, *bindings: AclBinding) -> list[int]:
    request = CreateAclsRequest(creations=[creation(one) for one in bindings])
    return [result.error_code for result in (await served.send(request)).results]


async def may_find(served: Served, group: str) -> bool:
    """Return whether the client may describe a group."""
    response = await served.send(FindCoordinatorRequest(key=group, key_type=0), 3)
    return bool(response.error_code != ErrorCode.GROUP_AUTHORIZATION_FAILED)


def test_names_of_groups_and_users_that_look_alike_are_different(run: Run) -> None:
    async def before(served: Served) -> None:
        assert await created(served, *(binding(name, name) for name in NAMES)) == [0] * len(NAMES)

    async def after(served: Served) -> None:
        response = await served.send(DescribeAclsRequest(**_ANY, operation=1, permission_type=1))
        found = {
            (resource.resource_name, entry.principal)
            for resource in response.resources
            for entry in resource.acls
        }
        assert found == {(name, f"User:{name}") for name in NAMES}
        for user in NAMES:
            client = await connected_as(served, user)
            assert [name for name in NAMES if await may_find(client, name)] == [user]

    run(before, **SETTINGS)
    run(after, **SETTINGS)


def test_names_that_no_znode_can_have_are_refused_alone(run: Run) -> None:
    async def story(served: Served) -> None:
        codes = await created(served, *(binding(name, "a") for name in (*REFUSED, "good")))
        assert codes == [ErrorCode.INVALID_REQUEST] * len(REFUSED) + [0]

    run(story, **SETTINGS)


def test_a_prefix_ends_between_characters_as_they_are_written() -> None:
    """A letter and its accent are two characters where they are written as two: the prefix may end between them."""
    composed, decomposed = NAMES[:2]
    rules = AccessRules()
    pattern, entry = binding("cafe", "a", is_prefix=True)
    rules.put(pattern, [entry])

    def allows(name: str) -> bool:
        user = Principal("User", "a")
        return rules.allows(user, "h", AclOperation.DESCRIBE, AclResourceType.GROUP, name)

    assert allows(decomposed)
    assert not allows(composed)
    assert not allows("CAFE")
