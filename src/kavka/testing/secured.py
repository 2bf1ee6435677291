"""Security of a hosted cluster: users, a throw-away certificate authority, ACLs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from kavka.client.admin.acls import (
    AclBinding,
    AclEntry,
    AclOperation,
    AclPermission,
    AclResourceType,
    PatternType,
    ResourcePattern,
)
from kavka.client.admin.user_credentials import ScramUpsertion

_HELPER = "kavka-testing"
_MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
_PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule required"
_RESOURCES = {
    "topic": AclResourceType.TOPIC,
    "group": AclResourceType.GROUP,
    "cluster": AclResourceType.CLUSTER,
    "transactional_id": AclResourceType.TRANSACTIONAL_ID,
}


@dataclass(frozen=True)
class SecurityOptions:
    """The security of a cluster."""

    users: dict[str, str] = field(default_factory=dict)
    """Passwords by user; with any, clients authenticate by SASL."""
    tls: bool = False
    client_certificates: bool = False
    """Clients need a certificate of the cluster's authority."""
    authorization: bool = False
    """Clients may do what ACLs allow, and nothing else."""

    def __post_init__(self) -> None:
        """Raise ValueError for what does not go together."""
        if self.client_certificates and not self.tls:
            raise ValueError("client_certificates=True needs tls=True")
        if self.authorization and not (self.users or self.client_certificates):
            raise ValueError("authorization=True needs users={...} or client_certificates=True")
        if _HELPER in self.users:
            raise ValueError(f"{_HELPER!r} is the fixture's own user; take another name")
        for user, password in self.users.items():
            if not password or set('",;\\') & set(user + password):
                raise ValueError(f'user {user!r}: no password, or one of these in it: " , ; \\')


class Secured:
    """The settings that a cluster's security is made of, and its files."""

    def __init__(self, directory: Path, options: SecurityOptions, secret: str) -> None:
        """Make certificates under `directory` if `options` ask for TLS; `secret` is the helpers' password."""
        self._directory = directory
        self._options = options
        self._secret = secret
        self._authority: Any = None
        if options.tls:
            from kavka.testing.certificates import Authority  # needs the extra `testing`

            directory.mkdir(parents=True, exist_ok=True)
            self._authority = Authority()
            self._authority.write(directory / "ca.pem")
            self._authority.sign("localhost", ("localhost", "127.0.0.1")).write(
                directory / "broker.pem"
            )

    @property
    def _is_closed(self) -> bool:
        """True if helpers have to authenticate too: a client must not be taken for one."""
        return bool(self._options.users) or self._options.authorization

    @property
    def protocol(self) -> str:
        """Return the `security.protocol` of clients."""
        names = {
            (False, False): "PLAINTEXT",
            (False, True): "SSL",
            (True, False): "SASL_PLAINTEXT",
            (True, True): "SASL_SSL",
        }
        return names[bool(self._options.users), self._options.tls]

    def protocol_map(self) -> str:
        """Return `listener.security.protocol.map`."""
        internal = "SASL_PLAINTEXT" if self._is_closed else "PLAINTEXT"
        return f"CLIENTS:{self.protocol},INTERNAL:{internal}"

    def broker_settings(self) -> dict[str, str]:
        """Return the settings of brokers beside those of their listeners."""
        settings: dict[str, str] = {}
        if self._is_closed:
            settings["listener.name.internal.sasl.enabled.mechanisms"] = "PLAIN"
            settings["listener.name.internal.plain.sasl.jaas.config"] = (
                f'{_PLAIN} username="{_HELPER}" password="{self._secret}" '
                f'user_{_HELPER}="{self._secret}";'
            )
            settings["sasl.mechanism.inter.broker.protocol"] = "PLAIN"
            settings["super.users"] = f"User:{_HELPER}"
        if self._options.users:
            users = " ".join(f'user_{user}="{word}"' for user, word in self._options.users.items())
            settings["listener.name.clients.sasl.enabled.mechanisms"] = ",".join(_MECHANISMS)
            settings["listener.name.clients.plain.sasl.jaas.config"] = f"{_PLAIN} {users};"
        if self._options.tls:
            prefix = "listener.name.clients.ssl."
            settings[prefix + "keystore.type"] = "PEM"
            settings[prefix + "keystore.location"] = str(self._directory / "broker.pem")
        if self._options.client_certificates:
            settings[prefix + "truststore.type"] = "PEM"
            settings[prefix + "truststore.location"] = str(self._directory / "ca.pem")
            settings[prefix + "client.auth"] = "required"
        if self._options.authorization:
            settings["authorizer.class.name"] = "kafka.security.authorizer.AclAuthorizer"
        return settings

    def helper_settings(self) -> dict[str, Any]:
        """Return the settings of the helpers' clients."""
        if not self._is_closed:
            return {}
        return {
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "PLAIN",
            "sasl.username": _HELPER,
            "sasl.password": self._secret,
        }

    def facts(self) -> dict[str, Any]:
        """Return what clients have to know."""
        return {
            "protocol": self.protocol,
            "ca_file": str(self._directory / "ca.pem") if self._options.tls else None,
            **asdict(self._options),
        }

    def certificate(self, name: str) -> tuple[str, str]:
        """Return the paths of a new client's certificate and key: its principal is `User:CN=<name>`."""
        if self._authority is None:
            raise RuntimeError("the cluster has no certificates: start it with tls=True")
        chain, key = self._directory / f"{name}.crt", self._directory / f"{name}.key"
        self._authority.sign(name, ()).write_apart(chain, key)
        return str(chain), str(key)

    def make_users(self, admin: Callable[[], Any]) -> None:
        """Store the users' SCRAM credentials."""
        changes = [
            ScramUpsertion(user, mechanism, password, iterations=4096)
            for user, password in self._options.users.items()
            for mechanism in _MECHANISMS[1:]
        ]
        if changes:
            for result in admin().alter_user_scram_credentials(changes).values():
                if result is not None:
                    raise result

    def acls(
        self, user: str, operations: Sequence[str], resource: str, name: str
    ) -> list[AclBinding]:
        """Return the ACLs that let a user do operations. Raise ValueError."""
        if not self._options.authorization:
            raise RuntimeError("the cluster has no ACLs: start it with authorization=True")
        try:
            kind = _RESOURCES[resource]
            chosen = [AclOperation[operation.upper()] for operation in operations]
        except KeyError as error:
            raise ValueError(
                f"{error}: resources are {', '.join(_RESOURCES)}, "
                f"operations {', '.join(one.name for one in AclOperation)}"
            ) from None
        if name.endswith("*") and name != "*":
            pattern = ResourcePattern(kind, name[:-1], PatternType.PREFIXED)
        else:
            pattern = ResourcePattern(kind, name, PatternType.LITERAL)
        principal = user if user.startswith("User:") else f"User:{user}"
        return [
            AclBinding(pattern, AclEntry(principal, "*", operation, AclPermission.ALLOW))
            for operation in chosen
        ]
