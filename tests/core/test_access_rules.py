"""Decisions by ACLs, compared with a naive reading of what Kafka documents."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from kavka.core.access.entries import (
    AclBinding,
    AclEntry,
    AclFilter,
    Principal,
    ResourcePattern,
)
from kavka.core.access.names import (
    SUPPORTED_OPERATIONS,
    AclOperation,
    AclPermission,
    AclResourceType,
    PatternType,
)
from kavka.core.access.rules import AccessRules, Decisions, hosts_of
from support.examples import examples

_TOPIC = AclResourceType.TOPIC
_NAMES = st.sampled_from(["*", "a", "ab", "abc", "b", "ba"])
_PRINCIPALS = st.sampled_from(["User:alice", "User:bob", "User:*", "Group:alice"])
_HOSTS = st.sampled_from(["*", "10.0.0.1", "10.0.0.2"])
_OPERATIONS = st.sampled_from([o for o in AclOperation if o > AclOperation.ANY])
_TYPES = st.sampled_from([AclResourceType.TOPIC, AclResourceType.GROUP])
_KINDS = st.sampled_from([PatternType.LITERAL, PatternType.PREFIXED])
_PERMISSIONS = st.sampled_from([AclPermission.ALLOW, AclPermission.DENY])
_BINDINGS = st.builds(
    AclBinding,
    st.builds(ResourcePattern, _TYPES, _NAMES, _KINDS),
    st.builds(AclEntry, _PRINCIPALS, _HOSTS, _OPERATIONS, _PERMISSIONS),
)
_QUESTIONS = st.tuples(
    st.builds(Principal, st.sampled_from(["User", "Group"]), st.sampled_from(["alice", "bob"])),
    st.sampled_from(["10.0.0.1", "10.0.0.2", "10.0.0.3"]),
    st.sampled_from([o for o in AclOperation if o > AclOperation.ALL]),
    _TYPES,
    st.sampled_from(["a", "ab", "abc", "abcd", "b", "x"]),
)


def rules_of(bindings: list[AclBinding], *, allows_without_rules: bool = False) -> AccessRules:
    rules = AccessRules(allows_without_rules=allows_without_rules)
    for pattern in {binding.pattern for binding in bindings}:
        rules.put(pattern, [b.entry for b in bindings if b.pattern == pattern])
    return rules


def stands_for(pattern: ResourcePattern, kind: AclResourceType, name: str) -> bool:
    if pattern.resource_type != kind:
        return False
    if pattern.pattern_type == PatternType.PREFIXED:
        return name.startswith(pattern.name)
    return pattern.name in ("*", name)


def applies(entry: AclEntry, principal: Principal, host: str) -> bool:
    is_principal = entry.principal in ("User:*", f"{principal.type}:{principal.name}")
    return is_principal and entry.host in ("*", host)


def oracle(bindings: list[AclBinding], question: tuple, *, default: bool) -> bool:  # type: ignore[type-arg]
    principal, host, operation, kind, name = question
    found = [b.entry for b in bindings if stands_for(b.pattern, kind, name)]
    if not found:
        return default
    mine = [entry for entry in found if applies(entry, principal, host)]
    implying = {operation, AclOperation.ALL}
    if operation == AclOperation.DESCRIBE:
        implying |= {AclOperation.READ, AclOperation.WRITE, AclOperation.DELETE, AclOperation.ALTER}
    if operation == AclOperation.DESCRIBE_CONFIGS:
        implying |= {AclOperation.ALTER_CONFIGS}
    for entry in mine:
        is_named = entry.operation in (operation, AclOperation.ALL)
        if entry.permission == AclPermission.DENY and is_named:
            return False
    return any(
        entry.permission == AclPermission.ALLOW and entry.operation in implying for entry in mine
    )


@given(st.lists(_BINDINGS, max_size=12), st.lists(_QUESTIONS, max_size=10), st.booleans())
@settings(max_examples=examples(400))
def test_decisions_are_those_of_a_naive_reading(bindings, questions, default):
    rules = rules_of(bindings, allows_without_rules=default)
    assert rules.count == len(set(bindings))
    for question in questions * 2:  # the second time they are remembered
        assert rules.allows(*question) == oracle(bindings, question, default=default)


@given(st.lists(st.tuples(_BINDINGS, st.booleans()), max_size=20), st.lists(_QUESTIONS, max_size=4))
@settings(max_examples=examples(200))
def test_decisions_follow_each_change(changes, questions):
    rules = AccessRules()
    present: set[AclBinding] = set()
    for binding, is_added in changes:
        (present.add if is_added else present.discard)(binding)
        entries = [b.entry for b in present if b.pattern == binding.pattern]
        rules.put(binding.pattern, entries)
        for question in questions:
            assert rules.allows(*question) == oracle(list(present), question, default=False)
        assert set(rules.search(AclFilter())) == present


@given(st.lists(_BINDINGS, max_size=10), _QUESTIONS)
@settings(max_examples=examples(300))
def test_what_is_allowed_on_any_resource_is_allowed_on_one(bindings, question):
    """Kafka's response for any resource is that of some name, or of a name that no literal denies."""
    principal, host, operation, kind, _name = question
    operation = AclOperation.WRITE  # which nothing implies
    rules = rules_of(bindings)
    names = ["a", "ab", "abc", "b", "ba", "a_", "ab_", "abc_", "b_", "ba_", "z"]
    some = any(
        oracle(bindings, (principal, host, operation, kind, name), default=False) for name in names
    )
    allows_any = rules.allows_any(principal, host, operation, kind)
    if some:
        assert allows_any
    if allows_any and not some:
        # Kafka does not look at what is denied where all names are allowed.
        assert any(
            b.pattern == ResourcePattern(kind, "*") and b.entry.permission == AclPermission.ALLOW
            for b in bindings
        ) or any(b.pattern.name == "*" for b in bindings)


def test_super_users_are_denied_nothing():
    root = Principal("User", "root")
    rules = AccessRules([root])
    everyone = AclEntry("User:*", "*", AclOperation.ALL, AclPermission.DENY)
    rules.put(ResourcePattern(_TOPIC, "*"), [everyone])
    assert rules.allows(root, "h", AclOperation.WRITE, _TOPIC, "t")
    assert rules.allows_any(root, "h", AclOperation.WRITE, _TOPIC)
    assert not rules.allows(Principal("User", "other"), "h", AclOperation.WRITE, _TOPIC, "t")


def test_hosts_are_compared_in_each_text_of_an_address():
    assert hosts_of("127.0.0.1") == {"*", "127.0.0.1"}
    assert "0:0:0:0:0:0:0:1" in hosts_of("::1")
    assert "::1" in hosts_of("::1")
    assert "fe80:0:0:0:1:2:3:4" in hosts_of("fe80::1:2:3:4%eth0")


def test_remembered_decisions_are_bounded_and_shared_while_they_are_held():
    rules = AccessRules(allows_without_rules=True)
    alice = Principal("User", "alice")
    held = rules.decisions(alice, "h")
    for number in range(60_000):
        assert rules.allows(alice, "h", AclOperation.READ, _TOPIC, f"t{number}")
    assert 0 < len(held) <= 50_000
    assert rules.decisions(alice, "h") is held
    everyone = AclEntry("User:*", "*", AclOperation.ALL, AclPermission.DENY)
    rules.put(ResourcePattern(_TOPIC, "*"), [everyone])
    assert not held
    assert not rules.allows(alice, "h", AclOperation.READ, _TOPIC, "t1")
    assert len(held) == 1


def test_many_acls_that_are_loaded_empty_the_decisions_of_sessions_once():
    class Counted(Decisions):
        times_emptied = 0

        def clear(self) -> None:
            self.times_emptied += 1
            super().clear()

    rules = AccessRules()
    alice = Principal("User", "alice")
    held = rules._decisions[alice, "h"] = Counted()
    rules.allows(alice, "h", AclOperation.READ, _TOPIC, "t1")
    entry = AclEntry("User:alice", "*", AclOperation.READ, AclPermission.ALLOW)
    for number in range(3):
        rules.put(ResourcePattern(_TOPIC, f"t{number}"), [entry])
    assert held.times_emptied == 1
    assert rules.allows(alice, "h", AclOperation.READ, _TOPIC, "t1")


@given(st.lists(_BINDINGS, max_size=12), _NAMES, st.booleans())
@settings(max_examples=examples(200))
def test_a_match_filter_finds_the_acls_that_stand_for_a_resource(bindings, name, is_match):
    kind = PatternType.MATCH if is_match else PatternType.ANY
    found = set(rules_of(bindings).search(AclFilter(_TOPIC, name, kind)))
    for binding in bindings:
        pattern = binding.pattern
        wanted = pattern.name == name if not is_match else stands_for(pattern, _TOPIC, name)
        if pattern.resource_type != _TOPIC:
            wanted = False
        assert (binding in found) == wanted


def test_bindings_that_cannot_be_are_refused_by_their_fault():
    def fault(name="t", principal="User:a", host="*", kind=PatternType.LITERAL, operation=3):
        pattern = ResourcePattern(_TOPIC, name, kind)
        entry = AclEntry(principal, host, AclOperation(operation), AclPermission.ALLOW)
        return AclBinding(pattern, entry).fault()

    assert fault() is None
    assert fault("a/b") == "ACL binding contains invalid resource name: a/b"
    assert fault("..") == "ACL binding contains invalid resource name: .."
    assert "characters" in (fault("a\x00") or "")
    assert "expected a string in format" in (fault(principal="alice") or "")
    assert fault(kind=PatternType.MATCH) == "patternType must not be MATCH"
    assert fault(operation=1) == "operation must not be ANY"
    assert fault(operation=0) == "ACL binding contains unknown elements"
    assert fault(host="") is not None


def test_each_resource_type_has_operations():
    types = [t for t in AclResourceType if t > AclResourceType.ANY]
    assert sorted(SUPPORTED_OPERATIONS) == types


def test_decisions_about_names_that_a_client_made_long_are_not_remembered():
    rules = AccessRules()
    alice = Principal("User", "alice")
    decisions = rules.decisions(alice, "h")
    for length in (32_767, 249):
        assert not rules.allows(alice, "h", AclOperation.READ, _TOPIC, "t" * length)
    assert [name for _operation, _kind, name in decisions] == ["t" * 249]
