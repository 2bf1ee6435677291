"""Decisions of the access: roles, masks, sessions, the brake, where to listen. No I/O but small files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from kavka.client.consumer.batches import ConsumerRecord
from kavka.console.access.brake import Brake, network_of
from kavka.console.access.config import BadAccess, access_of, read_access
from kavka.console.access.exposure import (
    Exposure,
    NotLoopback,
    Sender,
    answers_to,
    checked_exposure,
    local_path,
    sender_of,
)
from kavka.console.access.masks import mask_of, path_of
from kavka.console.access.roles import Grant, Need, Role, User
from kavka.console.access.sessions import Sessions
from kavka.console.failures import Failure

# Roles


def test_a_role_holds_for_its_prefixes_and_includes_the_lower_ones() -> None:
    user = User(
        "u", "local", (Grant(Role.OPERATOR, ("a-", "b-"), ("g-",)), Grant(Role.VIEWER, ("c",)))
    )
    assert user.may(Role.VIEWER, topic="a-1")
    assert user.may(Role.OPERATOR, topic="b-1")
    assert not user.may(Role.ADMINISTRATOR, topic="b-1")
    assert user.may(Role.VIEWER, topic="c")
    assert not user.may(Role.OPERATOR, topic="c")
    assert not user.may(Role.VIEWER, topic="d")
    assert user.meets(Need(Role.OPERATOR, "group"), None, "g-1")
    assert not user.meets(Need(Role.OPERATOR, "group"), None, "h")
    assert user.meets(Need(Role.OPERATOR, "any"), None, None)
    assert not user.meets(Need(Role.VIEWER, "cluster"), None, None)
    assert not user.meets(Need(Role.VIEWER, "topic"), None, None)
    assert not user.capped(Role.VIEWER).may(Role.OPERATOR, topic="a-1")


def test_prefixes_of_two_grants_do_not_mix() -> None:
    user = User(
        "u", "local", (Grant(Role.VIEWER, ("",), ("",)), Grant(Role.ADMINISTRATOR, ("a-",)))
    )
    assert user.may_on_all(Role.VIEWER)
    assert not user.may_on_all(Role.OPERATOR)
    assert not user.may(Role.ADMINISTRATOR, topic="b")


# The file


def test_a_file_has_users_grants_and_masks(tmp_path: Path) -> None:
    file = tmp_path / "access.toml"
    file.write_text(
        'users-file = "users"\nidle-minutes = 5\n[[grants]]\nrole = "viewer"\nusers = ["anna"]\n'
        'topics = ["orders-"]\n[[masks]]\nfield = "$.card"\n'
        '[oidc]\nissuer = "https://id.example.org"\nclient-id = "console"\n'
    )
    access = read_access(str(file))
    assert access.users_file == str(tmp_path / "users")
    assert access.idle_s == 300
    assert access.grants_of("anna") == (Grant(Role.VIEWER, ("orders-",), ("orders-",)),)
    assert access.grants_of("otto") == access.grants_of(claims=["anna"]) == ()
    assert access.oidc is not None
    assert "openid" in access.oidc.scopes


GRANT = {"role": "viewer", "users": ["a"]}


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"users": "u"}, "the file has 'users', which is none of: users-file"),
        ({"users-file": 1}, "users-file of the file is 1, not of the type str"),
        ({"idle-minutes": True}, "not of the type int"),
        ({"idle-minutes": 0}, "at least 1"),
        ({"users-file": "u"}, "no user could see anything"),
        ({"grants": [GRANT]}, "no login: name a users-file"),
        (
            {"users-file": "u", "grants": [{"role": "root", "users": ["a"]}]},
            "role of grant 1 is 'root'",
        ),
        ({"users-file": "u", "grants": [{"role": "viewer"}]}, "names neither users nor claims"),
        ({"users-file": "u", "grants": [{**GRANT, "topics": [1]}]}, "has 1, which is no text"),
        ({"users-file": "u", "grants": ["viewer"]}, "grant 1 is no table"),
        ({"masks": [{"topics": ["a"]}]}, "mask 1: a mask has one of field, header"),
        ({"masks": [{"field": "card"}]}, "mask 1: 'card' is no JSON path: it begins with $"),
        ({"masks": [{"field": "$.a[?]"}]}, "from character 4 on"),
        ({"masks": [{"field": "$"}]}, "is the whole value"),
        ({"masks": [{"pattern": "("}]}, "mask 1: pattern '('"),
        ({"masks": [{"key": True, "unmasked-for": "me"}]}, "unmasked-for is 'me'"),
        ({"oidc": {"issuer": "https://i"}}, "oidc has no client-id"),
        ({"oidc": {"issuer": "http://i.org", "client-id": "c"}}, "it begins with https://"),
    ],
)
def test_a_wrong_file_says_what_is_wrong(
    given: dict[str, Any], sentence: str, tmp_path: Path
) -> None:
    with pytest.raises(ValueError, match=r".") as refused:
        access_of(given, tmp_path)
    assert sentence in str(refused.value)


def test_a_file_that_is_missing_or_no_toml_is_named(tmp_path: Path) -> None:
    with pytest.raises(BadAccess, match="No such file"):
        read_access(str(tmp_path / "none"))
    (tmp_path / "bad").write_text("a = = b")
    with pytest.raises(BadAccess, match="bad: "):
        read_access(str(tmp_path / "bad"))


# Masks


def record(value: bytes | None, key: bytes | None = b"k", **headers: bytes) -> ConsumerRecord:
    return ConsumerRecord("t", 0, 1, 2, 0, key, value, tuple(headers.items()))


@pytest.mark.parametrize(
    ("path", "value", "masked"),
    [
        ("$.card", {"card": "1", "n": 1}, {"card": "***", "n": 1}),
        (
            "$.card.number",
            {"card": {"number": 5, "year": 1}},
            {"card": {"number": "***", "year": 1}},
        ),
        ("$.card", {"card": {"number": 5}}, {"card": "***"}),
        ("$.a[*].b", {"a": [{"b": 1}, {"c": 2}]}, {"a": [{"b": "***"}, {"c": 2}]}),
        ("$.a[1]", {"a": [1, 2]}, {"a": [1, "***"]}),
        ("$['a b']", {"a b": 1}, {"a b": "***"}),
        ("$..pin", {"pin": 1, "x": [{"pin": {"pin": 2}}]}, {"pin": "***", "x": [{"pin": "***"}]}),
        ("$.*.pin", {"a": {"pin": 1}, "pin": 2}, {"a": {"pin": "***"}, "pin": 2}),
        ("$[*].pin", [{"pin": 1}], [{"pin": "***"}]),
    ],
)
def test_a_mask_covers_what_a_path_leads_to(path: str, value: Any, masked: Any) -> None:
    done = mask_of({"field": path}).apply(record(json.dumps(value).encode()))
    assert json.loads(done.value) == masked


def test_what_a_field_mask_cannot_take_apart_is_covered_whole() -> None:
    mask = mask_of({"field": "$.card"})
    assert mask.apply(record(b'{"card":1,"card":2}')).value == b"***"
    assert mask.apply(record(b'{"a":{"card":1},"a":{}}')).value == b"***"
    assert mask.apply(record(b"\x00\x05card=4111")).value == b"***"
    assert mask.apply(record(b"[" * 100_000)).value == b"***"
    assert mask.apply(record(None)).value is None
    same = b'{ "n" : 1.50 }'
    assert mask.apply(record(same)).value == same
    assert mask.apply(record(b"{}", b'{"card":1}')).key == b'{"card": "***"}'


def test_patterns_headers_keys_and_values_are_covered() -> None:
    digits = mask_of({"pattern": r"\b\d{4}-?\d{4}\b", "replacement": "#"})
    done = digits.apply(record(b"pay 1234-5678 now", b"12345678", h=b"\xff 12345678", n=b"12"))
    assert (done.key, done.value) == (b"#", b"pay # now")
    assert done.headers == (("h", b"\xff #"), ("n", b"12"))
    hidden = digits.apply(record(rb'{"card": "1234567\u0038", "\u00312345678": 1}'))
    assert json.loads(hidden.value) == {"card": "#", "#": 1}
    assert digits.apply(record(rb'{"a":"1234567\u0038","a":1}')).value == b"#"
    header = mask_of({"header": "Authorization"})
    assert header.apply(record(b"v", authorization=b"secret")).headers[0][1] == b"***"
    assert mask_of({"key": True}).apply(record(b"v")).key == b"***"
    assert mask_of({"value": True}).apply(record(b"v")).value == b"***"


def test_a_mask_holds_for_its_topics_and_roles() -> None:
    mask = mask_of({"value": True, "topics": ["pay-"], "unmasked-for": "operator"})
    viewer = User("v", "local", (Grant(Role.VIEWER), Grant(Role.OPERATOR, ("pay-test",))))
    assert mask.holds(viewer, "pay-live")
    assert not mask.holds(viewer, "pay-test")
    assert not mask.holds(viewer, "orders")
    assert mask_of({"value": True}).holds(User("a", "local", (Grant(Role.ADMINISTRATOR),)), "x")
    assert len(path_of("$.a..b[0]['c']")) == 4


# Sessions and the brake


def test_a_session_ends_idle_and_absolutely() -> None:
    sessions = Sessions(idle_s=10, absolute_s=30)
    one = sessions.begin("a", "local", (), "", 0)
    assert sessions.find(one, 9, is_use=True) is not None
    assert sessions.find(one, 18, is_use=False) is not None
    assert sessions.find(one, 19, is_use=False) is None
    two = sessions.begin("a", "local", (), "", 0)
    for now_s in (9, 18, 27):
        assert sessions.find(two, now_s, is_use=True) is not None
    assert sessions.find(two, 30, is_use=True) is None
    assert one != two
    assert len(two) > 40


def test_sessions_of_a_user_are_bounded() -> None:
    sessions = Sessions(10, 10)
    made = [sessions.begin("a", "local", (), "", 0) for _ in range(25)]
    assert len(sessions) == 20
    assert sessions.find(made[0], 1, is_use=True) is None
    assert sessions.find(made[-1], 1, is_use=True) is not None


def test_guesses_wait_longer_and_longer_and_lock_no_other_out() -> None:
    brake = Brake()
    assert [brake.begin("a", "10.0.0.1", "", 0) for _ in range(5)] == [0] * 5
    first = brake.begin("a", "10.0.0.1", "", 0)
    assert first > 0
    assert brake.begin("a", "10.0.0.1", "", first) == 0
    assert brake.begin("a", "10.0.0.1", "", first) > first
    assert brake.begin("a", "10.0.0.2", "", 0) == 0, "the user from elsewhere"
    assert brake.begin("b", "10.0.0.1", "", 0) == 0, "another user from there"


def test_an_address_that_guesses_many_names_waits_and_a_known_browser_behind_it_does_not() -> None:
    brake = Brake()
    mark = brake.mark("vera")
    waits = [brake.begin(f"user{n}", "10.0.0.1", "", 0) for n in range(60)]
    assert waits[:50] == [0] * 50
    assert waits[59] > 0
    assert brake.begin("vera", "10.0.0.1", "", 0) > 0
    assert brake.begin("vera", "10.0.0.1", mark, 0) == 0
    assert brake.begin("otto", "10.0.0.1", mark, 0) > 0, "the mark is another user's"
    assert brake.begin("vera", "10.0.0.1", mark[:-1] + "x", 0) > 0
    for _ in range(4):
        brake.begin("vera", "10.0.0.1", mark, 0)
    assert brake.begin("vera", "10.0.0.1", mark, 0) > 0, (
        "a known browser may guess no more than others"
    )


def test_a_success_takes_the_count_back() -> None:
    brake = Brake()
    for _ in range(200):
        assert brake.begin("a", "10.0.0.1", "", 0) == 0
        brake.succeeded("a", "10.0.0.1", "", 0)
    assert network_of("2001:db8::1") == network_of("2001:db8::ffff:1") == "2001:db8::/64"
    assert network_of("::ffff:10.0.0.1") == "10.0.0.1"


# Where to listen


TLS = Exposure(certificate="c.pem", public_url="https://console.example.org")
PROXY = Exposure(proxies=("10.0.0.7",), public_url="https://console.example.org")


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.1.4"])
@pytest.mark.parametrize(
    ("exposure", "has_login", "missing"),
    [
        (Exposure(), False, "a login: --access"),
        (Exposure(), True, "TLS: --tls-certificate"),
        (TLS, False, "a login: --access"),
        (PROXY, False, "a login: --access"),
        (Exposure(certificate="c.pem"), True, "--public-url"),
        (Exposure(proxies=("10.0.0.7",), public_url="http://c.org"), True, "--public-url https://"),
    ],
)
def test_off_the_loopback_only_with_login_and_tls(
    host: str, exposure: Exposure, has_login: bool, missing: str
) -> None:
    with pytest.raises(NotLoopback) as refused:
        checked_exposure(host, exposure, has_login=has_login)
    assert missing in str(refused.value)


def test_with_login_and_tls_it_listens_elsewhere() -> None:
    for exposure in (TLS, PROXY):
        assert checked_exposure("0.0.0.0", exposure, has_login=True) == "0.0.0.0"
        assert checked_exposure("localhost", exposure, has_login=True) == "127.0.0.1"
        with pytest.raises(NotLoopback, match="a login"):
            checked_exposure("127.0.0.1", exposure, has_login=False)
    assert checked_exposure("::1", Exposure(), has_login=False) == "::1"
    with pytest.raises(NotLoopback, match="give an address"):
        checked_exposure("example.org", TLS, has_login=True)
    with pytest.raises(ValueError, match="--proxy nginx is no address"):
        checked_exposure("::1", Exposure(proxies=("nginx",)), has_login=True)
    with pytest.raises(ValueError, match="--tls-key needs"):
        checked_exposure("::1", Exposure(key="k.pem"), has_login=True)


def test_forwarded_headers_are_believed_from_the_proxy_only() -> None:
    forwarded = {"x-forwarded-for": "203.0.113.9, 198.51.100.4", "x-forwarded-proto": "https"}
    assert sender_of("10.0.0.7", "http", forwarded, PROXY) == Sender("198.51.100.4", "https")
    assert sender_of("::ffff:10.0.0.7", "http", forwarded, PROXY) == Sender("198.51.100.4", "https")
    elsewhere = sender_of("10.0.0.8", "http", forwarded, PROXY)
    assert isinstance(elsewhere, Failure)
    assert elsewhere.status == 403
    plain = sender_of("10.0.0.7", "http", {"x-forwarded-proto": "http"}, PROXY)
    assert isinstance(plain, Failure)
    assert sender_of("10.0.0.8", "https", forwarded, TLS) == Sender("10.0.0.8", "https")
    hidden = sender_of("127.0.0.1", "http", forwarded, Exposure())
    assert isinstance(hidden, Failure), "a proxy in front of a console for this machine alone"
    two = Exposure(proxies=("10.0.0.0/24",), public_url="https://c.org")
    chain = {"x-forwarded-for": "evil, 203.0.113.9, 10.0.0.3", "x-forwarded-proto": "https"}
    assert sender_of("10.0.0.7", "http", chain, two) == Sender("203.0.113.9", "https")
    assert sender_of("10.0.0.7", "http", {**chain, "x-forwarded-for": "evil"}, two) == Sender(
        "10.0.0.7", "https"
    )


def test_a_console_answers_to_its_name_only() -> None:
    for name in ("console.example.org", "CONSOLE.example.org:443"):
        assert answers_to(name, TLS)
    for name in (
        "localhost",
        "10.0.0.7",
        "console.example.org:8080",
        "console.example.org.evil.org",
        "",
        "a:b:c",
    ):
        assert not answers_to(name, TLS)
    assert answers_to("localhost:8080", Exposure())


@pytest.mark.parametrize(
    "target",
    [
        "//evil.example", "https://evil.example", "/\\evil.example", "\\\\evil.example", "javascript:alert(1)",
        "/\t/evil.example", "/\r\nSet-Cookie: a=b", "evil", "", "///evil", "/login?next=/login", "/logout",
        "/api/topics", "http:/evil", "/ü",
    ],
)  # fmt: skip
def test_a_login_leads_to_pages_of_this_console_only(target: str) -> None:
    assert local_path(target) == "/"


def test_a_login_leads_back_to_the_page() -> None:
    for target in ("/topics/a/messages?text=%2F%2Fx&key=http://a", "/group?id=a%2Fb", "/"):
        assert local_path(target) == target
