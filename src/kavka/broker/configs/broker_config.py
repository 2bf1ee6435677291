"""The static configuration of one broker: parsed, checked, with typed access."""

from __future__ import annotations

import logging
import re
import socket
from collections.abc import Mapping

from kavka.broker.configs.endpoints import Endpoint as Endpoint
from kavka.broker.configs.endpoints import endpoints_of
from kavka.core.controller.topics import bad_name
from kavka.settings.broker import BROKER_SETTINGS, resolve_defaults
from kavka.settings.declaration import InvalidSetting, whole_number
from kavka.settings.dynamic import base_name, is_of_a_listener, is_of_no_mechanism
from kavka.settings.kraft import without_kraft

log = logging.getLogger(__name__)

REPLICA_SELECTORS = (
    "org.apache.kafka.common.replica.RackAwareReplicaSelector",
    "org.apache.kafka.common.replica.LeaderSelector",
)
METRICS_LISTENER = "METRICS"
"""The name of the metrics' port, for settings of TLS."""
ACL_AUTHORIZER = "kafka.security.authorizer.AclAuthorizer"
_LISTENER_PREFIX = "listener.name."
_COORDINATORS_TOPICS = ("__consumer_offsets", "__transaction_state")
_OWN_CLASS = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*")


def _host_names() -> list[str]:
    """Return the names of this machine."""
    return [socket.gethostname(), socket.getfqdn()]


class BrokerConfig:
    """The settings of `server.properties` and `--override`, and defaults; constant while the broker runs."""

    def __init__(self, texts: Mapping[str, str]) -> None:
        """Raise InvalidSetting, which names setting and reason; warn of unknown names and of those without effect."""
        texts = without_kraft(texts, _host_names)
        self.texts = {name: text for name, text in texts.items() if name in BROKER_SETTINGS}
        self.listener_texts = {n: text for n, text in texts.items() if is_of_a_listener(n)}
        """The settings of one listener, or of one SASL mechanism."""
        self.set_values = BROKER_SETTINGS.parse(self.texts)
        """As they are set, without what follows for others that are not."""
        self.values = dict(self.set_values)
        resolve_defaults(self.values)
        self.endpoints = endpoints_of(self.values)
        """The listeners of the file. Those that a broker has now: `BrokerContext.endpoints`."""
        self.listeners, self.advertised = self.endpoints.listeners, self.endpoints.advertised
        self._check_together()
        self._warn(texts)

    def integer(self, name: str) -> int:
        """Return a whole number."""
        return whole_number(self.values, name)

    def text(self, name: str) -> str:
        """Return a text that has a value."""
        value = self.values[name]
        assert isinstance(value, str), name
        return value

    def optional(self, name: str) -> str | None:
        """Return a text or None."""
        value = self.values[name]
        assert value is None or isinstance(value, str), name
        return value

    def flag(self, name: str) -> bool:
        """Return a boolean."""
        value = self.values[name]
        assert isinstance(value, bool), name
        return value

    def items(self, name: str) -> list[str]:
        """Return a list."""
        value = self.values[name]
        assert isinstance(value, list), name
        return value

    @property
    def log_directories(self) -> list[str]:
        """The paths of `log.dirs`, in order."""
        return self.items("log.dirs")

    @property
    def inter_broker_listener(self) -> str:
        """The name of the listener through which brokers reach each other."""
        name = self.optional("inter.broker.listener.name")
        if name is not None:
            return name.upper()
        protocol = self.text("security.inter.broker.protocol")
        return next((e.name for e in self.advertised if e.protocol == protocol), protocol)

    @property
    def serves_metrics_with_tls(self) -> bool:
        """Return whether the metrics' port has TLS."""
        return self.text("kavka.metrics.security.protocol") == "SSL"

    def host_name(self) -> str:
        """Return the advertised host when neither listeners nor advertised.listeners names one."""
        return socket.getfqdn()

    def _check_together(self) -> None:
        selector = self.optional("replica.selector.class")
        if selector not in (None, *REPLICA_SELECTORS):
            reason = f"must be one of {', '.join(REPLICA_SELECTORS)}"
            raise InvalidSetting("replica.selector.class", selector, reason)
        self._check_inter_broker_listener()
        if not self.log_directories:
            raise InvalidSetting("log.dirs", "", "At least one log directory is needed")
        self._check_authorizer()
        self._check_audit()
        most, largest = map(self.integer, ("queued.max.request.bytes", "socket.request.max.bytes"))
        if 0 < most < largest:
            reason = f"must be larger than or equal to socket.request.max.bytes ({largest})"
            raise InvalidSetting("queued.max.request.bytes", most, reason)
        self._check_broker_id()
        self._check_listener_texts()

    def _check_listener_texts(self) -> None:
        for name in self.listener_texts:
            base = base_name(name)
            if base in BROKER_SETTINGS:
                try:
                    BROKER_SETTINGS[base].parse(self.listener_texts[name])
                except InvalidSetting as error:
                    shown = "[hidden]" if BROKER_SETTINGS[base].is_sensitive else error.value
                    raise InvalidSetting(name, shown, error.reason) from None
        factory = self.optional("ssl.engine.factory.class")
        if factory:
            reason = "classes of Java do not run here; remove the setting to use OpenSSL"
            raise InvalidSetting("ssl.engine.factory.class", factory, reason)
        self._check_znode_access()
        builder = self.optional("principal.builder.class")
        if builder and builder != BROKER_SETTINGS["principal.builder.class"].default:
            reason = (
                "classes of Java do not run here, and ACLs for its principals would be for others; "
                "ssl.principal.mapping.rules makes names of certificates"
            )
            raise InvalidSetting("principal.builder.class", builder, reason)
        callback = self.optional("client.quota.callback.class")
        if callback:
            reason = (
                "classes of Java do not run here, and clients would have other quotas than theirs; remove the setting "
                "to use those of `kavka configs`"
            )
            raise InvalidSetting("client.quota.callback.class", callback, reason)

    def _check_znode_access(self) -> None:
        """Raise InvalidSetting where znodes were to be protected for an identity that the broker would not have."""
        if not self.flag("zookeeper.set.acl"):
            return
        if self.optional("zookeeper.connect") is None:
            reason = "this broker keeps its registry itself (no zookeeper.connect): set it to false"
            raise InvalidSetting("zookeeper.set.acl", "true", reason)
        has_certificate = self.flag("zookeeper.ssl.client.enable") and self.optional(
            "zookeeper.ssl.keystore.location"
        )
        if not self.optional("kavka.zookeeper.jaas.file") and not has_certificate:
            reason = (
                "the broker has no identity at ZooKeeper: name a JAAS file with a section Client "
                "(KAFKA_OPTS=-Djava.security.auth.login.config=FILE, or kavka.zookeeper.jaas.file), or a certificate "
                "(zookeeper.ssl.client.enable=true, zookeeper.ssl.keystore.location)"
            )
            raise InvalidSetting("zookeeper.set.acl", "true", reason)

    def _check_authorizer(self) -> None:
        name = self.text("authorizer.class.name")
        if name and name != ACL_AUTHORIZER and _OWN_CLASS.fullmatch(name) is None:
            reason = (
                f"must be {ACL_AUTHORIZER}, or module:Class of an authorizer in Python; "
                "without it every client may do everything"
            )
            raise InvalidSetting("authorizer.class.name", name, reason)

    def _check_audit(self) -> None:
        setting = "kavka.audit.topic"
        topic = self.optional(setting)
        if topic is None:
            return
        if bad_name(topic) is not None or topic in _COORDINATORS_TOPICS:
            reason = (
                "must be the name of a topic of its own: up to 249 of a-z, A-Z, 0-9, '.', '_', '-'"
            )
            raise InvalidSetting(setting, topic, reason)
        if not self.optional("kavka.audit.log"):
            reason = (
                "needs kavka.audit.log as well: the file is the record, the topic may lack lines"
            )
            raise InvalidSetting(setting, topic, reason)

    def _check_inter_broker_listener(self) -> None:
        names = [endpoint.name for endpoint in self.advertised]
        name = self.inter_broker_listener
        if name in names:
            return
        either = f"set inter.broker.listener.name to one of {', '.join(names)}"
        if self.optional("inter.broker.listener.name"):
            reason = f"the listener between brokers must be among advertised.listeners: {either}"
            raise InvalidSetting("inter.broker.listener.name", name, reason)
        reason = (
            f"brokers connect to each other by it, and no listener has it: {either}, or this to its "
            "protocol"
        )
        raise InvalidSetting("security.inter.broker.protocol", name, reason)

    def _check_broker_id(self) -> None:
        number, largest = self.integer("broker.id"), self.integer("reserved.broker.max.id")
        if not self.flag("broker.id.generation.enable"):
            if number < 0:
                reason = "must be 0 or more where broker.id.generation.enable is false"
                raise InvalidSetting("broker.id", number, reason)
        elif number > largest:
            reason = f"must not be larger than reserved.broker.max.id ({largest})"
            raise InvalidSetting("broker.id", number, reason)

    def _warn(self, texts: Mapping[str, str]) -> None:
        listeners = {METRICS_LISTENER, *(one.name for one in self.listeners)}
        for name in sorted(texts):
            base = base_name(name) if name in self.listener_texts else name
            if base not in BROKER_SETTINGS:
                near = BROKER_SETTINGS.nearest(base)
                hint = f"; did you mean {near}?" if near else ""
                log.warning("unknown setting ignored name=%s%s", name, hint)
            elif not BROKER_SETTINGS[base].effective:
                log.warning("setting without effect in this release name=%s", name)
            elif name.startswith(_LISTENER_PREFIX) and _listener_of(name) not in listeners:
                log.warning(
                    "setting of a listener that there is not name=%s listeners=%s",
                    name,
                    ",".join(sorted(one.lower() for one in listeners)),
                )
            elif is_of_no_mechanism(name):
                log.warning("setting of a SASL mechanism that there is not name=%s", name)


def _listener_of(name: str) -> str:
    return name.removeprefix(_LISTENER_PREFIX).partition(".")[0].upper()
