"""`kavka acls`: list, add and remove ACLs, as `kafka-acls.sh` does."""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Final

from kavka.cli.admin.connection import with_admin
from kavka.cli.arguments.options import JSON, BadUsage, Given, Option, OptionSet
from kavka.cli.json_lines import shapes
from kavka.cli.json_lines.lines import print_error, print_rows
from kavka.cli.json_rows.entities import acl_rows
from kavka.cli.text.java_errors import spelt_together
from kavka.client.admin.acls import (
    AclBinding,
    AclEntry,
    AclFilter,
    AclOperation,
    AclPermission,
    AclResourceType,
    PatternType,
    ResourcePattern,
)
from kavka.client.admin.admin import Admin
from kavka.core.access.entries import Principal
from kavka.core.access.names import CLUSTER_NAME, SUPPORTED_OPERATIONS, WILDCARD, titled
from kavka.errors import KafkaError

_O = AclOperation
_OPERATIONS = ", ".join(o.title for o in AclOperation if o > AclOperation.ANY)

OPTIONS = OptionSet(
    "This tool helps to manage acls on kafka.",
    Option("bootstrap-controller", "Not for this cluster: its brokers take changes of ACLs.", "at"),
    Option("add", "Add ACLs."),
    Option("remove", "Remove ACLs."),
    Option("list", "List the ACLs of resources, or all ACLs."),
    Option("topic", "A topic; '*' stands for all topics.", "topic"),
    Option("group", "A consumer group; '*' stands for all groups.", "group"),
    Option("cluster", "The cluster."),
    Option("transactional-id", "A transactional id; '*' stands for all.", "transactional-id"),
    Option("delegation-token", "A delegation token; '*' stands for all.", "delegation-token"),
    Option("user-principal", "A user as the resource of an operation.", "user-principal"),
    Option(
        "resource-pattern-type",
        "literal (the default) or prefixed; to list and remove also any (either, with this name) and match (all that "
        "stand for the resource).",
        "type",
    ),
    Option("operation", f"An operation, All without it: {_OPERATIONS}.", "operation"),
    Option(
        "allow-principal", "A principal that is allowed: User:alice; User:* is all.", "principal"
    ),
    Option(
        "deny-principal",
        "A principal that is denied, which counts before what is allowed.",
        "principal",
    ),
    Option("allow-host", "A host of the allowed principals; without it all.", "host"),
    Option("deny-host", "A host of the denied principals; without it all.", "host"),
    Option(
        "principal", "List the ACLs of this principal only.", "principal", value_is_optional=True
    ),
    Option("producer", "What a producer needs: Write, Describe and Create on the topics."),
    Option(
        "consumer", "What a consumer needs: Read and Describe on the topics, Read on the groups."
    ),
    Option("idempotent", "With --producer: IdempotentWrite on the cluster."),
    Option("force", "Remove without asking."),
    JSON,
)

_RESOURCES: Final = {
    "topic": AclResourceType.TOPIC,
    "group": AclResourceType.GROUP,
    "transactional-id": AclResourceType.TRANSACTIONAL_ID,
    "delegation-token": AclResourceType.DELEGATION_TOKEN,
    "user-principal": AclResourceType.USER,
}
_CLUSTER: Final = ResourcePattern(AclResourceType.CLUSTER, CLUSTER_NAME)
_NO_RESOURCE: Final = (
    "You must provide at least one resource: --topic <topic> or --cluster or --group <group> "
    "or --delegation-token <Delegation Token ID>"
)

Act = Callable[[Admin], Awaitable[int]]
Wanted = dict[ResourcePattern, list[AclEntry]]
"""ACLs by pattern; the pattern type may be that of a filter."""


def main(argv: list[str]) -> int:
    """Run the command; 1 when the options do not go together or a broker refuses."""
    return OPTIONS.run(argv, _act)


def _act(given: Given) -> int:
    action = _check(given)
    act: Act
    try:
        if action == "list":
            act = _lister(given, _resources(given, is_required=False))
        else:
            wanted = _wanted(given)
            _check_operations(wanted)
            act = _adder(given, wanted) if action == "add" else _remover(given, wanted)
    except ValueError as error:
        return print_error(error) if given.has("json") else _failed(str(error))

    def failed(error: Exception) -> int:
        return _failed(spelt_together(error))

    return with_admin(given, act, failed)


def _failed(sentence: str) -> int:
    print(f"Error while executing ACL command: {sentence}", file=sys.stderr)
    return 1


# -- options


def _check(given: Given) -> str:
    """Return the action. Raise BadUsage when the options do not go together."""
    if given.has("bootstrap-controller"):
        raise BadUsage("--bootstrap-controller is for KRaft controllers; use --bootstrap-server.")
    given.require("bootstrap-server")
    actions = [name for name in ("list", "add", "remove") if given.has(name)]
    if len(actions) != 1:
        raise BadUsage("Command must include exactly one action: --list, --add, --remove. ")
    hosts = ("allow-host", "deny-host")
    principals = ("allow-principal", "deny-principal")
    if actions == ["remove"] and given.has("json") and not given.has("force"):
        raise BadUsage("--remove with --json asks nothing: give --force.")
    given.forbid("list", ("producer", "consumer", *hosts, *principals))
    for role in ("producer", "consumer"):
        given.forbid(role, ("operation", "deny-principal", "deny-host"))
    if given.has("producer") and not given.has("topic"):
        raise BadUsage("With --producer you must specify a --topic")
    if given.has("idempotent") and not given.has("producer"):
        raise BadUsage(
            "The --idempotent option is only available if --producer is set",
        )
    if given.has("consumer") and (
        not (given.has("topic") and given.has("group"))
        or (not given.has("producer") and given.has("cluster"))
    ):
        raise BadUsage(
            "With --consumer you must specify a --topic and a --group and no --cluster option "
            "should be specified."
        )
    return actions[0]


def _pattern_type(given: Given) -> PatternType:
    text = given.one("resource-pattern-type") or "literal"
    try:
        return titled(PatternType, text)
    except ValueError as error:
        raise BadUsage(f"Cannot parse argument '{text}' of option resource-pattern-type") from error


def _resources(given: Given, *, is_required: bool = True) -> list[ResourcePattern]:
    """Return the resources that options name. Raise BadUsage when there must be one and is none."""
    pattern_type = _pattern_type(given)
    found = [
        ResourcePattern(kind, name.strip(), pattern_type)
        for option, kind in _RESOURCES.items()
        for name in given.all(option)
    ]
    if pattern_type == PatternType.LITERAL and given.has("cluster", "idempotent"):
        found.append(_CLUSTER)
    if not found and is_required:
        raise BadUsage(_NO_RESOURCE)
    return list(dict.fromkeys(found))


def _principals(given: Given, option: str) -> list[str]:
    return [str(Principal.parse(text.strip())) for text in given.all(option)]


def _entries(given: Given, operations: Iterable[AclOperation]) -> list[AclEntry]:
    """Return what the options allow and deny, with these operations."""
    operations = list(operations)
    found = []
    for permission, word in ((AclPermission.ALLOW, "allow"), (AclPermission.DENY, "deny")):
        hosts = [host.strip() for host in given.all(f"{word}-host")] or [WILDCARD]
        found += [
            AclEntry(principal, host, operation, permission)
            for principal in _principals(given, f"{word}-principal")
            for operation in operations
            for host in hosts
        ]
    return list(dict.fromkeys(found))


def _wanted(given: Given) -> Wanted:
    """Return the ACLs that options describe, those of roles or those of an operation."""
    resources = _resources(given)
    wanted: Wanted = {}
    if not given.has("producer", "consumer"):
        texts = given.all("operation") or [AclOperation.ALL.title]
        entries = _entries(given, [titled(AclOperation, text.strip()) for text in texts])
        return dict.fromkeys(resources, entries)
    if given.has("producer"):
        for resource in resources:
            if resource.resource_type == AclResourceType.TOPIC:
                wanted[resource] = _entries(given, (_O.WRITE, _O.DESCRIBE, _O.CREATE))
            elif resource.resource_type == AclResourceType.TRANSACTIONAL_ID:
                wanted[resource] = _entries(given, (_O.WRITE, _O.DESCRIBE))
        if given.has("idempotent"):
            wanted[_CLUSTER] = _entries(given, (_O.IDEMPOTENT_WRITE,))
    if given.has("consumer"):
        for resource in resources:
            more: list[AclEntry] = []
            if resource.resource_type == AclResourceType.TOPIC:
                more = _entries(given, (_O.READ, _O.DESCRIBE))
            elif resource.resource_type == AclResourceType.GROUP:
                more = _entries(given, (_O.READ,))
            if resource.resource_type in (AclResourceType.TOPIC, AclResourceType.GROUP):
                wanted[resource] = list(dict.fromkeys([*wanted.get(resource, ()), *more]))
    return wanted


def _check_operations(wanted: Wanted) -> None:
    for resource, entries in wanted.items():
        valid = (*SUPPORTED_OPERATIONS[resource.resource_type], AclOperation.ALL)
        if any(entry.operation not in valid for entry in entries):
            listed = ", ".join(operation.name for operation in valid)
            raise BadUsage(
                f"ResourceType {resource.resource_type.name} only supports operations [{listed}]"
            )


# -- actions


def _lister(given: Given, resources: Sequence[ResourcePattern]) -> Act:
    principals = _principals(given, "principal")

    async def act(admin: Admin) -> int:
        found = await _described(admin, resources)
        if given.has("json"):
            print_rows(shapes.ACL, acl_rows(_of_principals(found, principals or None)))
            return 0
        if not principals:
            _print_current(found)
        for principal in principals:
            print(f"ACLs for principal `{principal}`")
            _print_current(_of_principals(found, [principal]))
        return 0

    return act


async def _described(admin: Admin, resources: Sequence[ResourcePattern]) -> Wanted:
    """Return the ACLs of resources, or all."""
    filters = [AclFilter(*resource) for resource in resources] or [AclFilter()]
    found: Wanted = {}
    for chosen in filters:
        for pattern, entry in await admin.describe_acls(chosen):
            entries = found.setdefault(pattern, [])
            if entry not in entries:
                entries.append(entry)
    return found


def _of_principals(found: Wanted, principals: Sequence[str] | None) -> Wanted:
    """Return the ACLs of principals; None stands for all."""
    return {
        pattern: mine
        for pattern, entries in found.items()
        if (mine := [e for e in entries if principals is None or e.principal in principals])
    }


def _print_current(found: Wanted) -> None:
    for pattern, entries in sorted(found.items()):
        print(f"Current ACLs for resource `{_resource(pattern)}`: \n {_lines(entries)} \n")


def _adder(given: Given, wanted: Wanted) -> Act:
    pattern_type = _pattern_type(given)
    if pattern_type not in (PatternType.LITERAL, PatternType.PREFIXED):
        raise BadUsage(
            f"A '--resource-pattern-type' value of '{pattern_type.name}' is not valid when adding acls."
        )
    if not all(wanted.values()):
        raise BadUsage(
            "You must specify one of: --allow-principal, --deny-principal when trying to add ACLs."
        )

    async def act(admin: Admin) -> int:
        as_json = given.has("json")
        for pattern, entries in wanted.items():
            if not as_json:
                print(f"Adding ACLs for resource `{_resource(pattern)}`: \n {_lines(entries)} \n")
            bindings = [AclBinding(pattern, entry) for entry in entries]
            for refused in (await admin.create_acls(bindings)).values():
                if refused is not None:
                    raise refused
            if as_json:
                print_rows(shapes.ACL, acl_rows({pattern: entries}))
        return 0

    return act


def _remover(given: Given, wanted: Wanted) -> Act:
    async def act(admin: Admin) -> int:
        for pattern, entries in wanted.items():
            if given.has("force") or _confirm(_question(pattern, entries)):
                removed = await _remove(admin, pattern, entries)
                if given.has("json"):
                    print_rows(shapes.ACL, acl_rows(removed))
        return 0

    return act


def _question(pattern: ResourcePattern, entries: Sequence[AclEntry]) -> str:
    resource = f"resource filter `{_resource(pattern)}`? (y/n)"
    if not entries:
        return f"Are you sure you want to delete all ACLs for {resource}"
    return f"Are you sure you want to remove ACLs: \n {_lines(entries)} \n from {resource}"


def _confirm(question: str) -> bool:
    print(question, flush=True)
    return sys.stdin.readline().strip().lower() == "y"


async def _remove(admin: Admin, pattern: ResourcePattern, entries: Sequence[AclEntry]) -> Wanted:
    """Remove ACLs, and return which there were."""
    everything = AclFilter(*pattern)
    filters = [
        everything._replace(
            principal=entry.principal,
            host=entry.host,
            operation=entry.operation,
            permission=entry.permission,
        )
        for entry in entries
    ] or [everything]
    removed: Wanted = {}
    for outcome in await admin.delete_acls(filters):
        if isinstance(outcome, KafkaError):
            raise outcome
        for gone, entry in outcome:
            removed.setdefault(gone, []).append(entry)
    return removed


# -- Java's texts


def _resource(pattern: ResourcePattern) -> str:
    return (
        f"ResourcePattern(resourceType={pattern.resource_type.name}, name={pattern.name}, "
        f"patternType={pattern.pattern_type.name})"
    )


def _lines(entries: Iterable[AclEntry]) -> str:
    return "\n".join(
        f"\t(principal={entry.principal}, host={entry.host}, operation={entry.operation.name}, "
        f"permissionType={entry.permission.name})"
        for entry in entries
    )
