"""`kavka features`: see and change the levels that the whole cluster uses, as `kafka-features.sh` does."""

from __future__ import annotations

import argparse
import sys

from kavka.cli.admin.connection import with_admin
from kavka.cli.arguments.options import Given
from kavka.cli.arguments.tool_parser import ToolParser
from kavka.cli.json_lines import shapes
from kavka.cli.json_lines.lines import print_failure, print_outcomes, print_rows
from kavka.cli.json_rows.cluster import changed_feature_rows, feature_rows
from kavka.cli.reassignment.plans import duplicates
from kavka.cli.text.java_errors import spelt_together
from kavka.client.admin.admin import Admin
from kavka.client.admin.features import FeatureMetadata, FeatureUpdate, UpgradeType

_DONE = {"upgrade": "upgraded", "downgrade": "downgraded", "disable": "disabled"}


def main(argv: list[str]) -> int:
    """Run the command; 1 when it is not understood, or a change is refused."""
    try:
        chosen = _parser().parse_args(argv)
    except SystemExit as error:
        return 0 if error.code == 0 else 1
    given = {"bootstrap-server": [chosen.bootstrap_server]}
    if chosen.command_config is not None:
        given["command-config"] = [chosen.command_config]
    if chosen.json:
        given["json"] = []

    misuse = _misuse(chosen)
    if misuse is not None:
        if chosen.json:
            return print_failure("BAD_USAGE", misuse)
        print(misuse, file=sys.stderr)
        return 1

    async def act(admin: Admin) -> int:
        if chosen.command != "describe":
            return await _change(admin, chosen)
        found = await admin.describe_features()
        if chosen.json:
            print_rows(shapes.FEATURE, feature_rows(found))
        else:
            print("".join(f"{line}\n" for line in described(found)), end="")
        return 0

    return with_admin(Given(given), act, _failed)


def _misuse(chosen: argparse.Namespace) -> str | None:
    if chosen.command == "upgrade" and (
        off := [name for name, level in chosen.feature if level < 1]
    ):
        return (
            "The upgradeType flag should be set to SAFE_DOWNGRADE or UNSAFE_DOWNGRADE when the provided"
            f" maxVersionLevel:0 is < 1: {', '.join(off)}."
        )
    twice = duplicates(_names(chosen)) if chosen.command != "describe" else []
    return f"Feature {twice[0]} was specified more than once." if twice else None


def _failed(error: Exception) -> int:
    print(spelt_together(error), file=sys.stderr)
    return 1


def _parser() -> ToolParser:
    parser = ToolParser(
        "kavka features",
        description="Describe and change the features that all brokers of a cluster use.",
        allow_abbrev=False,
    )
    parser.add_argument("--bootstrap-server", required=True, help="Where the cluster is.")
    parser.add_argument("--command-config", help="A properties file with settings of the client.")
    commands = parser.add_subparsers(dest="command", required=True)
    parser.add_json(commands.add_parser("describe", help="Print supported and finalised levels."))
    for name, what in (
        ("upgrade", "Raise levels."),
        ("downgrade", "Lower levels."),
        ("disable", "Turn features off."),
    ):
        command = commands.add_parser(name, help=what, allow_abbrev=False)
        parser.add_json(command)
        command.add_argument(
            "--feature",
            action="append",
            required=True,
            type=str if name == "disable" else _level,
            help="A feature" if name == "disable" else "A feature and its level: FEATURE=LEVEL",
        )
        command.add_argument(
            "--dry-run", action="store_true", help="Change nothing, say what would be refused."
        )
        if name != "upgrade":
            command.add_argument(
                "--unsafe", action="store_true", help="Even where something is lost by it."
            )
    return parser


def _level(text: str) -> tuple[str, int]:
    name, equals, level = text.partition("=")
    if not (name and equals and level.isdecimal() and int(level) < 2**15):
        raise argparse.ArgumentTypeError(f"{text!r} is not FEATURE=LEVEL")
    return name, int(level)


def _names(chosen: argparse.Namespace) -> list[str]:
    return [each if isinstance(each, str) else each[0] for each in chosen.feature]


def _updates(chosen: argparse.Namespace) -> dict[str, FeatureUpdate]:
    kind = UpgradeType.UPGRADE
    if chosen.command != "upgrade":
        kind = UpgradeType.UNSAFE_DOWNGRADE if chosen.unsafe else UpgradeType.SAFE_DOWNGRADE
    rows = [(name, 0) for name in chosen.feature] if chosen.command == "disable" else chosen.feature
    return {name: FeatureUpdate(level, kind) for name, level in rows}


def described(found: FeatureMetadata) -> list[str]:
    """Return a line for each feature."""
    epoch = found.finalized_epoch if found.finalized_epoch >= 0 else "-"
    return [
        f"Feature: {name}\tSupportedMinVersion: {lowest}\tSupportedMaxVersion: {highest}"
        f"\tFinalizedVersionLevel: {found.finalized.get(name, 0)}\tEpoch: {epoch}"
        for name, (lowest, highest) in sorted(found.supported.items())
    ]


async def _change(admin: Admin, chosen: argparse.Namespace) -> int:
    command, updates, dry_run = chosen.command, _updates(chosen), chosen.dry_run
    outcomes = await admin.update_features(updates, validate_only=dry_run)
    if chosen.json:
        rows = changed_feature_rows(updates, outcomes, dry_run=dry_run)
        return print_outcomes(shapes.CHANGED_FEATURE, rows)
    for name, refused in sorted(outcomes.items()):
        to = "" if command == "disable" else f" to {updates[name].max_version_level}"
        if refused is None:
            print(f"{name} {'can be' if dry_run else 'was'} {_DONE[command]}{to}.")
        else:
            print(f"Could not {command} {name}{to}. {refused.detail}")
    failed = sum(refused is not None for refused in outcomes.values())
    if failed:
        print(f"{failed} out of {len(outcomes)} operation(s) failed.", file=sys.stderr)
    return 1 if failed else 0
