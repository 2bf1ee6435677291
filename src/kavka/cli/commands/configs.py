"""`kavka configs`: describe and alter settings of topics, brokers and others, as `kafka-configs.sh` does."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from itertools import zip_longest
from typing import NamedTuple

from kavka.cli.admin.connection import with_admin
from kavka.cli.admin.quota_configs import ENTITY_TYPES, alter_quotas, describe_quotas
from kavka.cli.arguments.config_entries import entry_line, parse_pairs
from kavka.cli.arguments.options import JSON, BadValue, Given, Option, OptionSet, whole_number
from kavka.cli.groups.description import consumer_groups
from kavka.cli.json_lines import shapes
from kavka.cli.json_lines.lines import print_error, print_rows
from kavka.cli.json_rows.entities import altered_row, config_rows
from kavka.cli.text.failures import TerseFailure, spelt_failure
from kavka.cli.text.secrets import shown_command
from kavka.cli.users.scram import (
    alter_credentials,
    describe_credentials,
    is_scram,
    scram_changes,
)
from kavka.client.admin import ScramDeletion, ScramUpsertion
from kavka.client.admin.admin import Admin
from kavka.client.admin.configs import AlterOp, ConfigEntry, ConfigOp, ConfigResource, ResourceType
from kavka.core.quota.alterations import CLIENT_KEYS
from kavka.errors import ErrorCode, KafkaError
from kavka.settings.properties import parse_properties
from kavka.settings.text_files import read_text

_ALTERING = ("add-config", "add-config-file", "delete-config")


class _Kind(NamedTuple):
    """A type of entity: its resource, and the source of values that were set for one of it."""

    resource: ResourceType
    source: int


_KINDS = {
    "topics": _Kind(ResourceType.TOPIC, 1),
    "brokers": _Kind(ResourceType.BROKER, 2),
    "broker-loggers": _Kind(ResourceType.BROKER_LOGGER, 6),
    "client-metrics": _Kind(ResourceType.CLIENT_METRICS, 7),
    "groups": _Kind(ResourceType.GROUP, 8),
}
_TYPES = (
    "topics",
    "clients",
    "users",
    "brokers",
    "ips",
    "client-metrics",
    "groups",
    "broker-loggers",
)
_DEFAULT_SOURCE = 3
_WITH_DEFAULTS = ("clients", "users", "brokers", "ips")
_NO_ZOOKEEPER = (
    "--{}: without a broker this command changes the SCRAM credentials of users and the settings of brokers only: give "
    "--bootstrap-server"
)
_OFFLINE = ("zookeeper", "log-dir")
TLS_OPTION = "zk-tls-config-file"

OPTIONS = OptionSet(
    "This tool helps to manipulate and describe entity config for a topic, client, user, broker, ip, client-metrics "
    "or group",
    Option("describe", "List the settings of the entity, or of all of its type."),
    Option("alter", "Change settings of the entity."),
    Option("all", "With --describe: all settings, not only those that were set."),
    Option("entity-type", ", ".join(_TYPES), "type"),
    Option("entity-name", "Name of the topic, id of the broker, and so on.", "name"),
    Option("entity-default", "What holds for all clients, users, brokers or ips."),
    Option("add-config", "Settings to set: a=1,b=[x,y].", "settings"),
    Option("add-config-file", "A properties file with the settings to set.", "file"),
    Option("delete-config", "Settings that go back to their defaults: a,b.", "names"),
    Option("force", "Known for compatibility; it has no effect: nothing is asked."),
    Option(
        "zookeeper",
        "SCRAM credentials, and settings of brokers that do not run: host:port,.../chroot of ZooKeeper.",
        "urls",
    ),
    Option(
        TLS_OPTION,
        "With --zookeeper: a properties file with zookeeper.ssl.* to connect with TLS.",
        "file",
    ),
    Option(
        "log-dir",
        "The same, for a broker without ZooKeeper that does not run: the first of its log.dirs.",
        "directory",
    ),
    *(
        Option(
            kind.removesuffix("s") if kind != "client-metrics" else kind,
            f"One of the {kind}.",
            "name",
        )
        for kind in _TYPES
    ),
    *(
        Option(f"{kind.removesuffix('s')}-defaults", f"What holds for all {kind}.")
        for kind in _WITH_DEFAULTS
    ),
    JSON,
)


class _Entity(NamedTuple):
    """An entity of the command; the name None stands for all of the kind, the empty one for their default."""

    kind: str
    name: str | None

    @property
    def singular(self) -> str:
        return self.kind.removesuffix("s") if self.kind != "client-metrics" else self.kind

    @property
    def part(self) -> tuple[str, str | None]:
        """Return type and name as JSON has them; None is the default of all."""
        return "client-id" if self.kind == "clients" else self.singular, self.name or None

    def resource(self, name: str) -> ConfigResource:
        return ConfigResource(_KINDS[self.kind].resource, name)


def main(argv: list[str]) -> int:
    """Run the command; 1 when a broker refused it."""

    def act(given: Given) -> int:
        return _act(given, argv)

    return OPTIONS.run(argv, act)


def _act(given: Given, argv: list[str]) -> int:
    entities = _checked(given)
    entity = entities[0]
    if given.has(*_OFFLINE):
        try:
            return _act_offline(given, entity)
        except TerseFailure as error:
            if given.has("json"):
                raise
            return _failed(str(error), argv, given)

    async def act(admin: Admin) -> int:
        try:
            if entity.kind in ENTITY_TYPES:
                await _act_on_clients(admin, given, entities)
            elif given.has("alter"):
                await _alter(admin, given, entity)
            else:
                await _describe(admin, given, entity)
        except TerseFailure as error:
            if given.has("json"):
                raise
            return _failed(str(error), argv, given)
        return 0

    return with_admin(
        given, act, lambda error: _failed(": ".join(spelt_failure(error)), argv, given)
    )


def _failed(text: str, argv: list[str], given: Given) -> int:
    shown = shown_command(argv, given.all("add-config"))
    print(
        f"Error while executing config command with args '{shown}'\n{text}",
        file=sys.stderr,
    )
    return 1


# What is meant


def _checked(given: Given) -> list[_Entity]:
    """Return the entities, all of one kind but users and clients."""
    action = given.one_action("describe", "alter")
    if given.has(TLS_OPTION):
        given.require("zookeeper")
    if not given.has("bootstrap-server", *_OFFLINE):
        raise BadValue("Either --bootstrap-server or --bootstrap-controller must be specified.")
    if action == "describe":
        given.forbid("describe", _ALTERING)
    else:
        given.forbid("alter", ("all",))
    entities = _entities(given)
    entity = entities[0]
    for option in _OFFLINE:
        if given.has(option) and [each.kind for each in entities] not in (["users"], ["brokers"]):
            raise BadValue(_NO_ZOOKEEPER.format(option))
    if entity.kind in ("brokers", "broker-loggers") and entity.name:
        if not _is_broker_id(entity.name):
            raise BadValue(
                f"The entity name for {entity.kind} must be a valid integer broker id, but it is: {entity.name}"
            )
    elif entity.kind == "broker-loggers":
        raise BadValue("An entity name must be specified with broker-loggers")
    if action == "alter":
        _check_alter(given, entity)
    return entities


def _is_broker_id(text: str) -> bool:
    try:
        return whole_number(text, 32) >= 0
    except ValueError:
        return False


def _check_alter(given: Given, entity: _Entity) -> None:
    if entity.name is None:
        if entity.kind in _WITH_DEFAULTS:
            raise BadValue(
                "An entity-name or default entity must be specified with --alter of users, clients, brokers or ips"
            )
        raise BadValue(f"An entity name must be specified with --alter of {entity.kind}")
    if not given.has(*_ALTERING):
        raise BadValue(
            "At least one of --add-config, --add-config-file, or --delete-config must be specified with --alter"
        )
    if given.has("add-config") and given.has("add-config-file"):
        raise BadValue("Only one of --add-config or --add-config-file must be specified")


def _entities(given: Given) -> list[_Entity]:
    types = given.all("entity-type")
    named = iter(given.all("entity-name"))
    names = [
        next(named) if option == "entity-name" else ""
        for option in given.in_order("entity-name", "entity-default")
    ]
    flagged = _flagged(given)
    if flagged and given.has("entity-type", "entity-name", "entity-default"):
        raise BadValue(
            "--entity-{type,name,default} should not be used in conjunction with specific entity flags"
        )
    if types and len(names) > len(types):
        raise BadValue("More entity names specified than entity types")
    found = flagged + [
        _Entity(kind, name) for kind, name in zip_longest(types, names[: len(types)])
    ]
    if not found:
        raise BadValue("At least one entity type must be specified")
    for entity in found:
        if entity.kind not in _TYPES:
            raise BadValue(
                f"Invalid entity type {entity.kind}, the entity type must be one of {', '.join(_TYPES)} with a "
                "--bootstrap-server or --bootstrap-controller argument"
            )
        if entity.name == "" and entity.kind not in _WITH_DEFAULTS:
            if given.has("alter"):
                raise BadValue(f"An entity name must be specified with --alter of {entity.kind}")
            raise BadValue(
                f"--entity-default must not be specified with --describe of {entity.kind}"
            )
    if len(found) > 1 and {entity.kind for entity in found} != {"users", "clients"}:
        raise BadValue("Only 'users' and 'clients' entity types may be specified together")
    return found


def _flagged(given: Given) -> list[_Entity]:
    """Return what `--topic t`, `--broker-defaults` and their like name."""
    found = []
    for kind in _TYPES:
        singular = _Entity(kind, None).singular
        found += [_Entity(kind, name) for name in given.all(singular)]
        found += [_Entity(kind, "")] if given.has(f"{singular}-defaults") else []
    return found


# Users and clients


async def _act_on_clients(admin: Admin, given: Given, entities: list[_Entity]) -> None:
    """Describe or alter quotas, or the SCRAM credentials of one user."""
    user = entities[0] if [entity.kind for entity in entities] == ["users"] else None
    if given.has("describe"):
        as_json = given.has("json")
        await describe_quotas(admin, entities, as_json=as_json)
        if user is not None and user.name != "":
            await describe_credentials(admin, user.name, as_json=as_json)
        return
    added, removed = _added(given), _removed(given)
    if user is not None and any(map(is_scram, (*added, *removed))):
        await alter_credentials(admin, _user_changes(user, added, removed))
    else:
        await alter_quotas(admin, entities, added, removed)
    _say_completed(given, entities)


def _user_changes(
    entity: _Entity, added: Mapping[str, str], removed: list[str]
) -> list[ScramUpsertion | ScramDeletion]:
    assert entity.name is not None  # `_check_alter` insists on it
    for verb, names in (("added", list(added)), ("deleted", removed)):
        unknown = [name for name in names if not is_scram(name)]
        if unknown:
            # What is no quota may be the end of a password with a bracket in it.
            shown = [name if name in CLIENT_KEYS else "[hidden]" for name in unknown]
            raise BadValue(
                f"Quotas and SCRAM credentials of 'users' cannot be {verb} by one command. "
                f"Unexpected config names: {', '.join(shown)}"
            )
    return scram_changes(entity.name, added, removed)


def _act_offline(given: Given, entity: _Entity) -> int:
    from kavka.cli.admin import offline_configs  # the broker's modules
    from kavka.cli.users import offline
    from kavka.cli.zookeeper.connection import print_sentence

    describes, as_json = given.has("describe"), given.has("json")
    if entity.kind == "brokers":
        if entity.name is None:
            raise BadValue("An entity-name or default entity must be specified with brokers")
        title = offline_configs.title(entity.name)
        act = (
            offline_configs.describe_broker(entity.name, as_json=as_json)
            if describes
            else offline_configs.alter_broker(entity.name, _added(given), _removed(given))
        )
    else:
        title = f"user-principal '{entity.name}'"
        act = (
            offline.describe(entity.name, as_json=as_json)
            if describes
            else offline.alter(_user_changes(entity, _added(given), _removed(given)))
        )
    directory = given.one("log-dir")
    failed = print_error if as_json else print_sentence
    code = (
        offline.in_log_directory(directory, act, failed)
        if directory is not None
        else offline.in_zookeeper(given.text("zookeeper"), given.one(TLS_OPTION), act, failed)
    )
    if code == 0 and as_json and not describes:
        _say_completed(given, [entity])
    elif code == 0 and not describes:
        print(f"Completed updating config for entity: {title}.")
    return code


# Describe


async def _describe(admin: Admin, given: Given, entity: _Entity) -> None:
    show_all, as_json = given.has("all"), given.has("json")
    if entity.name and not await _exists(admin, entity, entity.name):
        sentence = (
            f"The {entity.singular} '{entity.name}' doesn't exist and doesn't have dynamic config."
        )
        if as_json:
            raise KafkaError(ErrorCode.RESOURCE_NOT_FOUND, sentence)
        print(sentence)
        return
    names = [entity.name] if entity.name is not None else await _names(admin, entity)
    for name in names:
        entries = await _entries(admin, entity, name, show_all)
        if as_json:
            parts = dict([entity._replace(name=name).part])
            print_rows(shapes.CONFIG, config_rows(parts, entries))
            continue
        which = "All" if show_all else "Dynamic"
        if name:
            print(f"{which} configs for {entity.singular} {name} are:")
        else:
            print(f"Default configs for {entity.kind} in the cluster are:")
        for entry in entries:
            print(entry_line(entry))


async def _names(admin: Admin, entity: _Entity) -> list[str]:
    match entity.kind:
        case "topics":
            return await admin.list_topics(include_internal=True)
        case "brokers" | "broker-loggers":
            brokers = sorted(b.broker_id for b in (await admin.describe_cluster()).brokers)
            return [*map(str, brokers), *([""] if entity.kind == "brokers" else [])]
        case "groups":
            return [group.group_id for group in await consumer_groups(admin)]
    raise TerseFailure(
        "Listing client-metrics is not supported by this release: give --entity-name"
    )


async def _exists(admin: Admin, entity: _Entity, name: str) -> bool:
    return entity.kind == "client-metrics" or name in await _names(admin, entity)


async def _entries(admin: Admin, entity: _Entity, name: str, show_all: bool) -> list[ConfigEntry]:
    resource = entity.resource(name)
    found = (await admin.describe_configs([resource], include_synonyms=True))[resource]
    if isinstance(found, KafkaError):
        raise found
    source = _KINDS[entity.kind].source if name else _DEFAULT_SOURCE
    shown = (entry for entry in found if show_all or entry.source == source)
    return sorted(shown, key=lambda entry: entry.name)


# Alter


async def _alter(admin: Admin, given: Given, entity: _Entity) -> None:
    name = entity.name
    assert name is not None  # `_check_alter` insists on it
    added, removed = _added(given), _removed(given)
    loggers = entity.kind == "broker-loggers"
    if removed or loggers:
        known = {entry.name for entry in await _entries(admin, entity, name, False)}
        unknown = [part for part in [*removed, *(added if loggers else ())] if part not in known]
        if unknown:
            noun = "broker logger(s)" if loggers else "config(s)"
            raise BadValue(f"Invalid {noun}: {','.join(unknown)}")
    changes = [ConfigOp(key, value) for key, value in added.items()]
    changes += [ConfigOp(key, None, AlterOp.DELETE) for key in removed]
    resource = entity.resource(name)
    error = (await admin.incremental_alter_configs({resource: changes}))[resource]
    if error is not None:
        if error.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            raise KafkaError(error.code)
        raise error
    _say_completed(given, [entity])


def _say_completed(given: Given, entities: list[_Entity]) -> None:
    if given.has("json"):
        parts = dict(entity.part for entity in entities)
        print_rows(shapes.ALTERED, [altered_row(parts, _added(given), _removed(given))])
        return
    entity = entities[0]
    if entity.name:
        print(f"Completed updating config for {entity.singular} {entity.name}.")
    else:
        print(f"Completed updating default config for {entity.kind} in the cluster.")


def _removed(given: Given) -> list[str]:
    return [part.strip() for text in given.all("delete-config") for part in text.split(",") if part]


def _added(given: Given) -> dict[str, str]:
    """Return what is to be set. To be called once: the file may be a pipe."""
    path = given.one("add-config-file")
    if path is None:
        return {k: v for text in given.all("add-config") for k, v in parse_pairs(text).items()}
    try:
        found = parse_properties(read_text(path))
    except FileNotFoundError:
        raise TerseFailure(f"java.nio.file.NoSuchFileException: {path}") from None
    except (OSError, ValueError) as error:
        raise BadValue(f"{path}: {error}") from None
    if not found and not given.has("delete-config"):
        raise BadValue(f"{path} has no settings: write one name=value on each line")
    return found
