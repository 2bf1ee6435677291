"""Writes pages of docs/ that follow from the code: `make reference`, after an API, command or decision was added.

The settings have a script of their own, `scripts/settings_page.py`.
"""

from __future__ import annotations

import io
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import redirect_stderr, redirect_stdout, suppress
from importlib.util import find_spec
from pathlib import Path

from kavka.broker.requests.served_apis import SUPPORTED_APIS
from kavka.broker.security.api_table import NEEDS, Need
from kavka.cli.commands.pipelines import SUBCOMMANDS
from kavka.cli.json_lines.declaration import Field
from kavka.cli.json_lines.shapes import ERROR, SHAPES
from kavka.cli.main import COMMANDS, main
from kavka.core.access.names import SUPPORTED_OPERATIONS
from kavka.wire.apis import APIS, Api, ApiKey

DOCS = Path(__file__).resolve().parents[1] / "docs"
WRITTEN = "Written by `make reference`: change the code, not this page."

_BETWEEN_BROKERS = {
    ApiKey.LEADER_AND_ISR,
    ApiKey.STOP_REPLICA,
    ApiKey.UPDATE_METADATA,
    ApiKey.CONTROLLED_SHUTDOWN,
    ApiKey.ALTER_PARTITION,
    ApiKey.ALLOCATE_PRODUCER_IDS,
    ApiKey.WRITE_TXN_MARKERS,
    ApiKey.OFFSET_FOR_LEADER_EPOCH,
}


def protocol() -> str:
    """Return the page of APIs and versions."""
    spoken = [api for api in APIS.values() if _is_served(api)]
    declared = [api for api in APIS.values() if not _is_served(api)]
    absent = [key for key in ApiKey if key not in APIS]
    lines = [
        "# Protocol coverage",
        "",
        f"{WRITTEN} `kavka broker-api-versions --bootstrap-server localhost:9092` asks a running broker.",
        "",
        "Versions are those of Apache Kafka 3.9, and those of 4.x that version 2 of transactions and two-phase commit",
        "need (KIP-890, KIP-939). *Flexible from* is the first version with compact lengths and tagged fields.",
        "",
        "## Served",
        "",
        "| API | key | versions | flexible from | between brokers |",
        "|---|--:|---|---|---|",
        *(f"{_row(api)} {'yes' if api.key in _BETWEEN_BROKERS else ''} |" for api in spoken),
        "",
        "## Declared, not served",
        "",
        "kavka encodes and decodes these messages. A broker does not offer them in ApiVersions.",
        "",
        "| API | key | versions | flexible from |",
        "|---|--:|---|---|",
        *map(_row, declared),
        "",
        "## Not there",
        "",
        "A request with one of these keys closes its connection, as with Apache Kafka.",
        "",
        ", ".join(f"{key.title} ({key.value})" for key in absent) + ".",
    ]
    return "\n".join(lines) + "\n"


def _is_served(api: Api) -> bool:
    return find_spec(f"kavka.broker.api.{api.key.name.lower()}") is not None


def _row(api: Api) -> str:
    flexible = "" if api.flexible_from is None else str(api.flexible_from)
    return (
        f"| {api.key.title} | {api.key.value} | {api.min_version}–{api.max_version} | {flexible} |"  # noqa: RUF001
    )


def commands() -> str:
    """Return the page of commands, each with its help."""
    return "\n".join(
        [
            "# Commands",
            "",
            f"{WRITTEN}",
            "",
            "The commands have the options, the output and the exit codes of Apache Kafka's scripts: `kavka topics` is",
            "`kafka-topics.sh`. Exit codes are 0 (done), 1 (failed) and 2 (not understood). What differs, and why, is",
            "in [decision 076](../explanation/decisions/076-commands-print-what-kafka-4-1-prints.md).",
            *_helps(),
        ]
    )  # fmt: skip


def _helps() -> Iterator[str]:
    os.environ["COLUMNS"] = "100"
    for name, about in COMMANDS.items():
        yield from ("", f"## {name}", "", f"{about[0].upper()}{about[1:]}.", "")
        yield from _help(name)
        if name == "pipelines":
            for subcommand in SUBCOMMANDS:
                yield from ("", f"### {name} {subcommand}", "", *_help(name, subcommand))
    yield ""


def _help(*words: str) -> tuple[str, ...]:
    printed = io.StringIO()
    with redirect_stdout(printed), redirect_stderr(printed), suppress(SystemExit):
        main([*words, "--help"])
    return ("```text", printed.getvalue().rstrip(), "```")


def decisions() -> str:
    """Return the list of decisions."""
    files = sorted((DOCS / "explanation" / "decisions").glob("[0-9]*.md"))
    titles = [(path.name, path.read_text(encoding="utf-8").splitlines()[0]) for path in files]
    return "\n".join(
        [
            "# Decisions",
            "",
            f"{WRITTEN}",
            "",
            "Each page says what was decided, what else was possible, and what it costs. Numbers are never used twice.",
            "",
            *(f"- [{title.removeprefix('# ')}]({name})" for name, title in titles),
            "",
        ]
    )


def access() -> str:
    """Return the page of what each API needs."""
    served = [key for key in SUPPORTED_APIS if NEEDS[key]]
    free = [key.title for key in SUPPORTED_APIS if not NEEDS[key]]
    return "\n".join(
        [
            "# Access: APIs, operations, errors",
            "",
            f"{WRITTEN} [How to use ACLs](../how-to/acls.md).",
            "",
            "A client needs each operation of its request. Without one *of the request*, nothing of it is done;",
            "others are of topics, groups and transactional ids in it: each that is refused has the error, and what is",
            "allowed is done. Errors and their order are those of Apache Kafka 3.9.",
            "",
            "| API | operation | on | error | of the request |",
            "|---|---|---|---|---|",
            *(_access_row(key, need) for key in served for need in NEEDS[key]),
            "",
            f"Every client may use {', '.join(free)}. The authorized operations of the cluster in DescribeCluster and",
            "Metadata are 0 for a client without DESCRIBE on the cluster.",
            "",
            "## Operations of resources",
            "",
            "| resource | operations |",
            "|---|---|",
            *(
                f"| {kind.title} | {', '.join(o.title for o in operations)} |"
                for kind, operations in SUPPORTED_OPERATIONS.items()
            ),
            "",
            "`All` is each. Read, Write, Delete and Alter imply Describe, AlterConfigs implies DescribeConfigs;",
            "what is denied implies nothing.",
            "",
        ]
    )


def _access_row(key: ApiKey, need: Need) -> str:
    is_whole = need.name_of is not None or need.on == "the cluster"
    error = need.error.name if need.error else ""
    return f"| {key.title} | {need.operation.title} | {need.on} | {error} | {'yes' if is_whole else ''} |"


def json_shapes() -> str:
    """Return the page of what commands print with `--json`."""
    lines = [
        "# JSON of the commands",
        "",
        f"{WRITTEN} [How to use it](../how-to/scripts.md).",
        "",
        "With `--json` a command prints a JSON object in each line, in ASCII, and nothing else. A list that is empty",
        "prints no line; what changes something prints what it changed. Keys come in this order, all of them always;",
        "keys may be added to an object at its end, none is renamed or removed, no type changes.",
        "",
        "A type that ends with `?` may be null; `[x]` is a list of x, `{x}` an object whose values are x, `error` an",
        "object of its own below; `plan` is a document that `--reassignment-json-file` takes; `text` is a string, or",
        '`{"base64": string}` for bytes that are not UTF-8. Times are milliseconds since 1970.',
        "",
        "The exit code is 0 where nothing failed. With any other there is exactly one object with `error` on standard",
        "error, also for wrong options and where Kafka's script ends with 0; what was done before is on standard",
        "output.",
        "Without `--json` output and exit codes are those of Kafka's scripts, but for [some calls]"
        "(../explanation/decisions/076-commands-print-what-kafka-4-1-prints.md).",
    ]
    for shape in SHAPES:
        lines += ["", f"## {shape.calls}", "", *_fields_table(shape.fields)]
        for name, fields in shape.parts.items():
            lines += ["", f"`{name}`:", "", *_fields_table(fields)]
    lines += ["", "## error", "", *_fields_table(ERROR), ""]
    return "\n".join(lines)


def _fields_table(fields: Mapping[str, Field]) -> list[str]:
    rows = [f"| `{name}` | `{field.type}` | {field.meaning} |" for name, field in fields.items()]
    return ["| key | type | |", "|---|---|---|", *rows]


PAGES: dict[str, Callable[[], str]] = {
    "reference/protocol.md": protocol,
    "reference/commands.md": commands,
    "reference/json.md": json_shapes,
    "reference/access.md": access,
    "explanation/decisions/index.md": decisions,
}


if __name__ == "__main__":
    for page, written in PAGES.items():
        (DOCS / page).write_text(written(), encoding="utf-8")
