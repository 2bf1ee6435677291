"""`kavka dump-log`: print and check the files of a partition, as kafka-dump-log.sh of 3.9 does."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

from kavka.cli.arguments.options import JSON, BadUsage, BadValue, Given, Option, OptionSet
from kavka.cli.json_lines.lines import json_line, print_failure
from kavka.cli.log_dump.batches import NO_LIMIT, LogDump, Parser
from kavka.cli.log_dump.indexes import (
    IndexDump,
    base_offset_of,
    producer_snapshot_lines,
    transaction_index_lines,
)
from kavka.cli.log_dump.mapped_file import mapped
from kavka.cli.text.progress import progress
from kavka.cli.text.standard_streams import is_output_failure
from kavka.errors import ErrorCode
from kavka.storage.failures import CorruptFile
from kavka.wire.records.batch import Record
from kavka.wire.records.corrupt import BatchTooLarge, CorruptBatch

_STRING_DECODER = "org.apache.kafka.tools.api.StringDecoder"
_NOT_HERE = {
    "cluster-metadata-decoder": "the records of KRaft's metadata log",
    "remote-log-metadata-decoder": "the records of tiered storage",
    "share-group-state-decoder": "the records of share groups",
}

OPTIONS = OptionSet(
    "This tool helps to parse a log file and dump its contents to the console, useful for debugging a "
    "seemingly corrupt log segment.",
    Option(
        "files",
        "REQUIRED: The comma separated list of data and index log files to be dumped.",
        "file1,file2,...",
    ),
    Option("print-data-log", "Print the contents of the records."),
    Option("deep-iteration", "Print a line for every record; --print-data-log implies it."),
    Option("verify-index-only", "Check the indexes without printing their content."),
    Option("index-sanity-check", "Only make the checks that a broker makes when it starts."),
    Option("offsets-decoder", "Take the records for those of __consumer_offsets."),
    Option("transaction-log-decoder", "Take the records for those of __transaction_state."),
    *(Option(name, "Not supported by this release.") for name in _NOT_HERE),
    Option("max-message-size", "Size of the largest batch (default: 5242880).", "bytes"),
    Option("max-bytes", "How much of each .log file is read (default: 2147483647).", "bytes"),
    Option("skip-record-metadata", "Leave out what is not key or payload of a record."),
    Option(
        "key-decoder-class",
        f"StringDecoder, IntegerDecoder, LongDecoder or DefaultDecoder (default: {_STRING_DECODER}).",
        "class",
        value_is_optional=True,
    ),
    Option("value-decoder-class", "The same for payloads.", "class", value_is_optional=True),
    JSON,
    asks_a_broker=False,
)


def main(arguments: list[str]) -> int:
    """Print all files; 1 when the options are wrong or a file cannot be read to its end."""
    return OPTIONS.run(arguments, _act)


def _act(given: Given) -> int:
    if not given.has("files"):
        raise BadUsage(OPTIONS.purpose)
    for name, what in _NOT_HERE.items():
        if given.has(name):
            raise BadValue(f"--{name}: {what} cannot be read by this release")
    parser = _parser(given)
    max_bytes, max_message_bytes = given.integer("max-bytes"), given.integer("max-message-size")
    indexes = IndexDump(
        given.has("index-sanity-check"),
        given.has("verify-index-only"),
        5_242_880 if max_message_bytes is None else max_message_bytes,
    )
    gaps: dict[Path, list[tuple[int, int]]] = {}
    paths = list(map(Path, filter(None, given.text("files").split(","))))

    def new_log() -> LogDump:
        return LogDump(
            is_deep=given.has("deep-iteration") or parser is not None,
            parser=parser,
            skips_metadata=given.has("skip-record-metadata"),
            max_bytes=NO_LIMIT if max_bytes is None else max_bytes,
        )

    if given.has("json"):
        return _dump_objects(paths, new_log)
    try:
        for path in paths:
            log = new_log()
            try:
                _dump(path, log, indexes)
            except (CorruptBatch, BatchTooLarge) as error:
                raise CorruptFile(f"{path}: {error}") from error
            if log.gaps:
                gaps[path] = log.gaps[::-1]
    except BrokenPipeError:
        raise
    except (CorruptFile, OSError) as error:
        if is_output_failure(error):
            raise
        print(_sentence(error), file=sys.stderr)
        return 1
    for line in (*indexes.complaints(), *_gap_lines(gaps)):
        print(line, file=sys.stderr)
    return 0


def _dump_objects(paths: list[Path], new_log: Callable[[], LogDump]) -> int:
    """Print the batches of logs as JSON."""
    others = [path for path in paths if path.suffix not in (".log", ".checkpoint")]
    if others:
        raise BadValue(f"{others[0]}: with --json only files of records are printed, *.log")
    try:
        for path in paths:
            with (
                mapped(path) as buffer,
                progress(path.name, len(buffer), "bytes", prints_meanwhile=True) as shown,
            ):
                log = new_log()
                log.on_batch = shown.update
                for shape, row in log.objects(buffer, path.name):
                    sys.stdout.write(json_line(shape, row))
    except (CorruptBatch, BatchTooLarge, CorruptFile) as error:
        return print_failure(ErrorCode.CORRUPT_MESSAGE.name, str(error))
    except OSError as error:
        if is_output_failure(error):
            raise
        return print_failure("BAD_VALUE", _sentence(error))
    return 0


def _dump(path: Path, log: LogDump, indexes: IndexDump) -> None:
    """Print one file."""
    _print([f"Dumping {path}"])
    match path.suffix:
        case ".log":
            _print([f"Log starting offset: {base_offset_of(path)}"])
            _print_log(path, log)
        case ".checkpoint":
            _print([_snapshot_title(path)])
            _print_log(path, log)
        case ".index":
            _print(indexes.offset_index_lines(path))
        case ".timeindex":
            _print(indexes.time_index_lines(path))
        case ".snapshot":
            _print_snapshot(path)
        case ".txnindex":
            _print(transaction_index_lines(path))
        case _:
            sys.stdout.flush()
            print(f"Ignoring unknown file {path}", file=sys.stderr)


def _print(lines: Iterator[str] | list[str]) -> None:
    """Write lines in UTF-8 with any encoding of the terminal, in large pieces."""
    out = sys.stdout.buffer
    for line in lines:
        out.write(line.encode(errors="replace") + b"\n")
    out.flush()


def _print_log(path: Path, log: LogDump) -> None:
    with (
        mapped(path) as buffer,
        progress(path.name, len(buffer), "bytes", prints_meanwhile=True) as shown,
    ):
        log.on_batch = shown.update
        _print(log.lines(buffer, path.name))


def _print_snapshot(path: Path) -> None:
    try:
        _print(producer_snapshot_lines(path))
    except CorruptFile as error:
        print(error, file=sys.stderr)


def _snapshot_title(path: Path) -> str:
    if path.name == "bootstrap.checkpoint":
        return "KRaft bootstrap snapshot"
    offset, _, epoch = path.stem.partition("-")
    if not (offset.isdigit() and epoch.isdigit()):
        raise CorruptFile(f"{path} is not named after an offset and an epoch")
    return f"Snapshot end offset: {int(offset)}, epoch: {int(epoch)}"


def _gap_lines(gaps: dict[Path, list[tuple[int, int]]]) -> Iterator[str]:
    for path, pairs in gaps.items():
        yield f"Non-consecutive offsets in {path.absolute()}"
        for first, second in pairs:
            yield f"  {first} is followed by {second}"


def _sentence(error: Exception) -> str:
    if isinstance(error, OSError):
        return f"{error.filename}: {error.strerror}" if error.filename else str(error)
    return str(error)


def _parser(given: Given) -> Parser | None:
    """Return how contents are printed, None when they are not. Raise BadValue."""
    if given.has("offsets-decoder"):
        from kavka.cli.text.stored_records import offsets_texts

        return offsets_texts
    if given.has("transaction-log-decoder"):
        from kavka.cli.text.stored_records import transaction_texts

        return transaction_texts
    if not given.has("print-data-log", "key-decoder-class", "value-decoder-class"):
        return None
    key_of = _decoder(given.one("key-decoder-class"))
    payload_of = _decoder(given.one("value-decoder-class"))

    def texts(record: Record) -> tuple[str | None, str | None]:
        key, value = record.key, record.value
        return None if key is None else key_of(key), None if value is None else payload_of(value)

    return texts


def _decoder(name: str | None) -> Decoder:
    simple = (name or _STRING_DECODER).rpartition(".")[2]
    if simple not in _DECODERS:
        raise BadValue(f"{name}: the decoders of this release are {', '.join(_DECODERS)}")
    return _DECODERS[simple]


def _text(content: bytes) -> str:
    return content.decode(errors="replace")


def _number(width: int) -> Decoder:
    def decode(content: bytes) -> str:
        if len(content) != width:
            raise CorruptFile(f"{len(content)} bytes are not a number of {width} bytes")
        return str(int.from_bytes(content, "big", signed=True))

    return decode


Decoder = Callable[[bytes], str]

_DECODERS: dict[str, Decoder] = {
    "StringDecoder": _text,
    "IntegerDecoder": _number(4),
    "LongDecoder": _number(8),
    "DefaultDecoder": repr,
}
