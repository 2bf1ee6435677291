"""`kavka server-start --workers N`: N brokers as child processes, started again when they die.

    starting   registry (if it is its own)  -> all workers at once -> one ready line
    running    a child that ends is started again: after 0.1 s, twice as long each time up to 10 s,
               from the beginning when it ran for a minute
    stopping   SIGTERM to one worker after the other, which moves its leaderships to the rest (the next one waits
               10 s at most) -> all have ended -> SIGTERM to the registry

A child that ends by itself before it was ever ready cannot start at all (a bad setting, a port that is taken): the
supervisor stops the others and fails as it did. Later on, starts are repeated without limit: disks and ports come back.

No child outlives its supervisor: the standard input of each is a pipe without data, and only the supervisor has
its other end, so that it ends when the supervisor does. The registry's is held by the
workers, too: it serves until the last of them is gone. Children have sessions of their own: Ctrl-C reaches them
through the supervisor, the registry last.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import re
import signal
import sys
import time
from collections.abc import Callable, Iterable

from kavka.cli.server.process import SUPERVISED, listen_for_signals
from kavka.cli.server.workers import WorkerSettings, as_overrides

log = logging.getLogger(__name__)

_FIRST_PAUSE_S = 0.1
_MAX_PAUSE_S = 10.0
_HEALTHY_S = 60.0
_MAX_WAIT_S = 10.0
_READY = re.compile(r"kavka (?:broker|zookeeper) (?:(?P<id>\d+) )?ready: (?P<where>\S+) in ")


Command = Callable[[str | None], list[str]]
"""The words after `kavka`, from where the process before was ready, None if it never was."""


class CannotStart(Exception):
    """A child ended by itself before it was ever ready; it has said why on standard error."""


class Child:
    """A child process that is started again when it ends."""

    def __init__(self, name: str, command: Command, stdin: int, hold: int | None) -> None:
        """`command` makes the words after `kavka`.

        `stdin` is the lifeline; `hold` a descriptor that the child keeps open while it lives.
        """
        self.name = name
        self._command = command
        self._stdin = stdin
        self._hold = () if hold is None else (hold,)
        self._process: asyncio.subprocess.Process | None = None
        self._stop_event = asyncio.Event()
        self.ready: asyncio.Future[re.Match[str]] = asyncio.get_running_loop().create_future()
        """The first ready line."""

    async def keep(self) -> None:
        """Run it until it is stopped. Raise CannotStart, OSError."""
        pause_s = _FIRST_PAUSE_S
        where: str | None = None
        while not self._stop_event.is_set():
            where, well_s, how = await self._run_once(where)
            if self._stop_event.is_set():
                log.info("process stopped name=%s %s", self.name, how)
                return
            if well_s >= _HEALTHY_S:
                pause_s = _FIRST_PAUSE_S
            # A child that ends with code 0 was stopped by a signal.
            level = logging.WARNING if how == "code=0" else logging.ERROR
            log.log(level, "process ended name=%s %s restart_s=%.1f", self.name, how, pause_s)
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._stop_event.wait(), pause_s)
            pause_s = min(2 * pause_s, _MAX_PAUSE_S)

    def stop(self) -> None:
        """End the process cleanly, and do not restart it."""
        self._stop_event.set()
        if self._process is not None:
            with contextlib.suppress(ProcessLookupError):
                self._process.terminate()

    async def _run_once(self, where: str | None) -> tuple[str | None, float, str]:
        """Run one process; return where it was ready last, for how long, and how it ended. Raise CannotStart.

        `where` is where the one before was ready.
        """
        try:
            process = await self._spawn(where)
        except OSError as error:  # no memory or no process to be had
            if not self.ready.done():
                raise CannotStart(f"{self.name} cannot start: {error}") from error
            return where, 0.0, f"reason={error}"
        self._process = process
        ready_at, since = await self._follow(process)
        where = ready_at or where  # a child that failed before it was ready serves there when it is
        code = await process.wait()
        self._process = None
        if code > 0 and not self.ready.done() and not self._stop_event.is_set():
            raise CannotStart(f"{self.name} cannot start (exit code {code})")
        well_s = 0.0 if since is None else time.monotonic() - since
        return where, well_s, f"signal={signal.Signals(-code).name}" if code < 0 else f"code={code}"

    async def _spawn(self, where: str | None) -> asyncio.subprocess.Process:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "kavka", *self._command(where)),
            stdin=self._stdin,
            stdout=asyncio.subprocess.PIPE,
            env={**os.environ, SUPERVISED: self.name},
            pass_fds=self._hold,
            start_new_session=True,
        )
        if self._stop_event.is_set():  # stopped while it was started
            process.terminate()
        return process

    async def _follow(self, process: asyncio.subprocess.Process) -> tuple[str | None, float | None]:
        """Read what it prints to the end; return where and since when it was ready."""
        assert process.stdout is not None
        where, since = None, None
        async for line in process.stdout:
            found = _READY.match(line.decode(errors="replace"))
            if found is None:
                continue
            where, since = found["where"], time.monotonic()
            log.info("process ready name=%s pid=%d endpoint=%s", self.name, process.pid, where)
            if not self.ready.done():
                self.ready.set_result(found)
        return where, since


class Supervisor:
    """The brokers of one machine, and their registry if none is given."""

    def __init__(self, settings: WorkerSettings, arguments: Iterable[str]) -> None:
        """`arguments` are those of `kavka server-start` that all workers share."""
        self._settings = settings
        self._arguments = list(arguments)
        self._signalled = listen_for_signals()
        self._registry: Child | None = None
        self._workers: list[Child] = []
        self._tasks: dict[Child, asyncio.Task[None]] = {}

    async def run(self, started: float) -> int:
        """Serve until a signal; return the exit code. `started` is when the command began, of `time.monotonic`."""
        lifeline, held = os.pipe()
        registry_lifeline, registry_held = os.pipe()
        try:
            if await self._start(lifeline, registry_lifeline, registry_held):
                self._log_ready(time.monotonic() - started)
                await self._watch([])
        except (CannotStart, OSError) as error:
            print(f"kavka server-start: {error}", file=sys.stderr)
            return 1
        finally:
            await self._stop()
            for descriptor in (lifeline, held, registry_lifeline, registry_held):
                os.close(descriptor)
        return 0

    async def _start(self, lifeline: int, registry_lifeline: int, registry_held: int) -> bool:
        """Start all; return whether they are ready, False if a signal came first. Raise CannotStart, OSError."""
        where: str | None = None
        if self._settings.has_own_registry:
            os.makedirs(self._settings.registry_directory, exist_ok=True)
            self._registry = Child("registry", self._registry_command, registry_lifeline, None)
            self._keep(self._registry)
            if not await self._watch([self._registry.ready]):
                return False
            where = self._registry.ready.result()["where"]
        for number in range(self._settings.workers):
            command = self._worker_command(number, where)
            worker = Child(f"worker {number}", command, lifeline, registry_held)
            self._workers.append(worker)
            self._keep(worker)
        return await self._watch([worker.ready for worker in self._workers])

    def _keep(self, child: Child) -> None:
        self._tasks[child] = asyncio.create_task(child.keep())

    async def _watch(self, wanted: list[asyncio.Future[re.Match[str]]]) -> bool:
        """Wait for a signal (False), or for all that is wanted, if anything is. Raise what ended a child's keeping."""
        stopping = asyncio.ensure_future(self._signalled.wait())
        having = asyncio.gather(*wanted) if wanted else None
        try:
            ends: set[asyncio.Future[object]] = {stopping, *self._tasks.values()}  # type: ignore[arg-type]
            if having is not None:
                ends.add(having)  # type: ignore[arg-type]
            done, _waiting = await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
            for task in self._tasks.values():
                if task in done:
                    task.result()
            return not stopping.done()
        finally:
            stopping.cancel()

    def _registry_command(self, _where: str | None) -> list[str]:
        """Return the command of the registry; after a restart it has the port that its brokers use."""
        assert self._registry is not None
        ready = self._registry.ready
        port = ready.result()["where"].rpartition(":")[2] if ready.done() else "0"
        chosen = {
            "dataDir": self._settings.registry_directory,
            "clientPortAddress": "127.0.0.1",
            "clientPort": port,
            "maxClientCnxns": "0",
            **self._settings.of_registry,
        }
        return ["zookeeper-server-start", *as_overrides(chosen)]

    def _worker_command(self, number: int, registry: str | None) -> Command:
        def command(where: str | None) -> list[str]:
            own = self._settings.of(number, registry, where)
            return ["server-start", *self._arguments, *as_overrides(own)]

        return command

    def _log_ready(self, took: float) -> None:
        lines = [worker.ready.result() for worker in self._workers]
        numbers = ",".join(line["id"] for line in lines)
        shown = ",".join(line["where"] for line in lines)
        registry = ""
        if self._registry is not None:
            registry = f" (registry {self._registry.ready.result()['where']})"
        print(f"kavka brokers {numbers} ready: {shown} in {took:.2f} s{registry}", flush=True)

    async def _stop(self) -> None:
        """End the workers in turn, so that each has others to hand over to, and then the registry."""
        for worker in reversed(self._workers):
            worker.stop()
            await asyncio.wait({self._tasks[worker]}, timeout=_MAX_WAIT_S)
        await asyncio.gather(
            *(self._tasks[worker] for worker in self._workers), return_exceptions=True
        )
        if self._registry is not None:
            self._registry.stop()
            await asyncio.gather(self._tasks[self._registry], return_exceptions=True)


async def supervise(settings: WorkerSettings, arguments: Iterable[str], started: float) -> int:
    """Run the brokers until SIGTERM or SIGINT; 0 after a clean stop, 1 when one of them cannot start."""
    return await Supervisor(settings, arguments).run(started)
