"""JAAS files of ZooKeeper: the users of a server, and the login of a client.

    Server {
      org.apache.zookeeper.server.auth.DigestLoginModule required user_kafka="secret" user_super="other";
    };
    Client {
      org.apache.zookeeper.server.auth.DigestLoginModule required username="kafka" password="secret";
    };

Kafka's scripts pass the file by the environment, and so do ours: `KAFKA_OPTS=-Djava.security.auth.login.config=FILE`.
"""

from __future__ import annotations

import logging
import shlex
import stat
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Final

from kavka.core.sasl.jaas import JaasError, JaasLogin, parse_jaas_section
from kavka.settings.declaration import InvalidSetting
from kavka.settings.text_files import read_text
from kavka.values import frozen

log = logging.getLogger(__name__)

FILE: Final = "java.security.auth.login.config"
CLIENT: Final = "zookeeper.sasl.client"
CLIENT_SECTION: Final = "zookeeper.sasl.clientconfig"
SERVER_SECTION: Final = "zookeeper.sasl.serverconfig"
_MODULE: Final = "org.apache.zookeeper.server.auth.DigestLoginModule"
_USER: Final = "user_"


@frozen
class ZooKeeperLogin:
    """A user of ZooKeeper and its password. Its text shows no password."""

    user: str
    password: str
    source: str
    """The file and section that it stands in, for messages."""

    def __repr__(self) -> str:
        """Show no password."""
        return f"ZooKeeperLogin({self.user}, {self.source})"


def java_properties(*texts: str | None) -> dict[str, str]:
    """Return the system properties `-Dname=value` in options of a Java machine, as KAFKA_OPTS has them."""
    found: dict[str, str] = {}
    for text in texts:
        try:
            words = shlex.split(text or "")
        except ValueError:  # a quote without its end, as a shell would have said
            words = (text or "").split()
        for word in words:
            if word.startswith("-D"):
                name, _, value = word[2:].partition("=")
                found[name] = value
    return found


def settings_of_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the settings of a broker's or a tool's login that KAFKA_OPTS has; none without a section for ZooKeeper.

    Raise InvalidSetting when the file cannot be read.
    """
    given = java_properties(environment.get("KAFKA_OPTS"))
    file, section = given.get(FILE), given.get(CLIENT_SECTION) or "Client"
    if not file or given.get(CLIENT, "true").strip().lower() == "false":
        return {}
    _login, sections = _read(file, section, FILE)
    if section not in sections:
        return {}  # it is about something else: KafkaServer, say
    return {"kavka.zookeeper.jaas.file": file, "kavka.zookeeper.jaas.section": section}


def users_of_file(
    file: str | None, section: str, setting: str = "kavka.jaas.file"
) -> dict[str, str]:
    """Return the passwords of a server's users, by user; none without a file. Raise InvalidSetting."""
    if not file:
        return {}
    login = _section(file, section, setting)
    users = {
        name.removeprefix(_USER): password
        for name, password in login.options.items()
        if name.startswith(_USER) and name != _USER
    }
    if not users:
        reason = f'section {section} names no user: user_<name>="<password>"'
        raise InvalidSetting(setting, file, reason)
    return users


def login_of_file(
    file: str | None, section: str, setting: str = "kavka.zookeeper.jaas.file"
) -> ZooKeeperLogin | None:
    """Return the login of a client; None without a file. Raise InvalidSetting."""
    if not file:
        return None
    options: Mapping[str, str] = _section(file, section, setting).options
    if not options.get("username") or "password" not in options:
        reason = f'section {section} lacks username="<name>" and password="<password>"'
        raise InvalidSetting(setting, file, reason)
    source = f"section {section} of {file}"
    return ZooKeeperLogin(options["username"], options["password"], source)


def _section(file: str, section: str, setting: str) -> JaasLogin:
    login, sections = _read(file, section, setting)
    if login is None:
        named = ", ".join(sections) or "none"
        raise InvalidSetting(setting, file, f"it has no section {section}, but {named}")
    if not login.is_module(_MODULE):
        reason = (
            f"section {section} has the login module {login.module}: only {_MODULE} is supported"
        )
        raise InvalidSetting(setting, file, reason)
    return login


def _read(file: str, section: str, setting: str) -> tuple[JaasLogin | None, list[str]]:
    try:
        _warn_of_readers(file)
        return parse_jaas_section(read_text(file), section)
    except OSError as error:
        raise InvalidSetting(setting, file, error.strerror or str(error)) from error
    except (ValueError, JaasError) as error:
        raise InvalidSetting(setting, file, str(error)) from error


@cache
def _warn_of_readers(file: str) -> None:
    """Warn once of passwords that any user of the machine can read."""
    if Path(file).stat().st_mode & stat.S_IROTH:
        log.warning("passwords readable by every user file=%s", file)
