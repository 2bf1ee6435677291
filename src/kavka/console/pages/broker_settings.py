"""The change of a dynamic setting of one broker, or of all brokers that have no value of their own."""

from __future__ import annotations

import asyncio
from typing import Final

from kavka.client.admin.configs import AlterOp, ConfigEntry, ConfigOp, ConfigResource, ResourceType
from kavka.console.failures import bad_request, not_found
from kavka.console.pages.brokers import settings_or_error
from kavka.console.parameters import Arguments, Parameter
from kavka.console.sentences import NOTHING, Sentence, as_is, say
from kavka.console.subject import Action, Outcome, Page, Services
from kavka.console.views.broker_settings import (
    OWN,
    BrokerSettingChange,
    changeable,
    is_sensitive,
    planned_values,
)
from kavka.console.views.settings import setting_views
from kavka.errors import KafkaError

_ALL: Final = "all"


async def _load(services: Services, arguments: Arguments) -> BrokerSettingChange:
    target, name = arguments.path["broker"], arguments.text("name").strip()
    brokers = await _brokers(services, target)
    first, defaults = await asyncio.gather(
        _first(services, brokers),
        settings_or_error(services, "") if target == _ALL else _none(),
    )
    if isinstance(defaults, Exception):
        raise defaults
    entry = next((one for one in first if one.name == name), None)
    level = defaults if target == _ALL else [one for one in first if one.source == OWN]
    hidden = is_sensitive(name, entry)
    _hide_value(arguments, is_secret=hidden)
    is_change = arguments.is_given("value") or _is_reset(arguments)
    is_planned = bool(name) and not hidden and is_change
    found = {}
    if is_planned:
        found = dict(zip(brokers, await _of_each(services, brokers, name), strict=True))
    views = {
        broker: setting_views([one], "", changed=False)[0]
        for broker, one in found.items()
        if isinstance(one, ConfigEntry)
    }
    value = None if _is_reset(arguments) else arguments.text("value")
    return BrokerSettingChange(
        broker=target,
        names=changeable(first),
        name=name,
        setting=setting_views([entry], "", changed=False)[0] if entry else None,
        is_sensitive=hidden,
        is_set=any(one.name == name for one in level),
        defaults=setting_views(defaults, "", changed=False),
        is_planned=is_planned,
        plan=planned_values(found, views, value, of_all=target == _ALL),
        refused=await _refusal(services, arguments) if is_planned else NOTHING,
    )


def _hide_value(arguments: Arguments, *, is_secret: bool) -> None:
    if is_secret:
        arguments.hide("value")
    else:
        arguments.show("value")


async def _none() -> list[ConfigEntry]:
    return []


def _is_reset(arguments: Arguments) -> bool:
    return arguments.flag("reset")


async def _brokers(services: Services, target: str) -> list[int]:
    """Return the live brokers that a change is for. Raise Refused where there is none."""
    if target != _ALL and not (target.isdecimal() and len(target) <= 10):
        raise bad_request(
            say("{text!r} is no id of a broker, and not the word all.", text=target[:100])
        )
    cluster = await services.cluster.ask(lambda admin: admin.describe_cluster())
    live = sorted(int(broker.broker_id) for broker in cluster.brokers)
    if target == _ALL:
        return live
    if int(target) not in live:
        raise not_found(
            say("Broker {text} is not in the cluster.", text=target), say("Look at the list.")
        )
    return [int(target)]


async def _first(services: Services, brokers: list[int], name: str = "") -> list[ConfigEntry]:
    """Return the settings of the first broker that answers. Raise what the last one has for an answer."""
    found: list[ConfigEntry] | Exception = OSError("no broker is in the cluster")
    for broker in brokers:
        found = await settings_or_error(services, broker, [name] if name else None)
        if not isinstance(found, Exception):
            return found
    assert isinstance(found, Exception)
    raise found


async def _of_each(
    services: Services, brokers: list[int], name: str
) -> list[ConfigEntry | Exception | None]:
    answers = await asyncio.gather(*(settings_or_error(services, one, [name]) for one in brokers))
    return [
        answer
        if isinstance(answer, Exception)
        else next((one for one in answer if one.name == name), None)
        for answer in answers
    ]


def _resource(arguments: Arguments) -> ConfigResource:
    target = arguments.path["broker"]
    return ConfigResource(ResourceType.BROKER, "" if target == _ALL else target)


def _change(arguments: Arguments, value: str) -> ConfigOp:
    name = arguments.text("name").strip()
    return ConfigOp(name, None, AlterOp.DELETE) if _is_reset(arguments) else ConfigOp(name, value)


async def _refusal(services: Services, arguments: Arguments) -> Sentence:
    """Return what the broker says of a change that it would not take; nothing is changed."""
    resource, change = _resource(arguments), _change(arguments, arguments.text("value"))
    outcomes = await services.cluster.ask(
        lambda admin: admin.incremental_alter_configs({resource: [change]}, validate_only=True)
    )
    refused = outcomes[resource]
    return NOTHING if refused is None else as_is(str(refused))


async def _alter(services: Services, arguments: Arguments) -> Outcome:
    target, name = arguments.path["broker"], arguments.text("name").strip()
    if not name:
        raise bad_request(say("name is missing: the setting to change."))
    arguments.hide("value")  # until it is known to be no secret
    brokers = await _brokers(services, target)
    entry = next((one for one in await _first(services, brokers, name) if one.name == name), None)
    hidden = is_sensitive(name, entry)
    value = arguments.text("secret" if hidden else "value")
    _hide_value(arguments, is_secret=hidden)
    if hidden and arguments.text("value"):
        raise bad_request(
            say("{name} is a secret: give it as `secret`, which is on no page.", name=name)
        )
    is_new = bool(value) if hidden else arguments.is_given("value")
    if not is_new and not _is_reset(arguments):
        raise bad_request(say("{name} has no new value.", name=name))
    refusal = say("The setting was not changed: the confirmation is not {target}.", target=target)
    arguments.confirm(target, refusal, say("change it"))
    resource, change = _resource(arguments), _change(arguments, value)
    try:
        await services.change(
            resource, lambda admin: admin.incremental_alter_configs({resource: [change]})
        )
    except KafkaError as error:
        raise (KafkaError(error.code) if hidden else error) from None  # it may quote the value
    of = say("all brokers") if target == _ALL else say("broker {broker}", broker=target)
    return Outcome(_said(name, of, value, hidden, _is_reset(arguments)), _location(target))


def _said(name: str, of: Sentence, value: str, hidden: bool, is_reset: bool) -> Sentence:
    if is_reset:
        return say("{name} of {of} was removed: what is below it holds.", name=name, of=of)
    if hidden:
        return say("{name} of {of} has a new value.", name=name, of=of)
    return say("{name} of {of} is now {value!r}.", name=name, of=of, value=value)


def _location(target: str) -> str:
    return "/brokers/all/settings" if target == _ALL else f"/brokers/{target}?changed=true"


_SETTINGS = Page(
    path="/brokers/{broker}/settings",
    summary="A dynamic setting of a broker, or of all, and what a value would change. Nothing is changed by looking.",
    template="broker_setting.html",
    view=BrokerSettingChange,
    load=_load,
    parameters=(
        Parameter("name", "text", "The setting to change."),
        Parameter("value", "text", "Its new value; the plan shows what it would change."),
        Parameter("secret", "secret", "For a change of a sensitive setting: its new value."),
        Parameter("reset", "flag", "Remove the value, so that what is below it holds.", "false"),
        Parameter("confirm", "text", "For a change: the id of the broker, or `all`, typed."),
    ),
    path_parameters={
        "broker": "The id of a broker, or `all` for all that have no value of their own."
    },
)
PAGES = (_SETTINGS,)
ACTIONS = (
    Action(
        _SETTINGS,
        "Change one dynamic setting of a broker or of all, or remove it; `confirm` is its id, or `all`.",
        _alter,
    ),
)
