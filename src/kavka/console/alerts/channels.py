"""Channels: the webhooks and mail servers that the rules' file names, and no others.

channels:
- channel: team
webhook_file: slack.url                   # or webhook: URL; files are beside the rules' file
shape: slack                              # json (the default), slack or pagerduty
headers: {Authorization: Bearer ...}      # or header_file: lines `Name: value`
timeout: 10s
retry_for: 1d                             # tried for so long
severities: [warning, critical]
- channel: ours
webhook: https://example.org/hook
body: {text: "{sentence}", link: "{link}"}   # a document of one's own instead of a shape
- channel: pager
shape: pagerduty
key_file: pagerduty.key                   # the routing key; the address is PagerDuty's, or `webhook`
- channel: post
mail: {server: "mail.example.org:587", security: starttls, user: kavka, password_file: mail.password,
from: kavka@example.org, to: [ops@example.org]}
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from kavka.console.alerts.located import Items, Problem, Section
from kavka.console.sentences import Sentence, as_is, say
from kavka.net.webhook import InvalidWebhook, check_url, read_headers
from kavka.settings.durations import duration_ms

SHAPES: Final = ("json", "slack", "pagerduty")
PAGERDUTY: Final = "https://events.pagerduty.com/v2/enqueue"
FIELDS: Final = (
    "sentence",
    "advice",
    "link",
    "alert",
    "subject",
    "severity",
    "event",
    "value",
    "since",
    "incident",
)
"""Names in braces that a text of `body` may have."""
SEVERITIES: Final = ("info", "warning", "critical")
_CHANNEL: Final = (
    "channel", "webhook", "webhook_file", "shape", "body", "key", "key_file", "headers", "header_file", "mail",
    "timeout", "retry_for", "severities",
)  # fmt: skip
_MAIL: Final = ("server", "security", "user", "password", "password_file", "from", "to")
_SECURITIES: Final = ("starttls", "tls", "none")
_ADDRESS: Final = re.compile(r"[A-Za-z0-9.!#$%&'*+/=?^_`{|}~-]+@[A-Za-z0-9.-]+")


@dataclass(frozen=True, slots=True)
class Mail:
    """A mail server, and between whom it carries messages."""

    host: str
    port: int
    security: str
    sender: str
    to: tuple[str, ...]
    user: str = ""
    password: str = field(default="", repr=False)


@dataclass(frozen=True, slots=True)
class Channel:
    """A channel: a webhook, or mail."""

    name: str
    url: str = field(default="", repr=False)
    shape: str = "json"
    body: Any = None
    key: str = field(default="", repr=False)
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    mail: Mail | None = None
    timeout_s: float = 10.0
    retry_for_s: float = 86_400.0
    severities: tuple[str, ...] = SEVERITIES

    @property
    def target(self) -> str:
        """Return where it leads, without what may be a secret."""
        if self.mail is not None:
            return f"{', '.join(self.mail.to)} through {self.mail.host}:{self.mail.port}"
        parts = urlsplit(self.url)
        return f"{parts.scheme}://{parts.netloc}"

    @property
    def kind(self) -> str:
        """Return mail, the shape, or `body` for a document of one's own."""
        return "mail" if self.mail is not None else "body" if self.body is not None else self.shape


class _Wrong(Exception):
    """A mistake in a channel."""

    def __init__(self, key: str, sentence: Sentence) -> None:
        super().__init__(sentence)
        self.key = key
        self.sentence = sentence


def read_channel(
    name: str, section: Section, directory: Path
) -> tuple[Channel | None, list[Problem]]:
    """Return a channel, or its mistakes. Secrets are read from their files."""
    try:
        return _channel(name, section, directory), []
    except _Wrong as error:
        sentence = say("the channel {name}: {mistake}", name=name, mistake=error.sentence)
        return None, [Problem(section.line_of(error.key), sentence)]


def _channel(name: str, section: Section, directory: Path) -> Channel:
    _only(section, _CHANNEL)
    common: dict[str, Any] = {
        "timeout_s": _seconds(section, "timeout", 10.0),
        "retry_for_s": _seconds(section, "retry_for", 86_400.0),
        "severities": _severities(section),
    }
    if "mail" in section:
        for key in (
            "webhook",
            "webhook_file",
            "shape",
            "body",
            "key",
            "key_file",
            "headers",
            "header_file",
        ):
            if key in section:
                raise _Wrong(key, say("a channel of mail has no {key!r}", key=key))
        return Channel(name, mail=_mail(section, directory), **common)
    shape = section.get("shape", "json")
    if shape not in SHAPES:
        raise _Wrong("shape", _one_of("shape", SHAPES, shape))
    key = _secret(section, "key", directory)
    if (shape == "pagerduty") != bool(key):
        raise _Wrong("key", say("the shape pagerduty, and no other, has a `key` or `key_file`"))
    url = _secret(section, "webhook", directory) or (PAGERDUTY if shape == "pagerduty" else "")
    if not url:
        raise _Wrong("channel", say("it needs a `webhook`, a `webhook_file` or `mail`"))
    try:
        check_url(url)
    except InvalidWebhook as error:
        raise _Wrong(
            "webhook" if "webhook" in section else "webhook_file", as_is(str(error))
        ) from None
    body = section.get("body")
    if body is not None:
        if "shape" in section:
            raise _Wrong("body", say("it has a shape or a body, not both"))
        if not isinstance(body, (Section, Items)):
            raise _Wrong("body", say("body is a mapping or a list; it is sent as JSON"))
        _check_fields(body)
    return Channel(name, url, shape, body, key, _headers(section, directory), **common)


def _one_of(key: str, allowed: tuple[str, ...], value: object) -> Sentence:
    listed = ", ".join(allowed)
    return say("{key} is one of {listed}, not {value!r}", key=key, listed=listed, value=value)


def _only(section: Section, allowed: tuple[str, ...]) -> None:
    for key in section:
        if key not in allowed:
            sentence = say(
                "there is no {key!r}; it may have {allowed}", key=key, allowed=", ".join(allowed)
            )
            raise _Wrong(key, sentence)


def _secret(section: Section, key: str, directory: Path) -> str:
    """Return the value of a key, or the first line of the file that `KEY_file` names."""
    file_key = f"{key}_file"
    if key in section and file_key in section:
        raise _Wrong(file_key, say("it has {key} or {file}, not both", key=key, file=file_key))
    if file_key not in section:
        value = section.get(key, "")
        if not isinstance(value, str):
            raise _Wrong(key, say("{key} is a text", key=key))
        return value
    lines = _lines(section, file_key, directory)
    if len(lines) != 1:
        raise _Wrong(
            file_key, say("{key} has one line, not {lines}", key=file_key, lines=len(lines))
        )
    return lines[0]


def _lines(section: Section, key: str, directory: Path) -> list[str]:
    path = directory / str(section[key])
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or say("it is not UTF-8")
        raise _Wrong(
            key, say("{path} cannot be read: {reason}", path=path, reason=reason)
        ) from None
    return [line.strip() for line in text.splitlines() if line.strip()]


def _headers(section: Section, directory: Path) -> dict[str, str]:
    lines = _lines(section, "header_file", directory) if "header_file" in section else []
    given = section.get("headers", Section())
    if not isinstance(given, Section):
        raise _Wrong("headers", say("headers is a mapping of names to values"))
    lines += [f"{name}: {value}" for name, value in given.items()]
    try:
        return read_headers(lines)
    except InvalidWebhook as error:
        raise _Wrong("headers" if given else "header_file", as_is(str(error))) from None


def _seconds(section: Section, key: str, default: float) -> float:
    value = section.get(key, default)
    try:
        seconds = duration_ms(value) / 1000 if isinstance(value, str) else float(value)
    except (ValueError, TypeError):
        seconds = -1.0
    if not 0 < seconds <= 30 * 86_400:
        raise _Wrong(
            key, say("{key} is a time such as 10s or 1d, not {value!r}", key=key, value=value)
        )
    return seconds


def _severities(section: Section) -> tuple[str, ...]:
    value = section.get("severities", list(SEVERITIES))
    if not isinstance(value, list) or not value or any(one not in SEVERITIES for one in value):
        listed = ", ".join(SEVERITIES)
        raise _Wrong("severities", say("severities is a list of {listed}", listed=listed))
    return tuple(value)


def _check_fields(value: Any) -> None:
    if isinstance(value, dict):
        for one in value.values():
            _check_fields(one)
    elif isinstance(value, list):
        for one in value:
            _check_fields(one)
    elif isinstance(value, str):
        for name in re.findall(r"\{([^{}]*)\}", value):
            if name not in FIELDS:
                sentence = say(
                    "{{{field}}} is not known; there are {fields}",
                    field=name,
                    fields=", ".join(FIELDS),
                )
                raise _Wrong("body", sentence)


# Mail


def _mail(section: Section, directory: Path) -> Mail:
    given = section["mail"]
    if not isinstance(given, Section):
        raise _Wrong("mail", say("mail is a mapping with server, from and to"))
    try:
        _only(given, _MAIL)
        host, port = _server(given)
        security = given.get("security", "starttls")
        if security not in _SECURITIES:
            raise _Wrong("security", _one_of("security", _SECURITIES, security))
        to = given.get("to")
        receivers = [to] if isinstance(to, str) else to
        if not isinstance(receivers, list) or not receivers:
            raise _Wrong("to", say("to is an address or a list of addresses"))
        for address in (given.get("from"), *receivers):
            # Without spaces, line breaks and brackets an address cannot add a header.
            if not isinstance(address, str) or _ADDRESS.fullmatch(address) is None:
                sentence = say("{address!r} is no address such as ops@example.org", address=address)
                raise _Wrong("to", sentence)
        user, password = given.get("user", ""), _secret(given, "password", directory)
        if bool(user) != bool(password):
            raise _Wrong("user", say("user and password belong together"))
        if user and security == "none":
            raise _Wrong("security", say("a password is sent with starttls or tls only"))
        return Mail(host, port, security, str(given["from"]), tuple(receivers), str(user), password)
    except _Wrong as error:
        line = given.lines.get(error.key)
        if line is not None:
            section.lines["mail"] = line
        raise _Wrong("mail", error.sentence) from None


def _server(given: Section) -> tuple[str, int]:
    host, _, port = str(given.get("server", "")).rpartition(":")
    is_name = bool(host) and host.isprintable() and " " not in host
    if not (is_name and port.isdecimal() and 0 < int(port) < 65536):
        raise _Wrong("server", say("server is a name and a port, such as mail.example.org:587"))
    return host.strip("[]"), int(port)
