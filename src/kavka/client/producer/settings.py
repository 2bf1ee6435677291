"""The settings of a producer's parts, derived from its configuration. Pure."""

from __future__ import annotations

import logging
from typing import Any, NamedTuple

from kavka.client.config import Config
from kavka.client.producer.transaction_requests import TransactionSettings
from kavka.settings.declaration import InvalidSetting
from kavka.wire.records.compression import Compression

log = logging.getLogger(__name__)


class AppenderSettings(NamedTuple):
    """Settings of appending records."""

    batch_bytes: int
    max_request_bytes: int
    partitioner: Any
    """A callable, `roundrobin`, or None for the default."""
    ignores_keys: bool


class SenderSettings(NamedTuple):
    """Settings of the sender."""

    acks: int
    retries: int
    max_in_flight: int
    max_request_bytes: int
    request_timeout_ms: int
    delivery_timeout_ms: int
    compression: Compression
    level: int | None
    transactional_id: str | None = None


def appender_settings(config: Config) -> AppenderSettings:
    """Return the part about partitions and sizes. Raise InvalidSetting."""
    batch_bytes = config.integer("batch.size")
    max_request_bytes = config.integer("max.request.size")
    if "batch.size" not in config.given:
        batch_bytes = min(batch_bytes, max_request_bytes)
    return AppenderSettings(
        batch_bytes=batch_bytes,
        max_request_bytes=max_request_bytes,
        partitioner=partitioner_of(config),
        ignores_keys=config.flag("partitioner.ignore.keys"),
    )


def partitioner_of(config: Config) -> Any:
    """Return a callable, `roundrobin`, or None for the default. Raise InvalidSetting."""
    given = config.value("partitioner.class")
    if given is None or callable(given):
        return given
    simple = str(given).rpartition(".")[2].lower()
    if simple in ("roundrobin", "roundrobinpartitioner"):
        return "roundrobin"
    if simple in ("default", "defaultpartitioner", "uniformstickypartitioner"):
        return None
    raise InvalidSetting("partitioner.class", given, "Give None, roundrobin or a callable")


def sender_settings(config: Config) -> SenderSettings:
    """Return the sender's part. Raise InvalidSetting for a delivery timeout that is too short."""
    compression = Compression.of(config.text("compression.type"))
    level_name = f"compression.{compression.kafka_name}.level"
    acks = config.text("acks")
    delivery_timeout_ms = config.integer("delivery.timeout.ms")
    least_ms = config.integer("linger.ms") + config.integer("request.timeout.ms")
    if delivery_timeout_ms < least_ms:
        if "delivery.timeout.ms" in config.given:
            reason = "It should be equal to or larger than linger.ms + request.timeout.ms"
            raise InvalidSetting("delivery.timeout.ms", delivery_timeout_ms, reason)
        delivery_timeout_ms = least_ms
    return SenderSettings(
        acks=-1 if acks == "all" else int(acks),
        retries=config.integer("retries"),
        max_in_flight=config.integer("max.in.flight.requests.per.connection"),
        max_request_bytes=config.integer("max.request.size"),
        request_timeout_ms=config.integer("request.timeout.ms"),
        delivery_timeout_ms=delivery_timeout_ms,
        compression=compression,
        level=config.integer(level_name) if level_name in config.given else None,
        transactional_id=config.optional_text("transactional.id") or None,
    )


def transaction_settings(config: Config) -> TransactionSettings | None:
    """Return what transactions need, None for a producer without `transactional.id`."""
    transactional_id = config.optional_text("transactional.id")
    if not transactional_id:
        return None
    two_phase_commit = config.flag("transaction.two.phase.commit.enable")
    if two_phase_commit and "transaction.timeout.ms" in config.given:
        reason = "Must not be given with transaction.two.phase.commit.enable, which has no timeout"
        raise InvalidSetting(
            "transaction.timeout.ms", config.value("transaction.timeout.ms"), reason
        )
    return TransactionSettings(
        transactional_id=transactional_id,
        timeout_ms=config.integer("transaction.timeout.ms"),
        max_block_ms=config.integer("max.block.ms"),
        retry_backoff_ms=config.integer("retry.backoff.ms"),
        two_phase_commit=two_phase_commit,
    )


def is_idempotent(config: Config, settings: SenderSettings) -> bool:
    """Decide as the Java client: contradictions are refused if idempotence was asked for, else they turn it off."""
    is_wanted = "enable.idempotence" in config.given or settings.transactional_id is not None
    if not config.flag("enable.idempotence"):
        if settings.transactional_id is not None:
            needed = "Cannot set a transactional.id without also enabling idempotence"
            raise InvalidSetting("enable.idempotence", False, needed)
        return False
    refusals = {
        "retries": settings.retries == 0 and "Must be above 0 to use the idempotent producer",
        "acks": settings.acks != -1 and "Must be all to use the idempotent producer",
        "max.in.flight.requests.per.connection": settings.max_in_flight > 5
        and "Must be at most 5 to use the idempotent producer",
    }
    for name, reason in refusals.items():
        if reason:
            if is_wanted:
                raise InvalidSetting(name, config.value(name), reason)
            log.info("idempotence turned off because of %s", name)
            return False
    return True
