"""Runs a scenario of one connection's authentication: a client's requests in, answers and the state out.

handshake MECHANISM [v=N]        SaslHandshake, version 1 unless another is given
plain USER PASSWORD              a token of PLAIN, whose user's password is its name twice
scram USER PASSWORD              both tokens of SCRAM-SHA-256, with that rule as well
delegation_token ID PASSWORD     both tokens of SCRAM-SHA-256 for a delegation token; only `ID` is one: of alice, the
                                 password `secret`, until 10000 ms
bearer USER                      a token of OAUTHBEARER; that of `mallory` is refused, all others end at 10000 ms
token TEXT                       any other token
frame                            another frame: is it read?
wait MS
"""

from __future__ import annotations

import shlex

from kavka.core.sasl.conversation import Conversation, Offer, TokenReply
from kavka.core.sasl.exchange import (
    CheckPassword,
    CheckResult,
    FindDelegationToken,
    Question,
    Success,
    TokenCredential,
)
from kavka.core.sasl.oauthbearer import OAuthBearerClient, OAuthBearerServer, refusal_of
from kavka.core.sasl.plain import PlainClient, PlainServer, check_password
from kavka.core.sasl.scram import ScramClient, ScramServer
from kavka.core.sasl.scram_credential import SHA_256, ScramCredential, imitation
from kavka.core.sasl.unsecured_jwt import InvalidToken

_USERS = {name: name + name for name in ("alice", "bob")}
_CREDENTIALS = {
    user: ScramCredential.of_password(SHA_256, b"salt", password, 4096)
    for user, password in _USERS.items()
}


def _scram() -> ScramServer:
    return ScramServer(
        SHA_256,
        _CREDENTIALS.get,
        lambda user: imitation(SHA_256, user, b"secret", None),
        "server",
    )


class Story:
    """One connection, whose sessions of PLAIN and OAUTHBEARER last 5000 ms at most."""

    def __init__(self) -> None:
        self.now_ms = 0
        self.conversation = Conversation(
            {
                "PLAIN": Offer(PlainServer, 5000),
                "SCRAM-SHA-256": Offer(_scram),
                "OAUTHBEARER": Offer(OAuthBearerServer, 20_000),
            }
        )

    def command(self, text: str) -> str:
        name, *words = shlex.split(text)
        result = str(getattr(self, name)(*words))
        state = self.conversation.state.value
        user = f" user={self.conversation.user}" if self.conversation.user else ""
        user += f" token={self.conversation.token_id}" if self.conversation.token_id else ""
        expired = " expired" if self.conversation.is_expired(self.now_ms) else ""
        return f"{result}\n{state}{user}{expired}"

    def handshake(self, mechanism: str, version: str = "v=1") -> str:
        reply = self.conversation.handshake(mechanism, int(version[2:]), self.now_ms)
        closes = " close" if reply.closes else ""
        return f"{reply.code.name} {','.join(reply.mechanisms)}{closes}"

    def plain(self, user: str, password: str) -> str:
        return self._sent(PlainClient(user, password).first())

    def scram(self, user: str, password: str) -> str:
        return self._both_tokens(ScramClient(SHA_256, user, password, "client"))

    def delegation_token(self, token_id: str, password: str) -> str:
        return self._both_tokens(
            ScramClient(SHA_256, token_id, password, "client", token_auth=True)
        )

    def _both_tokens(self, client: ScramClient) -> str:
        first = self._replied(client.first())
        if first.closes:
            return self._shown(first)
        final = client.respond(first.token)
        assert final is not None
        return f"{first.token.decode()}\n{self._sent(final)}"

    def bearer(self, user: str) -> str:
        return self._sent(OAuthBearerClient(user, {}).first())

    def token(self, text: str) -> str:
        return self._sent(text.encode().decode("unicode_escape").encode("latin-1"))

    def frame(self) -> str:
        return "read" if self.conversation.count_frame() else "close"

    def wait(self, duration_ms: str) -> str:
        self.now_ms += int(duration_ms)
        return f"now={self.now_ms}"

    def _sent(self, token: bytes) -> str:
        return self._shown(self._replied(token))

    def _replied(self, token: bytes) -> TokenReply:
        reply = self.conversation.token(token, self.now_ms, self.now_ms)
        if not isinstance(reply, TokenReply):
            assert self.conversation.state.value == "checking"
            reply = self.conversation.verdict(self._answer(reply), self.now_ms, self.now_ms)
        return reply

    @staticmethod
    def _answer(question: Question) -> CheckResult:
        if isinstance(question, FindDelegationToken):
            if question.token_id != "ID":
                imitated = imitation(SHA_256, question.token_id, b"secret", None)
                return TokenCredential(imitated, fault=f"unknown token={question.token_id}")
            credential = ScramCredential.of_password(SHA_256, b"salt", "secret", 4096)
            return TokenCredential(credential, "alice", 10_000)
        if isinstance(question, CheckPassword):
            return check_password(_USERS, question)
        if question.token == "mallory":
            return refusal_of(InvalidToken("it is not ours"))
        return Success(question.token, expires_ms=10_000)

    @staticmethod
    def _shown(reply: TokenReply) -> str:
        parts = [reply.code.name]
        if reply.token:
            parts.append(f"token={reply.token.decode()}")
        if reply.lifetime_ms:
            parts.append(f"lifetime={reply.lifetime_ms}")
        if reply.closes:
            parts.append("close")
        lines = [" ".join(parts)]
        lines += [f"message: {reply.message}"] if reply.message else []
        lines += [f"log: {reply.reason}"] if reply.reason else []
        return "\n".join(lines)
