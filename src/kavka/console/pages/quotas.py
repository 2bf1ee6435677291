"""Quotas of users, clients and addresses: the list, and a change of one."""

from __future__ import annotations

from dataclasses import dataclass

from kavka.client.admin.quotas import DEFAULT_ENTITY, ClientQuotaEntity
from kavka.console.failures import bad_request
from kavka.console.pages.topics import PAGE
from kavka.console.parameters import Arguments, Parameter
from kavka.console.sentences import Sentence, say
from kavka.console.subject import Action, Outcome, Page, Services
from kavka.console.views.paging import Paging, paged
from kavka.core.quota.entities import Name

_ROWS_OF_A_PAGE = 100
DEFAULT_NAME = "<default>"
"""In place of a name: all that have no quota of their own."""
KEYS = {
    "producer_byte_rate": say("bytes a second that are written, on each broker"),
    "consumer_byte_rate": say("bytes a second that are read, on each broker"),
    "request_percentage": say("per cent of a broker's time, 100 for each of its threads"),
    "controller_mutation_rate": say("partitions a second that are created and deleted"),
    "connection_creation_rate": say("new connections a second, of addresses only"),
}


@dataclass(frozen=True, slots=True)
class QuotaRow:
    """An entity's quota; a part that the entity has not is null, `<default>` is that of all others."""

    user: str | None
    client_id: str | None
    ip: str | None
    key: str
    value: float
    what: str


@dataclass(frozen=True, slots=True)
class QuotaList:
    """One page of the quotas."""

    rows: list[QuotaRow]
    paging: Paging


@dataclass(frozen=True, slots=True)
class QuotaForm:
    """The form for a quota; `current` is its present value."""

    keys: dict[str, Sentence]
    current: float | None


def _text(name: Name) -> str | None:
    return DEFAULT_NAME if name is DEFAULT_ENTITY else None if name is None else str(name)


def quota_rows(found: dict[ClientQuotaEntity, dict[str, float]]) -> list[QuotaRow]:
    """Return the quotas by entity."""
    rows = [
        QuotaRow(
            _text(entity.user),
            _text(entity.client_id),
            _text(entity.ip),
            key,
            value,
            KEYS.get(key, ""),
        )
        for entity, quotas in found.items()
        for key, value in quotas.items()
    ]
    return sorted(
        rows, key=lambda row: (row.ip or "", row.user or "", row.client_id or "", row.key)
    )


async def _load_list(services: Services, arguments: Arguments) -> QuotaList:
    found = await services.cluster.ask(lambda admin: admin.describe_client_quotas())
    rows, paging = paged(quota_rows(found), arguments.number("page"), _ROWS_OF_A_PAGE)
    return QuotaList(list(rows), paging)


def _name(text: str) -> Name:
    return DEFAULT_ENTITY if text == DEFAULT_NAME else text or None


def entity_of(arguments: Arguments) -> ClientQuotaEntity:
    """Return the entity of a form. Raise Refused for one that there cannot be."""
    user, client_id, ip = (arguments.text(name).strip() for name in ("user", "client_id", "ip"))
    if ip and (user or client_id):
        raise bad_request(say("An address has quotas of its own: leave user and client id empty."))
    if not (user or client_id or ip):
        raise bad_request(
            say("Neither user nor client id nor address is named."),
            say("{DEFAULT_NAME} names all others.", DEFAULT_NAME=DEFAULT_NAME),
        )
    return ClientQuotaEntity(_name(user), _name(client_id), _name(ip))


async def _load_form(services: Services, arguments: Arguments) -> QuotaForm:
    current = None
    if any(arguments.text(name) for name in ("user", "client_id", "ip")):
        entity = entity_of(arguments)
        found = await services.cluster.ask(lambda admin: admin.describe_client_quotas())
        current = found.get(entity, {}).get(arguments.text("key"))
    return QuotaForm(KEYS, current)


async def _change(services: Services, arguments: Arguments) -> Outcome:
    entity, key = entity_of(arguments), arguments.text("key")
    text = arguments.text("value").strip()
    value: float | None = None
    if not arguments.flag("remove"):
        try:
            value = float(text)
        except ValueError:
            raise bad_request(say("value is {text!r}, not a number.", text=text[:50])) from None
        if not 0 < value < 1e18:
            raise bad_request(say("value is {text}, and can be a number above 0.", text=text[:50]))
    outcomes = await services.cluster.ask(
        lambda admin: admin.alter_client_quotas({entity: {key: value}})
    )
    refused = outcomes.get(entity)
    if refused is not None:
        raise refused
    user, client, address = map(_text, entity)
    named = say("user {user}, client id {client}", user=user, client=client)
    if not (user and client):
        named = (
            say("user {name}", name=user)
            if user
            else say("client id {name}", name=client)
            if client
            else say("address {name}", name=address)
        )
    message = (
        say("The quota {key} of {named} was removed.", key=key, named=named)
        if value is None
        else say("The quota {key} of {named} is now {value:g}.", key=key, named=named, value=value)
    )
    return Outcome(message, "/quotas")


_FORM = Page(
    path="/quotas/change",
    summary="The form for one quota, with its present value.",
    template="quota_change.html",
    view=QuotaForm,
    load=_load_form,
    parameters=(
        Parameter("user", "text", f"The user; {DEFAULT_NAME} for all others."),
        Parameter("client_id", "text", f"The client id; {DEFAULT_NAME} for all others."),
        Parameter("ip", "text", f"The address; {DEFAULT_NAME} for all others."),
        Parameter("key", "choice", "The quota.", "producer_byte_rate", tuple(KEYS)),
        Parameter("value", "text", "For a change: the number."),
        Parameter("remove", "flag", "For a change: remove the quota.", "false"),
    ),
)

PAGES = (
    Page(
        path="/quotas",
        summary="The quotas of users, clients and addresses.",
        template="quotas.html",
        view=QuotaList,
        load=_load_list,
        parameters=(PAGE,),
    ),
    _FORM,
)
ACTIONS = (Action(_FORM, "Set or remove one quota.", _change),)
