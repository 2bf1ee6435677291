"""Answers that rules need beyond a look: the topic of the pipelines' progress, certificates, forecasts of disks.

Each is asked for where a rule watches it only. Addresses of certificates are those that the rules' file names.
"""

from __future__ import annotations

import asyncio
import math
import socket
import ssl
import time
from collections.abc import Iterable
from typing import Final

from kavka.console.connection import ClusterConnection
from kavka.console.history.recorder import History
from kavka.console.history.series import RAW, Key
from kavka.console.history.snapshot import PipelineFigures, Snapshot, has_trend, seconds_until_full
from kavka.console.sentences import say
from kavka.spark.queries.flow_progress import DONE, STOPPED
from kavka.spark.queries.topic import PROGRESS_TOPIC, progress_read_by

_FORECAST_S: Final = 6 * 3600
_CERTIFICATES_EVERY_S: Final = 3600.0
_CONNECT_S: Final = 5.0
_READ_S: Final = 10.0
_MOST_FLOWS: Final = 10_000


async def read_pipelines(cluster: ClusterConnection) -> dict[str, PipelineFigures]:
    """Return the flows in the topic of progress, none where there is no such topic. Raise KafkaError, OSError."""
    if PROGRESS_TOPIC not in await cluster.topics():
        return {}
    async with cluster.consumer(isolation_level="read_committed") as consumer:
        flows = await progress_read_by(consumer, PROGRESS_TOPIC, _READ_S, most=_MOST_FLOWS)
    now_ms = time.time() * 1000
    return {
        f"{flow.pipeline}/{flow.flow}": PipelineFigures(
            state=flow.state,
            error=flow.last_error,
            lag_seconds=flow.lag_seconds,
            silent_s=max(now_ms - flow.updated_ms, 0) / 1000,
            is_over=flow.state in (STOPPED, DONE),
        )
        for flow in flows
    }


async def disk_forecasts(history: History, snapshot: Snapshot) -> dict[int, float | None]:
    """Return in how many seconds the disks of each broker are full; brokers with too short a history are missing."""
    now_s = int(snapshot.at_s)
    keys = [Key("broker", str(row.broker_id), "disk_used") for row in snapshot.brokers]
    points = await history.run(lambda file: file.points(keys, RAW, now_s - _FORECAST_S, now_s))
    found: dict[int, float | None] = {}
    for key, several in points.items():
        known = [(at_s, value) for at_s, value in several if not math.isnan(value)]
        if has_trend(known):
            found[int(key.name)] = seconds_until_full(known, snapshot.at_s)
    return found


class Certificates:
    """The certificates at addresses, each looked at once an hour."""

    def __init__(self) -> None:
        """Begin without any."""
        self._found: dict[str, float | str] = {}
        self._asked_s: dict[str, float] = {}

    async def look(self, addresses: Iterable[str]) -> dict[str, float | str]:
        """Return when each certificate expires, in seconds since 1970, or why that is not known."""
        wanted = list(dict.fromkeys(addresses))
        now_s = time.monotonic()
        due = [
            one
            for one in wanted
            if now_s - self._asked_s.get(one, -_CERTIFICATES_EVERY_S) >= _CERTIFICATES_EVERY_S
        ]
        answers = await asyncio.gather(*(asyncio.to_thread(expiry_of, one) for one in due))
        for one, answer in zip(due, answers, strict=True):
            self._found[one] = answer
            # One that was not reached is asked again at the next look.
            if isinstance(answer, float):
                self._asked_s[one] = now_s
        return {one: self._found[one] for one in wanted if one in self._found}


def expiry_of(address: str) -> float | str:
    """Return when the certificate at `host:port` expires, in seconds since 1970, or why that is not known.

    Nothing is sent there, so the certificate is not verified: one that is not trusted has an end, too.
    """
    host, _, port = address.rpartition(":")
    host = host.strip("[]")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    try:
        from cryptography import x509
    except ModuleNotFoundError:
        return say("cryptography is missing: install it with `pip install 'kavka[tls]'`")
    try:
        with (
            socket.create_connection((host, int(port)), timeout=_CONNECT_S) as plain,
            context.wrap_socket(plain, server_hostname=host) as secured,
        ):
            data = secured.getpeercert(binary_form=True)
    except (OSError, ValueError) as error:
        return str(error) or type(error).__name__
    if not data:
        return say("there is no certificate")
    return x509.load_der_x509_certificate(data).not_valid_after_utc.timestamp()
