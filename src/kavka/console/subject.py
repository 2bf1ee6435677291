"""The declarations that a subject makes: pages, which show, and actions, which change.

A page is served twice, as HTML at its path and as JSON below `/api`; both come from the same `load`. An action takes
a form at its path, or JSON below `/api`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from kavka.client.admin.admin import Admin
from kavka.console.alerts.service import Alerts
from kavka.console.connection import ClusterConnection
from kavka.console.history.recorder import History
from kavka.console.parameters import Arguments, Parameter
from kavka.console.registry import Registry
from kavka.console.sampler import Sampler
from kavka.console.sentences import Sentence

K = TypeVar("K")


@dataclass(frozen=True, slots=True)
class Services:
    """The parts that pages use."""

    cluster: ClusterConnection
    sampler: Sampler
    history: History
    alerts: Alerts
    registry: Registry | None = None

    async def change(
        self, key: K, call: Callable[[Admin], Awaitable[Mapping[K, Exception | None]]]
    ) -> None:
        """Have one thing changed by the admin client. Raise its error in the outcomes, and as `cluster.ask`."""
        refused = (await self.cluster.ask(call))[key]
        if refused is not None:
            raise refused


Load = Callable[[Services, Arguments], Awaitable[Any]]
"""Returns a view: a dataclass."""


@dataclass(frozen=True, slots=True)
class Page:
    """A page of one subject; `view` is the class of what `load` returns."""

    path: str
    summary: str
    template: str
    view: type
    load: Load
    parameters: tuple[Parameter, ...] = ()
    path_parameters: Mapping[str, str] = field(default_factory=dict)
    """The parts of the path in braces, and what each is."""
    ends_with_reader: bool = False
    """`load` is cancelled when the browser has left: its work is for nothing then."""
    live_s: float = 0
    """Seconds between two views of the page as server-sent events; 0: there are none."""
    audited: str = ""
    """The parameter that makes a request one for the audit, where it is given; the view has an `outcome` then."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """The change that an action has made, and the page that shows it."""

    message: Sentence
    location: str


@dataclass(frozen=True, slots=True)
class File:
    """The file of a download; `note` says how far was looked."""

    name: str
    media_type: str
    data: bytes
    note: str = ""


@dataclass(frozen=True, slots=True)
class Download:
    """A file of one subject, served at its path and below `/api`."""

    path: str
    summary: str
    media_types: tuple[str, ...]
    load: Callable[[Services, Arguments], Awaitable[File]]
    parameters: tuple[Parameter, ...] = ()
    path_parameters: Mapping[str, str] = field(default_factory=dict)


Act = Callable[[Services, Arguments], Awaitable[Outcome]]


@dataclass(frozen=True, slots=True)
class Action:
    """A change, sent by the form of `page`, which is shown again with the reason when it is refused."""

    page: Page
    summary: str
    act: Act
