"""Access lists: what they match, how they are resolved, and which operation needs which permission."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kavka.core.znode_access import (
    ADMIN,
    ALL,
    CREATE,
    DELETE,
    MAX_ENTRIES,
    OPEN,
    READ,
    SUPER,
    WRITE,
    AccessList,
    AclEntry,
    Identity,
    allows,
    digest_id,
    indexed,
    masked,
    resolve,
)
from kavka.core.znodes import (
    Check,
    Create,
    Delete,
    Operation,
    Refusal,
    SetAccess,
    SetData,
    Txn,
    ZnodeError,
    ZnodeTree,
)
from support.examples import examples

ALICE, BOB = Identity("sasl", "alice"), Identity("digest", digest_id(b"bob:secret"))
ADDRESS = Identity("ip", "10.1.2.3")

identities = st.sampled_from([ALICE, BOB, ADDRESS, Identity("x509", "CN=alice")])
entries = st.builds(
    AclEntry,
    st.integers(0, ALL),
    st.sampled_from(["world", "ip", "digest", "sasl", "x509", "auth", "other"]),
    st.sampled_from(["anyone", "alice", "bob", "10.1.2.3", "10.0.0.0/8", BOB.id, "", "CN=alice"]),
)
lists = st.lists(entries, min_size=1, max_size=4).map(tuple)
permissions = st.sampled_from([READ, WRITE, CREATE, DELETE, ADMIN])


@given(lists, permissions, st.sets(identities), st.sets(identities))
@settings(max_examples=examples(300))
def test_another_identity_never_takes_a_permission_away(
    access: AccessList, permission: int, some: set[Identity], more: set[Identity]
) -> None:
    assert allows(access, permission, some | more) >= allows(access, permission, some)


@given(lists, permissions, st.sets(identities))
@settings(max_examples=examples(300))
def test_a_permission_comes_from_an_entry_with_it_that_matches_alone(
    access: AccessList, permission: int, some: set[Identity]
) -> None:
    alone = [allows((entry,), permission, some) for entry in access]
    assert allows(access, permission, some) == any(alone)
    for entry, is_allowed in zip(access, alone, strict=True):
        assert not is_allowed or entry.permissions & permission
    assert allows(access, permission, some | {SUPER})
    assert allows(access, permission, None)


@given(lists, st.lists(st.tuples(permissions, st.sets(identities)), max_size=3))
def test_a_list_that_remembers_answers_as_one_that_does_not(
    access: AccessList, questions: list[tuple[int, set[Identity]]]
) -> None:
    remembered = indexed(access)
    assert remembered == access
    for permission, some in questions:
        assert allows(remembered, permission, some) == allows(access, permission, some)


@given(lists, st.sets(identities))
@settings(max_examples=examples(300))
def test_a_resolved_list_has_each_entry_once_and_resolves_to_itself(
    asked: AccessList, some: set[Identity]
) -> None:
    found = resolve(asked, some)
    if found is None:
        return
    assert len(set(found)) == len(found)
    assert all(entry.scheme != "auth" for entry in found)
    assert resolve(found, set()) == found
    own = [entry for entry in asked if entry.scheme == "auth"]
    for entry in own:
        assert allows(found, entry.permissions, some) or not entry.permissions


def test_auth_is_what_the_client_has_proved() -> None:
    creator = (AclEntry(ALL, "auth", ""), AclEntry(READ, "world", "anyone"))
    assert resolve(creator, [ADDRESS, ALICE, BOB]) == (
        AclEntry(ALL, *ALICE),
        AclEntry(ALL, *BOB),
        AclEntry(READ, "world", "anyone"),
    )
    assert resolve(creator, [ADDRESS]) is None
    assert resolve(creator, [ADDRESS, SUPER]) is None


def test_auth_is_replaced_once_for_each_permission() -> None:
    own = [Identity("digest", digest_id(b"u%d:p" % number)) for number in range(60)]
    read, write = (tuple(AclEntry(p, *one) for one in own) for p in (READ, WRITE))
    asked = [AclEntry(READ, "auth", str(n)) for n in range(20_000)] + [AclEntry(WRITE, "auth", "")]
    assert resolve(asked, own) == read + write


@pytest.mark.parametrize(
    ("scheme", "name"),
    [
        ("world", "everybody"),
        ("digest", "bob"),
        ("digest", "a:b:c"),
        ("ip", "here"),
        ("ip", "10.0.0.0/33"),
        ("ip", "10.0.0.0/255.0.0.0"),
        ("ip", "10.0.0.0/"),
        ("sasl", ""),
        ("super", ""),
        ("other", "x"),
    ],
)
def test_an_entry_that_cannot_match_is_refused(scheme: str, name: str) -> None:
    assert resolve([AclEntry(ALL, scheme, name)], [ALICE]) is None


def test_a_list_is_bounded_and_the_open_one_is_one_object() -> None:
    many = [AclEntry(READ, "sasl", f"user{number}") for number in range(MAX_ENTRIES)]
    assert resolve(many, []) == tuple(many)
    assert resolve([*many, AclEntry(READ, "sasl", "one more")], []) is None
    assert resolve([AclEntry(ALL, "world", "anyone")], []) is OPEN
    assert resolve([], []) is None


@pytest.mark.parametrize(
    ("address", "expression", "is_inside"),
    [
        ("10.1.2.3", "10.1.2.3", True),
        ("10.1.2.3", "10.1.2.4", False),
        ("10.1.2.3", "10.0.0.0/8", True),
        ("11.1.2.3", "10.0.0.0/8", False),
        ("10.1.2.3", "0.0.0.0/0", True),
        ("::1", "::/0", True),
        ("::1", "0.0.0.0/0", False),
        ("fe80::1%eth0", "fe80::/16", True),
        ("", "0.0.0.0/0", False),
        ("10.1.2.3", "nonsense", False),
    ],
)
def test_an_address_matches_its_networks(address: str, expression: str, is_inside: bool) -> None:
    access = (AclEntry(READ, "ip", expression),)
    assert allows(access, READ, [Identity("ip", address)]) is is_inside


def test_the_digest_is_zookeepers() -> None:
    # The example of ZooKeeper's documentation of DigestAuthenticationProvider.
    assert digest_id(b"super:test") == "super:D/InIHSb7yEEbrWz8b9l71RjZJU="
    hashed = AclEntry(ALL, "digest", digest_id(b"super:test"))
    assert masked((hashed, AclEntry(READ, "sasl", "a:b"))) == (
        AclEntry(ALL, "digest", "super:x"),
        AclEntry(READ, "sasl", "a:b"),
    )


def test_the_user_super_of_sasl_matches_every_user_of_sasl_and_no_other_scheme() -> None:
    root = [Identity("sasl", "super")]
    assert allows((AclEntry(READ, *ALICE),), READ, root)
    assert not allows((AclEntry(READ, *BOB),), READ, root)


def tree_with(access: AccessList) -> ZnodeTree:
    """A tree with `/p`, that has the list, and below it `/p/c`, that has it as well."""
    tree = ZnodeTree()
    txn = tree.prepare([Create("/p", access=access), Create("/p/c", access=access)], 0, 1)
    assert isinstance(txn, Txn)
    tree.apply(txn)
    return tree


NEEDED: list[tuple[Operation, int]] = [
    (Create("/p/new"), CREATE),
    (Create("/p/s-", sequence=True), CREATE),
    (Delete("/p/c"), DELETE),
    (SetData("/p/c", b"x"), WRITE),
    (Check("/p/c", 0), READ),
    (SetAccess("/p/c", OPEN), ADMIN),
]


@pytest.mark.parametrize(("operation", "needed"), NEEDED)
def test_each_operation_needs_one_permission(operation: Operation, needed: int) -> None:
    for permission in (READ, WRITE, CREATE, DELETE, ADMIN):
        tree = tree_with((AclEntry(permission, *ALICE),))
        outcome = tree.prepare([operation], 0, 1, {ALICE: None})
        if permission == needed:
            assert isinstance(outcome, Txn)
        else:
            assert outcome == Refusal(0, ZnodeError.NO_AUTH, operation.path)
        assert isinstance(tree.prepare([operation], 0, 1, None), Txn)


def test_a_multi_without_one_permission_does_nothing() -> None:
    tree = tree_with((AclEntry(CREATE | READ, *ALICE),))
    operations: list[Operation] = [Create("/p/new"), SetData("/p/c", b"x")]
    outcome = tree.prepare(operations, 0, 1, {ALICE: None})
    assert outcome == Refusal(1, ZnodeError.NO_AUTH, "/p/c")
    assert tree.stat("/p/new") is None


def test_a_node_of_a_multi_is_protected_within_it() -> None:
    tree = ZnodeTree()
    closed = (AclEntry(ALL, *BOB),)
    operations = [Create("/a", access=closed), Create("/a/b")]
    outcome = tree.prepare(operations, 0, 1, {ALICE: None})
    assert outcome == Refusal(1, ZnodeError.NO_AUTH, "/a/b")


def test_whether_a_node_exists_below_a_closed_one_does_not_show_in_refusals() -> None:
    tree = tree_with((AclEntry(ALL, *BOB),))
    for path in ("/p/c", "/p/none"):
        for operation in (Create(path), Delete(path)):
            outcome = tree.prepare([operation], 0, 1, {ALICE: None})
            assert outcome == Refusal(0, ZnodeError.NO_AUTH, path)


def test_changes_of_access_are_counted_apart() -> None:
    tree = tree_with(OPEN)
    mine = (AclEntry(ALL, "auth", ""),)
    txn = tree.prepare([SetAccess("/p", mine, 0)], 0, 1, {ALICE: None})
    assert isinstance(txn, Txn)
    before = tree.stat("/p")
    assert tree.apply(txn) == []
    after = tree.stat("/p")
    assert before is not None
    assert after == before._replace(aversion=1)
    assert tree.access("/p") == (AclEntry(ALL, *ALICE),)
    late = tree.prepare([SetAccess("/p", mine, 0)], 0, 1, {ALICE: None})
    assert late == Refusal(0, ZnodeError.BAD_VERSION, "/p")
    empty = tree.prepare([SetAccess("/p", ())], 0, 1, {ALICE: None})
    assert empty == Refusal(0, ZnodeError.INVALID_ACL, "/p")


def test_an_expired_session_takes_its_nodes_along_whatever_their_lists_say() -> None:
    tree = tree_with(OPEN)
    closed = (AclEntry(READ, *BOB),)
    txn = tree.prepare([Create("/e", ephemeral=True, access=closed)], 7, 1, {ALICE: None})
    assert isinstance(txn, Txn)
    tree.apply(txn)
    tree.apply(tree.prepare_session_end(7, 2))
    assert tree.stat("/e") is None
