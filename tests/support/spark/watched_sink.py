"""`format("kavka-watched")`: our data source, whose exactly-once sink notes each step that it reaches, and stops there.

The option `watch` is a directory. Each step is noted as a file `<step>.<n>`, n from 1, with the process's id. A
file `<step>.<n>.hold` has the process stay there until the file is gone, one `<step>.<n>.die` has it kill itself.
"""

from __future__ import annotations

import asyncio
import os
import signal
import time
from functools import partial
from pathlib import Path

from kavka.spark.data_source import KavkaDataSource
from kavka.spark.driver import CrashPoint


async def watch(directory: Path, step: str) -> None:
    """Note a step, and stop or die where a test wants it."""
    number = 1
    own = directory / f".{os.getpid()}-{time.monotonic_ns()}"
    own.write_text(str(os.getpid()))
    while True:
        noted = directory / f"{step}.{number}"
        try:
            os.link(own, noted)  # with all that is in it, so that nobody finds it empty
            break
        except FileExistsError:
            number += 1
    own.unlink()
    if noted.with_suffix(f".{number}.die").exists():
        os.kill(os.getpid(), signal.SIGKILL)
    while noted.with_suffix(f".{number}.hold").exists():  # noqa: ASYNC110  another process has the say
        await asyncio.sleep(0.02)


class WatchedDataSource(KavkaDataSource):
    """Spark finds it by its class."""

    def __init__(self, options: dict[str, str]) -> None:
        """Take the option `watch` away from the others."""
        self._directory = Path(options["watch"])
        super().__init__({name: value for name, value in options.items() if name != "watch"})

    @classmethod
    def name(cls) -> str:
        """Return what stands in `format(...)`."""
        return "kavka-watched"

    def _crash_point(self) -> CrashPoint:
        return partial(watch, self._directory)
