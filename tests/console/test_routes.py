"""Every route of pages and of the JSON API has its permission, and keeps to it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from html import unescape
from pathlib import Path
from typing import Any

import pytest
from starlette.routing import Mount, Route

from kavka.console.access.permissions import NEEDS, key_of, need_of
from kavka.console.access.roles import Role
from kavka.console.application import create_application
from kavka.console.options import ConsoleOptions
from support.console import Cluster
from support.console_access import BASE, NAMES, Browser, access, audited, browsers

PARTS = {"{broker}": "1", "{partition}": "0", "{offset}": "0"}


@pytest.fixture(scope="module")
def browser(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    for topic in ("team-a", "other"):
        cluster.create(topic)
        cluster.write(topic, [(b"k", b"v")])
        cluster.commit(f"{topic}-readers", {(topic, 0): 0})
    grants = [{"users": [name], **grant} for name, grant in NAMES.items()]
    grants.append({"users": ["none"], "role": "viewer"})
    users = access(tmp_path_factory.mktemp("access"), grants=grants)
    with browsers(cluster.bootstrap, users) as opened:
        yield opened


@pytest.fixture(scope="module")
def routes(tmp_path_factory: pytest.TempPathFactory) -> list[tuple[str, str]]:
    """Return method and path of each route of a console with a login."""
    users = access(
        tmp_path_factory.mktemp("routes"), oidc={"issuer": "https://i.org", "client-id": "c"}
    )
    found = []
    for route in create_application(ConsoleOptions("localhost:1", access=users)).routes:
        if isinstance(route, Mount):
            found.append(("GET", route.path))
            continue
        assert isinstance(route, Route)
        methods = set(route.methods or ()) - {"HEAD"}
        assert len(methods) == 1
        found.append((methods.pop(), route.path))
    return found


def test_each_route_declares_its_permission(routes: list[tuple[str, str]]) -> None:
    keys = {key_of(*route) for route in routes}
    assert keys - NEEDS.keys() == set(), "add it to kavka.console.access.permissions"
    assert NEEDS.keys() - keys == set(), "this route is gone"


def test_a_route_that_declares_none_needs_an_administrator_of_all() -> None:
    need = need_of("POST", "/new-page")
    assert (need.role, need.scope) == (Role.ADMINISTRATOR, "cluster")


def test_only_login_logout_and_assets_are_public(routes: list[tuple[str, str]]) -> None:
    public = {path for method, path in routes if need_of(method, path).scope == "public"}
    assert public == {
        "/assets", "/login", "/api/login", "/login/oidc", "/login/oidc/callback", "/logout", "/api/logout",
    }  # fmt: skip


def test_each_change_needs_more_than_a_viewer(routes: list[tuple[str, str]]) -> None:
    for method, path in routes:
        need = need_of(method, path)
        assert method == "GET" or need.scope == "public" or need.role > Role.VIEWER, path


def call(browser: Browser, method: str, path: str, topic: str, group: str):
    """Ask for a route as the pages do; the tail is not followed."""
    for part, value in {**PARTS, "{topic}": topic}.items():
        path = path.replace(part, value)
    if method == "GET":
        return browser.get(path, params={"id": group}, follow_redirects=False)
    body = {"id": group, "name": topic, "scenario": "latest", "confirm": "no"}
    if path.startswith("/api"):
        return browser.client.post(path, json=body)
    headers = {"Origin": BASE, "Sec-Fetch-Site": "same-origin"}
    return browser.client.post(path, data=body, headers=headers)


def guarded(routes: list[tuple[str, str]]) -> list[tuple[str, str]]:
    return [
        route
        for route in routes
        if need_of(*route).scope != "public" and not route[1].endswith("/tail")
    ]


def test_without_a_login_each_route_leads_to_it(
    browser: Any, routes: list[tuple[str, str]]
) -> None:
    outside = browser()
    for method, path in [
        *guarded(routes), ("GET", "/topics/{topic}/tail"), ("GET", "/api/topics/{topic}/tail"),
    ]:  # fmt: skip
        answer = call(outside, method, path, "team-a", "team-a-readers")
        if method == "GET" and not path.startswith("/api/"):
            assert answer.status_code == 303, path
            assert answer.headers["location"].startswith("/login?next=%2F"), path
        else:
            assert answer.status_code == 401, path
        assert "team-a-readers" not in answer.text
        assert "localhost" not in answer.text


@pytest.mark.slow
def test_a_viewer_may_look_at_its_topics_and_change_nothing(
    browser: Any, routes: list[tuple[str, str]]
) -> None:
    vera = browser(user="vera")
    for method, path in guarded(routes):
        answer = call(vera, method, path, "team-a", "team-a-readers")
        need = need_of(method, path)
        # The history is that of the cluster, where no topic and no group is named.
        if need.role > Role.VIEWER or need.scope == "cluster" or path.endswith("/history"):
            assert answer.status_code == 403, (method, path)
        else:
            assert answer.status_code == 200, (path, answer.text)
    for kind, name, status in (("topic", "team-a", 200), ("group", "other-readers", 403)):
        assert vera.get("/history", params={"kind": kind, "name": name}).status_code == status


def test_topics_and_groups_of_others_are_refused_everywhere(
    browser: Any, routes: list[tuple[str, str]]
) -> None:
    for user in ("vera", "otto"):
        inside = browser(user=user)
        for method, path in guarded(routes):
            if "{topic}" not in path and "group" not in path.rpartition("/")[0] + path[-6:]:
                continue
            if path.endswith("/groups"):
                continue
            there = call(inside, method, path, "other", "other-readers")
            absent = call(inside, method, path, "absent", "absent-readers")
            assert (there.status_code, absent.status_code) == (403, 403), (method, path)
            same = there.text.replace("other", "absent")
            if path.startswith("/api/"):
                assert same == absent.text, "whether it exists shows"


def test_an_operator_changes_settings_and_deletes_nothing(browser: Any) -> None:
    otto = browser(user="otto")
    assert "Delete" not in otto.get("/topics/team-a").text
    page = "/topics/team-a/settings?name=retention.ms"
    done = otto.submit("/topics/team-a/settings", page, name="retention.ms", value="70000")
    assert done.status_code == 303
    assert (
        otto.client.post("/api/topics/team-a/delete", json={"confirm": "team-a"}).status_code == 403
    )
    assert otto.client.post("/api/create-topic", json={"name": "elsewhere"}).status_code == 403
    assert otto.client.post("/api/create-topic", json={"name": "team-b"}).status_code == 200
    moved = otto.client.post(
        "/api/group/reset", json={"id": "team-a-readers", "scenario": "latest"}
    )
    assert moved.status_code == 200, moved.text
    ada = browser(user="ada")
    assert (
        ada.client.post("/api/topics/team-b/delete", json={"confirm": "team-b"}).status_code == 200
    )


def test_what_a_role_may_not_do_is_not_shown(browser: Any) -> None:
    vera, otto, ada = (browser(user=user) for user in ("vera", "otto", "ada"))
    for path, words in {
        "/topics": "New topic",
        "/topics/team-a/settings": 'aria-label="Change ',
        "/group?id=team-a-readers": "Reset offsets",
    }.items():
        assert words not in vera.get(path).text
        assert words in otto.get(path).text
        assert words in ada.get(path).text
    for inside, shown in ((vera, False), (otto, False), (ada, True)):
        assert ('class="danger"' in inside.get("/topics/team-a").text) is shown


@pytest.mark.slow
@pytest.mark.parametrize("user", ["vera", "otto", "none", "ada"])
def test_no_page_leads_where_its_reader_may_not_go(
    browser: Any, routes: list[tuple[str, str]], user: str
) -> None:
    inside = browser(user=user)
    links, forms = set(), set()
    for method, path in guarded(routes):
        if method == "GET" and not path.startswith("/api") and "/value" not in path:
            page = call(inside, method, path, "team-a", "team-a-readers")
            if page.status_code == 200 and page.headers["content-type"].startswith("text/html"):
                links |= set(re.findall(r'(?:href|hx-get)="(/[^"]*)"', page.text))
                forms |= set(re.findall(r'<form method="post" action="([^"]*)"', page.text))
    for link in links:
        if not re.search("language=|statement=|^/assets", link):
            assert inside.get(unescape(link)).status_code != 403, link
    for form in forms - {"/logout"}:
        # The form has no token, so a change that is allowed ends at that.
        answer = inside.client.post(form, data={"id": "team-a-readers"})
        assert "was refused" in answer.text, form
    assert {"/topics", "/topics/team-a/messages"} <= links
    assert ("/sql" in links) is (user == "ada")
    assert ("/alerts" in links) is (user in ("none", "ada"))
    assert bool(forms - {"/logout"}) is (user in ("otto", "ada"))


def test_no_part_of_a_record_is_in_the_audit(browser: Any) -> None:
    otto = browser(user="otto")
    texts = {"key": "key-secret", "key_format": "text", "headers": "h: header-secret"}
    wrong = {"value": "{value-secret", "value_format": "json", "headers": ": header-secret"}
    with audited() as lines:
        for given, status in (({"value": "value-secret"} | texts, 200), (wrong, 400)):
            answer = otto.client.post("/api/topics/team-a/produce", json=given)
            assert answer.status_code == status
    assert [line["on"]["topic"] for line in lines] == ["team-a", "team-a"]
    assert lines[1]["result"].startswith("failed: ")
    assert "-secret" not in str(lines)


@pytest.mark.slow
def test_a_read_only_console_refuses_changes_of_administrators(
    cluster: Cluster, routes: list[tuple[str, str]], tmp_path: Path
) -> None:
    with browsers(cluster.bootstrap, access(tmp_path, read_only=True)) as opened:
        ada = opened(user="ada")
        for method, path in guarded(routes):
            answer = call(ada, method, path, "team-a", "team-a-readers")
            is_change = need_of(method, path).role > Role.VIEWER
            # Some pages want a parameter, or find nothing: that is no refusal of the role.
            assert (answer.status_code == 403) == is_change, (method, path)
            assert answer.status_code < 500, (method, path)
        refused = ada.client.post("/api/topics/team-a/delete", json={"confirm": "team-a"}).json()
        assert refused["title"] == "This console is read-only"
        assert "New topic" not in ada.get("/topics").text
