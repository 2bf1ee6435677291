"""Subjects of a schema registry: the list, one with its versions and their differences, and changes of it."""

from __future__ import annotations

import difflib
import json
from dataclasses import dataclass
from urllib.parse import urlencode

from kavka.client.schemas.errors import SchemaNotFound
from kavka.client.schemas.registry import AVRO, JSON, PROTOBUF, Schema, SchemaRegistry
from kavka.console.failures import Failure, Refused, bad_request
from kavka.console.pages.brokers import SEARCH
from kavka.console.pages.topics import PAGE
from kavka.console.parameters import Arguments, Parameter
from kavka.console.registry import Registry, no_registry
from kavka.console.sentences import NOTHING, Sentence, say
from kavka.console.subject import Action, Outcome, Page, Services
from kavka.console.views.paging import Paging, paged, searched

_ROWS_OF_A_PAGE = 50
_KINDS = (AVRO, JSON, PROTOBUF)
LEVELS = (
    "BACKWARD", "BACKWARD_TRANSITIVE", "FORWARD", "FORWARD_TRANSITIVE", "FULL", "FULL_TRANSITIVE", "NONE",
)  # fmt: skip
_MOST_CHARACTERS = 500_000


@dataclass(frozen=True, slots=True)
class SubjectRow:
    """A subject, with its newest version."""

    name: str
    version: int
    schema_id: int
    kind: str
    versions: int
    compatibility: str


@dataclass(frozen=True, slots=True)
class SubjectList:
    """One page of the subjects that match; without a registry `note` says what is missing."""

    url: str
    note: Sentence
    compatibility: str
    rows: list[SubjectRow]
    paging: Paging
    total: int
    search: str


@dataclass(frozen=True, slots=True)
class ReferenceView:
    """A schema that another one imports."""

    name: str
    subject: str
    version: int


@dataclass(frozen=True, slots=True)
class DiffLine:
    """A line of the difference of two versions; `kind` is same, added or removed."""

    kind: str
    text: str


@dataclass(frozen=True, slots=True)
class SubjectView:
    """One version of a subject, and what differs from another."""

    subject: str
    versions: list[int]
    version: int
    schema_id: int
    kind: str
    text: str
    references: list[ReferenceView]
    compatibility: str
    levels: list[str]
    compared: int | None
    """The version that this one is compared with."""
    diff: list[DiffLine]


def _registry(services: Services) -> Registry:
    if services.registry is None:
        raise no_registry()
    return services.registry


def pretty(schema: Schema) -> str:
    """Return the text of a schema, indented where it is JSON."""
    if schema.kind == PROTOBUF:
        return schema.text
    try:
        return json.dumps(json.loads(schema.text), indent=2, ensure_ascii=False)
    except ValueError:
        return schema.text


def difference(before: str, after: str) -> list[DiffLine]:
    """Return the lines of two texts with what was removed and added."""
    kinds = {" ": "same", "+": "added", "-": "removed"}
    return [
        DiffLine(kinds[line[0]], line[2:])
        for line in difflib.ndiff(before.splitlines(), after.splitlines())
        if line[0] in kinds
    ]


# The list


async def _load_list(services: Services, arguments: Arguments) -> SubjectList:
    search = arguments.text("search")
    registry = services.registry
    if registry is None:
        note = say("This console was started without --schema-registry, so it shows no schemas.")
        _, paging = paged([], 1, _ROWS_OF_A_PAGE)
        return SubjectList("", note, "", [], paging, 0, search)
    has_words = searched(search)

    def rows(client: SchemaRegistry) -> SubjectList:
        subjects = sorted(client.subjects())
        matching = [name for name in subjects if has_words(name)]
        shown, paging = paged(matching, arguments.number("page"), _ROWS_OF_A_PAGE)
        made = [row for name in shown if (row := _row(client, name)) is not None]
        level = client.compatibility()
        return SubjectList(registry.url, NOTHING, level, made, paging, len(subjects), search)

    return await registry.ask(rows)


def _row(client: SchemaRegistry, name: str) -> SubjectRow | None:
    try:
        latest = client.version(name)
        return SubjectRow(
            name=name,
            version=latest.version,
            schema_id=latest.schema_id,
            kind=latest.schema.kind,
            versions=len(client.versions(name)),
            compatibility=client.compatibility(name),
        )
    except SchemaNotFound:  # deleted meanwhile
        return None


# One subject


async def _load_subject(services: Services, arguments: Arguments) -> SubjectView:
    subject = arguments.text("name")
    wanted, compared = arguments.integer("version"), arguments.integer("compare")

    def view(client: SchemaRegistry) -> SubjectView:
        versions = client.versions(subject)
        found = client.version(subject, "latest" if wanted is None else wanted)
        earlier = [one for one in versions if one < found.version]
        other = compared if compared is not None else max(earlier, default=None)
        text = pretty(found.schema)
        diff = []
        if other is not None:
            diff = difference(pretty(client.version(subject, other).schema), text)
        return SubjectView(
            subject=subject,
            versions=versions,
            version=found.version,
            schema_id=found.schema_id,
            kind=found.schema.kind,
            text=text,
            references=[
                ReferenceView(one.name, one.subject, one.version) for one in found.schema.references
            ],
            compatibility=client.compatibility(subject),
            levels=list(LEVELS),
            compared=other,
            diff=diff,
        )

    return await _registry(services).ask(view)


async def _change_subject(services: Services, arguments: Arguments) -> Outcome:
    subject, registry = arguments.text("name"), _registry(services)
    if arguments.text("do") == "delete":
        refusal = say("The subject was not deleted: the confirmation is not its name.")
        arguments.confirm(subject, refusal, say("delete it"))
        versions = await registry.ask(lambda client: client.delete(subject))
        count = len(versions)
        return Outcome(
            say(
                "Subject {subject} was deleted, with {count} version{s}; its schemas stay "
                "readable by their ids.",
                subject=subject,
                count=count,
                s="" if count == 1 else "s",
            ),
            "/schemas",
        )
    level = arguments.text("level")
    await registry.ask(lambda client: client.set_compatibility(level, subject))
    return Outcome(
        say("The compatibility level of {subject} is now {level}.", subject=subject, level=level),
        "/schema?" + urlencode({"name": subject}),
    )


# A new version


@dataclass(frozen=True, slots=True)
class SchemaForm:
    """The form for a new version, filled with the newest one."""

    subject: str
    kind: str
    text: str
    kinds: list[str]


async def _load_form(services: Services, arguments: Arguments) -> SchemaForm:
    registry, subject = _registry(services), arguments.text("name").strip()
    kind, text = arguments.text("kind"), arguments.text("schema")
    if subject and not text:

        def latest(client: SchemaRegistry) -> Schema | None:
            try:
                return client.version(subject).schema
            except SchemaNotFound:
                return None

        found = await registry.ask(latest)
        if found is not None:
            kind, text = found.kind, pretty(found)
    return SchemaForm(subject, kind, text, list(_KINDS))


async def _register(services: Services, arguments: Arguments) -> Outcome:
    registry, subject = _registry(services), arguments.text("name").strip()
    text, kind = arguments.text("schema"), arguments.text("kind")
    if not subject or not text.strip():
        raise bad_request(say("name or schema is missing."))
    schema = Schema(text, kind)
    check = arguments.flag("check")

    def act(client: SchemaRegistry) -> tuple[list[str], int]:
        try:
            reasons = client.incompatibilities(subject, schema)
        except SchemaNotFound:  # the first version fits whatever it is
            reasons = []
        return reasons, 0 if reasons or check else client.register(subject, schema)

    reasons, schema_id = await registry.ask(act)
    if reasons:
        raise Refused(
            Failure(
                409,
                say("The schema is not compatible"),
                say(
                    "{subject} does not take it: {reasons}.",
                    subject=subject,
                    reasons="; ".join(reasons)[:2000],
                ),
                say("Change the schema, or the compatibility level of the subject."),
            )
        )
    location = "?" + urlencode({"name": subject})
    if check:
        return Outcome(
            say("{subject} would take this schema.", subject=subject), f"/schema/new{location}"
        )
    return Outcome(
        say("{subject} has the schema, with id {schema_id}.", subject=subject, schema_id=schema_id),
        f"/schema{location}",
    )


_NAME = Parameter("name", "text", say("The name of the subject."), required=True)
_SUBJECT = Page(
    path="/schema",
    summary="One version of a subject, its difference from another, and the forms that change the subject.",
    template="schema.html",
    view=SubjectView,
    load=_load_subject,
    parameters=(
        _NAME,
        Parameter("version", "integer", "The version; empty: the newest.", minimum=1),
        Parameter(
            "compare", "integer", "The version to compare with; empty: the one before.", minimum=1
        ),
        Parameter("do", "choice", "For a change: what to do.", "level", ("level", "delete")),
        Parameter("level", "choice", "For level: the compatibility level.", "BACKWARD", LEVELS),
        Parameter("confirm", "text", "For delete: the name of the subject, typed."),
    ),
)
_NEW = Page(
    path="/schema/new",
    summary="The form for a new version of a subject.",
    template="schema_new.html",
    view=SchemaForm,
    load=_load_form,
    parameters=(
        Parameter("name", "text", "The name of the subject, such as orders-value."),
        Parameter("kind", "choice", "The kind of the schema.", AVRO, _KINDS),
        Parameter("schema", "text", "The schema.", maximum=_MOST_CHARACTERS),
        Parameter("check", "flag", "Only check whether the subject would take it.", "false"),
    ),
)

PAGES = (
    Page(
        path="/schemas",
        summary="The subjects of the schema registry, with their newest version and compatibility level.",
        template="schemas.html",
        view=SubjectList,
        load=_load_list,
        parameters=(SEARCH, PAGE),
    ),
    _SUBJECT,
    _NEW,
)
ACTIONS = (
    Action(
        _SUBJECT,
        "Set the compatibility level of a subject, or delete the subject.",
        _change_subject,
    ),
    Action(_NEW, "Register a schema, or check whether the subject would take it.", _register),
)
