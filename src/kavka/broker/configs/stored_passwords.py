"""Passwords among the dynamic settings of brokers: encrypted in the registry, plain text in memory only.

One that cannot be read (another secret, or none in `server.properties`) has no effect, and stays as it is stored: the
broker may be given the right secret later. Source: KIP-226; Kafka's `DynamicBrokerConfig`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping

from kavka.broker.configs.broker_config import BrokerConfig
from kavka.core.password_encoder import PasswordEncoder, UndecodablePassword, password_encoder
from kavka.settings.access import SECRET
from kavka.settings.declaration import InvalidSetting, Value, whole_number
from kavka.settings.dynamic import UndecodedPassword, is_password

log = logging.getLogger(__name__)

_OLD_SECRET = "password.encoder.old.secret"
_MAX_KNOWN = 1000
_WHERE = "the registry, and this broker's file of settings has no password.encoder.secret"


class StoredPasswords:
    """Encrypts and decrypts the passwords of one broker's dynamic settings."""

    def __init__(self, config: BrokerConfig, random_bytes: Callable[[int], bytes]) -> None:
        """Read `password.encoder.*`. Raise InvalidSetting."""
        self._encoder = _encoder(config, "password.encoder.secret", random_bytes)
        self._old_encoder = _encoder(config, _OLD_SECRET, random_bytes)
        self._known: dict[str, str] = {}
        """Passwords by their stored texts: to decrypt one takes thousands of hashes."""

    def fault(self, names: Iterable[str]) -> str | None:
        """Return why one of the settings that are to be changed cannot be stored: it is a password, say."""
        passwords = [name for name in names if is_password(name)]
        if not passwords or self._encoder is not None:
            return None
        return (
            "Password encoder secret not configured: passwords are stored encrypted only, so set "
            f"{SECRET} in the broker's server.properties: Set({', '.join(passwords)})"
        )

    def decoded(self, stored: Mapping[str, str]) -> dict[str, str]:
        """Return stored settings with their passwords in plain text, as far as they can be read."""
        found = dict(stored)
        for name in filter(is_password, stored):
            try:
                found[name] = self._decode(stored[name])
            except UndecodablePassword as error:
                log.error("stored password ignored name=%s reason=%s", name, error)
                found[name] = UndecodedPassword(stored[name])
        return found

    def encoded(self, settings: Mapping[str, str], stored: Mapping[str, str]) -> dict[str, str]:
        """Return what is to be stored in place of `stored`: passwords that stay are not encrypted again."""
        found = dict(settings)
        for name in filter(is_password, settings):
            text = settings[name]
            if name in stored and (text == stored[name] or self._is(stored[name], text)):
                found[name] = stored[name]
            elif isinstance(text, UndecodedPassword):
                found[name] = str(text)
            else:
                assert self._encoder is not None, name  # `fault` was asked
                found[name] = self._encoder.encode(text)
        return found

    def encoded_again(self, stored: Mapping[str, str]) -> dict[str, str] | None:
        """Return stored settings with the passwords of the old secret encrypted by the new one, None without any."""
        if self._old_encoder is None or self._encoder is None:
            return None
        changed: dict[str, str] = {}
        for name in filter(is_password, stored):
            if self._can_decode(stored[name]):
                continue
            try:
                changed[name] = self._encoder.encode(self._old_encoder.decode(stored[name]))
            except UndecodablePassword:
                log.debug("stored password is of neither secret name=%s", name)
        return {**stored, **changed} if changed else None

    def _decode(self, text: str) -> str:
        if self._encoder is None:
            raise UndecodablePassword(f"it is encrypted in {_WHERE}")
        if text not in self._known:
            if len(self._known) >= _MAX_KNOWN:
                self._known.clear()
            self._known[text] = self._encoder.decode(text)
        return self._known[text]

    def _is(self, stored: str, password: str) -> bool:
        return self._can_decode(stored) and self._decode(stored) == password

    def _can_decode(self, text: str) -> bool:
        try:
            self._decode(text)
        except UndecodablePassword:
            return False
        return True


def _encoder(
    config: BrokerConfig, setting: str, random_bytes: Callable[[int], bytes]
) -> PasswordEncoder | None:
    secret = config.optional(setting)
    if secret is None:
        return None
    if not secret:
        raise InvalidSetting(setting, "", "The secret must not be empty")
    return encoder_of_settings(secret, config.values, random_bytes)


def encoder_of_settings(
    secret: str, values: Mapping[str, Value], random_bytes: Callable[[int], bytes]
) -> PasswordEncoder:
    """Return the encoder of a secret and of the settings `password.encoder.*` among `values`. Raise InvalidSetting."""
    factory = values["password.encoder.keyfactory.algorithm"]
    return password_encoder(
        secret,
        None if factory is None else str(factory),
        str(values["password.encoder.cipher.algorithm"]),
        whole_number(values, "password.encoder.key.length"),
        whole_number(values, "password.encoder.iterations"),
        random_bytes,
    )
