"""The registry's sessions of processes that held these directories: `.kavka_sessions`, a hexadecimal number a line.

A process holds the lock of its directories while it is alive. So the process that has the lock and finds a session
there knows that the earlier one is dead. An address proves less: another machine's may be written like the own one.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Sequence

from kavka.storage.checkpoint import files as checkpoint
from kavka.storage.directory.log_directory import LogDirectory
from kavka.storage.failures import LogDirectoryFailed

log = logging.getLogger(__name__)

FILE = ".kavka_sessions"
_MAX_KEPT = 8
"""Maximum of sessions: those of processes that died before their registration, and the registered one."""


class PreviousSessions:
    """The sessions of earlier processes on these directories, of which this process has the locks."""

    def __init__(self, directories: Sequence[LogDirectory]) -> None:
        """Remember in all of `directories` that are online; without any, in this process."""
        self._directories = directories
        self._known: list[int] = []

    def __contains__(self, session_id: int) -> bool:
        """Return whether a session is one of them."""
        return session_id in self._known

    async def load(self) -> None:
        """Read what is remembered. What cannot be read is not known: the registry's timeout decides."""
        for directory in self._directories:
            if directory.failure is not None:
                continue
            path = f"{directory.path}/{FILE}"
            try:
                content = await directory.disk.run(checkpoint.read_file, directory.disk, path)
                found = [int(line, 16) for line in (content or b"").split()]
            except (OSError, ValueError) as error:
                log.warning("sessions not read path=%s reason=%s", path, error)
                continue
            self._known += [one for one in found if one not in self._known]

    async def add(self, session_id: int) -> None:
        """Remember a session, before anything is registered in it."""
        if session_id in self._known:
            return
        self._known = [*self._known, session_id][-_MAX_KEPT:]
        content = "".join(f"{one:x}\n" for one in self._known).encode()
        for directory in self._directories:
            if directory.failure is None:
                with contextlib.suppress(LogDirectoryFailed):  # it is offline now, and said why
                    await directory.replace_file(f"{directory.path}/{FILE}", content)
