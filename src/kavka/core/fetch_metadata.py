"""The fetch session id and epoch of the next request (KIP-227): the fetching side, of followers and of consumers.

(0, 0)   full: asks for a session       --answered with an id--> (id, 1)
(id, n)  incremental                    --sent--> (id, n + 1)
any      --a response with id 0, or FETCH_SESSION_ID_NOT_FOUND: there is no session--> (0, 0)
any      --another error, or no response: the broker's state is unknown--> (id, 0), which ends it there
"""

from __future__ import annotations

from kavka.core.fetch_session import INITIAL_EPOCH, NO_SESSION, epoch_after
from kavka.errors import ErrorCode


class FetchMetadata:
    """The id and epoch of the next request."""

    __slots__ = ("epoch", "session_id")

    def __init__(self) -> None:
        """Begin without a session."""
        self.session_id = NO_SESSION
        self.epoch = INITIAL_EPOCH

    @property
    def is_incremental(self) -> bool:
        """Return whether the next request contains changes only."""
        return self.epoch != INITIAL_EPOCH

    def request_sent(self) -> int:
        """Return the epoch of the request that is sent now; the next has another, unless it is a full one."""
        epoch = self.epoch
        if epoch != INITIAL_EPOCH:
            self.epoch = epoch_after(epoch)
        return epoch

    def response_received(self, error: ErrorCode, session_id: int, *, was_full: bool) -> bool:
        """Handle the head of a response; return whether its partitions count."""
        if error is not ErrorCode.NONE:
            if error is ErrorCode.FETCH_SESSION_ID_NOT_FOUND:
                self.session_id = NO_SESSION
            self.restart()
            return False
        if session_id == NO_SESSION:
            self.session_id = NO_SESSION
            self.restart()
        elif was_full:
            self.session_id, self.epoch = session_id, 1
        return True

    def restart(self) -> None:
        """Restart with a full request, which closes the session if there is one."""
        self.epoch = INITIAL_EPOCH
