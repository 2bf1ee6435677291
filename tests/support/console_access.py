"""Consoles with logins, for tests: users whose passwords cost little to check, and browsers of them."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from argon2 import PasswordHasher
from starlette.testclient import TestClient

from kavka.console.access.config import Access, access_of
from kavka.console.access.exposure import Exposure
from kavka.console.application import create_application
from kavka.console.options import ConsoleOptions

CHEAP = PasswordHasher(time_cost=1, memory_cost=8, parallelism=1)
BASE = "http://127.0.0.1:8080"
NAMES: dict[str, dict[str, Any]] = {
    "ada": {"role": "administrator"},
    "otto": {"role": "operator", "topics": ["team-"]},
    "vera": {"role": "viewer", "topics": ["team-"]},
}


def users_file(directory: Path, *names: str) -> Path:
    """Write a file of users, each with the password `pw-NAME`."""
    path = directory / "users"
    path.write_text("".join(f"{name}:{CHEAP.hash(f'pw-{name}')}\n" for name in names), "utf-8")
    return path


def access(directory: Path, **more: Any) -> Access:
    """Return an access with an administrator of all, and an operator and a viewer of `team-`."""
    users_file(directory, *NAMES, "none")
    grants = [{"users": [name], **grant} for name, grant in NAMES.items()]
    given = {"users-file": "users", "grants": grants, **more}
    return access_of({name.replace("_", "-"): value for name, value in given.items()}, directory)


class Browser:
    """A browser that goes to one console."""

    def __init__(self, client: TestClient, base: str = BASE) -> None:
        self.client = client
        self.base = base
        self.get = client.get

    def token(self, path: str) -> str:
        """Open the page of a form and return its token."""
        found = re.search(r'name="csrf_token" value="(\w+)"', self.client.get(path).text)
        assert found is not None
        return found[1]

    def submit(self, path: str, page: str = "", **fields: str):
        """Fill a form and send it as a browser does; the response is not followed."""
        return self.client.post(
            path,
            data={"csrf_token": self.token(page or path), **fields},
            headers={"Origin": self.base, "Sec-Fetch-Site": "same-origin"},
            follow_redirects=False,
        )

    def log_in(self, name: str, password: str = "", **fields: str):
        """Fill the form of the login."""
        return self.submit("/login", user=name, password=password or f"pw-{name}", **fields)


@contextmanager
def browsers(
    bootstrap: str, given: Access, *, exposure: Exposure | None = None, base: str = BASE
) -> Iterator[Any]:
    """Run one console; yield what opens another browser at it, whose address may be chosen."""
    options = ConsoleOptions(
        bootstrap,
        sample_interval_ms=0,
        timeout_ms=4000,
        access=given,
        exposure=exposure or Exposure(),
    )
    application = create_application(options)

    def browser(address: str = "127.0.0.1", user: str = "") -> Browser:
        opened = Browser(TestClient(application, base_url=base, client=(address, 50000)), base)
        # One event loop for all of them, since the connection to the cluster has one.
        opened.client.portal = first.portal
        if user:
            assert opened.log_in(user).status_code == 303
        return opened

    open_browser: Any = browser
    open_browser.gate = application.state.gate
    with TestClient(application, base_url=base) as first:
        yield open_browser


class AuditLines(logging.Handler):
    """The lines of the audit."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[dict[str, Any]] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(json.loads(record.getMessage()))


@contextmanager
def audited() -> Iterator[list[dict[str, Any]]]:
    """Gather the audit of a block."""
    log = logging.getLogger("kavka.console.access.audit")
    handler, level = AuditLines(), log.level
    log.addHandler(handler)
    log.setLevel(logging.INFO)
    try:
        yield handler.lines
    finally:
        log.removeHandler(handler)
        log.setLevel(level)
