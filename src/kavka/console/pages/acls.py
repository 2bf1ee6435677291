"""ACLs: the list, a new one, and the removal of one."""

from __future__ import annotations

from dataclasses import dataclass

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
from kavka.console.failures import bad_request, not_found
from kavka.console.formats import plain
from kavka.console.pages.brokers import SEARCH
from kavka.console.pages.topics import PAGE
from kavka.console.parameters import Arguments, Parameter
from kavka.console.sentences import NOTHING, Sentence, say
from kavka.console.subject import Action, Outcome, Page, Services
from kavka.console.views.paging import Paging, paged, searched
from kavka.core.access.names import CLUSTER_NAME, titled
from kavka.errors import ErrorCode, KafkaError

_ROWS_OF_A_PAGE = 100
_TYPES = tuple(one.title for one in AclResourceType if one > AclResourceType.ANY)
_OPERATIONS = tuple(one.title for one in AclOperation if one > AclOperation.ANY)
_PATTERNS = ("literal", "prefixed")
_NO_AUTHORIZER = say(
    "The brokers have no authorizer (authorizer.class.name): every client may do everything."
)


@dataclass(frozen=True, slots=True)
class AclRow:
    """An ACL, in the words of `kavka acls`."""

    resource_type: str
    name: str
    pattern: str
    """literal, or prefixed for all names that begin with it."""
    principal: str
    host: str
    operation: str
    permission: str
    """Allow or Deny."""


@dataclass(frozen=True, slots=True)
class AclList:
    """One page of the ACLs that match."""

    rows: list[AclRow]
    paging: Paging
    total: int
    search: str
    resource_type: str
    resource_types: list[str]
    note: Sentence
    """The reason why there are none."""


def acl_row(binding: AclBinding) -> AclRow:
    """Return an ACL as pages show it."""
    pattern, entry = binding
    return AclRow(
        resource_type=pattern.resource_type.title,
        name=pattern.name,
        pattern=pattern.pattern_type.name.lower(),
        principal=entry.principal,
        host=entry.host,
        operation=entry.operation.title,
        permission=entry.permission.title,
    )


def matching_acls(bindings: list[AclBinding], search: str, resource_type: str) -> list[AclRow]:
    """Return ACLs that have all words of a search anywhere, denials first for each resource."""
    has_words = searched(search)
    rows = [acl_row(binding) for binding in bindings]
    chosen = [
        row
        for row in rows
        if (not resource_type or row.resource_type == resource_type)
        and has_words(" ".join(map(str, plain(row).values())))
    ]
    return sorted(
        chosen,
        key=lambda row: (
            row.resource_type,
            row.name,
            row.pattern,
            row.permission != "Deny",
            row.principal,
            row.operation,
            row.host,
        ),
    )


async def _load_list(services: Services, arguments: Arguments) -> AclList:
    search, kind = arguments.text("search"), arguments.text("type")
    bindings: list[AclBinding] = []
    note = NOTHING
    try:
        bindings = await services.cluster.ask(lambda admin: admin.describe_acls())
    except KafkaError as error:
        if error.code is not ErrorCode.SECURITY_DISABLED:
            raise
        note = _NO_AUTHORIZER
    rows, paging = paged(
        matching_acls(bindings, search, kind), arguments.number("page"), _ROWS_OF_A_PAGE
    )
    return AclList(list(rows), paging, len(bindings), search, kind, list(_TYPES), note)


# One ACL of a form


@dataclass(frozen=True, slots=True)
class AclForm:
    """The form for a new ACL, and what its choices are."""

    resource_types: list[str]
    operations: list[str]


@dataclass(frozen=True, slots=True)
class AclRemoval:
    """The ACL that would be removed."""

    acl: AclRow
    confirmation: str
    """The text that confirms it."""


def _binding(arguments: Arguments) -> AclBinding:
    """Return the ACL of a form. Raise Refused."""
    kind = titled(AclResourceType, arguments.text("resource_type"))
    name = arguments.text("name") or (CLUSTER_NAME if kind is AclResourceType.CLUSTER else "")
    if not name:
        raise bad_request(say("name is missing: the name of the resource, or * for all."))
    principal = arguments.text("principal").strip()
    if principal and ":" not in principal:
        principal = f"User:{principal}"
    made = AclBinding(
        ResourcePattern(kind, name, PatternType[arguments.text("pattern").upper()]),
        AclEntry(
            principal,
            arguments.text("host").strip(),
            titled(AclOperation, arguments.text("operation")),
            titled(AclPermission, arguments.text("permission")),
        ),
    )
    fault = made.fault()
    if fault is not None:
        raise bad_request(say("{fault}.", fault=fault))
    return made


async def _load_new(services: Services, arguments: Arguments) -> AclForm:
    return AclForm(list(_TYPES), list(_OPERATIONS))


def _sentence(row: AclRow) -> Sentence:
    name = f"{row.name}*" if row.pattern == "prefixed" else row.name
    return say(
        "{permission} {operation} on {kind} {name} for {principal} from {host}",
        permission=row.permission,
        operation=row.operation,
        kind=row.resource_type,
        name=name,
        principal=row.principal,
        host=row.host,
    )


async def _create(services: Services, arguments: Arguments) -> Outcome:
    binding = _binding(arguments)
    await services.change(binding, lambda admin: admin.create_acls([binding]))
    return Outcome(say("The ACL was added: {acl}.", acl=_sentence(acl_row(binding))), "/acls")


def _exactly(binding: AclBinding) -> AclFilter:
    pattern, entry = binding
    return AclFilter(
        pattern.resource_type,
        pattern.name,
        pattern.pattern_type,
        entry.principal,
        entry.host,
        entry.operation,
        entry.permission,
    )


async def _load_removal(services: Services, arguments: Arguments) -> AclRemoval:
    row = acl_row(_binding(arguments))
    return AclRemoval(row, row.principal)


async def _remove(services: Services, arguments: Arguments) -> Outcome:
    binding = _binding(arguments)
    row = acl_row(binding)
    refusal = say("The ACL was not removed: the confirmation is not its principal.")
    arguments.confirm(row.principal, refusal, say("remove it"))
    chosen = _exactly(binding)
    [found] = await services.cluster.ask(lambda admin: admin.delete_acls([chosen]))
    if isinstance(found, KafkaError):
        raise found
    if not found:
        raise not_found(
            say("There is no ACL {acl}.", acl=_sentence(row)),
            say("Look at the list."),
        )
    return Outcome(say("The ACL was removed: {acl}.", acl=_sentence(row)), "/acls")


_ACL = (
    Parameter("resource_type", "choice", "The type of the resource.", "Topic", _TYPES),
    Parameter("name", "text", "The name of the resource, or its beginning; * for all."),
    Parameter("pattern", "choice", "Whether the name is whole.", "literal", _PATTERNS),
    Parameter(
        "principal",
        "text",
        say("The principal, such as User:alice; User:* for all."),
        required=True,
    ),
    Parameter("host", "text", "The address that it comes from; * for all.", "*"),
    Parameter("operation", "choice", "The operation.", "Read", _OPERATIONS),
    Parameter("permission", "choice", "Allow or Deny; a denial wins.", "Allow", ("Allow", "Deny")),
)
_NEW = Page(
    path="/acls/new",
    summary="The form for a new ACL.",
    template="acl_new.html",
    view=AclForm,
    load=_load_new,
    parameters=_ACL,
)
_REMOVE = Page(
    path="/acls/remove",
    summary="The ACL that would be removed, and the form to do it.",
    template="acl_remove.html",
    view=AclRemoval,
    load=_load_removal,
    parameters=(*_ACL, Parameter("confirm", "text", "For a change: the principal, typed.")),
)

PAGES = (
    Page(
        path="/acls",
        summary="The ACLs, by resource.",
        template="acls.html",
        view=AclList,
        load=_load_list,
        parameters=(
            SEARCH,
            Parameter("type", "choice", "Only this type of resource.", "", ("", *_TYPES)),
            PAGE,
        ),
    ),
    _NEW,
    _REMOVE,
)
ACTIONS = (
    Action(_NEW, "Add an ACL.", _create),
    Action(_REMOVE, "Remove one ACL.", _remove),
)
