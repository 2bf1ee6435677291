"""Logins of local users: sessions, cookies, guesses, and what they must not tell others."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kavka.cli.main import main
from kavka.console.access.exposure import Exposure
from kavka.console.access.passwords import UsersFile, hashed, users_of
from support.console_access import CHEAP, access, audited, browsers, users_file

NOWHERE = "127.0.0.1:1"
"""No broker is there: a page that a user may see is 503, all others say why not."""
PUBLIC = Exposure(proxies=("127.0.0.1",), public_url="https://console.example.org")
FORWARDED = {"X-Forwarded-For": "203.0.113.9", "X-Forwarded-Proto": "https"}


@pytest.fixture
def browser(tmp_path: Path) -> Iterator[Any]:
    with browsers(NOWHERE, access(tmp_path)) as opened:
        yield opened


def is_in(browser: Any) -> bool:
    return browser.get("/api", follow_redirects=False).status_code == 200


def test_a_user_logs_in_and_out(browser: Any) -> None:
    vera = browser()
    assert not is_in(vera)
    asked = vera.get("/topics/team-a?problems=true", follow_redirects=False)
    assert asked.headers["location"] == "/login?next=%2Ftopics%2Fteam-a%3Fproblems%3Dtrue"
    done = vera.log_in("vera", next="/topics/team-a?problems=true")
    assert (done.status_code, done.headers["location"]) == (303, "/topics/team-a?problems=true")
    assert is_in(vera)
    assert "vera" in vera.get("/api").text
    out = vera.submit("/logout", "/api")
    assert out.headers["location"] == "/login"
    assert not is_in(vera)


def test_what_a_page_asks_by_itself_keeps_no_session_alive(browser: Any) -> None:
    vera = browser(user="vera")
    [session] = browser.gate._sessions._sessions.values()
    for headers, is_use in (
        ({"X-Refresh": "1"}, False),
        ({"Accept": "text/event-stream"}, False),
        ({}, True),
    ):
        session.used_s = before = session.used_s - 60
        assert vera.get("/api", headers=headers).status_code == 200
        assert (session.used_s > before) is is_use, headers


def test_a_session_that_was_ended_is_of_no_use(browser: Any) -> None:
    vera = browser(user="vera")
    stolen = vera.client.cookies["kavka_session"]
    vera.submit("/logout", "/api")
    thief = browser()
    thief.client.cookies.set("kavka_session", stolen)
    assert not is_in(thief)


def test_a_login_makes_a_new_session_whatever_the_browser_brings(browser: Any) -> None:
    attacker = browser(user="vera")
    planted = attacker.client.cookies["kavka_session"]
    victim = browser()
    victim.client.cookies.set("kavka_session", planted, domain="127.0.0.1", path="/")
    victim.submit("/logout", "/api")
    victim.client.cookies.set("kavka_session", "chosen-by-the-attacker")
    victim.client.cookies.set("kavka_console", "chosen-too", domain="127.0.0.1", path="/")
    assert victim.log_in("ada").status_code == 303
    given = [c.value for c in victim.client.cookies.jar if c.name == "kavka_session"]
    for fixed in (planted, "chosen-by-the-attacker"):
        thief = browser()
        thief.client.cookies.set("kavka_session", fixed)
        assert not is_in(thief)
    assert planted not in given


def test_a_second_login_ends_the_first_session(browser: Any) -> None:
    vera = browser(user="vera")
    first = vera.client.cookies["kavka_session"]
    again = vera.client.post("/api/login", json={"user": "otto", "password": "pw-otto"})
    assert again.json() == {"user": "otto"}
    assert vera.client.cookies["kavka_session"] != first
    thief = browser()
    thief.client.cookies.set("kavka_session", first)
    assert not is_in(thief)


def test_cookies_are_for_the_console_alone(tmp_path: Path) -> None:
    with browsers(NOWHERE, access(tmp_path), exposure=PUBLIC, base=PUBLIC.public_url) as opened:
        vera = opened()
        vera.client.headers.update(FORWARDED)
        done = vera.log_in("vera")
        cookies = {line.partition("=")[0]: line for line in done.headers.get_list("set-cookie")}
        assert cookies.keys() == {"__Host-kavka_session", "kavka_known"}
        for line in cookies.values():
            assert {"HttpOnly", "Secure", "SameSite=lax", "Path=/"} <= set(line.split("; "))
            assert "Domain" not in line
        assert done.headers["strict-transport-security"] == "max-age=31536000"
        assert is_in(vera)
        assert vera.get("/api").headers["cache-control"] == "no-store"


def test_programs_log_in_with_json(browser: Any) -> None:
    program = browser()
    assert program.client.get("/api/topics").status_code == 401
    assert program.client.get("/api/topics").json()["title"] == "You are not logged in"
    form = program.client.post("/api/login", data={"user": "vera", "password": "pw-vera"})
    assert form.status_code == 403
    bodies: tuple[Any, ...] = ({}, {"user": 1, "password": "x"}, [], "vera")
    for body in bodies:
        assert program.client.post("/api/login", json=body).status_code == 400
    wrong = program.client.post("/api/login", json={"user": "vera", "password": "no"})
    assert (wrong.status_code, wrong.json()["detail"]) == (401, "User or password is wrong.")
    program.client.post("/api/login", json={"user": "vera", "password": "pw-vera"})
    assert is_in(program)
    assert program.client.post("/api/logout", json={}).status_code == 200
    assert not is_in(program)


def test_a_removed_user_and_a_changed_password_end_sessions(browser: Any, tmp_path: Path) -> None:
    vera, otto = browser(user="vera"), browser(user="otto")
    file = tmp_path / "users"
    lines = file.read_text().splitlines()
    other = [f"vera:{CHEAP.hash('new')}" if line.startswith("vera:") else line for line in lines]
    file.write_text("\n".join(other))
    assert (is_in(vera), is_in(otto)) == (False, True)
    file.write_text("\n".join(line for line in other if not line.startswith("otto:")))
    assert not is_in(otto)
    assert browser().log_in("vera").status_code == 401
    assert browser().log_in("vera", "new").status_code == 303


def test_a_file_of_users_that_cannot_be_read_lets_no_user_in(browser: Any, tmp_path: Path) -> None:
    vera = browser(user="vera")
    (tmp_path / "users").write_text("vera:plain\n")
    assert not is_in(vera)
    assert browser().log_in("vera").status_code == 401
    os.unlink(tmp_path / "users")
    assert browser().log_in("vera").status_code == 401


def test_sessions_end_when_idle_although_the_page_refreshes_itself(tmp_path: Path) -> None:
    with browsers(NOWHERE, access(tmp_path, idle_minutes=1)) as opened:
        vera = opened(user="vera")
        sessions = opened.gate._sessions
        (session,) = sessions._sessions.values()
        used_s = session.used_s
        vera.get("/api", headers={"X-Refresh": "1", "HX-Request": "true"})
        assert session.used_s == used_s
        vera.get("/api")
        assert session.used_s > used_s
        session.used_s -= 61
        ended = vera.get("/topics?search=a", headers={"HX-Request": "true"})
        assert ended.status_code == 401
        assert ended.headers["hx-redirect"] == "/login?next=%2Ftopics%3Fsearch%3Da"


def test_a_user_without_grants_learns_so_and_is_not_let_in(browser: Any) -> None:
    none = browser()
    done = none.log_in("none")
    assert done.status_code == 403
    assert "No role was granted to you" in done.text
    assert not is_in(none)


# Guessing


def test_wrong_names_and_wrong_passwords_look_the_same(browser: Any) -> None:
    answers = []
    for name in ("vera", "absent", "v" * 5000, ""):
        done = browser().log_in(name, "wrong")
        answers.append(
            (done.status_code, done.text.count("User or password is wrong."), len(done.headers))
        )
    assert set(answers) == {(401, 1, answers[0][2])}


def test_the_same_work_is_done_for_a_name_that_does_not_exist(tmp_path: Path) -> None:
    lines = [f"{name}:{CHEAP.hash(name)}" for name in ("a", "b")]
    (tmp_path / "users").write_text("\n".join([*lines, f"c:{hashed('c')}"]))
    users = UsersFile(str(tmp_path / "users"))
    known = {line.rpartition("$")[0].rpartition("$")[0] for line in users.current().values()}
    for name in ("x", "y", "z", "vera"):
        decoy = users._decoy(name, users.current())
        assert decoy.rpartition("$")[0].rpartition("$")[0] in known
        assert users._decoy(name, users.current()) == decoy
        # Argon2 takes it for a hash: what it cannot decode would be refused at once.
        assert list(users_of(f"{name}:{decoy}")) == [name]


def test_decoys_are_hashed_and_not_refused_at_once(tmp_path: Path) -> None:
    from argon2.exceptions import VerifyMismatchError

    users_file(tmp_path, "a")
    users = UsersFile(str(tmp_path / "users"))
    with pytest.raises(VerifyMismatchError):
        CHEAP.verify(users._decoy("x", users.current()), "x")


def test_guesses_are_slowed_and_others_may_still_log_in(browser: Any) -> None:
    attacker = browser("203.0.113.1")
    codes = [attacker.log_in("vera", f"guess{n}").status_code for n in range(8)]
    assert codes == [401] * 5 + [429] * 3
    assert attacker.log_in("vera").status_code == 429, "the right password waits as well"
    assert "Try again in " in attacker.log_in("vera").text
    assert browser("203.0.113.2").log_in("vera").status_code == 303
    assert attacker.log_in("otto").status_code == 303


def test_forwarded_addresses_do_not_help_a_guesser(browser: Any, tmp_path: Path) -> None:
    with browsers(NOWHERE, access(tmp_path), exposure=PUBLIC, base=PUBLIC.public_url) as opened:
        attacker = opened()
        codes = []
        for n in range(8):
            attacker.client.headers.update(
                {"X-Forwarded-For": f"198.51.100.{n}, 203.0.113.9", "X-Forwarded-Proto": "https"}
            )
            codes.append(attacker.log_in("vera", "guess").status_code)
        assert codes == [401] * 5 + [429] * 3
        stranger = opened("198.51.100.1")
        stranger.client.headers.update(FORWARDED)
        assert stranger.get("/login").status_code == 403


def test_a_login_needs_the_token_of_its_form(browser: Any) -> None:
    victim, attacker = browser(), browser()
    token = attacker.token("/login")
    fields = {"user": "ada", "password": "pw-ada"}
    for data in (fields, {**fields, "csrf_token": token}, {**fields, "csrf_token": "x"}):
        done = victim.client.post("/login", data=data, follow_redirects=False)
        assert done.status_code == 403
    elsewhere = {"Origin": "https://evil.example", "Sec-Fetch-Site": "cross-site"}
    own = {**fields, "csrf_token": victim.token("/login")}
    assert victim.client.post("/login", data=own, headers=elsewhere).status_code == 403
    assert not is_in(victim)


# The audit


def test_logins_refusals_and_changes_are_audited(browser: Any) -> None:
    with audited() as lines:
        vera = browser("203.0.113.4")
        vera.log_in("vera", "secret-guess")
        vera.log_in("vera")
        vera.client.post("/api/topics/team-a/delete", json={"confirm": "team-a\nforged"})
        vera.submit("/logout", "/api")
    seen = [
        (line["user"], line["source"], line["action"], line["result"].partition(":")[0])
        for line in lines
    ]
    assert seen == [
        ("vera", "", "POST /login", "refused"),
        ("vera", "", "POST /login", "ok"),
        ("vera", "local", "POST /api/topics/team-a/delete", "refused"),
        ("vera", "local", "POST /logout", "ok"),
    ]
    assert {line["address"] for line in lines} == {"203.0.113.4"}
    assert "secret-guess" not in str(lines)
    assert lines[2]["on"] == {"topic": "team-a"}


def test_passwords_of_the_clusters_users_are_not_in_the_audit(browser: Any) -> None:
    ada = browser(user="ada")
    with audited() as lines:
        for path in ("/users/password", "/api/users/password"):
            given = {"user": "u", "password": "secret-1", "again": "secret-2"}
            given["csrf_token"] = ada.token("/users/password")
            sent = {"json": given} if path.startswith("/api") else {"data": given}
            assert ada.client.post(path, **sent).status_code == 400
    assert [line["on"]["user"] for line in lines] == ["u", "u"]
    assert "secret-" not in str(lines)


# The command


def test_the_command_keeps_passwords_out_of_its_arguments(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "users"
    with open(os.devnull, encoding="utf-8") as empty:
        monkeypatch.setattr("sys.stdin", empty)
        assert main(["console-users", "--file", str(file), "--set", "anna"]) == 1
    assert "The password is empty" in capsys.readouterr().err
    (tmp_path / "in").write_text("correct horse\n")
    with open(tmp_path / "in", encoding="utf-8") as given:
        monkeypatch.setattr("sys.stdin", given)
        assert main(["console-users", "--file", str(file), "--set", "anna"]) == 0
    assert file.stat().st_mode & 0o777 == 0o600
    assert file.read_text().startswith("anna:$argon2id$v=19$m=65536,t=3,p=4$")
    assert main(["console-users", "--file", str(file), "--list"]) == 0
    assert capsys.readouterr().out == "anna\n"
    assert main(["console-users", "--file", str(file), "--remove", "otto"]) == 1
    assert main(["console-users", "--file", str(file), "--remove", "anna"]) == 0
    assert file.read_text() == ""


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("anna:$2b$12$abc\n", "line 1 is no user with an Argon2id hash"),
        ("# users\nanna\n", "line 2 is no user"),
        (f"a:{CHEAP.hash('a')}\na:{CHEAP.hash('b')}\n", "line 2 has 'a' for the second time"),
        (":x", "line 1 is no user"),
    ],
)
def test_a_wrong_file_of_users_says_which_line(text: str, sentence: str) -> None:
    with pytest.raises(ValueError, match=r"line") as refused:
        users_of(text)
    assert sentence in str(refused.value)
