"""SQL over topics: one statement, in a process of its own, bounded in rows and time."""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
from dataclasses import dataclass
from importlib.util import find_spec
from tempfile import TemporaryDirectory
from typing import Any, Final

from kavka.client.config import CONSUMER
from kavka.client.setting_names import settings_for
from kavka.console.failures import Failure, Refused
from kavka.console.parameters import Arguments, Parameter
from kavka.console.sentences import NOTHING, Sentence, as_is, say
from kavka.console.subject import Page, Services

_MODULES: Final = ("duckdb", "pyarrow")
_MEMORY: Final = "256MB"
_GRACE_S: Final = 15
_MOST_RUNNING: Final = 2
_LISTED_TOPICS: Final = 200


@dataclass(frozen=True, slots=True)
class SqlResult:
    """The rows of a statement as texts; null stays null, nested values are JSON."""

    is_run: bool
    note: Sentence
    """The library that is missing, or how far the statement has looked."""
    names: list[str]
    types: list[str]
    rows: list[list[str | None]]
    ended: str
    """end, or the bound that was reached: rows, bytes or time."""
    warnings: list[str]
    topics: list[str]
    """The first ones, with `more_topics` beside them."""
    more_topics: int

    @property
    def outcome(self) -> str:
        """The result of the statement as the audit has it; the rows are in no line."""
        return (
            f"ok: {len(self.rows):,} rows, {self.ended}" if self.is_run else f"failed: {self.note}"
        )


_ENDS: Final = {
    "end": say("That is the whole result"),
    "rows": say("It ended at its bound of rows"),
    "bytes": say("It ended at its bound of bytes"),
    "time": say("It ended at its bound of time, so rows may be missing"),
}
_running: set[asyncio.subprocess.Process] = set()


async def _load(services: Services, arguments: Arguments) -> SqlResult:
    statement = arguments.text("statement").strip()
    missing = next((name for name in _MODULES if find_spec(name) is None), None)
    topics = [n for n, t in (await services.cluster.topics()).items() if not t.is_internal]
    topics, more = topics[:_LISTED_TOPICS], max(len(topics) - _LISTED_TOPICS, 0)
    if missing is not None:
        note = say(
            "{library} is missing: install it with `pip install 'kavka[sql]'`, and start the console again.",
            library=missing,
        )
        return SqlResult(False, note, [], [], [], "", [], topics, more)
    if not statement:
        return SqlResult(False, NOTHING, [], [], [], "", [], topics, more)
    if services.cluster.is_masked:
        raise Refused(
            Failure(
                403,
                say("Masks hold for you"),
                say("A statement would read records past the masks of this console."),
                say(
                    "Read the topic's page, or ask an administrator for a role that masks do not hold for."
                ),
            )
        )
    began = time.monotonic()
    answer = await _answer(services, arguments, statement)
    if "error" in answer:
        reason, advice = as_is(str(answer["error"])), say("Correct the statement and run it again.")
        raise Refused(Failure(400, say("The statement failed"), reason, advice))
    note = say(
        "{read} in {seconds:.1f} s. {end}.",
        read=_read(answer),
        seconds=time.monotonic() - began,
        end=_ENDS[answer["ended"]],
    )
    return SqlResult(
        is_run=True,
        note=note,
        names=answer["names"],
        types=answer["types"],
        rows=answer["rows"],
        ended=answer["ended"],
        warnings=answer["warnings"],
        topics=topics,
        more_topics=more,
    )


def _read(answer: dict[str, Any]) -> Sentence:
    if not answer["of"]:
        return say("Read no topic")
    if not answer["offsets"]:
        return say("Read the first of {all:,} offsets", all=answer["of"])
    return say("Read {read:,} of {all:,} offsets", read=answer["offsets"], all=answer["of"])


async def _answer(services: Services, arguments: Arguments, statement: str) -> dict[str, Any]:
    if len(_running) >= _MOST_RUNNING:
        raise Refused(
            Failure(
                503,
                say("Too many statements"),
                say(
                    "{running} statements run in this console at this moment, which is its limit.",
                    running=len(_running),
                ),
                say("Wait until one has ended, or stop it."),
            )
        )
    seconds = arguments.number("seconds")
    settings = settings_for(CONSUMER, services.cluster.settings)
    question = {
        "statement": statement,
        "settings": {**settings, "client.id": "kavka-console-sql"},
        "registry": dict(services.cluster.options.registry),
        "rows": arguments.number("rows"),
        "seconds": seconds,
        "memory": _MEMORY,
    }
    with TemporaryDirectory(prefix="kavka-console-sql-") as directory:
        out, err = await _run(json.dumps(question).encode(), seconds + _GRACE_S, directory)
    if not out:
        last = err.decode(errors="replace").strip().rpartition("\n")[2][:500]
        raise Refused(
            Failure(
                500,
                say("The statement could not be run"),
                say(
                    "The engine's process ended: {last}.",
                    last=as_is(last) if last else say("it says nothing"),
                ),
                say("Ask for less, or use `kavka sql`."),
            )
        )
    answer: dict[str, Any] = json.loads(out)
    return answer


async def _run(question: bytes, timeout_s: float, directory: str) -> tuple[bytes, bytes]:
    """Return what the process writes; it is killed when this is cancelled. Its files are in the directory."""
    # Secrets go through a pipe: arguments of a process are for all users of the machine to read.
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "kavka.console.sql_worker"),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env={**os.environ, "TMPDIR": directory},
    )
    _running.add(process)
    try:
        async with asyncio.timeout(timeout_s):
            return await process.communicate(question)
    finally:
        _running.discard(process)
        if process.returncode is None:
            process.kill()
            await asyncio.shield(process.wait())


PAGES = (
    Page(
        path="/sql",
        summary="The rows of a statement over topics, bounded in rows and time; without a statement a form.",
        template="sql.html",
        view=SqlResult,
        load=_load,
        parameters=(
            Parameter("statement", "text", "One statement; a topic is a table.", maximum=20_000),
            Parameter("rows", "integer", "Rows that are wanted.", "200", minimum=1, maximum=5_000),
            Parameter(
                "seconds", "integer", "Seconds that it may take.", "10", minimum=1, maximum=60
            ),
        ),
        ends_with_reader=True,
        audited="statement",
    ),
)
ACTIONS = ()
