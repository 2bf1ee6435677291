"""The authentication of one connection by SASL: carries out what its conversation decides."""

from __future__ import annotations

import asyncio
import logging
import struct
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from typing import Any

from kavka.broker.requests.session import Principal, Session
from kavka.broker.security.sasl_mechanisms import Mechanism
from kavka.core.sasl.conversation import Conversation, HandshakeReply, TokenReply
from kavka.core.sasl.exchange import Challenge, CheckResult, Failure, Success, TokenCredential
from kavka.io import Clock
from kavka.net.connection import Connection, ResponseSlot
from kavka.net.frame_share import FrameShare
from kavka.values import frozen

log = logging.getLogger(__name__)

_SIZE = struct.Struct(">i").pack
Later = Coroutine[Any, Any, TokenReply]


@frozen
class SaslListener:
    """The parts that all connections of a listener have in common."""

    mechanisms: Mapping[str, Mechanism]
    clock: Clock
    max_receive_bytes: int
    share: FrameShare
    """Of the memory of all clients that have not authenticated."""
    failure_delay_ms: int
    ended: Callable[[Session, str, str | None], None]
    """Called after each authentication with its mechanism, and the reason of a failure."""


class SaslConnection:
    """Implements `requests.session.SaslState`."""

    __slots__ = ("_connection", "_conversation", "_listener", "_session")

    def __init__(self, listener: SaslListener, session: Session, connection: Connection) -> None:
        """Expect SaslHandshake, in small frames."""
        self._listener = listener
        self._session = session
        self._connection = connection
        offers = {name: mechanism.offer for name, mechanism in listener.mechanisms.items()}
        self._conversation = Conversation(offers)
        connection.limit_frames(listener.max_receive_bytes, listener.share)

    # -- SaslState

    @property
    def takes_raw_tokens(self) -> bool:
        """Return whether the next frame is a token without a header."""
        return self._conversation.takes_raw_tokens

    def admits_frame(self) -> bool:
        """Count a frame of a client that is not authenticated; return whether it may be read."""
        return self._conversation.count_frame()

    def is_expired(self, tick_ms: int) -> bool:
        """Return whether the client had to authenticate again before now."""
        return self._conversation.is_expired(tick_ms)

    def take_raw_token(self, connection: Connection, slot: ResponseSlot, frame: memoryview) -> None:
        """Take a token without a header, and answer it alike; a failure closes the connection."""
        reply = self.token(bytes(frame))
        if isinstance(reply, TokenReply):
            _send_raw_reply(connection, slot, reply)
            return
        connection.block()
        task = asyncio.ensure_future(self._send_raw_reply_later(slot, reply))
        waiting = connection.attachment.waiting
        waiting[task] = None
        task.add_done_callback(lambda done: waiting.pop(done, None))

    async def _send_raw_reply_later(self, slot: ResponseSlot, later: Later) -> None:
        reply = await later
        if reply.closes:
            self._connection.close()
        else:
            _send_raw_reply(self._connection, slot, reply)
            self._connection.unblock()

    # -- for the handlers

    def handshake(self, mechanism: str, version: int) -> HandshakeReply:
        """Take SaslHandshake; a reply that closes the connection is to be sent after `delay`."""
        reply = self._conversation.handshake(mechanism, version, self._listener.clock.tick_ms())
        self._session.is_authenticated = self._conversation.is_authenticated
        if reply.closes:
            reason = f"{reply.code.name} mechanism={mechanism[:64]!r} offered={','.join(reply.mechanisms)}"
            self._listener.ended(self._session, mechanism, reason)
        return reply

    def token(self, token: bytes) -> TokenReply | Later:
        """Take a token; a reply that closes the connection comes later, and one that asks for something may."""
        clock = self._listener.clock
        reply = self._conversation.token(token, clock.tick_ms(), clock.now_ms())
        if isinstance(reply, TokenReply):
            return self._applied(reply)
        result = self._listener.mechanisms[self._conversation.tried].check(reply)
        if isinstance(result, Challenge | Success | Failure | TokenCredential):
            return self._checked(result)
        return self._checked_later(result)

    async def _checked_later(self, checking: Awaitable[CheckResult]) -> TokenReply:
        try:
            result = await checking
        except Exception as error:  # noqa: BLE001 - whatever keeps a token from being checked refuses its client
            # Neither text nor traceback: they may hold the token.
            log.error("SASL check failed error=%s", type(error).__name__)
            result = Failure("the check failed")
        reply = self._checked(result)
        return reply if isinstance(reply, TokenReply) else await reply

    def _checked(self, result: CheckResult) -> TokenReply | Later:
        clock = self._listener.clock
        return self._applied(self._conversation.verdict(result, clock.tick_ms(), clock.now_ms()))

    def _applied(self, reply: TokenReply) -> TokenReply | Later:
        """Set the session to the state of the conversation."""
        session, conversation = self._session, self._conversation
        if conversation.is_authenticated and not session.is_authenticated:
            assert conversation.user is not None
            session.principal = Principal("User", conversation.user)
            session.token_id = conversation.token_id
            session.is_authenticated = True
            self._connection.limit_frames(None)
            self._listener.ended(session, conversation.mechanism, None)
        if not reply.closes:
            return reply
        self._listener.ended(session, conversation.tried, reply.reason)
        return self._delayed(reply)

    async def _delayed(self, reply: TokenReply) -> TokenReply:
        await self.delay()
        return reply

    async def delay(self) -> None:
        """Wait as long as the settings say after a failure."""
        await asyncio.sleep(self._listener.failure_delay_ms / 1000)


def _send_raw_reply(connection: Connection, slot: ResponseSlot, reply: TokenReply) -> None:
    connection.respond(slot, (_SIZE(len(reply.token)) + reply.token,))
