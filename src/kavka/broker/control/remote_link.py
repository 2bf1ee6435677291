"""The connection from a controller to another broker, kept open to detect the broker's death early.

    connected --broken--> connecting --refused: no listener--> reported as `refused` once, tried after 100 ms ... 1 s
        ^                     | any other failure: tried after 100 ms, no evidence
        +---------------------+ connected: reported as `connected`; broken within 100 ms: tried after 100 ms

A broker that has only just registered may not listen yet: Apache Kafka's opens its port some hundred milliseconds
later, even when it is elected controller meanwhile. So its first refusals are no evidence.

It is imported when there is another broker: a lone broker does not pay for it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any

from kavka.broker.control.refusals_by_brokers import RefusalsByBrokers
from kavka.broker.control.shared_updates import SharedUpdateMetadata
from kavka.core.controller.state import Endpoint
from kavka.errors import KafkaError
from kavka.io import Network
from kavka.net.peer import Peer
from kavka.net.peer_security import PLAINTEXT, PeerSecurity
from kavka.wire.apis import ApiKey
from kavka.wire.codec import CorruptFrame

log = logging.getLogger(__name__)

_RETRY_S = 0.1
_MAX_RETRY_S = 1.0
_CONNECT_MS = 3_000
STARTING_S = 3.0
"""Seconds within which a broker that has not listened yet may start to."""


class RemoteLink:
    """A connection that is re-established whenever it breaks."""

    def __init__(
        self,
        network: Network,
        endpoint: Endpoint,
        timeout_ms: int,
        refused: Callable[[], None],
        connected: Callable[[], None],
        starting_s: float = STARTING_S,
        security: PeerSecurity = PLAINTEXT,
    ) -> None:
        """Connect at once; `refused` and `connected` are called at each change between the two.

        `starting_s` is for how long a refusal says nothing, as long as there was no connection.
        """
        self._network = network
        self._endpoint = endpoint
        self._security = security
        self._timeout_ms = timeout_ms
        self._refused = refused
        self._connected = connected
        self._peer: Peer | None = None
        self._is_connected = asyncio.Event()
        self._is_stopped = False
        self.refusal: str | None = None
        """The reason that the other broker refuses this one, which waiting does not mend; None while it does not."""
        self._starting_s = starting_s
        self._task = asyncio.get_running_loop().create_task(self._keep_connected())

    async def send(self, request: Any) -> Any:
        """Wait for a connection, and send. Raise ConnectionError when the link is given up."""
        while self._peer is None or self._peer.is_closed:
            if self._is_stopped:
                raise ConnectionError(f"the link to {self._endpoint} was given up")
            self._is_connected.clear()
            await self._is_connected.wait()
        peer = self._peer
        if not isinstance(request, SharedUpdateMetadata):
            return await peer.send(request, timeout_ms=self._timeout_ms)
        response: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        key = ApiKey.UPDATE_METADATA
        peer.post_to(response, key, peer.version_of(key), self._timeout_ms, request.frame)
        return await response

    async def _keep_connected(self) -> None:
        is_refused = False
        wait_s = _RETRY_S
        refusals = RefusalsByBrokers()
        loop = asyncio.get_running_loop()
        believed_from = loop.time() + self._starting_s
        while True:
            try:
                peer = await Peer.connect(
                    self._network,
                    self._endpoint.host,
                    self._endpoint.port,
                    client_id="kavka-controller",
                    timeout_ms=min(_CONNECT_MS, self._timeout_ms),
                    security=self._security,
                )
            except ConnectionRefusedError:
                if not is_refused and loop.time() >= believed_from:
                    is_refused = True
                    self._refused()
            except (OSError, KafkaError, CorruptFrame) as error:
                at = f"{self._endpoint.host}:{self._endpoint.port}"
                is_refusal = refusals.is_refusal(at, error)
                self.refusal = str(error) if is_refusal else None
                if not is_refusal:
                    log.info("broker not reached at=%s reason=%s", at, error)
            else:
                self.refusal = None
                is_refused, wait_s, believed_from = False, _RETRY_S, loop.time()
                self._peer = peer
                self._connected()
                self._is_connected.set()
                await peer.wait_closed()
                self._peer = None
                if loop.time() - believed_from >= _RETRY_S:
                    continue  # at once: a refusal now shows that the broker died
            await asyncio.sleep(wait_s)
            wait_s = min(2 * wait_s, _MAX_RETRY_S) if is_refused else _RETRY_S

    async def stop(self) -> None:
        """Close the connection; requests that wait for one fail."""
        self._is_stopped = True
        self._is_connected.set()
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        if self._peer is not None:
            self._peer.close()
