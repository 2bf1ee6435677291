"""Settings of brokers in the registry, while these do not run: `kavka configs --zookeeper`, or `--log-dir`.

As with `kafka-configs.sh`, passwords are encrypted by a secret among the added settings, `password.encoder.secret`,
which is not stored. Source: Kafka 3.9's `ConfigCommand`; KIP-226.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Final

from kavka.broker.configs.entity_configs import edit_entity_config, read_entity_config
from kavka.broker.configs.stored_passwords import encoder_of_settings
from kavka.cli.arguments.options import BadValue
from kavka.cli.json_lines import shapes
from kavka.cli.json_lines.lines import print_rows
from kavka.cli.json_rows.entities import stored_config_row
from kavka.core.password_encoder import PasswordEncoder
from kavka.net.clock import SystemRandom
from kavka.registry.interface import Registry, ensure_paths
from kavka.settings.access import PASSWORD_SETTINGS, SECRET
from kavka.settings.declaration import InvalidSetting
from kavka.settings.dynamic import change_fault, declaration_of, is_password
from kavka.wire.stored import znodes

Act = Callable[[Registry], Awaitable[int]]

_OF_ENCODER: Final = "password.encoder."
_NOT_RUNNING: Final = (
    "Broker configuration operations using ZooKeeper are only supported if the affected broker(s) are not "
    "running."
)


def alter_broker(name: str, added: Mapping[str, str], removed: Sequence[str]) -> Act:
    """Return what changes the settings of a broker, or with the empty name those of all, and prints nothing.

    Raise BadValue.
    """
    settings = _persistent(added, default=name == "")

    def edit(config: dict[str, str]) -> dict[str, str]:
        unknown = [each for each in removed if each not in config]
        if unknown:
            raise BadValue(f"Invalid config(s): {','.join(unknown)}")
        return {each: text for each, text in {**config, **settings}.items() if each not in removed}

    async def act(registry: Registry) -> int:
        await ensure_paths(registry, [znodes.BROKER_IDS, "/config/brokers", znodes.CONFIG_CHANGES])
        running = await registry.children(znodes.BROKER_IDS)
        if name in running or (name == "" and running):
            which = f"Broker {name} is running." if name else f"{len(running)} brokers are running."
            raise BadValue(f"{_NOT_RUNNING} {which} Give --bootstrap-server.")
        await edit_entity_config(registry, _path(name), edit)
        return 0

    return act


def describe_broker(name: str, *, as_json: bool) -> Act:
    """Return what prints the stored settings of a broker, or of all; never those that are secret."""

    async def act(registry: Registry) -> int:
        config = await read_entity_config(registry, _path(name))
        known = {
            each: None if declaration_of(each).is_sensitive else text
            for each, text in sorted(config.items())
        }
        if as_json:
            entity = {"broker": name or None}
            rows = (stored_config_row(entity, each, text) for each, text in known.items())
            print_rows(shapes.CONFIG, rows)
        elif known:
            shown = (f"{each}={'[hidden]' if t is None else t}" for each, t in known.items())
            print(f"Configs for {title(name)} are {','.join(shown)}")
        return 0

    return act


def _path(name: str) -> str:
    return f"brokers/{name or znodes.DEFAULT_ENTITY}"


def title(name: str) -> str:
    """Return how Kafka calls a broker, or with the empty name the default of all."""
    return f"brokers '{name}'" if name else "default brokers"


def _persistent(added: Mapping[str, str], *, default: bool) -> dict[str, str]:
    """Return what is stored for settings: without the encoder's, and with encrypted passwords."""
    of_encoder = {n: text for n, text in added.items() if n.startswith(_OF_ENCODER)}
    settings = {n: text for n, text in added.items() if n not in of_encoder}
    for name, text in settings.items():
        fault = change_fault(name, text, default=default)
        if fault is not None:
            raise BadValue(fault)
    passwords = [name for name in settings if is_password(name)]
    if passwords:
        if SECRET not in of_encoder:
            raise BadValue(
                f"{SECRET} must be specified to update {', '.join(passwords)}. Other password encoder configs like "
                "cipher algorithm and iterations may also be specified to override the default encoding parameters. "
                "Password encoder configs will not be persisted in ZooKeeper."
            )
        encoder = _encoder(of_encoder)
        settings.update({name: encoder.encode(settings[name]) for name in passwords})
    return settings


def _encoder(texts: Mapping[str, str]) -> PasswordEncoder:
    try:
        values = {one.name: one.parse(texts.get(one.name)) for one in PASSWORD_SETTINGS}
        return encoder_of_settings(texts[SECRET], values, SystemRandom().random_bytes)
    except InvalidSetting as error:
        raise BadValue(str(error)) from None
