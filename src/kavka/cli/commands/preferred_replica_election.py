"""`kavka preferred-replica-election`: let preferred replicas lead, as `kafka-preferred-replica-election.sh` did.

Kafka had this tool until 3.0; `kavka leader-election` does the same and more. With `--bootstrap-server` the controller
is asked; with `--zookeeper` the wish is written to the registry, where the controller finds it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable

from kavka.cli.admin.connection import with_admin
from kavka.cli.admin.elections import elect, print_failure, read_partitions
from kavka.cli.arguments.options import BOOTSTRAP, JSON, BadUsage, Given, Option, OptionSet
from kavka.cli.json_lines import shapes
from kavka.cli.json_lines.lines import print_error, print_rows
from kavka.cli.json_rows.moves import requested_rows
from kavka.cli.text.failures import (
    ADMIN_COMMAND_FAILED,
    ADMIN_OPERATION,
    CommandFailed,
    spelt_failure,
)
from kavka.cli.text.stored_json import compact
from kavka.cli.zookeeper.connection import as_broker, print_sentence, with_registry
from kavka.client.admin.admin import Admin
from kavka.client.admin.elections import ElectionType
from kavka.core.znodes import ZnodeError
from kavka.ids import TopicPartition
from kavka.registry.interface import Registry, RegistryRefused
from kavka.settings.declaration import InvalidSetting

ELECTION_PATH = "/admin/preferred_replica_election"
_TOPICS = "/brokers/topics"

OPTIONS = OptionSet(
    "This tool helps to causes leadership for each partition to be transferred back to the 'preferred replica', it can "
    "be used to balance leadership among the servers.",
    Option("path-to-json-file", 'By default all: {"partitions": [{"topic": "foo", "partition": 1}]}.', "file"),
    Option("zookeeper", "Ask through the registry at host:port,host:port/chroot, not through a broker.", "urls"),
    Option("admin.config", "A properties file with settings of the client.", "config file"),
    BOOTSTRAP,
    JSON,
    asks_a_broker=False,
)  # fmt: skip


def main(argv: list[str]) -> int:
    """Run the command; 1 when an election could not be held or not be asked for."""
    return OPTIONS.run(argv or ["--help"], _act)


def _act(given: Given) -> int:
    if given.has("zookeeper") == given.has("bootstrap-server"):
        raise BadUsage("One and only one of --bootstrap-server and --zookeeper is required")
    given.forbid("admin.config", ("zookeeper",))
    path = given.one("path-to-json-file")
    try:
        partitions = None if path is None else read_partitions(path)
        zookeeper = given.one("zookeeper")
        if zookeeper is not None:
            return _ask_zookeeper(zookeeper, partitions, as_json=given.has("json"))
    except InvalidSetting as error:
        raise BadUsage(str(error)) from error
    except CommandFailed as error:
        if given.has("json"):
            return print_error(error)
        return print_failure(error.name, str(error))

    async def act(admin: Admin) -> int:
        as_json = given.has("json")
        try:
            return await elect(admin, ElectionType.PREFERRED, partitions, as_json=as_json)
        except CommandFailed as error:
            return print_failure(error.name, str(error))

    def failed(error: Exception) -> int:
        return print_failure(*spelt_failure(error))

    return with_admin(given, act, failed, config_option="admin.config")


def _ask_zookeeper(connect: str, partitions: list[TopicPartition] | None, *, as_json: bool) -> int:
    async def act(registry: Registry) -> int:
        return await _ask_registry(registry, partitions, as_json=as_json)

    return with_registry(as_broker(connect), act, print_error if as_json else print_sentence)


async def _ask_registry(
    registry: Registry, partitions: list[TopicPartition] | None, *, as_json: bool
) -> int:
    try:
        chosen = await known_partitions(registry) if partitions is None else partitions
        await ask_for_elections(registry, chosen)
    except (RegistryRefused, ConnectionError) as error:
        raise CommandFailed(ADMIN_COMMAND_FAILED, str(error)) from error
    if as_json:
        print_rows(shapes.ELECTION, requested_rows(chosen))
        return 0
    listed = ",".join(map(str, sorted(chosen)))
    print(f"Created preferred replica election path with {listed}")
    print(f"Successfully started preferred replica election for partitions {listed}")
    return 0


async def known_partitions(registry: Registry) -> list[TopicPartition]:
    """Return all partitions that the registry knows."""
    found = []
    for topic in await registry.children(_TOPICS):
        data, _ = await registry.get(f"{_TOPICS}/{topic}")
        found += [TopicPartition(topic, int(number)) for number in json.loads(data)["partitions"]]
    return found


async def ask_for_elections(registry: Registry, partitions: Iterable[TopicPartition]) -> None:
    """Write the wish where the controller looks for it.

    Raise CommandFailed while an older one stands, RegistryRefused.
    """
    wanted = [
        {"topic": topic_partition.topic, "partition": topic_partition.partition}
        for topic_partition in sorted(partitions)
    ]
    document = compact({"version": 1, "partitions": wanted})
    try:
        await registry.create(ELECTION_PATH, document.encode())
    except RegistryRefused as refused:
        if refused.error is ZnodeError.NODE_EXISTS:
            sentence = (
                f"Preferred replica leader election currently in progress for {ELECTION_PATH}. "
                "Aborting operation"
            )
            raise CommandFailed(ADMIN_OPERATION, sentence) from None
        raise
