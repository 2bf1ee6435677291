"""`kavka producer-perf-test`: measure producing, with the options and lines of kafka-producer-perf-test.sh."""

from __future__ import annotations

import argparse
import asyncio
import math
import sys
import time
from random import Random
from typing import TYPE_CHECKING, Any, NoReturn
from uuid import uuid4

from kavka.cli.arguments.client_properties import read_properties
from kavka.cli.arguments.options import JSON, BadValue, whole_number
from kavka.cli.console.ordered_send import Pair, PairSource, send_in_order
from kavka.cli.json_lines import tool_shapes
from kavka.cli.json_lines.lines import print_error, print_rows, print_warning, wants_json
from kavka.cli.text.java_errors import log_line, spelt_together
from kavka.cli.text.perf_statistics import ProducerStatistics, metric_lines
from kavka.cli.text.progress import Progress, progress
from kavka.cli.text.times import current_time_ms
from kavka.client.config import PRODUCER
from kavka.client.setting_names import effective_settings
from kavka.errors import KafkaError
from kavka.settings.declaration import InvalidSetting
from kavka.settings.text_files import MAX_DOCUMENT, read_bytes

if TYPE_CHECKING:
    from kavka.client.producer import Producer

_PAYLOAD_BYTES = 8 << 20
_MAX_PAYLOADS = 4096
_MAX_IN_FLIGHT = 1000
_LARGEST_RECORD = 256 << 20
"""Maximum record size, far above a broker's default limit; it bounds the memory for payloads."""
_MIN_SLEEP_S = 0.002
_DEFAULT_BATCH_BYTES = 16_384
_DEFAULT_TRANSACTION_MS = 3000
_LETTERS = bytes(65 + code % 26 for code in range(256))


def main(arguments: list[str]) -> int:
    """Produce and report; 1 when the options are wrong, no broker answers or a record was not written."""
    parser = _parser()
    if not arguments:
        parser.print_usage()
        return 1
    try:
        given = parser.parse_args(arguments)
        return asyncio.run(_run(given, _settings(given), _payloads(given)))
    except (_Refused, BadValue, InvalidSetting, ConnectionError, KafkaError) as error:
        if wants_json(arguments):
            return print_error(error)
        # A KafkaError is of a transaction: records that fail are logged one by one.
        print(spelt_together(error) if isinstance(error, KafkaError) else error, file=sys.stderr)
    return 1


class _Refused(Exception):
    """The command line is wrong; the text has the usage in it."""

    json_code = "BAD_USAGE"


class _Parser(argparse.ArgumentParser):
    """A parser that ends with 1, as Kafka's does, and not with 2."""

    def error(self, message: str) -> NoReturn:
        raise _Refused(f"{self.format_usage()}{self.prog}: error: {message}")


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="producer-performance",
        description="This tool is used to verify the producer performance.",
        allow_abbrev=False,
    )
    add = parser.add_argument
    add("--topic", required=True, help="produce messages to this topic")
    add("--num-records", type=_number, required=True, help="number of messages to produce")
    add("--payload-delimiter", default="\\n", help="what stands between payloads of a file")
    add(
        "--throughput",
        type=_rate,
        required=True,
        help="messages per second at most; -1 for no bound",
    )
    add(
        "--producer-props",
        nargs="+",
        default=[],
        metavar="PROP=VALUE",
        help="settings of the producer",
    )
    add("--producer.config", "--command-config", dest="config", help="a file with settings")
    add(
        "--bootstrap-server",
        help="brokers to connect to; bootstrap.servers of --producer-props wins",
    )
    add("--print-metrics", action="store_true", help="print metrics at the end")
    add(
        "--transactional-id",
        help="send in transactions of this id; by default, with a duration, performance-producer- and a UUID",
    )
    add(
        "--transaction-duration-ms",
        type=_number,
        help="commit when a transaction is as old (3000 when a transactional id is set)",
    )
    add(
        "--warmup-records", type=_number, default=0, help="records that the steady state leaves out"
    )
    add("--reporting-interval", type=_number, default=5000, help="milliseconds between reports")
    add(f"--{JSON.name}", action="store_true", help=JSON.help)
    payload = parser.add_mutually_exclusive_group(required=True)
    payload.add_argument("--record-size", type=_number, help="message size in bytes")
    payload.add_argument("--payload-file", help="take payloads, by chance, from this file")
    payload.add_argument("--payload-monotonic", action="store_true", help="payloads are 0, 1, 2...")
    return parser


def _number(text: str) -> int:
    try:
        return whole_number(text, 64)
    except ValueError:
        raise argparse.ArgumentTypeError(f"could not convert '{text}' to a number") from None


def _rate(text: str) -> float:
    """Return the messages per second; one without end is none."""
    try:
        rate = float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"could not convert '{text}' to a number") from None
    return rate if math.isfinite(rate) else -1.0


def _settings(given: argparse.Namespace) -> dict[str, str]:
    for name in ("num_records", "reporting_interval"):
        if getattr(given, name) <= 0:
            raise BadValue(f"--{name.replace('_', '-')} should be greater than zero.")
    if not 0 <= given.warmup_records < given.num_records:
        raise BadValue("The value for --warmup-records must be strictly fewer than --num-records.")
    if given.record_size is not None and given.record_size <= 0:
        raise BadValue("--record-size should be greater than zero.")
    if given.record_size is not None and given.record_size > _LARGEST_RECORD:
        raise BadValue(f"--record-size should be at most {_LARGEST_RECORD}.")
    settings = read_properties(given.config)
    if given.bootstrap_server:
        settings["bootstrap.servers"] = given.bootstrap_server
    for pair in given.producer_props:
        name, equals, value = pair.partition("=")
        if not equals:
            raise BadValue(f"Invalid property: {pair}")
        settings[name] = value
    for name in ("key.serializer", "value.serializer"):
        settings.pop(name, None)
    if given.transaction_duration_ms is not None and given.transaction_duration_ms <= 0:
        raise BadValue("--transaction-duration-ms should be greater than zero.")
    if given.transactional_id:
        settings["transactional.id"] = given.transactional_id
    elif given.transaction_duration_ms is not None:
        settings.setdefault("transactional.id", f"performance-producer-{uuid4()}")
    if not settings:
        raise BadValue("Either --producer-props or --producer.config must be specified.")
    settings = effective_settings(PRODUCER, settings)
    settings.setdefault("client.id", "perf-producer-client")
    settings.setdefault("batch.size", str(_DEFAULT_BATCH_BYTES))  # Kafka's, as its tool has it
    return settings


def _payloads(given: argparse.Namespace) -> list[bytes]:
    """Return what the payloads are taken from, nothing for numbers."""
    if given.payload_monotonic:
        return []
    if given.record_size is not None:
        return random_payloads(given.record_size)
    delimiter = _delimiter(given.payload_delimiter)
    try:
        content = read_bytes(given.payload_file, MAX_DOCUMENT)
    except OSError:
        content = b""
    except ValueError as error:
        raise BadValue(f"{given.payload_file}: {error}") from None
    if not content:
        raise BadValue("File does not exist or empty file provided.")
    if not given.json:
        print(f"Reading payloads from: {given.payload_file}")
    payloads = content.split(delimiter)
    while payloads and not payloads[-1]:
        payloads.pop()
    if not payloads:
        raise BadValue(f"{given.payload_file} has no payloads between its delimiters.")
    if not given.json:
        print(f"Number of messages read: {len(payloads)}")
    return payloads


def _delimiter(text: str) -> bytes:
    try:
        delimiter = text.encode().decode("unicode_escape").encode()
    except UnicodeDecodeError:
        delimiter = b""
    if not delimiter:
        raise BadValue(f"--payload-delimiter {text!r} parts nothing.")
    return delimiter


def random_payloads(size: int) -> list[bytes]:
    """Return different payloads of random capitals, as many as a few megabytes hold; always the same ones."""
    count = max(1, min(_MAX_PAYLOADS, _PAYLOAD_BYTES // size))
    text = Random(0).randbytes(count * size).translate(_LETTERS)
    return [text[at : at + size] for at in range(0, len(text), size)]


async def _run(given: argparse.Namespace, settings: dict[str, str], payloads: list[bytes]) -> int:
    from kavka.client.producer import Producer

    producer = Producer(settings)
    await producer.start()
    try:
        batch_bytes = int(settings["batch.size"])
        performance = _Performance(given, producer, payloads, batch_bytes)
        if "transactional.id" in settings:
            await performance.use_transactions()
        await performance.produce()
        await producer.flush()
        await performance.wait()
    finally:
        await producer.close()
    performance.report()
    if performance.failure is not None and given.json:
        return print_error(performance.failure)
    return 0 if performance.failure is None else 1


class _Performance:
    """A run, with its records in flight and its counts."""

    def __init__(
        self, given: argparse.Namespace, producer: Producer, payloads: list[bytes], batch_bytes: int
    ) -> None:
        self._given = given
        self._producer = producer
        self._pairs: list[Pair] = [(None, payload) for payload in payloads]
        self._rng = Random(0)
        self._in_flight: set[asyncio.Task[Any]] = set()
        self.failure: BaseException | None = None
        """The first failure of a record."""
        longest = max((len(payload) for payload in payloads), default=20)
        self._max_in_flight = max(1, min(_MAX_IN_FLIGHT, batch_bytes // (longest + 14)))
        if given.throughput > 0:
            # What goes out together may not be more than the shortest sleep's worth.
            self._max_in_flight = max(
                1, min(self._max_in_flight, int(given.throughput * _MIN_SLEEP_S))
            )
        self._start_ms = current_time_ms()
        self._all = ProducerStatistics(self._start_ms, given.reporting_interval, self._show_window)
        self._steady: ProducerStatistics | None = None
        self._counted = 0
        self._transaction_s: float | None = None  # how old a transaction gets
        self._commit_at: float | None = None  # when the open one is that old

    async def use_transactions(self) -> None:
        """Send in transactions from now on."""
        duration_ms = self._given.transaction_duration_ms or _DEFAULT_TRANSACTION_MS
        self._transaction_s = duration_ms / 1000
        await self._producer.init_transactions()

    async def produce(self) -> None:
        """Hand all records over, at most `--throughput` in a second."""
        given = self._given
        if given.warmup_records and not given.json:
            _show(
                f"Warmup first {given.warmup_records} records. Steady state results will print after the "
                "complete test summary."
            )
        if given.throughput == 0:
            # As Kafka's throttler, which waits for a wake-up that never comes.
            await asyncio.Event().wait()
        with progress("producing", given.num_records, "records", prints_meanwhile=True) as shown:
            await self._send_all(shown)

    async def _send_all(self, shown: Progress) -> None:
        given = self._given
        started = time.monotonic()
        sent = 0
        while sent < given.num_records:
            shown.update(self._counted)
            count = min(self._max_in_flight, given.num_records - sent)
            if self._transaction_s is not None and self._commit_at is None:
                self._producer.begin_transaction()
                self._commit_at = time.monotonic() + self._transaction_s
            await self._send(self._next(sent, count))
            sent += count
            if self._commit_at is not None and time.monotonic() >= self._commit_at:
                await self._commit()
            if given.throughput > 0:
                early_s = started + sent / given.throughput - time.monotonic()
                if early_s >= _MIN_SLEEP_S:
                    await asyncio.sleep(early_s)

        if self._commit_at is not None:
            await self._commit()

    async def _commit(self) -> None:
        await self._producer.commit_transaction()
        self._commit_at = None

    def _next(self, first: int, count: int) -> list[Pair]:
        """Return the records `first` to `first + count`."""
        pairs = self._pairs
        if not pairs:
            return [(None, b"%d" % number) for number in range(first, first + count)]
        if self._given.payload_file is not None:
            return self._rng.choices(pairs, k=count)
        start = first % len(pairs)
        chosen = pairs[start : start + count]
        while len(chosen) < count:
            chosen += pairs[: count - len(chosen)]
        return chosen

    async def _send(self, pairs: list[Pair]) -> None:
        """Append records to the producer, waiting for memory alone; the acknowledgements come later."""
        started = time.monotonic()
        task = await send_in_order(self._producer, self._given.topic, PairSource(pairs))
        self._in_flight.add(task)
        task.add_done_callback(lambda done: self._on_done(done, pairs, started))

    def _on_done(self, task: asyncio.Task[Any], pairs: list[Pair], started: float) -> None:
        self._in_flight.discard(task)
        error = None if task.cancelled() else task.exception()
        count = len(pairs)
        if error is not None:
            self.failure = self.failure or error
            text = f"{count} records not sent: {spelt_together(error)}"
            if self._given.json:
                print_warning(text)
            else:
                log_line("ERROR", text, __name__)
            return
        now_ms = current_time_ms()
        latency_ms = int((time.monotonic() - started) * 1000)
        size = sum([len(value) for _, value in pairs if value])
        self._all.record(now_ms, latency_ms, count, size)
        self._counted += count
        if self._steady is not None:
            self._steady.record(now_ms, latency_ms, count, size)
        elif self._given.warmup_records and self._counted >= self._given.warmup_records:
            interval_ms = self._given.reporting_interval
            self._steady = ProducerStatistics(now_ms, interval_ms, lambda *_: None, " steady state")

    async def wait(self) -> None:
        """Wait until everything is answered and counted."""
        if self._in_flight:
            await asyncio.wait(self._in_flight)
        await asyncio.sleep(0)

    def _show_window(self, statistics: ProducerStatistics, now_ms: int) -> None:
        if self._given.json:
            print_rows(tool_shapes.PRODUCED, [statistics.window_object(now_ms)])
        else:
            _show(statistics.window_line(now_ms))

    def report(self) -> None:
        """Print the totals."""
        now_ms = current_time_ms()
        if self._given.json:
            print_rows(tool_shapes.PRODUCED, [self._all.total_object(now_ms, "total")])
            if self._steady is not None:
                print_rows(
                    tool_shapes.PRODUCED, [self._steady.total_object(now_ms, "steady_state")]
                )
            return
        _show(self._all.total_line(now_ms))
        if self._steady is not None:
            _show(self._steady.total_line(now_ms))
        if self._given.print_metrics:
            name = "producer-metrics:{}:{{client-id=perf-producer-client}}"
            values = self._all.values(now_ms)
            _show("\n".join(metric_lines({name.format(key): v for key, v in values.items()})))


def _show(line: str) -> None:
    print(line, flush=True)
