"""Python callbacks in place of the built-in checks: `sasl.server.callback.handler.class=module:Class`.

The class is made once for each listener and mechanism, with the options of the mechanism's JAAS login module:

    class Directory:
        def __init__(self, options): ...

PLAIN asks whether a password is right, OAUTHBEARER whose token it is. Both methods may be `async`; others run on
threads of the object's own, so that they may block: while a directory does not answer, the pool of the loop stays free
for others, such as logins between brokers. What they raise is logged, and refuses the client.

    def authenticate(self, user: str, password: str) -> bool: ...
    def validate(self, token: str, extensions: Mapping[str, str]) -> tuple[str, int]: ...   # the user; its end, ms
"""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

from kavka.core.sasl.exchange import (
    CheckPassword,
    CheckToken,
    Failure,
    FindDelegationToken,
    Question,
    Success,
)
from kavka.core.sasl.oauthbearer import refusal_of
from kavka.core.sasl.plain import INVALID
from kavka.core.sasl.unsecured_jwt import InvalidToken

log = logging.getLogger(__name__)

_THREADS: Final = 8


class CallbackCheck:
    """Asks a callback."""

    def __init__(self, callback: Any) -> None:
        """Ask this object."""
        self._callback = callback
        self._threads = ThreadPoolExecutor(_THREADS, "kavka-callback")

    async def __call__(self, question: Question) -> Success | Failure:
        """Return the answer to a question."""
        assert not isinstance(question, FindDelegationToken)
        try:
            if isinstance(question, CheckPassword):
                return await self._password(question)
            assert isinstance(question, CheckToken)
            return await self._token(question)
        except InvalidToken as error:
            return refusal_of(error)
        except Exception as error:  # noqa: BLE001 - a fault of the user's code must not end the broker
            # It refuses the client. Neither text nor traceback: they may hold the password.
            log.error("SASL callback failed error=%s", type(error).__name__)
            if isinstance(question, CheckToken):
                return refusal_of(InvalidToken("the callback failed"))
            return Failure("the callback failed")

    async def _password(self, question: CheckPassword) -> Success | Failure:
        is_right = await self._called(self._callback.authenticate, question.user, question.password)
        if is_right is True:
            return Success(question.user)
        return Failure(f"refused by the callback user={question.user!r}", INVALID)

    async def _token(self, question: CheckToken) -> Success | Failure:
        found = await self._called(self._callback.validate, question.token, question.extensions)
        user, expires_ms = found
        if not isinstance(user, str) or not user or not isinstance(expires_ms, int):
            raise TypeError("validate returned no (user, expires_ms)")
        return Success(user, expires_ms=expires_ms)

    async def _called(self, method: Callable[..., Any], *arguments: Any) -> Any:
        if inspect.iscoroutinefunction(method):
            return await method(*arguments)
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._threads, method, *arguments)
