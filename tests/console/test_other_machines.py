"""The command as other machines reach it: with TLS of its own, behind nginx, with a real OpenID provider."""

from __future__ import annotations

import http.client
import json
import re
import shutil
import signal
import socket
import ssl
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from kavka.cli.main import main
from kavka.testing.certificates import Authority
from kavka_compat.processes import free_port
from kavka_compat.programs import install_node
from support.code_blocks import ROOT, blocks
from support.console_access import NAMES, users_file
from support.waiting import wait_until

pytestmark = pytest.mark.long
BROWSER = "127.0.0.2"
"""An address of this machine that is not the proxy's."""
NAME = "console.example.org"
ACCESS = """
users-file = "users"
[[grants]]
role = "administrator"
users = ["ada"]
claims = ["admins"]
"""


class ToLoopback(http.client.HTTPSConnection):
    """A connection to this machine, under the console's public name."""

    def __init__(self, port: int, authority: Path) -> None:
        super().__init__(
            NAME, port, context=ssl.create_default_context(cafile=authority), timeout=30
        )

    def connect(self) -> None:
        plain = socket.create_connection(("127.0.0.1", self.port), 30, (BROWSER, 0))
        self.sock = self._context.wrap_socket(plain, server_hostname=NAME)  # type: ignore[attr-defined]


def ask(port: int, authority: Path, method: str, path: str, body: Any = None, **headers: str):
    """Send one request as a browser at the public name."""
    connection = ToLoopback(port, authority)
    kind = {"Content-Type": "application/json"} if body is not None else {}
    data = None if body is None else json.dumps(body)
    connection.request(method, path, data, {"Host": NAME, **kind, **headers})
    answer = connection.getresponse()
    text = answer.read().decode()
    connection.close()
    return answer, text


@pytest.fixture
def certificates(tmp_path: Path) -> Path:
    authority = Authority()
    authority.write(tmp_path / "authority.pem")
    signed = authority.sign(NAME, (NAME,))
    signed.write_apart(tmp_path / "console.pem", tmp_path / "console.key")
    users_file(tmp_path, *NAMES)
    (tmp_path / "access.toml").write_text(ACCESS)
    return tmp_path


@contextmanager
def command(directory: Path, *words: str, url: str = f"https://{NAME}") -> Iterator[Path]:
    """Run the command without a broker; yield the file with its standard error."""
    errors = directory / "stderr"
    access = ["--access", str(directory / "access.toml")]
    with (
        errors.open("w") as err,
        subprocess.Popen(
            [
                sys.executable,
                "-m",
                "kavka",
                "console",
                "--bootstrap-server",
                "127.0.0.1:1",
                *access,
                *words,
            ],
            stdout=subprocess.PIPE,
            stderr=err,
            text=True,
        ) as started,
    ):
        assert started.stdout is not None
        line = started.stdout.readline()
        try:
            assert line.split()[2] == url, (line, errors.read_text())
            yield errors
        finally:
            started.send_signal(signal.SIGTERM)
            started.wait(timeout=30)


def check_login(port: int, authority: Path) -> None:
    outside, _ = ask(port, authority, "GET", "/topics")
    assert (outside.status, outside.headers["Location"]) == (303, "/login?next=%2Ftopics")
    login, _ = ask(port, authority, "POST", "/api/login", {"user": "ada", "password": "pw-ada"})
    assert login.status == 200
    cookies = login.headers.get_all("Set-Cookie") or []
    session = next(one for one in cookies if one.startswith("__Host-kavka_session="))
    assert "; Secure" in session
    assert login.headers["Strict-Transport-Security"]
    inside, text = ask(port, authority, "GET", "/api", Cookie=session.partition(";")[0])
    assert inside.status == 200
    assert "ada" in text
    wrong, _ = ask(port, authority, "GET", "/topics", Host="evil.example")
    assert wrong.status in (400, 404, 421)


def test_the_command_serves_with_tls_of_its_own(certificates: Path) -> None:
    port = free_port()
    tls = [
        "--tls-certificate",
        str(certificates / "console.pem"),
        "--tls-key",
        str(certificates / "console.key"),
    ]
    words = ["--host", "127.0.0.1", "--port", str(port), *tls, "--public-url", f"https://{NAME}"]
    with command(certificates, *words) as errors:
        check_login(port, certificates / "authority.pem")
        plain = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
        plain.request("GET", "/login", headers={"Host": NAME})
        with pytest.raises((http.client.HTTPException, OSError)):
            plain.getresponse()
        plain.close()
    audited = [json.loads(line) for line in errors.read_text().splitlines() if line[0] == "{"]
    assert audited[0]["action"] == "POST /api/login"
    assert (audited[0]["user"], audited[0]["result"]) == ("ada", "ok")


def test_certificates_that_cannot_be_used_are_said(
    certificates: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["console", "--bootstrap-server", "127.0.0.1:1", "--port", "0"]
    for name in ("none.pem", "console.pem", "access.toml"):
        assert main([*words, "--tls-certificate", str(certificates / name)]) == 1
        assert f"--tls-certificate {certificates / name}: " in capsys.readouterr().err


@pytest.mark.skipif(shutil.which("nginx") is None, reason="no nginx: apt install nginx-light")
def test_the_command_serves_behind_the_nginx_of_the_documentation(certificates: Path) -> None:
    page = ROOT / "docs/how-to/console-access.md"
    (server,) = (b.text for b in blocks(page) if b.text.lstrip().startswith("server {"))
    port, front = free_port(), free_port()
    for old, new in (
        ("listen 443 ssl", f"listen 127.0.0.1:{front} ssl"),
        ("/etc/ssl/", f"{certificates}/"),
        ("127.0.0.1:8080", f"127.0.0.1:{port}"),
    ):
        assert old in server
        server = server.replace(old, new)
    configuration = certificates / "nginx.conf"
    places = "".join(
        f"{kind}_temp_path {certificates}/{kind};\n"
        for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    )
    configuration.write_text(
        f"daemon off; pid {certificates}/nginx.pid; error_log stderr;\n"
        f"events {{}}\nhttp {{ access_log off;\n{places}{server}}}\n"
    )
    words = ["--port", str(port), "--proxy", "127.0.0.1", "--public-url", f"https://{NAME}"]
    nginx = ["nginx", "-e", "stderr", "-p", str(certificates), "-c", str(configuration)]
    with command(certificates, *words) as errors, subprocess.Popen(nginx) as proxy:
        try:
            wait_until(lambda: listens(front), timeout_s=30)
            check_login(front, certificates / "authority.pem")
            spoofed = {"X-Forwarded-For": "203.0.113.9", "X-Forwarded-Proto": "http"}
            login = {"user": "ada", "password": "wrong"}
            answer, _ = ask(
                front, certificates / "authority.pem", "POST", "/api/login", login, **spoofed
            )
            assert answer.status == 401
        finally:
            proxy.terminate()
            proxy.wait(timeout=30)
    audited = [json.loads(line) for line in errors.read_text().splitlines() if line[0] == "{"]
    assert {line["address"] for line in audited} == {BROWSER}, "what nginx saw, not what was sent"


def listens(port: int) -> bool:
    with socket.socket() as client:
        return client.connect_ex(("127.0.0.1", port)) == 0


# A real provider


@pytest.mark.timeout(300)
def test_users_of_a_real_provider_log_in(tmp_path: Path) -> None:
    node = install_node(ROOT / "tests/console/oidc", "console-oidc")
    port = free_port()
    base = f"http://127.0.0.1:{port}"
    with subprocess.Popen(
        [*node, f"{base}/login/oidc/callback"],
        stdout=subprocess.PIPE,
        stdin=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as provider:
        try:
            assert provider.stdout is not None
            issuer = provider.stdout.readline().strip()
            users_file(tmp_path, *NAMES)
            (tmp_path / "secret").write_text("console-secret")
            (tmp_path / "access.toml").write_text(
                f'{ACCESS}\n[oidc]\nissuer = "{issuer}"\nclient-id = "console"\n'
                'client-secret-file = "secret"\nscopes = ["openid", "profile", "groups"]\n'
            )
            with command(tmp_path, "--port", str(port), url=base) as errors:
                for name, status in (("rita", 200), ("mallory", 403)):
                    assert log_in(base, name) == status, errors.read_text()
            lines = [json.loads(each) for each in errors.read_text().splitlines() if each[0] == "{"]
            assert [(one["user"], one["result"]) for one in lines][:2] == [
                ("rita", "ok"),
                ("mallory", "refused: no grants"),
            ]
        finally:
            provider.kill()


def log_in(base: str, name: str) -> int:
    """Go through the provider's forms as a browser does; return the status of the console's page."""
    import requests

    with requests.Session() as browser:
        page = browser.get(f"{base}/login/oidc?next=/api", timeout=30)
        for _ in range(5):
            if page.url.startswith(base):
                break
            form = re.search(r'<form[^>]*action="([^"]+)"', page.text)
            assert form is not None, page.text
            hidden = re.findall(r'<input type="hidden" name="(\w+)" value="([^"]*)"', page.text)
            fields = {**dict(hidden), "login": name, "password": "any"}
            place = urlsplit(page.url)
            action = form[1] if "://" in form[1] else f"{place.scheme}://{place.netloc}{form[1]}"
            page = browser.post(action, data=fields, timeout=30)
        if page.status_code == 200:
            return browser.get(f"{base}/api", timeout=30, allow_redirects=False).status_code
        return page.status_code
