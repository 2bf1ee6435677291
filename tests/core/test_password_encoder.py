"""Passwords as Apache Kafka 3.9 stores them: its texts are read, and what is read is what was written."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kavka.core.password_encoder import (
    CIPHERS,
    KEY_BITS,
    KEY_FACTORIES,
    PasswordEncoder,
    PasswordEncoding,
    UndecodablePassword,
    password_encoder,
)
from kavka.settings.declaration import InvalidSetting
from support.examples import examples

# Written by org.apache.kafka.security.PasswordEncoder of Kafka 3.9.2, with the secret and the password below.
TEXTS = (Path(__file__).parent / "kafka_3_9_passwords.txt").read_text().splitlines()
SECRET, PASSWORD = "sécret €😀", "pass, wörd: 😀"


def encoder(secret: str = SECRET, encoding: PasswordEncoding | None = None) -> PasswordEncoder:
    return PasswordEncoder(secret, encoding or PasswordEncoding(), random.Random(1).randbytes)


@pytest.mark.parametrize("text", TEXTS[:3], ids=CIPHERS)
def test_what_kafka_has_encrypted_is_read(text: str) -> None:
    assert encoder().decode(text) == PASSWORD
    with pytest.raises(UndecodablePassword):
        encoder("another secret").decode(text)


def test_a_cipher_that_is_not_supported_is_named() -> None:
    with pytest.raises(UndecodablePassword, match="cipher 'AES/CFB/NoPadding' is not supported"):
        encoder().decode(TEXTS[3])


@given(
    st.text(st.characters(exclude_categories=["Cs"])),
    st.sampled_from(CIPHERS),
    st.sampled_from(KEY_FACTORIES),
    st.sampled_from(KEY_BITS),
)
@settings(max_examples=examples(60))
def test_what_was_written_is_read(password: str, cipher: str, factory: str, bits: int) -> None:
    text = encoder(encoding=PasswordEncoding(factory, cipher, bits, 2)).encode(password)
    assert encoder().decode(text) == password
    assert set(text.partition("salt")[0]) <= set(map(chr, range(33, 127)))


@pytest.mark.parametrize(
    "text",
    [
        "",
        "plain text",
        "a:b",
        TEXTS[0].replace("passwordLength:14", "passwordLength:13"),
        TEXTS[0].replace("keyLength:128", "keyLength:127"),
        TEXTS[0].replace("iterations:4096", "iterations:99999999999"),
        TEXTS[0].replace("iterations:4096", "iterations:0"),
        TEXTS[0].replace("PBKDF2WithHmacSHA512", "PBKDF2WithHmacMD5"),
        TEXTS[0].replace("encryptedPassword:", "encryptedPassword:!"),
        TEXTS[0].replace("initializationVector:", "initializationVector:AAAA"),
        TEXTS[1].replace("encryptedPassword:F7", "encryptedPassword:FA"),
    ],
)
def test_what_cannot_be_read_is_refused_without_its_text(text: str) -> None:
    with pytest.raises(UndecodablePassword) as refused:
        encoder().decode(text)
    assert "ji7W03J+" not in str(refused.value)


@pytest.mark.parametrize(
    ("change", "setting"),
    [
        ({"cipher": "AES/ECB/PKCS5Padding"}, "password.encoder.cipher.algorithm"),
        ({"key_factory": "PBKDF2WithHmacMD5"}, "password.encoder.keyfactory.algorithm"),
        ({"key_bits": 64}, "password.encoder.key.length"),
    ],
)
def test_settings_that_no_cipher_has_are_refused(change: dict[str, str], setting: str) -> None:
    given: dict[str, object] = {
        "secret": "s",
        "key_factory": None,
        "cipher": CIPHERS[0],
        "key_bits": 128,
        "iterations": 4096,
        "random_bytes": random.randbytes,
        **change,
    }
    with pytest.raises(InvalidSetting) as refused:
        password_encoder(**given)  # type: ignore[arg-type]
    assert refused.value.name == setting
