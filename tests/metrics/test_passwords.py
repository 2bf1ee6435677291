"""Files of users with hashed passwords: what is taken, what is refused, and no difference between unknown and wrong."""

from __future__ import annotations

import base64
import hashlib
from typing import Any

import bcrypt
import pytest

from kavka.metrics.passwords import BadUsers, Users, hashed

SALT = bytes(range(16))


def test_a_password_that_was_hashed_here_is_taken() -> None:
    users = Users(f"# readers\n\nalice:{hashed('naïve secret', SALT)}\n")
    assert users.names == ["alice"]
    assert users.accept("alice", "naïve secret".encode())
    assert not users.accept("alice", b"wrong")
    assert not users.accept("bob", "naïve secret".encode())


def test_the_hash_is_that_of_rfc_7914() -> None:
    salt, stored = hashed("p", SALT).split("$")[-2:]
    wanted = hashlib.scrypt(b"p", salt=SALT, n=1 << 14, r=8, p=1, maxmem=64 << 20, dklen=32)
    assert base64.b64decode(salt + "==") == SALT
    assert base64.b64decode(stored + "=") == wanted


@pytest.mark.parametrize("prefix", [b"2a", b"2b"])
def test_a_password_that_htpasswd_hashed_with_bcrypt_is_taken(prefix: bytes) -> None:
    stored = bcrypt.hashpw(b"secret", bcrypt.gensalt(4, prefix)).decode()
    for line in (stored, stored.replace("$2b$", "$2y$")):  # htpasswd says 2y
        users = Users(f"alice:{line}")
        assert users.accept("alice", b"secret")
        assert not users.accept("alice", b"Secret")
        assert not users.accept("alice", b"secret" * 20)


def test_an_unknown_user_is_checked_as_a_known_one(monkeypatch: pytest.MonkeyPatch) -> None:
    users = Users(f"alice:{hashed('a', SALT)}")
    computed: list[bytes] = []
    scrypt = hashlib.scrypt

    def counted(password: bytes, **how: Any) -> bytes:
        computed.append(password)
        return scrypt(password, **how)

    monkeypatch.setattr(hashlib, "scrypt", counted)
    users.accept("nobody", b"a")
    users.accept("alice", b"b")
    assert computed == [b"a", b"b"]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "there is no user in it"),
        ("alice", "line 1: it is not user:hash"),
        (":x", "line 1: it is not user:hash"),
        ("a:$apr1$x$y", "line 1: its hash is neither scrypt nor bcrypt"),
        ("a:{SHA}x", "neither scrypt nor bcrypt"),
        ("a:secret", "neither scrypt nor bcrypt"),
        ("a:$scrypt$ln=20,r=8,p=1$AAAA$AAAA", "ln up to 17"),
        ("a:$scrypt$ln=14,r=8,p=1$AAAAA$AAAA", "its hash is no Base64"),
        ("a:$2y$31$" + "a" * 53, "a cost up to 14"),
    ],
)
def test_a_line_that_cannot_be_used_is_refused_with_what_to_do(text: str, reason: str) -> None:
    with pytest.raises(BadUsers, match="htpasswd -B") as refused:
        Users(text)
    assert reason in str(refused.value)
    assert "secret" not in str(refused.value)
