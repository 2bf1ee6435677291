"""Users with SCRAM credentials: the list, a new or another password, and the removal. A password is never shown."""

from __future__ import annotations

from dataclasses import dataclass

from kavka.client.admin.user_credentials import (
    DEFAULT_ITERATIONS,
    ScramDeletion,
    ScramUpsertion,
)
from kavka.console.failures import bad_request, not_found
from kavka.console.pages.brokers import SEARCH
from kavka.console.pages.topics import PAGE
from kavka.console.parameters import Arguments, Parameter
from kavka.console.sentences import say
from kavka.console.subject import Action, Outcome, Page, Services
from kavka.console.views.paging import Paging, paged, searched
from kavka.core.sasl.scram_credential import SCRAM_MECHANISMS
from kavka.errors import KafkaError

_ROWS_OF_A_PAGE = 100
_MECHANISMS = tuple(SCRAM_MECHANISMS)


@dataclass(frozen=True, slots=True)
class Credential:
    """A SCRAM credential, without what it is made of."""

    mechanism: str
    iterations: int


@dataclass(frozen=True, slots=True)
class UserRow:
    """A user."""

    name: str
    credentials: list[Credential]


@dataclass(frozen=True, slots=True)
class UserList:
    """One page of the users that match."""

    rows: list[UserRow]
    paging: Paging
    total: int
    search: str


async def _load_list(services: Services, arguments: Arguments) -> UserList:
    has_words = searched(arguments.text("search"))
    found = await services.cluster.ask(lambda admin: admin.describe_user_scram_credentials())
    rows = [
        UserRow(name, [Credential(*one) for one in sorted(infos)])
        for name, infos in sorted(found.items())
        if not isinstance(infos, KafkaError) and has_words(name)
    ]
    shown, paging = paged(rows, arguments.number("page"), _ROWS_OF_A_PAGE)
    return UserList(list(shown), paging, len(found), arguments.text("search"))


# A password


@dataclass(frozen=True, slots=True)
class UserForm:
    """The form for a user's credential."""

    name: str
    mechanisms: list[str]
    iterations: int


async def _load_form(services: Services, arguments: Arguments) -> UserForm:
    return UserForm(arguments.text("user").strip(), list(_MECHANISMS), DEFAULT_ITERATIONS)


async def _set_password(services: Services, arguments: Arguments) -> Outcome:
    user, mechanism = arguments.text("user").strip(), arguments.text("mechanism")
    password = arguments.text("password")
    if not user:
        raise bad_request(say("user is missing: the name of the user."))
    if not password:
        raise bad_request(say("password is missing."))
    if arguments.text("again") != password:
        raise bad_request(say("The two passwords are not the same."), say("Type both again."))
    change = ScramUpsertion(user, mechanism, password, iterations=arguments.number("iterations"))
    await _alter(services, change)
    return Outcome(
        say("User {user} has a new password for {mechanism}.", user=user, mechanism=mechanism),
        "/users",
    )


async def _alter(services: Services, change: ScramUpsertion | ScramDeletion) -> None:
    await services.change(change.user, lambda admin: admin.alter_user_scram_credentials([change]))


# The removal


@dataclass(frozen=True, slots=True)
class UserRemoval:
    """The credential that would be removed."""

    name: str
    mechanism: str


async def _load_removal(services: Services, arguments: Arguments) -> UserRemoval:
    user, mechanism = arguments.text("user"), arguments.text("mechanism")
    found = await services.cluster.ask(lambda admin: admin.describe_user_scram_credentials([user]))
    infos = found.get(user)
    if infos is None or isinstance(infos, KafkaError) or mechanism not in {i[0] for i in infos}:
        raise not_found(
            say(
                "User {user!r} has no credential for {mechanism}.",
                user=user[:250],
                mechanism=mechanism,
            ),
            say("Look at the list."),
        )
    return UserRemoval(user, mechanism)


async def _remove(services: Services, arguments: Arguments) -> Outcome:
    user, mechanism = arguments.text("user"), arguments.text("mechanism")
    refusal = say("The credential was not removed: the confirmation is not the user's name.")
    arguments.confirm(user, refusal, say("remove it"))
    change = ScramDeletion(user, mechanism)
    await _alter(services, change)
    return Outcome(
        say("User {user} can no longer log in by {mechanism}.", user=user, mechanism=mechanism),
        "/users",
    )


_MECHANISM = Parameter("mechanism", "choice", "The SCRAM mechanism.", "SCRAM-SHA-512", _MECHANISMS)
_FORM = Page(
    path="/users/password",
    summary="The form for a user's password, which makes the user where there is none.",
    template="user_password.html",
    view=UserForm,
    load=_load_form,
    parameters=(
        Parameter("user", "text", "The name of the user."),
        _MECHANISM,
        Parameter("password", "secret", "For a change: the password."),
        Parameter("again", "secret", "For a change: the password again."),
        Parameter(
            "iterations",
            "integer",
            "For a change: iterations of the hash.",
            str(DEFAULT_ITERATIONS),
            minimum=4096,
            maximum=16384,
        ),
    ),
)
_REMOVE = Page(
    path="/users/remove",
    summary="The credential that would be removed, and the form to do it.",
    template="user_remove.html",
    view=UserRemoval,
    load=_load_removal,
    parameters=(
        Parameter("user", "text", say("The name of the user."), required=True),
        _MECHANISM,
        Parameter("confirm", "text", "For a change: the user's name, typed."),
    ),
)

PAGES = (
    Page(
        path="/users",
        summary="The users with SCRAM credentials.",
        template="users.html",
        view=UserList,
        load=_load_list,
        parameters=(SEARCH, PAGE),
    ),
    _FORM,
    _REMOVE,
)
ACTIONS = (
    Action(_FORM, "Give a user a password for one mechanism.", _set_password),
    Action(_REMOVE, "Remove a user's credential of one mechanism.", _remove),
)
