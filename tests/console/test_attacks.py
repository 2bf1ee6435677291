"""Attacks on the console, each as an attacker would send it. `test_login.py` has those on the login."""

from __future__ import annotations

import asyncio
import html
import re
import socket
import threading
from collections.abc import Iterator
from html.parser import HTMLParser
from typing import Any

import pytest
import uvicorn

from kavka.console.access.slow_clients import ImpatientProtocol
from kavka.console.application import create_application
from kavka.console.live import LivePages
from kavka.console.options import ConsoleOptions
from kavka.console.parameters import Arguments, Parameter
from kavka.console.server import listen
from kavka.console.subject import Page
from support.console import Cluster
from support.console_access import BASE, access, browsers
from support.waiting import wait_until

SCRIPT = "<script>alert(1)</script>\"'><img src=x onerror=alert(1)>"


@pytest.fixture(scope="module")
def browser(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    cluster.create("team-a")
    body = f'{{"a": "{SCRIPT}"}}'.replace("\"'", "'").encode()
    cluster.write("team-a", [(SCRIPT.encode(), body), (None, SCRIPT.encode())],
                  headers=[(SCRIPT, SCRIPT.encode())])  # fmt: skip
    cluster.commit(f"team-{SCRIPT}", {("team-a", 0): 0})
    with browsers(cluster.bootstrap, access(tmp_path_factory.mktemp("access"))) as opened:
        yield opened


def test_another_site_cannot_change_anything_with_a_session_of_the_browser(browser: Any) -> None:
    ada = browser(user="ada")
    own = {"csrf_token": ada.token("/create-topic"), "name": "team-forged"}
    others = browser(user="otto").token("/create-topic")
    for data, headers in (
        ({"name": "team-forged"}, {}),
        ({**own, "csrf_token": others}, {}),
        (own, {"Origin": "https://evil.example"}),
        (own, {"Origin": "null"}),
        (own, {"Sec-Fetch-Site": "cross-site"}),
        (own, {"Sec-Fetch-Site": "same-site"}),
    ):
        assert ada.client.post("/create-topic", data=data, headers=headers).status_code == 403
        assert ada.client.post("/logout", data=data, headers=headers).status_code == 403
    for kind in (
        "text/plain",
        "application/x-www-form-urlencoded",
        "multipart/form-data; boundary=x",
        "",
    ):
        sent = ada.client.post(
            "/api/create-topic", content=b'{"name": "team-forged"}', headers={"Content-Type": kind}
        )
        assert sent.status_code == 403
    assert ada.client.post("/create-topic?name=team-forged").status_code in (400, 403)
    assert ada.get("/topics/team-forged").status_code == 404


def test_no_page_can_be_framed_or_read_by_another_site(browser: Any) -> None:
    ada = browser(user="ada")
    for path in ("/", "/login", "/topics/team-a", "/none", "/assets/console.js", "/api/topics"):
        headers = ada.get(path, follow_redirects=False).headers
        assert headers["x-frame-options"] == "DENY"
        assert "frame-ancestors 'none'" in headers["content-security-policy"]
        assert "access-control-allow-origin" not in headers
        assert headers["cross-origin-resource-policy"] == "same-origin"
        assert headers["x-content-type-options"] == "nosniff"


class Tags(HTMLParser):
    """The elements and attributes of a page that an attacker would like."""

    def __init__(self) -> None:
        super().__init__()
        self.dangerous: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        source = given.get("src") or "/assets/"
        if tag in ("script", "img") and not source.startswith("/assets/"):
            self.dangerous.append(source)
        if tag == "script" and "src" not in given:
            self.dangerous.append(tag)
        self.dangerous += [name for name in given if name.startswith("on")]


def test_contents_of_records_and_names_are_text_on_each_page(browser: Any) -> None:
    ada = browser(user="ada")
    group = {"id": f"team-{SCRIPT}"}
    for path, query in (
        ("/topics/team-a/messages", {}),
        ("/topics/team-a/messages", {"text": SCRIPT, "key": SCRIPT, "header": SCRIPT}),
        ("/topics/team-a/records/0/0", {}),
        ("/topics/team-a/records/0/1", {}),
        ("/groups", {}),
        ("/groups", {"search": SCRIPT, "state": SCRIPT}),
        ("/group", group),
        ("/group/reset", {**group, "scenario": "latest"}),
        ("/group/reset", {**group, "topic": SCRIPT}),
        ("/topics", {"search": SCRIPT}),
        ("/topics", {"sort": SCRIPT}),
        (f"/topics/{SCRIPT}", {}),
        ("/topics/team-a/settings", {"name": SCRIPT, "value": SCRIPT, "search": SCRIPT}),
        ("/login", {"next": SCRIPT}),
        ("/login/oidc/callback", {"error": SCRIPT, "state": SCRIPT}),
        (f"/{SCRIPT}", {}),
    ):
        page = ada.get(path, params=query)
        seen = Tags()
        seen.feed(page.text)
        assert not seen.dangerous, path
    assert SCRIPT in html.unescape(ada.get("/groups").text)
    saved = ada.get("/topics/team-a/records/0/1/value")
    assert saved.headers["content-type"] == "application/octet-stream"
    assert saved.headers["content-disposition"].startswith("attachment;")


def test_line_breaks_do_not_reach_headers(browser: Any) -> None:
    ada = browser(user="ada")
    evil = "team-a%0d%0aSet-Cookie:%20evil=1"
    for path in (
        f"/topics/{evil}/records/0/0/value",
        f"/topics/{evil}",
        f"/login?next=/{evil}",
        f"/login/oidc?next=/{evil}",
    ):
        answer = ada.get(path, follow_redirects=False)
        assert "evil" not in "".join(answer.headers.get_list("set-cookie"))
    outside = browser().get(f"/topics/{evil}", follow_redirects=False)
    assert "\n" not in outside.headers["location"]
    assert "\r" not in outside.headers["location"]


@pytest.mark.parametrize(
    "path",
    [
        "/assets/../security.py", "/assets/..%2fsecurity.py", "/assets/%2e%2e/security.py", "/assets/....//security.py",
        "/assets//etc/passwd", "/assets/%2fetc%2fpasswd", "/assets/..\\security.py", "/assets/console.css%00.py",
        "/assets/%2e%2e%2f%2e%2e%2f%2e%2e%2f%2e%2e%2fetc/passwd",
    ],
)  # fmt: skip
def test_assets_lead_nowhere_else(browser: Any, path: str) -> None:
    answer = browser().get(path, follow_redirects=False)
    assert answer.status_code in (303, 404), answer.status_code
    assert "root:" not in answer.text
    assert "def make_id" not in answer.text


@pytest.mark.parametrize("path", ["//evil.example/a", "/%2Fevil.example/a", "/%5C/evil.example/a"])
def test_no_link_of_a_page_leads_to_the_host_that_a_path_names(browser: Any, path: str) -> None:
    page = browser().get(BASE + path)
    assert page.status_code == 404
    assert "evil.example/a?language=zh" in page.text
    assert not re.search(r'href="/[/\\]', page.text)


def test_another_host_is_refused_before_anything_else(browser: Any) -> None:
    ada = browser(user="ada")
    for host in (
        "evil.example",
        "127.0.0.1.evil.example",
        "localhost.evil.example",
        "127.0.0.1@evil",
        "",
    ):
        refused = ada.get("/topics", headers={"Host": host})
        assert refused.status_code == 421
        assert "team-a" not in refused.text
    redirected = ada.get("/login?next=/topics", headers={"X-Forwarded-Host": "evil.example"})
    assert "evil.example" not in str(redirected.url)


def test_live_pages_leave_connections_to_others(
    browser: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kavka.console.live._MOST_OPEN", 0)
    ada = browser(user="ada")
    for path in ("/", "/api/overview"):
        assert ada.get(path, headers={"Accept": "text/event-stream"}).status_code == 503
        assert ada.get(path).status_code == 200


def test_live_pages_keep_nothing_of_searches_that_are_over() -> None:
    async def load(_services: Any, arguments: Arguments) -> str:
        return arguments.text("search")

    searched = Parameter("search", "text", "Words.")
    page = Page("/p", "A page.", "", str, load, (searched,), live_s=3)

    async def search() -> None:
        live = LivePages("", lambda _request: True)
        services: Any = object()
        for number in range(5):
            words = Arguments((searched,), {"search": str(number)})
            assert await live._view(page, services, words) == str(number)
        assert (len(live._views), len(live._loading)) == (1, 0)

    asyncio.run(search())


def test_bodies_and_values_that_are_too_large_are_refused(browser: Any) -> None:
    ada = browser(user="ada")
    large = {"name": "team-" + "x" * (1 << 20)}
    assert ada.client.post("/api/create-topic", json=large).status_code == 400
    assert (
        ada.client.post("/api/login", json={"user": "a" * 20_000, "password": "b"}).status_code
        == 400
    )
    chunks = (b"x" for _ in range(3))
    sent = ada.client.post(
        "/api/create-topic", content=chunks, headers={"Content-Type": "application/json"}
    )
    assert (sent.status_code, "The body has no length" in sent.text) == (400, True)
    deep = ada.client.post(
        "/api/create-topic",
        content=b"[" * 500_000,
        headers={"Content-Type": "application/json"},
    )
    assert (deep.status_code, "no JSON object" in deep.text) == (400, True)
    for query in (
        {"text": "x" * 30_000},
        {"start": "at", "at": "0:1," * 5_001},
        {"limit": "9" * 5_000},
        {"scan": "-1", "text": "a"},
    ):
        assert ada.get("/api/topics/team-a/messages", params=query).status_code == 400
    many = ada.client.post(
        "/create-topic",
        content="&".join(f"f{n}=1" for n in range(50_000)),
        headers={"Content-Type": "application/x-www-form-urlencoded", "Origin": BASE},
    )
    assert (many.status_code, "Too many fields" in many.text) == (400, True)
    parts = {"Content-Type": "multipart/form-data; boundary=x"}
    broken = ada.client.post("/create-topic", content=b"--x\r\nbroken", headers=parts)
    assert broken.status_code in (400, 403)


# Over a real socket


class Quick(ImpatientProtocol):
    """The deadlines, shorter."""

    request_s = 0.3
    response_s = 0.5


@pytest.fixture(scope="module")
def served() -> Iterator[tuple[int, uvicorn.Server]]:
    options = ConsoleOptions("127.0.0.1:1", sample_interval_ms=0)
    with listen("127.0.0.1", 0) as listening:
        config = uvicorn.Config(
            create_application(options),
            http=Quick,
            ws="none",
            timeout_keep_alive=1,
            log_config=None,
            lifespan="off",
        )
        server = uvicorn.Server(config)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
        thread.start()
        yield listening.getsockname()[1], server
        server.should_exit = True
        thread.join()


@pytest.fixture
def port(served: tuple[int, uvicorn.Server]) -> int:
    return served[0]


def exchange(port: int, *parts: bytes) -> bytes:
    """Send parts and return all that comes until the other end closes."""
    with socket.create_connection(("127.0.0.1", port), timeout=20) as connection:
        for part in parts:
            connection.sendall(part)
        received = b""
        try:
            while chunk := connection.recv(65_536):
                received += chunk
        except ConnectionResetError:
            pass
        return received


HEAD = b"GET /assets/icon.svg HTTP/1.1\r\nHost: localhost\r\n"


@pytest.mark.slow
def test_a_client_that_sends_no_whole_request_is_cut_off(port: int) -> None:
    assert exchange(port) == b""
    assert exchange(port, b"GET / HT") == b""
    assert exchange(port, HEAD + b"X-Slow: ") == b""
    body = b"POST /api/login HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    assert b"200 OK" not in exchange(port, body + b"Content-Length: 100\r\n\r\n{")
    second = exchange(port, HEAD + b"\r\n", HEAD)
    assert second.count(b"200 OK") == 1
    assert exchange(port, HEAD + b"Connection: close\r\n\r\n").count(b"200 OK") == 1


def test_a_client_that_takes_nothing_is_cut_off(served: tuple[int, uvicorn.Server]) -> None:
    port, server = served
    with socket.create_connection(("127.0.0.1", port), timeout=20) as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
        # More than the buffers of both ends: the server has nowhere to write, until the deadline ends it.
        connection.sendall(
            b"GET /assets/uPlot.iife.min.js HTTP/1.1\r\nHost: localhost\r\n\r\n" * 400
        )
        wait_until(lambda: bool(server.server_state.connections))
        wait_until(lambda: not server.server_state.connections)


def test_heads_that_are_too_large_or_ambiguous_are_refused(port: int) -> None:
    assert b" 400 " in exchange(port, b"GET /?q=" + b"x" * 200_000 + b" HTTP/1.1\r\n")[:40]
    assert b" 400 " in exchange(port, HEAD + b"X: " + b"y" * 200_000 + b"\r\n\r\n")[:40]
    smuggled = (
        b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nabcde"
    )
    assert b" 400 " in exchange(port, smuggled)[:40]
    two = b"GET / HTTP/1.1\r\nHost: localhost\r\nHost: evil.example\r\n\r\n"
    assert b" 400 " in exchange(port, two)[:40]
