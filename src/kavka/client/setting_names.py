"""Names of settings that a client does not obey: mistyped ones, and those that only other clients of Kafka know.

A mistyped name is refused, as librdkafka does; its setting would silently keep the default. A name of Java's clients or
librdkafka is warned of once, as Java's clients do, so that their configurations need not be rewritten first.
"""

from __future__ import annotations

import logging
import sys
import warnings
from collections.abc import Mapping
from typing import Any, Final

from kavka.client.config import ADMIN, CONSUMER, PRODUCER
from kavka.settings.declaration import Catalogue, InvalidSetting

log = logging.getLogger(__name__)

_SECURITY: Final = ("sasl.",)
_NAMES: Final = """
    api.version.fallback.ms api.version.request api.version.request.timeout.ms auto.commit.enable
    background_event_cb batch.num.messages broker.address.family broker.address.ttl broker.version.fallback
    builtin.features closesocket_cb compression.codec compression.level connect_cb consume.callback.max.messages
    consume_cb coordinator.query.interval.ms debug default.topic.config default_topic_conf
    delivery.report.only.error dr_cb dr_msg_cb enable.auto.offset.store enable.gapless.guarantee
    enable.partition.eof enable.random.seed enabled_events error_cb fetch.error.backoff.ms fetch.message.max.bytes
    fetch.queue.backoff.ms fetch.wait.max.ms group.protocol.type https.ca.location https.ca.pem interceptors
    internal.leave.group.on.close internal.termination.signal internal.throw.on.fetch.stable.offset.unsupported
    log.connection.close log.queue log.thread.name log_cb log_level logger max.in.flight message.copy.max.bytes
    message.max.bytes message.send.max.retries message.timeout.ms metadata.broker.list
    metadata.recovery.rebootstrap.trigger.ms msg_order_cmp oauth_cb oauthbearer_token_refresh_cb offset.store.method
    offset.store.path offset.store.sync.interval.ms offset_commit_cb on_commit on_delivery opaque open_cb
    partitioner partitioner_cb plugin.library.paths produce.offset.report queue.buffering.backpressure.threshold
    queue.buffering.max.kbytes queue.buffering.max.messages queue.buffering.max.ms queued.max.messages.kbytes
    queued.min.messages queuing.strategy rebalance_cb receive.message.max.bytes reconnect.backoff.jitter.ms
    request.required.acks resolve_cb share.acknowledgement.mode socket.blocking.max.ms socket.keepalive.enable
    socket.max.fails socket.nagle.disable socket.receive.buffer.bytes socket.send.buffer.bytes socket.timeout.ms
    socket_cb ssl_ca ssl_certificate ssl_engine_callback_data ssl_key statistics.interval.ms stats_cb
    sticky.partitioning.linger.ms throttle_cb topic.blacklist topic.metadata.propagation.max.ms
    topic.metadata.refresh.fast.cnt topic.metadata.refresh.fast.interval.ms topic.metadata.refresh.interval.ms
    topic.metadata.refresh.sparse
"""
_OTHER_CLIENTS: Final = frozenset(_NAMES.split())
"""Of Java's clients 3.9 and 4.1 and of librdkafka, without those that a client here declares."""
_SAME_HERE: Final = {
    "auto.commit.enable": "enable.auto.commit",
    "compression.codec": "compression.type",
    "fetch.message.max.bytes": "max.partition.fetch.bytes",
    "fetch.wait.max.ms": "fetch.max.wait.ms",
    "max.in.flight": "max.in.flight.requests.per.connection",
    "message.max.bytes": "max.request.size",
    "message.send.max.retries": "retries",
    "message.timeout.ms": "delivery.timeout.ms",
    "metadata.broker.list": "bootstrap.servers",
    "partitioner": "partitioner.class",
    "queue.buffering.max.kbytes": "buffer.memory",
    "queue.buffering.max.ms": "linger.ms",
    "request.required.acks": "acks",
    "socket.timeout.ms": "request.timeout.ms",
    "topic.metadata.refresh.interval.ms": "metadata.max.age.ms",
    "oauth_cb": "sasl.login.callback.handler.class",
    "oauthbearer_token_refresh_cb": "sasl.login.callback.handler.class",
}
"""Names of kavka for librdkafka's names."""


class UnknownSetting(InvalidSetting):
    """A name that no client of Kafka knows: a mistyped one; the message says what may have been meant."""

    def __init__(self, nearest: Mapping[str, str | None]) -> None:
        """Name the unknown settings and, where there is one, the nearest of those that have an effect."""
        sentences = [f"Unknown setting {name}{_hint(near)}" for name, near in nearest.items()]
        ValueError.__init__(self, "; ".join(sentences))
        self.name = next(iter(nearest))
        self.value = None
        self.reason = str(self)


class SettingWithoutEffect(UserWarning):
    """A setting that other clients of Kafka obey, or another of ours, and this one does not."""


def check_names(catalogue: Catalogue, given: Mapping[str, Any]) -> None:
    """Raise UnknownSetting for mistyped names; warn once of all those that have no effect, at the user's line.

    Raise TypeError for what is no dictionary.
    """
    if not isinstance(given, Mapping):
        raise TypeError(f"settings are a dictionary, not {given!r:.80}")
    unknown = unknown_names(catalogue, given)
    if unknown:
        raise UnknownSetting(unknown)
    useless = _useless(catalogue, given)
    if useless:
        listed = ", ".join(name + _called(name) for name in useless)
        warnings.warn(
            f"settings without effect in this client: {listed}",
            SettingWithoutEffect,
            stacklevel=_depth_of_the_user(),
        )


def effective_settings(catalogue: Catalogue, given: Mapping[str, str]) -> dict[str, str]:
    """Return the settings that have an effect, and log the others.

    For the tools: those of Apache Kafka ignore unknown names, and their files are for all clients.
    """
    unknown = unknown_names(catalogue, given)
    for name, near in unknown.items():
        log.warning("unknown client setting ignored name=%s%s", name, _hint(near))
    useless = _useless(catalogue, given)
    for name in useless:
        log.warning("client setting has no effect name=%s%s", name, _called(name))
    return {name: given[name] for name in given if name not in unknown and name not in useless}


def settings_for(catalogue: Catalogue, given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings without those that only our other clients obey.

    For programs that make several clients from one file. Names that no client knows stay, and are refused by it.
    """
    return {
        name: value
        for name, value in given.items()
        if name in catalogue or not any(name in other for other in (PRODUCER, CONSUMER, ADMIN))
    }


def unknown_names(catalogue: Catalogue, given: Mapping[str, Any]) -> dict[str, str | None]:
    """Return the names that no client of Kafka knows, each with the name that was likely meant, if any."""
    for name in given:
        if not isinstance(name, str):
            raise TypeError(f"names of settings are text: {name!r} is {type(name).__name__}")
    names = [name for name in given if name not in catalogue and not _is_elsewhere(name)]
    return {name: _nearest(catalogue, name) for name in names}


def _useless(catalogue: Catalogue, given: Mapping[str, Any]) -> list[str]:
    """Return the names that are known and have no effect in a client of this catalogue."""
    return [
        name
        for name in given
        if (not catalogue[name].effective if name in catalogue else _is_elsewhere(name))
    ]


def _is_elsewhere(name: str) -> bool:
    """Return whether any client of Kafka knows the name."""
    is_ours = name in PRODUCER or name in CONSUMER or name in ADMIN
    return is_ours or name in _OTHER_CLIENTS or name.startswith(_SECURITY)


def _nearest(catalogue: Catalogue, name: str) -> str | None:
    # Names of Python's clients have underscores.
    return catalogue.nearest(name.replace("_", ".").lower())


def _hint(nearest: str | None) -> str:
    return f"; did you mean {nearest}?" if nearest else ""


def _called(name: str) -> str:
    """Return a sentence about the name that a setting of librdkafka has here."""
    return f" (here it is {_SAME_HERE[name]})" if name in _SAME_HERE else ""


def _depth_of_the_user() -> int:
    """Return the `stacklevel`, seen from the caller, of the first frame outside of kavka."""
    depth, frame = 1, sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith("kavka."):
        depth, frame = depth + 1, frame.f_back
    return depth
