"""Web traffic into a topic: a thread that plays a replay with a producer, each line keyed by its visitor."""

from __future__ import annotations

import asyncio
import threading
from dataclasses import replace

from kavka.client.producer import BufferFull, Producer
from kavka.demo.line import LogLine
from kavka.demo.replay import Replay, Tally

_PRODUCER = {"client.id": "kavka-demo-traffic", "batch.size": "262144", "linger.ms": "2"}
_STEP_S = 0.2


class Traffic:
    """Sends in the background from `start` until all is acknowledged or `stop` is called."""

    def __init__(self, bootstrap: str, topic: str, replay: Replay, duration_s: float) -> None:
        """Play `replay` within `duration_s` into `topic`."""
        self._bootstrap = bootstrap
        self._topic = topic
        self._replay = replay
        self._duration_s = duration_s
        self._tally = Tally()
        self._error: Exception | None = None
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="kavka-demo-traffic", daemon=True)
        self.site_time_ms = 0
        """The site's clock, by the line that was sent last."""

    def start(self) -> None:
        """Start sending."""
        self._thread.start()

    def stop(self) -> None:
        """Stop after what is in progress; calling it twice or before `start` is allowed."""
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join()

    @property
    def is_done(self) -> bool:
        """Return whether all lines were sent, or sending has stopped."""
        return not self._thread.is_alive()

    def tally(self) -> Tally:
        """Return what is acknowledged so far. Raise what ended the sending too early."""
        if self._error is not None:
            raise self._error
        return replace(self._tally)

    def _run(self) -> None:
        try:
            asyncio.run(self._play())
        except Exception as error:  # noqa: BLE001 - it is raised when the tally is requested
            self._error = error

    async def _play(self) -> None:
        async with Producer({"bootstrap.servers": self._bootstrap} | _PRODUCER) as producer:
            loop = asyncio.get_running_loop()
            started = loop.time()
            for due_s, lines in self._replay.slices(self._duration_s):
                await self._wait_until(started + due_s)
                if self._stopping.is_set():
                    return
                for line in lines:
                    await self._append(producer, line)
                await producer.flush()
                self._tally.add(lines)
                self.site_time_ms = lines[-1].arrived_ms

    async def _wait_until(self, due: float) -> None:
        """Sleep until `due`, in steps so that `stop` need not wait for a quiet night of the site."""
        loop = asyncio.get_running_loop()
        for _ in range(int(self._duration_s / _STEP_S) + 2):
            remaining = due - loop.time()
            if remaining <= 0 or self._stopping.is_set():
                return
            await asyncio.sleep(min(remaining, _STEP_S))

    async def _append(self, producer: Producer, line: LogLine) -> None:
        while True:
            try:
                producer.append(
                    self._topic, line.text, line.visitor.encode(), timestamp_ms=line.arrived_ms
                )
                return
            except BufferFull:
                await producer.wait_for_memory()
