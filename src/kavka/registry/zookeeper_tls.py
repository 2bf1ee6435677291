"""TLS to ZooKeeper by the settings `zookeeper.ssl.*`, of a broker or of the file that tools are given."""

from __future__ import annotations

from collections.abc import Mapping

from kavka.io import Network
from kavka.settings.declaration import Catalogue, InvalidSetting, Value
from kavka.settings.properties import parse_properties
from kavka.settings.text_files import read_text
from kavka.settings.tls import ZOOKEEPER_TLS_SETTINGS

_SETTINGS = Catalogue(ZOOKEEPER_TLS_SETTINGS)
_OPTION = "zk-tls-config-file"
_SOCKET_CLASS = "zookeeper.clientCnxnSocket"
_NETTY = "org.apache.zookeeper.ClientCnxnSocketNetty"
"""The class of ZooKeeper's Java client that speaks TLS."""


def network_to_zookeeper(values: Mapping[str, Value], network: Network) -> Network:
    """Return a network that connects with TLS if the settings say so. Raise InvalidSetting for a store."""
    if not values["zookeeper.ssl.client.enable"]:
        return network
    socket_class = values[_SOCKET_CLASS]
    if socket_class not in (None, _NETTY):
        reason = f"with zookeeper.ssl.client.enable=true it must be {_NETTY}, or be left out"
        raise InvalidSetting(_SOCKET_CLASS, str(socket_class), reason)
    from kavka.net.tls.client import ReloadableClientTls, TlsNetwork
    from kavka.net.tls.failures import ZOOKEEPER
    from kavka.net.tls.settings import parse_settings

    settings = parse_settings(_as_to_brokers(values).get, prefix="zookeeper.")
    return TlsNetwork(network, ReloadableClientTls(settings, "zookeeper"), ZOOKEEPER)


def tls_settings_of_file(path: str) -> dict[str, Value]:
    """Return the settings of a file of properties, as Kafka's tools take it: other names have no effect.

    Raise InvalidSetting. A key store or a trust store in it enables TLS also where `zookeeper.ssl.client.enable` is not
    set.
    """
    try:
        texts = parse_properties(read_text(path))
    except OSError as error:
        raise InvalidSetting(_OPTION, path, error.strerror or str(error)) from error
    except ValueError as error:
        raise InvalidSetting(_OPTION, path, str(error)) from error
    known = {name: text for name, text in texts.items() if name in _SETTINGS}
    if not known:
        raise InvalidSetting(_OPTION, path, "it has no setting zookeeper.ssl.*")
    values = dict(_SETTINGS.parse(known))
    if "zookeeper.ssl.client.enable" not in known:
        values["zookeeper.ssl.client.enable"] = True
    return values


def shows_certificate(values: Mapping[str, Value]) -> bool:
    """Return whether these settings give the client a certificate, which is an identity at ZooKeeper."""
    return bool(values["zookeeper.ssl.client.enable"] and values["zookeeper.ssl.keystore.location"])


def _as_to_brokers(values: Mapping[str, Value]) -> dict[str, Value]:
    """Return the settings by the names of those of TLS to brokers."""
    from kavka.net.tls.settings import type_of_file

    def text(name: str) -> str | None:
        found = values[name]
        return None if found is None else str(found)

    key_store = text("zookeeper.ssl.keystore.location")
    trust_store = text("zookeeper.ssl.truststore.location")
    return {
        "ssl.keystore.location": key_store,
        "ssl.keystore.type": text("zookeeper.ssl.keystore.type") or type_of_file(key_store),
        "ssl.keystore.password": text("zookeeper.ssl.keystore.password"),
        "ssl.key.password": text("zookeeper.ssl.keystore.password"),
        "ssl.truststore.location": trust_store,
        "ssl.truststore.type": text("zookeeper.ssl.truststore.type") or type_of_file(trust_store),
        "ssl.truststore.password": text("zookeeper.ssl.truststore.password"),
        "ssl.enabled.protocols": values["zookeeper.ssl.enabled.protocols"]
        or [str(values["zookeeper.ssl.protocol"])],
        "ssl.cipher.suites": values["zookeeper.ssl.cipher.suites"],
        "ssl.endpoint.identification.algorithm": text(
            "zookeeper.ssl.endpoint.identification.algorithm"
        ),
    }
