"""`format("kavka-watched")`: our data source, whose exactly-once sink notes each step that it reaches, and stops there.

The option `watch` is a directory. Each step is noted as a file `<step>.<n>`, n from 1. A
file `<step>.<n>.hold` has the process stay there until the file is gone, one `<step>.<n>.die` has it kill itself.
"""

from __future__ import annotations

import asyncio
import os
import signal
from functools import partial
from pathlib import Path

from kavka.spark.data_source import KavkaDataSource
from kavka.spark.driver import Reach


async def watch(directory: Path, step: str) -> None:
    """Note a step, and stop or die where a test wants it."""
    number = 1
    while True:
        noted = directory / f"{step}.{number}"
        try:
            noted.touch(exist_ok=False)
            break
        except FileExistsError:
            number += 1
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

    def _reach(self) -> Reach:
        return partial(watch, self._directory)
