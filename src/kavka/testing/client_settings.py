"""Settings with which other libraries' clients reach a cluster, in the words of each library."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

LIBRARIES = ("confluent-kafka", "kavka", "aiokafka", "kafka-python", "spark")


def client_settings(
    library: str,
    servers: str,
    security: Mapping[str, Any],
    *,
    user: str | None,
    mechanism: str,
    certificate: tuple[str, str] | None,
) -> dict[str, Any]:
    """Return the settings of a client of `library`. Raise ValueError."""
    if library not in LIBRARIES:
        raise ValueError(f"{library!r} is not known; these are: {', '.join(LIBRARIES)}")
    users = security["users"]
    if user is None and users:
        user = next(iter(users))
    if user is not None and user not in users:
        known = ", ".join(users) or "none: start the cluster with users={...}"
        raise ValueError(f"the cluster has no user {user!r}; its users: {known}")
    dotted = {"bootstrap.servers": servers}
    if security["protocol"] != "PLAINTEXT":
        dotted["security.protocol"] = security["protocol"]
    if user is not None:
        dotted |= {
            "sasl.mechanism": mechanism,
            "sasl.username": user,
            "sasl.password": users[user],
        }
    if security["ca_file"]:
        dotted["ssl.ca.location"] = security["ca_file"]
    if certificate is not None:
        dotted["ssl.certificate.location"], dotted["ssl.key.location"] = certificate
    if library in ("confluent-kafka", "kavka"):
        return dotted
    if library == "spark":
        return _spark(dotted)
    return _python_names(dotted, library)


def _python_names(dotted: Mapping[str, str], library: str) -> dict[str, Any]:
    names = {
        "sasl.username": "sasl_plain_username",
        "sasl.password": "sasl_plain_password",
        "ssl.ca.location": "ssl_cafile",
        "ssl.certificate.location": "ssl_certfile",
        "ssl.key.location": "ssl_keyfile",
    }
    found: dict[str, Any] = {
        names.get(name, name.replace(".", "_")): value for name, value in dotted.items()
    }
    if library == "aiokafka" and "ssl_cafile" in found:
        import ssl

        context = ssl.create_default_context(cafile=found.pop("ssl_cafile"))
        if "ssl_certfile" in found:
            context.load_cert_chain(found.pop("ssl_certfile"), found.pop("ssl_keyfile"))
        found["ssl_context"] = context
    return found


def _spark(dotted: Mapping[str, str]) -> dict[str, str]:
    """Return options of Spark's own Kafka source and sink, whose client is Java's."""
    found = {
        name: value
        for name, value in dotted.items()
        if not name.startswith(("sasl.user", "sasl.pass", "ssl."))
    }
    if "sasl.username" in dotted:
        scram = dotted["sasl.mechanism"].startswith("SCRAM")
        module = "scram.ScramLoginModule" if scram else "plain.PlainLoginModule"
        found["sasl.jaas.config"] = (
            f"org.apache.kafka.common.security.{module} required "
            f'username="{dotted["sasl.username"]}" password="{dotted["sasl.password"]}";'
        )
    if "ssl.ca.location" in dotted:
        found["ssl.truststore.type"] = "PEM"
        found["ssl.truststore.location"] = dotted["ssl.ca.location"]
    if "ssl.certificate.location" in dotted:
        raise ValueError(
            "Java's client takes key and certificate in one file: "
            "join the two files of client_certificate(), and set ssl.keystore.* yourself"
        )
    return {f"kafka.{name}": value for name, value in found.items()}
