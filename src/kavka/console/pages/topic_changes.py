"""Changes of topics: create one, delete one, change its settings."""

from __future__ import annotations

from dataclasses import dataclass, field

from kavka.client.admin.configs import AlterOp, ConfigEntry, ConfigOp, ConfigResource, ResourceType
from kavka.client.admin.topics import NewTopic
from kavka.console.failures import bad_request
from kavka.console.pages.brokers import CHANGED, SEARCH
from kavka.console.pages.topics import PAGE, PROBLEMS, TOPIC_PATH, describe, load_topic
from kavka.console.parameters import Arguments, Parameter
from kavka.console.sentences import Sentence, as_is, say
from kavka.console.subject import Action, Outcome, Page, Services
from kavka.console.views.settings import SettingView, setting_views
from kavka.console.views.topics import TopicView
from kavka.errors import KafkaError

# Settings


@dataclass(frozen=True, slots=True)
class TopicSettings:
    """The settings of a topic."""

    topic: str
    settings: list[SettingView]
    note: Sentence
    search: str
    changed: bool
    edit: SettingView | None
    """The setting that a form changes."""


async def _load_settings(services: Services, arguments: Arguments) -> TopicSettings:
    topic = arguments.path["topic"]
    search, changed, name = (
        arguments.text("search"),
        arguments.flag("changed"),
        arguments.text("name"),
    )
    await describe(services, topic)
    entries, note = await _settings(services, topic)
    every = setting_views(entries, "", changed=False)
    return TopicSettings(
        topic=topic,
        settings=setting_views(entries, search, changed=changed),
        note=as_is(note),
        search=search,
        changed=changed,
        edit=next((setting for setting in every if setting.name == name), None),
    )


async def _settings(services: Services, topic: str) -> tuple[list[ConfigEntry], str]:
    """Return the settings of a topic, or why the console does not see them."""
    resource = _resource(topic)
    found = await services.cluster.ask(
        lambda admin: admin.describe_configs(
            [resource], include_synonyms=True, include_documentation=True
        )
    )
    answer = found[resource]
    return ([], str(answer)) if isinstance(answer, KafkaError) else (answer, "")


def _resource(topic: str) -> ConfigResource:
    return ConfigResource(ResourceType.TOPIC, topic)


async def _change_setting(services: Services, arguments: Arguments) -> Outcome:
    topic, name = arguments.path["topic"], arguments.text("name").strip()
    if not name:
        raise bad_request(say("name is missing: the setting to change."))
    is_reset = arguments.flag("reset")
    change = (
        ConfigOp(name, None, AlterOp.DELETE)
        if is_reset
        else ConfigOp(name, arguments.text("value"))
    )
    resource = _resource(topic)
    await services.change(
        resource, lambda admin: admin.incremental_alter_configs({resource: [change]})
    )
    message = (
        say("{name} of {topic} has its default again.", name=name, topic=topic)
        if is_reset
        else say(
            "{name} of {topic} is now {value!r}.",
            name=name,
            topic=topic,
            value=arguments.text("value"),
        )
    )
    return Outcome(message, f"/topics/{topic}/settings?changed=true")


_SETTINGS = Page(
    path="/topics/{topic}/settings",
    summary="The settings of a topic with their source and documentation.",
    template="topic_settings.html",
    view=TopicSettings,
    load=_load_settings,
    parameters=(
        SEARCH,
        CHANGED,
        Parameter("name", "text", "The setting to change."),
        Parameter("value", "text", "Its new value."),
        Parameter("reset", "flag", "Remove the topic's value, so that the default holds.", "false"),
    ),
    path_parameters=TOPIC_PATH,
)


# Create


@dataclass(frozen=True, slots=True)
class NewTopicForm:
    """The form for a topic; the numbers are the brokers' defaults where they are empty."""

    brokers: int
    values: dict[str, str] = field(default_factory=dict)


async def _load_new(services: Services, arguments: Arguments) -> NewTopicForm:
    cluster = await services.cluster.ask(lambda admin: admin.describe_cluster())
    return NewTopicForm(len(cluster.brokers), arguments.values())


def settings_of_lines(text: str) -> dict[str, str | None]:
    """Return the settings of lines `name=value`. Raise Refused for a line that is none."""
    found: dict[str, str | None] = {}
    for line in text.splitlines():
        name, equals, value = line.partition("=")
        if not line.strip():
            continue
        if not equals or not name.strip():
            raise bad_request(
                say(
                    "{line!r} is no setting such as retention.ms=3600000.",
                    line=line.strip()[:100],
                )
            )
        found[name.strip()] = value.strip()
    return found


async def _create(services: Services, arguments: Arguments) -> Outcome:
    name = arguments.text("name").strip()
    partitions, replicas = arguments.integer("partitions"), arguments.integer("replicas")
    new = NewTopic(
        name,
        -1 if partitions is None else partitions,
        -1 if replicas is None else replicas,
        settings_of_lines(arguments.text("settings")),
    )
    check = arguments.flag("check")
    outcomes = await services.cluster.ask(
        lambda admin: admin.create_topics([new], validate_only=check)
    )
    outcome = outcomes[name]
    if isinstance(outcome, KafkaError):
        raise outcome
    services.cluster.forget_topics()
    if check:
        return Outcome(say("Topic {name} could be created.", name=name), "/create-topic")
    return Outcome(say("Topic {name} was created.", name=name), f"/topics/{name}")


_NEW = Page(
    path="/create-topic",
    summary="The form for a new topic.",
    template="topic_new.html",
    view=NewTopicForm,
    load=_load_new,
    parameters=(
        Parameter("name", "text", say("The name of the topic."), required=True),
        Parameter(
            "partitions",
            "integer",
            "Partitions; empty: the brokers' default.",
            minimum=1,
            maximum=100_000,
        ),
        Parameter(
            "replicas",
            "integer",
            "Replicas of each partition; empty: the brokers' default.",
            minimum=1,
            maximum=32_767,
        ),
        Parameter("settings", "text", "Settings, one name=value a line."),
        Parameter("check", "flag", "Only check whether it could be created.", "false"),
    ),
)


# Delete


async def _delete(services: Services, arguments: Arguments) -> Outcome:
    topic = arguments.path["topic"]
    typed = arguments.text("confirm")[:250]
    refusal = say(
        "The topic was not deleted: the confirmation is {typed!r}, not its name.", typed=typed
    )
    arguments.confirm(topic, refusal, say("delete it"))
    await services.change(topic, lambda admin: admin.delete_topics([topic]))
    services.cluster.forget_topics()
    return Outcome(say("Topic {topic} was deleted, with all its records.", topic=topic), "/topics")


_DELETE = Page(
    path="/topics/{topic}/delete",
    summary="What deleting a topic would remove, and the form to do it.",
    template="topic_delete.html",
    view=TopicView,
    load=load_topic,
    parameters=(
        Parameter("confirm", "text", "The name of the topic, typed."),
        PROBLEMS,
        PAGE,
    ),
    path_parameters=TOPIC_PATH,
)

PAGES = (_NEW, _SETTINGS, _DELETE)
ACTIONS = (
    Action(_NEW, "Create a topic, or check whether it could be.", _create),
    Action(_SETTINGS, "Change one setting of a topic, or remove it.", _change_setting),
    Action(_DELETE, "Delete a topic with all its records; `confirm` is its name.", _delete),
)
