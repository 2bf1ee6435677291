"""Writes docs/reference/settings.md from the declarations of the settings: `make settings`, after one was changed."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

from kavka.client.config import ADMIN, CONSUMER, PRODUCER
from kavka.settings.broker import BROKER_SETTINGS
from kavka.settings.declaration import LONG_MAX, Scope, Setting, ValueType
from kavka.settings.registry import REGISTRY_SETTINGS, WITHOUT_EFFECT
from kavka.settings.topic import TOPIC_SETTINGS

PAGE = Path(__file__).resolve().parents[1] / "docs" / "reference" / "settings.md"

OWN = "kavka."
INTRODUCTION = """\
# Settings

Written by `make settings` from the declarations in `kavka.settings` and `kavka.client.config`: change those, not this.

Names and meanings are Apache Kafka 3.9's, and so are the defaults but those of `listeners`,
`socket.send.buffer.bytes`, `socket.receive.buffer.bytes` and the producer's `batch.size`. A value that Kafka would
refuse is refused; a setting that is not obeyed, or not known, is named in a warning at the start. *Changes* says how a
broker's setting is changed: `read-only`, by the file and a restart; `per-broker`, for one broker while it runs
(`kavka configs`); `cluster-wide`, for one or for all; `kept only` is a change that is stored, as by Kafka, and not
obeyed. Where no default stands, the setting is not set."""
ENVIRONMENT = """\
## Environment
| variable | what it does |
|---|---|
| `KAVKA_LOG_FILE` | `server-start` and `zookeeper-server-start` log to this file instead of standard error. |
| `LOG_DIR` | Directory of the log and of standard error of both with `-daemon`; by default `./logs`, as in Kafka. |
| `KAVKA_PURE` | 1 handles record batches in Python instead of the compiled kernel, much slower; for comparisons. |
| `JAVA_HOME` | Directory of the Java with which the demo and `kavka.spark.session` start Spark. |"""
REGISTRY = "Of `kavka zookeeper-server-start`, in the names of ZooKeeper's `zoo.cfg`; `kavka.log.level` works, too."
CLIENTS = (
    "A name that no client of Kafka knows is refused in a program (`UnknownSetting`, with the nearest name) and in the "
    "options of Spark. One that Java's clients or librdkafka know gives a Python warning (`SettingWithoutEffect`). "
    "Commands log both and go on, as Kafka's do."
)
_LARGEST = {LONG_MAX: "2^63 - 1", (1 << 31) - 1: "2^31 - 1", sys.float_info.max: "no limit"}


def page() -> str:
    """Return the text of the page."""
    broker = [setting for setting in BROKER_SETTINGS if setting.effective]
    shared = [s for s in PRODUCER if s.effective and s.name in CONSUMER and s.name in ADMIN]
    lines = [
        INTRODUCTION,
        *_table("Broker", (s for s in broker if not s.name.startswith(OWN)), has_scope=True),
        *_table("Broker: kavka's own", (s for s in broker if s.name.startswith(OWN)), has_scope=True),
        *_topic_table(setting for setting in TOPIC_SETTINGS if setting.effective),
        *_table("Registry", REGISTRY_SETTINGS, REGISTRY),
        *_table("Producer, consumer and admin client", shared, CLIENTS),
        *_table("Producer", _without(PRODUCER, shared)),
        *_table("Consumer", _without(CONSUMER, shared)),
        *_table("Admin client", _without(ADMIN, shared)),
        "",
        ENVIRONMENT,
        "",
        "## Without effect",
        "Known, checked, and not obeyed in this release.",
        *_names("Broker", _ineffective(BROKER_SETTINGS)),
        *_names("Topic", _ineffective(TOPIC_SETTINGS)),
        *_names("Registry", WITHOUT_EFFECT),
        *_names("Clients", (name for c in (PRODUCER, CONSUMER, ADMIN) for name in _ineffective(c))),
    ]  # fmt: skip
    return "\n".join(lines) + "\n"


def _without(settings: Iterable[Setting], shared: Iterable[Setting]) -> list[Setting]:
    names = {setting.name for setting in shared}
    return [setting for setting in settings if setting.effective and setting.name not in names]


def _ineffective(settings: Iterable[Setting]) -> Iterator[str]:
    return (setting.name for setting in settings if not setting.effective)


def _table(
    title: str, settings: Iterable[Setting], about: str = "", *, has_scope: bool = False
) -> Iterator[str]:
    yield from ("", f"## {title}", *([about, ""] if about else []))
    yield f"| name | type | default |{' changes |' if has_scope else ''} what it does |"
    yield f"|---|---|---|{'---|' if has_scope else ''}---|"
    for setting in sorted(settings, key=lambda setting: setting.name):
        scope = f" {_change(setting)} |" if has_scope else ""
        yield f"| `{setting.name}` | {_type(setting)} | {_default(setting)} |{scope} {_what(setting)} |"


def _topic_table(settings: Iterable[Setting]) -> Iterator[str]:
    yield from ("", "## Topic", "Where a broker's setting is named, it gives the default.", "")
    yield "| name | type | default | what it does | broker's setting |"
    yield "|---|---|---|---|---|"
    for setting in sorted(settings, key=lambda setting: setting.name):
        synonym = f"`{setting.synonym}`" if setting.synonym else ""
        yield f"| `{setting.name}` | {_type(setting)} | {_default(setting)} | {_what(setting)} | {synonym} |"


def _change(setting: Setting) -> str:
    scope = setting.scope
    kept = setting.is_ineffective and scope is not Scope.READ_ONLY
    return f"{scope.value}, kept only" if kept else scope.value


def _type(setting: Setting) -> str:
    if setting.choices is not None:
        kind = "list of" if setting.type is ValueType.LIST else "one of"
        return f"{kind} {', '.join(setting.choices)}"
    least, most = (_bound(bound) for bound in (setting.minimum, setting.maximum))
    bounds = f", {least} to {most}" if least and most else ""
    bounds = bounds or (f", {least} or more" if least else f", {most} or less" if most else "")
    return setting.type.name.lower() + bounds


def _bound(bound: float | None) -> str:
    return "" if bound is None else _LARGEST.get(bound, str(bound))


def _default(setting: Setting) -> str:
    if setting.is_sensitive or setting.default is None:
        return ""
    if isinstance(setting.default, int | float) and setting.default in _LARGEST:
        return _LARGEST[setting.default]
    text = setting.print(setting.default)
    return f"`{text}`" if text else "empty"


def _what(setting: Setting) -> str:
    return setting.doc.replace("|", "\\|")


def _names(whose: str, names: Iterable[str]) -> Iterator[str]:
    listed = ", ".join(f"`{name}`" for name in sorted(set(names)))
    yield from ("", f"**{whose}:** {listed}.")


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
