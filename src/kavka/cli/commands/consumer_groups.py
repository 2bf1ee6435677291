"""`kavka consumer-groups`: list, describe, delete and reset consumer groups, as `kafka-consumer-groups.sh` does."""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable

from kavka.cli.admin.connection import with_admin
from kavka.cli.arguments.options import JSON, BadUsage, BadValue, Given, Option, OptionSet
from kavka.cli.groups import description as group_description
from kavka.cli.groups import offsets as group_offsets
from kavka.cli.groups import reset as group_reset
from kavka.cli.groups.tables import print_error
from kavka.cli.json_lines.lines import print_warning
from kavka.cli.text.java_errors import sentence, spelt_together
from kavka.client.admin.admin import Admin
from kavka.errors import KafkaError

_ACTIONS = ("list", "describe", "delete", "reset-offsets", "delete-offsets")
_SHOWN = ("members", "offsets", "state")
_ALLOWED = {
    "group": ("describe", "delete", "reset-offsets", "delete-offsets"),
    "all-groups": ("describe", "delete", "reset-offsets"),
    "topic": ("delete", "reset-offsets", "delete-offsets"),
    "members": ("describe",),
    "offsets": ("describe",),
    "state": ("describe", "list"),
    "type": ("list",),
    "verbose": ("describe",),
    "lag-seconds": ("describe",),
    "dry-run": ("list", "describe", "reset-offsets"),
    "export": ("list", "describe", "reset-offsets"),
}
"""With which actions an option may be given. As in Kafka's script the others are passed over where they say nothing;
but `--dry-run` and `--export` beside `--delete` would delete, which is not meant.
"""

OPTIONS = OptionSet(
    "This tool helps to list all consumer groups, describe a consumer group, delete consumer group info, or reset "
    "consumer group offsets.",
    Option("list", "List all groups."),
    Option("describe", "Show a group's offsets and lag, its members or its state."),
    Option("delete", "Delete groups without members, with their offsets."),
    Option("reset-offsets", "Set committed offsets of groups without members."),
    Option("delete-offsets", "Forget committed offsets of topics."),
    Option("group", "The group; may be repeated.", "group"),
    Option("all-groups", "All groups."),
    Option("topic", "A topic, or topic:0,1,2; may be repeated.", "topic"),
    Option("all-topics", "All topics of which the group has offsets."),
    Option("members", "With --describe: the members."),
    Option("offsets", "With --describe: the offsets; this is the default."),
    Option(
        "state", "With --describe: the state; with --list: show or filter states.", "states", True
    ),
    Option("type", "With --list: show or filter types (classic, consumer).", "types", True),
    Option("verbose", "With --describe: more columns."),
    Option(
        "lag-seconds",
        "With --describe: how old the first record is that was not read (kavka's own).",
    ),
    Option("timeout", "How long to wait for the group's coordinator (default: 5000).", "ms"),
    Option("dry-run", "With --reset-offsets: only show what would be set."),
    Option("execute", "With --reset-offsets: set the offsets."),
    Option("export", "With --reset-offsets: print the offsets as CSV."),
    Option("to-offset", "Reset to an offset.", "offset"),
    Option("to-earliest", "Reset to the first records."),
    Option("to-latest", "Reset to the end."),
    Option("to-current", "Reset to the committed offset."),
    Option("to-datetime", "Reset to a time.", "YYYY-MM-DDThh:mm:ss.sss"),
    Option("by-duration", "Reset to a time before now.", "PnDTnHnMnS"),
    Option("shift-by", "Reset by so many records, back if negative.", "number"),
    Option("from-file", "Reset to the offsets of a CSV file.", "file"),
    JSON,
)

_ONLY_SHOWN = (
    "WARN: No action will be performed as the --execute option is missing. In a future major release, the "
    "default behavior of this command will be to prompt the user before executing the reset rather than doing "
    "a dry run. You should add the --dry-run option explicitly if you are scripting this command and want to "
    "keep the current default behavior without prompting."
)


def main(argv: list[str]) -> int:
    """Run the command. Errors of brokers are printed and the exit code is 0, as in Kafka's script; with JSON 1."""
    return OPTIONS.run(argv, _act)


def _act(given: Given) -> int:
    action = _checked(given)
    timeout_ms = given.integer("timeout", 64)
    actions: dict[str, Callable[[Admin, Given, int], Awaitable[int]]] = {
        "list": group_description.list_groups,
        "describe": group_description.describe,
        "delete": group_offsets.delete_groups,
        "reset-offsets": group_reset.reset,
        "delete-offsets": group_offsets.delete_offsets,
    }

    async def act(admin: Admin) -> int:
        try:
            return await actions[action](admin, given, 5000 if timeout_ms is None else timeout_ms)
        except (KafkaError, BadValue) as error:
            if given.has("json"):
                raise
            _print_refusal(error)
        return 0

    return with_admin(given, act, _failed)


def _print_refusal(error: KafkaError | BadValue) -> None:
    if isinstance(error, BadValue):
        text = str(error)
    else:
        text = spelt_together(error) if error.detail else sentence(error.code)
    print_error(f"Executing consumer group command failed due to {text}")
    if isinstance(error, KafkaError):
        print(spelt_together(error), file=sys.stderr)


def _failed(error: Exception) -> int:
    print_error(f"Executing consumer group command failed due to {spelt_together(error)}")
    return 1


def _checked(given: Given) -> str:
    action = given.one_action(*_ACTIONS)
    given.require("bootstrap-server")
    if action == "describe":
        _one_of(given, action, ("all-groups", "group"))
        if sum(given.has(name) for name in _SHOWN) > 1:
            listed = ", ".join(f"[{name}]" for name in _SHOWN)
            raise BadUsage(f"Option [describe] takes at most one of these options: {listed}")
        if given.all("state"):
            raise BadUsage("Option [describe] does not take a value for [state]")
    if action == "delete":
        _one_of(given, action, ("all-groups", "group"))
        if given.has("topic"):
            raise BadUsage(
                "The consumer does not support topic-specific offset deletion from a consumer group."
            )
    if action == "delete-offsets" and not (given.has("group") and given.has("topic")):
        raise BadUsage("Option [delete-offsets] takes the following options: [topic], [group]")
    if action == "reset-offsets":
        _check_reset(given)
    for name in ("group", "topic"):
        given.forbid(name, (f"all-{name}s",))
    for name, allowed in _ALLOWED.items():
        if action not in allowed:
            given.forbid(name, (action,))
    return action


def _one_of(given: Given, action: str, names: tuple[str, ...]) -> None:
    if not given.has(*names):
        listed = ", ".join(f"[{name}]" for name in names)
        raise BadUsage(f"Option [{action}] takes one of these options: {listed}")


def _check_reset(given: Given) -> None:
    if given.has("dry-run") and given.has("execute"):
        raise BadUsage("Option [reset-offsets] only accepts one of [execute] and [dry-run]")
    given.forbid("json", ("export",))
    if not given.has("dry-run", "execute", "json"):
        print(_ONLY_SHOWN, file=sys.stderr)
    elif not given.has("dry-run", "execute"):
        print_warning(_ONLY_SHOWN)
    _one_of(given, "reset-offsets", ("all-groups", "group"))
    for name in group_reset.SCENARIOS:
        given.forbid(name, (other for other in group_reset.SCENARIOS if other != name))
